"""Mean number of KV blocks in use between records of an engine; exact for runs of any length.

Blocks for the new tokens of a step are in use during it, as vLLM allocates them at scheduling. Within a multi-step
run, a decoding sequence allocates a block in every step of one remainder modulo the block size, and chunks of prompts
allocate blocks step by step. Sums over steps of one remainder are closed forms. With drafts, sequences grow by a mean
number of tokens (`mean_growth.py`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from simsys.metrics.engine_notes import EngineNotes, add_at
from simsys.metrics.mean_growth import not_yet_grown
from simsys.metrics.step_log import BLOCK, StepLog

if TYPE_CHECKING:
    import numpy as np

    from simsys.serving.engine_log import EngineLog

CELLS = 1 << 17
"""Runs times remainders that are looked at together: few enough to stay in a processor's cache."""
AT_ONCE = 1 << 13
"""Runs times places of steps that are looked at first, though some runs have fewer steps: calls cost more."""


def blocks_in_use(log: EngineLog, steps: StepLog, rank: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Times of the records of an engine, and the mean from each record to the next; in batches.

    Args:
        log: Records of its cache.
        steps: All steps.
        rank: Its first rank.
    """
    import numpy as np

    times_s = np.asarray(log.notes[0])
    block_s = _not_yet_taken(times_s, log, steps, rank)
    np.negative(block_s, out=block_s)
    if log.chunks:
        block_s += _taken_by_prompts(times_s, log, steps, rank)
    for start in range(0, times_s.size, BLOCK):
        notes, here = EngineNotes(log, slice(start, start + BLOCK + 1)), slice(start, start + BLOCK)
        many = times_s[here].size  # without the note that follows these
        span_s = np.diff(notes.times_s, append=notes.times_s[-1:])[:many]
        taken = np.diff(notes.taken_blocks, append=notes.taken_blocks[-1:])[:many]
        blocks = (notes.used_blocks[:many] + taken).astype(float)
        blocks += np.divide(block_s[here], span_s, out=np.zeros(many), where=span_s > 0.0)
        yield notes.times_s[:many], blocks


class Growth:
    """Number of sequences that allocate a block by step, as they start and stop decoding.

    Args:
        log: Records of an engine.
    """

    def __init__(self, log: EngineLog) -> None:
        import numpy as np

        self._size = log.cache.block_size
        remainder, joined, left = map(np.asarray, log.growth)
        order = np.argsort(joined, kind="stable")
        self._changes = (1, joined[order], remainder[order]), (-1, left, remainder)  # sequences leave in order
        self._seen = -1  # the last step of which changes are counted
        self._due = np.zeros(self._size, dtype=np.int32)

    def due(self, steps: np.ndarray) -> np.ndarray:
        """By run and remainder of a step, number of allocations; a row for each of the next runs.

        Args:
            steps: Number of decoded steps before each run.
        """
        import numpy as np

        due = np.zeros((self._size, steps.size), dtype=np.int32)
        for change, step, remainder in self._changes:
            part = slice(*np.searchsorted(step, (self._seen, steps[-1]), side="right"))
            np.add.at(due, (remainder[part], np.searchsorted(steps, step[part])), np.int32(change))
        self._seen = steps[-1]
        due[:, 0] += self._due
        np.cumsum(due, axis=1, out=due)
        self._due = due[:, -1].copy()
        return due.T


def _not_yet_taken(times_s: np.ndarray, log: EngineLog, steps: StepLog, rank: int) -> np.ndarray:
    """By record, blocks allocated by decoding in its run, times the seconds from the start of the run until then."""
    import numpy as np

    if log.mean_growth:
        return not_yet_grown(times_s, log, steps, rank)
    if not log.growth[0]:
        return _evenly_taken(times_s, log, steps, rank)
    block_s = np.zeros(times_s.size)
    growth, passed = Growth(log), 0
    for runs in steps.blocks(rank, max(1, CELLS // log.cache.block_size)):
        decoding = np.flatnonzero(runs.decode_tokens > 0)
        if not decoding.size:
            continue
        count, started_s = runs.count[decoding], runs.started_s[decoding]
        after = passed + np.cumsum(count)
        before, passed = after - count, int(after[-1])
        note = np.searchsorted(times_s, started_s, side="right") - 1
        late = _waits(
            growth.due(before),
            before,
            count,
            started_s - times_s[note],
            runs.first_s[decoding],
            runs.growth_s[decoding],
        )
        add_at(block_s, note, late)
    return block_s


def _evenly_taken(times_s: np.ndarray, log: EngineLog, steps: StepLog, rank: int) -> np.ndarray:
    """As `_not_yet_taken`, of a decode phase that keeps no records: as many blocks in every step of a run."""
    import numpy as np

    count, all_taken = np.zeros(times_s.size), np.asarray(log.notes[2])
    taken, span_s = np.diff(all_taken, append=all_taken[-1:]), np.diff(times_s, append=times_s[-1:])
    if taken.any():
        for runs in steps.blocks(rank):
            note = np.searchsorted(times_s, runs.started_s, side="right") - 1
            count += np.bincount(note, runs.count, times_s.size)
    late: np.ndarray = taken * span_s * np.maximum(0.0, count - 1.0) / (2.0 * np.maximum(1.0, count))
    return late


def _waits(
    due: np.ndarray,
    steps: np.ndarray,
    count: np.ndarray,
    offset_s: np.ndarray,
    first_s: np.ndarray,
    growth_s: np.ndarray,
) -> np.ndarray:
    """Blocks times seconds from `offset_s` before the start of each run until their allocation, by run."""
    import numpy as np

    waits, runs, size = np.zeros(count.size), due.shape[0], due.shape[1]
    flat = due.T.reshape(-1)  # by remainder, as it is in memory
    order = np.argsort(-count, kind="stable")
    steps, count, offset_s, first_s, growth_s = (each[order] for each in (steps, count, offset_s, first_s, growth_s))
    long = int(np.count_nonzero(count > size))
    first, end = 0, max(1, AT_ONCE // count.size)
    while first < min(size, int(count[0])):  # some places at a time, the more the fewer runs have as many steps
        reach = int(np.count_nonzero(count > first))
        place = np.arange(first, min(end, size))[:, None]
        blocks = flat.take((steps[:reach] + place) % size * runs + order[:reach])
        waited_s = offset_s[:reach] + place * first_s[:reach] + 0.5 * (place**2 - place) * growth_s[:reach]
        if long:
            # Steps place, place + size, …: how many, and the sums of their numbers and of their squares.
            many = (count[:long] - 1 - place) // size + 1.0
            pairs = many * (many - 1.0) / 2.0
            numbers = many * place + size * pairs
            squares = many * place**2 + 2.0 * place * size * pairs + size**2 * pairs * (2.0 * many - 1.0) / 3.0
            grown_s = 0.5 * (squares - numbers) * growth_s[:long]
            waited_s[:, :long] = many * offset_s[:long] + numbers * first_s[:long] + grown_s
        blocked_s = blocks * waited_s
        if end > first + 1:
            blocked_s[count[:reach] <= place] = 0.0
        for each_s in blocked_s:
            waits[:reach] += each_s
        first, end = end, 2 * end
    by_run = np.empty(waits.size)
    by_run[order] = waits
    return by_run


def _taken_by_prompts(times_s: np.ndarray, log: EngineLog, steps: StepLog, rank: int) -> np.ndarray:
    """By record, blocks allocated by chunks after the first step of its run, times the seconds until its end."""
    import numpy as np

    block_s = np.zeros(times_s.size)
    holds = np.asarray(log.chunks).reshape(-1, 6)
    runs = steps.of(rank)
    started_s, ended_s = holds[:, 0], holds[:, 1]
    count, computed, tokens, held = holds[:, 2:].astype(np.int64).T
    which = np.repeat(np.arange(count.size), count - 1)
    step = np.arange(which.size) - np.repeat(np.cumsum(count - 1) - (count - 1), count - 1) + 1  # counted from 0
    before, after = (
        np.maximum(-(-(computed[which] + tokens[which] * end) // log.cache.block_size), held[which])
        for end in (step, step + 1)
    )
    passed = np.cumsum(runs.count) - runs.count  # steps before each run, with decoding or not
    number = passed[np.searchsorted(runs.started_s, started_s[which], side="right") - 1] + step
    run = np.searchsorted(passed, number, side="right") - 1
    begins_s = runs.ends_s(number - passed[run], run)
    note = np.searchsorted(times_s, ended_s[which]) - 1
    block_s += np.bincount(note, (after - before) * (ended_s[which] - begins_s), block_s.size)
    return block_s

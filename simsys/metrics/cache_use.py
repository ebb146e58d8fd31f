"""Mean number of KV blocks in use between records of an engine; exact for runs of any length.

Blocks for the new tokens of a step are in use during it, as vLLM allocates them at scheduling. Within a multi-step
run, a decoding sequence allocates a block in every step of one remainder modulo the block size, and chunks of prompts
allocate blocks step by step. Sums over steps of one remainder are closed forms. With drafts, sequences grow by a mean
number of tokens (`mean_growth.py`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from simsys.metrics.engine_notes import EngineNotes, add_at
from simsys.metrics.grouping import grouped
from simsys.metrics.mean_growth import not_yet_grown
from simsys.metrics.step_log import BLOCK, StepLog

if TYPE_CHECKING:
    import numpy as np

    from simsys.serving.engine_log import EngineLog

CELLS = 1 << 17
"""Runs times remainders that are looked at together: few enough to stay in a processor's cache."""
MOST_SHORT = 2**15 - 1
"""Largest number of two bytes, which numpy sorts by counting."""
AT_ONCE = 1 << 13
"""Runs times places of steps that are looked at first, though some runs have fewer steps: calls cost more."""


def changes_of_blocks(logs: Mapping[int, EngineLog], steps: StepLog) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Times and amounts of changes of the KV blocks in use, which are means from each record of an engine to the next.

    Args:
        logs: Records of the caches of engines, by the first rank of each.
        steps: All steps.
    """
    import numpy as np

    told = {rank: log for rank, log in logs.items() if len(log.notes[0]) > 1}
    taken_later = _not_yet_taken(told, steps)
    for rank, log in told.items():
        last = 0.0
        for times_s, held in _in_use(log, steps, rank, taken_later.pop(rank)):
            yield times_s, np.diff(held, prepend=last)
            last = held[-1]


def _in_use(log: EngineLog, steps: StepLog, rank: int, late: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Times of the records of an engine, and the mean from each record to the next; in batches.

    Args:
        log: Records of its cache.
        steps: All steps.
        rank: Its first rank.
        late: Blocks not yet taken by decoding, as of `_not_yet_taken`.
    """
    import numpy as np

    times_s, block_s = np.asarray(log.notes[0]), np.negative(late)
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
        logs: Records of engines, of equal block sizes.
        begins: The number that the first step of each has, a multiple of the block size; above all of those before.
    """

    def __init__(self, logs: Sequence[EngineLog], begins: Sequence[int]) -> None:
        import numpy as np

        self._size = logs[0].cache.block_size
        remainder = np.concatenate([log.growth[0] for log in logs])
        joined, left = (
            np.concatenate([log.growth[column] for log in logs]).astype(np.int64)
            + np.repeat(begins, [len(log.growth[column]) for log in logs])
            for column in (1, 2)
        )
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


def _not_yet_taken(logs: Mapping[int, EngineLog], steps: StepLog) -> dict[int, np.ndarray]:
    """By first rank of an engine and record, blocks that decoding allocates, times the seconds until it does.

    They are those allocated in the run of the record, and the time is from the start of the run until then.
    """
    import numpy as np

    late_s: dict[int, np.ndarray] = {}
    growing: dict[int, EngineLog] = {}
    for rank, log in logs.items():
        if log.mean_growth:
            late_s[rank] = not_yet_grown(np.asarray(log.notes[0]), log, steps, rank)
        elif log.growth[0]:
            growing[rank], late_s[rank] = log, np.zeros(len(log.notes[0]))
        else:
            late_s[rank] = _evenly_taken(np.asarray(log.notes[0]), log, steps, rank)
    if growing:
        _add_allocations(late_s, growing, steps)
    return late_s


def _add_allocations(late_s: Mapping[int, np.ndarray], logs: Mapping[int, EngineLog], steps: StepLog) -> None:
    """Add what `_not_yet_taken` says of engines that note which sequences allocate blocks.

    The steps of all engines have numbers one after another, so that several engines are looked at together.
    """
    import numpy as np

    size = next(iter(logs.values())).cache.block_size
    most, begins = max(1, CELLS // size), [0]
    for rank in logs:
        passed = begins[-1] + sum(int(runs.count[runs.decode_tokens > 0].sum()) for runs in steps.blocks(rank))
        begins.append(-(-passed // size) * size)
    growth = Growth(list(logs.values()), begins[:-1])
    for group in grouped(_decoding(logs, steps, begins, most), lambda part: part.note.size, most):
        before, *others = map(np.concatenate, zip(*(part.numbers for part in group), strict=True))
        late = _waits(growth.due(before), before, *others)
        ends = np.cumsum([part.note.size for part in group])
        for part, amounts in zip(group, np.split(late, ends[:-1]), strict=True):
            add_at(late_s[part.rank], part.note, amounts)


class _Decoding(NamedTuple):
    """Runs of an engine with decoding sequences.

    Args:
        rank: The first rank of the engine.
        note: The last record before each run.
        numbers: Steps before each run and in it, seconds from the record until it begins, the duration of its first
            step, and by how much each of its steps is longer than the one before.
    """

    rank: int
    note: np.ndarray
    numbers: tuple[np.ndarray, ...]


def _decoding(logs: Mapping[int, EngineLog], steps: StepLog, begins: Sequence[int], most: int) -> Iterator[_Decoding]:
    """Runs with decoding sequences, some of an engine at a time, with the steps before its first one."""
    import numpy as np

    for (rank, log), passed in zip(logs.items(), begins, strict=False):
        times_s = np.asarray(log.notes[0])
        for runs in steps.blocks(rank, most):
            decoding = np.flatnonzero(runs.decode_tokens > 0)
            if not decoding.size:
                continue
            count, started_s = runs.count[decoding], runs.started_s[decoding]
            after = passed + np.cumsum(count)
            note = np.searchsorted(times_s, started_s, side="right") - 1
            offset_s, passed = started_s - times_s[note], int(after[-1])
            numbers = after - count, count, offset_s, runs.first_s[decoding], runs.growth_s[decoding]
            yield _Decoding(rank, note, numbers)


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
    places = np.minimum(count, size + 1).astype("int16" if size < MOST_SHORT else "int64")
    order = np.argsort(-places, kind="stable")
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

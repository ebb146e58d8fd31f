"""Blocks of a KV cache in use, on average between an engine's notes: exact, however many steps are one run.

In a step, what its sequences need for their new tokens is in use, as vLLM allocates it when it schedules them. Within
a run of steps, a decoding sequence takes a block in every step of one remainder modulo the block size, and chunks of
prompts take theirs step by step; sums over steps of one remainder are closed forms.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from simsys.metrics.step_log import StepRuns

if TYPE_CHECKING:
    import numpy as np

    from simsys.metrics.engine_notes import EngineNotes
    from simsys.serving.kv_cache import PagedKVCache

CELLS = 1 << 21
"""Runs times remainders that are looked at together."""


def blocks_in_use(notes: EngineNotes, cache: PagedKVCache, runs: StepRuns) -> np.ndarray:
    """From each note to the next, the mean.

    Args:
        notes: Of the engine.
        cache: Its cache.
        runs: Its runs of steps.
    """
    import numpy as np

    span_s = np.diff(notes.times_s, append=notes.times_s[-1:])
    taken = np.diff(notes.taken_blocks, append=notes.taken_blocks[-1:])
    blocks = (notes.used_blocks + taken).astype(float)
    if len(runs):
        block_s = _taken_by_prompts(notes, cache, runs) - _not_yet_taken(notes, cache, runs)
        blocks += np.divide(block_s, span_s, out=np.zeros(block_s.size), where=span_s > 0.0)
    return blocks


@dataclass(frozen=True)
class Growth:
    """Sequences that start and stop to take blocks as they decode.

    Args:
        step: How many steps the engine has decoded before each change.
        remainder: Of the steps in which the sequence takes one.
        change: 1 if it starts, -1 if it stops.
    """

    step: np.ndarray
    remainder: np.ndarray
    change: np.ndarray

    @classmethod
    def of(cls, cache: PagedKVCache) -> Growth:
        """Read what is kept with a cache."""
        import numpy as np

        noted = np.asarray(cache.growth, dtype=np.int64)
        change = np.where(noted >= 0, 1, -1)
        noted = np.where(noted >= 0, noted, ~noted)
        return cls(noted // cache.block_size, noted % cache.block_size, change)

    def due(self, steps: np.ndarray, size: int) -> np.ndarray:
        """By run and remainder, how many sequences take a block; a row for each of some runs that follow each other.

        Args:
            steps: How many steps have been decoded before each run.
            size: Tokens of a block.
        """
        import numpy as np

        place = np.searchsorted(steps, self.step)
        inside = place < steps.size
        cells = np.bincount(
            place[inside] * size + self.remainder[inside], self.change[inside], steps.size * size
        ).reshape(-1, size)
        due: np.ndarray = cells.cumsum(axis=0)
        return due


def _not_yet_taken(notes: EngineNotes, cache: PagedKVCache, runs: StepRuns) -> np.ndarray:
    """By note, blocks that decoding takes in its run times the seconds from the run's begin until it takes them."""
    import numpy as np

    block_s = np.zeros(notes.times_s.size)
    decoding = np.flatnonzero(runs.decode_tokens > 0)
    if not cache.growth or not decoding.size:
        return block_s
    growth, size = Growth.of(cache), cache.block_size
    count = runs.count[decoding]
    steps = np.cumsum(count) - count
    note = np.searchsorted(notes.times_s, runs.started_s[decoding], side="right") - 1
    offset_s = runs.started_s[decoding] - notes.times_s[note]
    late = np.zeros(decoding.size)
    rows = max(1, CELLS // size)
    carried = np.zeros(size)
    for start in range(0, decoding.size, rows):
        part = slice(start, start + rows)
        first, last = steps[part][0], steps[part][-1]
        here = (growth.step > (steps[start - 1] if start else -1)) & (growth.step <= last)
        own = Growth(np.maximum(growth.step[here], first), growth.remainder[here], growth.change[here])
        due = own.due(steps[part], size) + carried
        carried = due[-1]
        which = decoding[part]
        late[part] = _waits(due, steps[part], count[part], offset_s[part], runs.first_s[which], runs.growth_s[which])
    block_s += np.bincount(note, late, block_s.size)
    return block_s


def _waits(
    due: np.ndarray,
    steps: np.ndarray,
    count: np.ndarray,
    offset_s: np.ndarray,
    first_s: np.ndarray,
    growth_s: np.ndarray,
) -> np.ndarray:
    """Blocks times seconds from a time `offset_s` before each run's begin until its steps take them, by run."""
    import numpy as np

    total, size = np.zeros(count.size), due.shape[1]
    for place in range(min(size, int(count.max()))):
        which = np.flatnonzero(count > place)
        blocks = due[which, (steps[which] + place) % size]
        # Steps place, place + size, …: how many, and the sums of their numbers and of their squares.
        many = (count[which] - 1 - place) // size + 1.0
        pairs = many * (many - 1.0) / 2.0
        numbers = many * place + size * pairs
        squares = many * place**2 + 2.0 * place * size * pairs + size**2 * pairs * (2.0 * many - 1.0) / 3.0
        waited_s = many * offset_s[which] + numbers * first_s[which] + 0.5 * (squares - numbers) * growth_s[which]
        total[which] += blocks * waited_s
    return total


def _taken_by_prompts(notes: EngineNotes, cache: PagedKVCache, runs: StepRuns) -> np.ndarray:
    """By note, blocks that chunks take after the first step of its run times the seconds that they are held in it."""
    import numpy as np

    block_s = np.zeros(notes.times_s.size)
    holds = np.asarray(cache.chunks).reshape(-1, 6)
    if not holds.size:
        return block_s
    started_s, ended_s = holds[:, 0], holds[:, 1]
    steps, computed, tokens, held = holds[:, 2:].astype(np.int64).T
    which = np.repeat(np.arange(steps.size), steps - 1)
    step = np.arange(which.size) - np.repeat(np.cumsum(steps - 1) - (steps - 1), steps - 1) + 1  # counted from 0
    before, after = (
        np.maximum(-(-(computed[which] + tokens[which] * end) // cache.block_size), held[which])
        for end in (step, step + 1)
    )
    passed = np.cumsum(runs.count) - runs.count  # steps before each run, with decoding or not
    number = passed[np.searchsorted(runs.started_s, started_s[which], side="right") - 1] + step
    run = np.searchsorted(passed, number, side="right") - 1
    begins_s = runs.ends_s(number - passed[run], run)
    note = np.searchsorted(notes.times_s, ended_s[which]) - 1
    block_s += np.bincount(note, (after - before) * (ended_s[which] - begins_s), block_s.size)
    return block_s

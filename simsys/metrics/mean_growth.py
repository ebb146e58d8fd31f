"""KV blocks of sequences that grow by a mean number of tokens in every step, as with drafts, step by step.

After m steps of a run, its sequences have taken max(0, b + ⌈(u + v·m) / w⌉) blocks in it: b are those of the sequences
whatever their tokens, without those taken before the run; u their tokens before it, and v those of each step, in units
of which w are a block.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from simsys.metrics.step_log import StepLog

if TYPE_CHECKING:
    import numpy as np

    from simsys.serving.engine_log import EngineLog

STEPS = 1 << 18
"""Steps that are looked at together, unless a single run has more."""


def not_yet_grown(times_s: np.ndarray, log: EngineLog, steps: StepLog, rank: int) -> np.ndarray:
    """By record, blocks allocated by decoding in its run, times the seconds from the record until then.

    Args:
        times_s: Times of the records of an engine.
        log: Records of its cache (`EngineLog.mean_growth`).
        steps: All steps.
        rank: Its first rank.
    """
    import numpy as np

    block_s = np.zeros(times_s.size)
    runs = steps.of(rank)
    decoding = np.flatnonzero(runs.decode_tokens > 0)
    count = runs.count[decoding]
    passed = np.cumsum(count) - count  # decoded steps before each run
    grown = np.asarray(log.mean_growth, dtype=np.int64).reshape(-1, 6)
    cuts = np.flatnonzero(np.diff(np.cumsum(grown[:, 1]) // STEPS)) + 1
    for part in np.split(grown, cuts):
        number, waiting = _waiting(part)
        which = np.searchsorted(passed, number, side="right") - 1
        run, place = decoding[which], number - passed[which]
        begins_s, ends_s = (runs.ends_s(each, run) for each in (place, place + 1))
        note = np.searchsorted(times_s, begins_s, side="right") - 1
        block_s += np.bincount(note, waiting * (ends_s - begins_s), times_s.size)
    return block_s


def _waiting(grown: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The steps of some runs, and for each the blocks that later ones of its run will take."""
    import numpy as np

    first, count = grown[:, 0], grown[:, 1]
    which = np.repeat(np.arange(count.size), count)
    place = np.arange(which.size) - np.repeat(np.cumsum(count) - count, count)
    taken = _taken(grown, which, place + 1)
    pending = _taken(grown, np.arange(count.size), count)[which] - taken
    return first[which] + place, pending


def _taken(grown: np.ndarray, which: np.ndarray, steps: np.ndarray) -> np.ndarray:
    """Blocks taken in some runs after a number of their steps each."""
    import numpy as np

    least, units, more, per_block = grown[which, 2:].T
    taken: np.ndarray = np.maximum(0, least - (-(units + more * steps) // per_block))
    return taken

"""KV blocks of sequences that grow by a mean number of tokens in every step, as with drafts, step by step.

After m steps of a run, its sequences have taken max(0, b + ⌈(u + v·m) / w⌉) blocks in it: b are those of the sequences
whatever their tokens, without those taken before the run; u their tokens before it, and v those of each step, in units
of which w are a block.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from simsys.metrics.engine_notes import add_at, last_not_above
from simsys.metrics.step_log import StepLog

if TYPE_CHECKING:
    import numpy as np

    from simsys.serving.engine_log import EngineLog

STEPS = 1 << 15
"""Steps that are looked at together, unless a single run has more: few enough to stay in a processor's cache."""


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
        which = last_not_above(number, passed)
        run, place = decoding[which], number - passed[which]
        begins_s, ends_s = runs.ends_s(np.stack([place, place + 1]), run)
        add_at(block_s, last_not_above(begins_s, times_s), waiting * (ends_s - begins_s))
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

    least, units, more, per_block = grown[:, 2:].T
    one = per_block[0]  # as all blocks of a cache are equal: numpy divides several times faster by a single number
    taken: np.ndarray = np.maximum(0, least[which] - (-(units[which] + more[which] * steps) // one))
    return taken

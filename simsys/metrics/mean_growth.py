"""KV blocks of sequences that grow by a mean number of tokens in every step, as with drafts, step by step.

After m steps of a run, its sequences have taken max(0, b + ⌈(u + v·m) / w⌉) blocks in it: b are those of the sequences
whatever their tokens, without those taken before the run; u their tokens before it, and v those of each step, in units
of which w are a block.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from simsys.metrics.engine_notes import add_at, last_not_above
from simsys.metrics.step_log import StepLog, StepRuns

if TYPE_CHECKING:
    import numpy as np

    from simsys.serving.engine_log import EngineLog

STEPS = 1 << 14
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
    pieces = _pieces(grown, passed)
    for part in np.split(pieces, np.flatnonzero(np.diff(np.cumsum(pieces[:, 1]) // STEPS)) + 1):
        first, length = part[:, 0], part[:, 1] + 1  # one more than steps: the last limit is the end of the piece
        end, run = np.cumsum(length), np.searchsorted(passed, first, side="right") - 1
        place = np.arange(end[-1]) - np.repeat(end - length, length)
        limits_s = _limits_s(runs, decoding[run], place, length, first - passed[run])
        late = _pending(part, place, length, int(grown[0, 5]))[:-1] * np.diff(limits_s)
        late[end[:-1] - 1] = 0.0  # from one piece to the next
        add_at(block_s, last_not_above(limits_s[:-1], times_s), late)
    return block_s


def _pieces(grown: np.ndarray, passed: np.ndarray) -> np.ndarray:
    """The records of growth, divided where entries of the log of steps begin, which most do not.

    Args:
        grown: The records, in order.
        passed: Steps before each entry of the log.

    Returns:
        A row for each piece: its first step, the number of its steps, the blocks taken after the last step of its
        record, and a sum u, so that ⌊(u + v·m) / w⌋ are those taken after m of its steps; v.
    """
    import numpy as np

    first, count, least, units, more, per_block = grown.T
    record = np.searchsorted(first, passed, side="right") - 1
    inside = (record >= 0) & (passed > first[record]) & (passed < (first + count)[record])
    begins = np.sort(np.concatenate([first, passed[inside]]))
    record = np.searchsorted(first, begins, side="right") - 1
    ends = np.minimum((first + count)[record], np.append(begins[1:], first[-1] + count[-1]))
    before = (least + 1) * per_block - 1 + units
    taken = np.maximum(0, (before + more * count) // per_block)
    before = before[record] + more[record] * (begins - first[record])
    return np.stack([begins, ends - begins, taken[record], before, more[record]], axis=1)


def _limits_s(
    runs: StepRuns, run: np.ndarray, place: np.ndarray, length: np.ndarray, passed: np.ndarray
) -> np.ndarray:
    """When the steps of some pieces begin, and the last of each ends: as `StepRuns.ends_s`, without looking up runs.

    Args:
        runs: The entries of the log.
        run: The entry of each piece.
        place: The place of each limit in its piece, counted from 0.
        length: The number of limits of each piece.
        passed: Steps of its entry before each piece.
    """
    import numpy as np

    number: np.ndarray = (place + np.repeat(passed, length) if passed.any() else place).astype(float)
    grown = 0.5 * number
    grown *= number - 1.0
    grown *= np.repeat(runs.growth_s[run], length)
    number *= np.repeat(runs.first_s[run], length)
    number += np.repeat(runs.started_s[run], length)
    number += grown
    return number


def _pending(part: np.ndarray, place: np.ndarray, length: np.ndarray, per_block: int) -> np.ndarray:
    """For each step of some pieces, the blocks that later ones of its record will take."""
    import numpy as np

    _, _, all_taken, before, more = part.T
    taken = (place + 1) * np.repeat(more, length)
    taken += np.repeat(before, length)
    taken //= per_block  # all blocks of a cache are equal: numpy divides several times faster by a single number
    np.maximum(taken, 0, out=taken)
    pending: np.ndarray = np.repeat(all_taken, length) - taken
    return pending

"""KV blocks of sequences that grow by a mean number of tokens in every step, as with drafts, step by step.

After m steps of a run, its sequences have taken max(0, b + ⌈(u + v·m) / w⌉) blocks in it: b are those of the sequences
whatever their tokens, without those taken before the run; u their tokens before it, and v those of each step, in units
of which w are a block.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from simsys.metrics.step_log import StepLog, StepRuns

if TYPE_CHECKING:
    import numpy as np

    from simsys.serving.engine_log import EngineLog

STEPS = 1 << 14
"""Steps that are looked at together: few enough to stay in a processor's cache."""


def not_yet_grown(times_s: np.ndarray, log: EngineLog, steps: StepLog, rank: int) -> np.ndarray:
    """By record, blocks allocated by decoding in its run, times the seconds from the record until then.

    Args:
        times_s: Times of the records of an engine.
        log: Records of its cache (`EngineLog.mean_growth`).
        steps: All steps.
        rank: Its first rank.
    """
    import numpy as np

    runs = steps.of(rank)
    decoding = np.flatnonzero(runs.decode_tokens > 0)
    count = runs.count[decoding]
    passed = np.cumsum(count) - count  # decoded steps before each run
    grown = np.asarray(log.mean_growth, dtype=np.int64).reshape(-1, 6)
    pieces = _pieces(grown, passed)
    run = np.searchsorted(passed, pieces[:, 0], side="right") - 1
    skipped, run = pieces[:, 0] - passed[run], decoding[run]
    note = np.searchsorted(times_s, runs.ends_s(skipped, run), side="right") - 1
    return np.bincount(note, _waits(pieces, int(grown[0, 5]), runs, run, skipped), times_s.size)


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


def _waits(pieces: np.ndarray, per_block: int, runs: StepRuns, run: np.ndarray, skipped: np.ndarray) -> np.ndarray:
    """Blocks times seconds until the steps that take them, by piece.

    Args:
        pieces: As of `_pieces`.
        per_block: Units of a block.
        runs: The entries of the log.
        run: The entry of each piece.
        skipped: Steps of its entry before each piece.
    """
    import numpy as np

    order = np.argsort(-pieces[:, 1], kind="stable")
    order = np.append(order, order[-1:])  # a column more, as numpy adds up a lone column in another order
    _, length, all_taken, before, more = pieces[order].T
    started_s, first_s, growth_s = (each[run[order]] for each in (runs.started_s, runs.first_s, runs.growth_s))
    skipped, waits = skipped[order], np.zeros(order.size)
    first = 0
    while first < length[0]:  # some steps of all pieces that have as many, the more the fewer these are
        reach = max(2, int(np.count_nonzero(length > first)))
        end = min(first + max(1, STEPS // reach), int(length[0]))
        place = np.arange(first, end + 1)[:, None]
        number = (place + skipped[:reach] if skipped.any() else place).astype(float)
        grown_s = (0.5 * number * (number - 1.0)) * growth_s[:reach]
        limits_s = started_s[:reach] + number * first_s[:reach] + grown_s
        taken = (more[:reach] * place[1:] + before[:reach]) // per_block  # numpy divides fast by a single number
        pending = np.maximum(all_taken[:reach] - np.maximum(taken, 0), 0)  # none after the last step of a piece
        late = np.concatenate([waits[None, :reach], pending * np.diff(limits_s, axis=0)])
        waits[:reach], first = late.sum(axis=0), end
    by_piece = np.empty(len(pieces))
    by_piece[order[:-1]] = waits[:-1]
    return by_piece

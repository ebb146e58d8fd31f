"""Gaps between tokens of a request that are longer than one step.

A decoding sequence gets a token in every step of its batch, so a gap is one step, except after a wait: for a step with
prompts only, for copies of caches, for the transfer of its KV cache, or for recomputation after the loss of its cache.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from simsys.metrics.engine_notes import EngineNotes

if TYPE_CHECKING:
    import numpy as np

    from simsys.metrics.step_log import StepLog, StepRuns
    from simsys.serving.engine_log import EngineLog

ROUNDING = 1e-9
"""Part of a step by which it may begin later than the note of it says: no step is that short."""


class Lost(NamedTuple):
    """A request that lost its KV cache and had a token again.

    Args:
        request: The request.
        known_s: Time of its last reported token before.
        lost_s: Time of the loss of its cache.
        again_s: Time of its next token.
    """

    request: int
    known_s: float
    lost_s: float
    again_s: float


NONE_MOVED: Mapping[int, tuple[np.ndarray, np.ndarray]] = MappingProxyType({})


class TokenGaps:
    """Gaps that are longer than the step that ends them.

    Args:
        steps: All steps.
        engines: What each engine has noted of sequences that waited, by its first rank.
        lost: Requests that lost their cache and had a token again.
        moved: Of requests with a transferred cache, by the first rank of the target, the time of the first token of
            each, and the start of its decoding.
    """

    def __init__(
        self,
        steps: StepLog,
        engines: Mapping[int, EngineLog],
        lost: Sequence[Lost],
        moved: Mapping[int, tuple[np.ndarray, np.ndarray]] = NONE_MOVED,
    ) -> None:
        import numpy as np

        self._steps, self._lost = steps, lost
        self._engines = list(engines.values())
        self.late: dict[int, tuple[np.ndarray, np.ndarray]] = {}
        """By replica, numbers of runs with longer gaps at the end of their first step, and the number of gaps."""
        parts = [(again_s - last_s, 1) for _, last_s, again_s in self.resumed]
        waits = []
        for rank, log in engines.items():
            since_s, until_s, count = np.array(log.waits).reshape(-1, 3).T
            weight = count.astype(np.int64)
            if rank in moved:  # sequences that joined at the start of a pause have waited for longer
                joined_s = np.sort(moved[rank][1])
                begin, end = (np.searchsorted(joined_s, since_s, side=side) for side in ("left", "right"))
                weight -= end - begin
            waits.append((rank, since_s, until_s, weight, False))
        for rank, times in moved.items():
            first_s, joined_s = times
            waits.append((rank, first_s, joined_s, np.ones(first_s.size, dtype=np.int64), True))
        found = [self._of_waits(*wait) for wait in waits if wait[1].size]
        self.seconds = np.concatenate([np.array([part for part, _ in parts]), *(each[0] for each in found)])
        """Their lengths."""
        weights = [np.ones(len(parts), dtype=np.int64), *(each[1] for each in found)]
        self.weight: np.ndarray = np.concatenate(weights)
        """Numbers of gaps."""

    @cached_property
    def resumed(self) -> list[tuple[int, float, float]]:
        """Requests that had a token again after a loss of their cache: their last token before it, and that one."""
        import numpy as np

        if not self._lost:
            return []
        known_s, lost_s = (np.array([getattr(each, name) for each in self._lost]) for name in ("known_s", "lost_s"))
        last_s = lost_s
        for log in self._engines:
            if log.pauses:
                last_s = np.minimum(last_s, _last_token_s(log, known_s, lost_s))
        return [(each.request, last, each.again_s) for each, last in zip(self._lost, last_s.tolist(), strict=True)]

    def late_in(self, runs: StepRuns) -> tuple[np.ndarray, np.ndarray] | None:
        """Indices of runs with longer gaps at the end of their first step, and numbers of gaps; None without any."""
        import numpy as np

        places, numbers = list[np.ndarray](), list[np.ndarray]()
        for rank, here in runs.places.items():
            if rank in self.late:
                place, many = self.late[rank]
                place = place - runs.start
                inside = (place >= 0) & (place < here.stop - here.start)
                places.append(place[inside] + here.start)
                numbers.append(many[inside])
        return (np.concatenate(places), np.concatenate(numbers)) if places else None

    def _of_waits(
        self, rank: int, since_s: np.ndarray, until_s: np.ndarray, weight: np.ndarray, whenever: bool
    ) -> tuple[np.ndarray, np.ndarray]:
        """The gaps from a token until after a wait, and how many there are of each; their steps are noted as late.

        Args:
            rank: The first rank of the replica.
            since_s: By wait, when the last token before it was.
            until_s: When the step begins that has the next one.
            weight: How many sequences waited.
            whenever: Whether the next step with decoding sequences is meant, though it may begin later.
        """
        import numpy as np

        runs = self._steps.of(rank)
        decoding = np.flatnonzero(runs.decode_tokens > 0)
        decoding = decoding[np.argsort(runs.started_s[decoding], kind="stable")]
        soon_s = until_s * (1 - 1e-15) - 1e-12
        place = np.searchsorted(runs.started_s[decoding], soon_s)
        inside = place < decoding.size
        place, since_s, until_s = decoding[place[inside]], since_s[inside], until_s[inside]
        found = (runs.started_s[place] <= until_s + ROUNDING * runs.first_s[place]) | whenever
        found &= weight[inside] > 0
        place, since_s, weight = place[found], since_s[found], weight[inside][found]
        before, after = self.late.get(rank, (place[:0], weight[:0]))
        late, inverse = np.unique(np.concatenate([before, place]), return_inverse=True)
        self.late[rank] = late, np.bincount(inverse, np.concatenate([after, weight])).astype(np.int64)
        return runs.started_s[place] + runs.first_s[place] - since_s, weight


def _last_token_s(log: EngineLog, known_s: np.ndarray, lost_s: np.ndarray) -> np.ndarray:
    """When sequences that lose their cache had their last token, if this engine has made them wait; else `lost_s`.

    An engine preempts when a run of steps begins, so it has a note of exactly this time.

    Args:
        log: What the engine has noted.
        known_s: When they had the last token that is known of.
        lost_s: When they lose their cache: in a pause, or as one ends.
    """
    import numpy as np

    pauses_s, notes_s = np.array(log.pauses).reshape(-1, 2), EngineNotes(log).times_s
    place = np.searchsorted(pauses_s[:, 0], lost_s) - 1
    inside = (place >= 0) & (lost_s <= pauses_s[place, 1])
    inside &= notes_s[np.minimum(np.searchsorted(notes_s, lost_s), notes_s.size - 1)] == lost_s
    last_s: np.ndarray = np.where(inside, np.maximum(known_s, pauses_s[place, 0]), lost_s)
    return last_s

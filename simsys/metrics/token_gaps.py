"""Which gaps between the tokens of a request are not just one step long, told as they come to pass.

A decoding sequence gets a token in every step of its batch, so a gap is a step, except where it had to wait: while a
step processed prompts alone, or from the loss of its KV cache until its tokens had been computed again.
"""

from __future__ import annotations

import math
from array import array

ROUNDING = 1e-6
"""Part of a step that a sequence may have waited before it without being late: no step is that short."""


class _Replica:
    """What is to be known of a replica between two runs of steps."""

    __slots__ = ("decoded_s", "joined", "since_s")

    def __init__(self) -> None:
        self.decoded_s = math.inf
        """End of the last step with decoding sequences; not before any step as long as there was none."""
        self.joined: dict[int, float] = {}
        """Requests that have had no decode step yet since their prompt was complete, and their last token."""
        self.since_s = 0.0
        """The first of these tokens."""


class TokenGaps:
    """Gaps of another length than the step that ends them, and who waits for the next token since when."""

    def __init__(self) -> None:
        self.seconds, self.weight = array("d"), array("I")
        """Their lengths, and how many there are of each."""
        self.resumed: list[tuple[int, float, float]] = []
        """Requests that had a token again after a loss of their cache: their last token before it, and that one."""
        self._replicas: dict[int, _Replica] = {}
        self._lost: dict[int, float] = {}  # requests that have lost their cache: last token
        self._last = _Replica()  # the replica whose steps ended last

    def token(self, request: int, now_s: float) -> None:
        """A prompt is complete, on the replica whose step ended last: the request has a token, and more follow."""
        if self._lost:
            last_s = self._lost.pop(request, None)
            if last_s is not None:
                self._add(now_s - last_s, 1)
                self.resumed.append((request, last_s, now_s))
        replica = self._last
        if not replica.joined:
            replica.since_s = now_s
        replica.joined[request] = now_s

    def lost(self, request: int, now_s: float) -> None:
        """A request that has tokens has lost its cache, on the replica whose step ended last."""
        if request not in self._lost:
            joined_s = self._last.joined.pop(request, None)
            self._lost[request] = min(self._last.decoded_s, now_s) if joined_s is None else joined_s

    def ended(self, request: int) -> None:
        """No further tokens follow, although they were said to."""
        self._last.joined.pop(request, None)

    def steps(self, rank: int, started_s: float, first_s: float, ended_s: float, decode_tokens: int) -> bool:
        """A run of steps has ended; whether the gaps that its first step ends are as long as that step.

        If not, they are noted here.
        """
        replica = self._replicas.get(rank)
        if replica is None:
            replica = self._replicas[rank] = _Replica()
        self._last = replica
        if not decode_tokens:
            return True
        before_s = replica.decoded_s
        replica.decoded_s = ended_s
        joined = replica.joined
        if not joined:
            return before_s >= started_s or self._late(started_s, first_s, before_s, {}, decode_tokens)
        replica.joined = {}
        others = decode_tokens - len(joined)
        if replica.since_s >= started_s and (before_s >= started_s or others <= 0):
            return True
        return self._late(started_s, first_s, before_s, joined, others)

    def _late(self, started_s: float, first_s: float, before_s: float, joined: dict[int, float], others: int) -> bool:
        """Note the gaps of sequences that had their last token before the step began, unless it is but rounding."""
        soon_s = started_s - ROUNDING * first_s
        if (before_s >= soon_s or others <= 0) and min(joined.values(), default=soon_s) >= soon_s:
            return True
        for last_s in joined.values():
            self._add(started_s + first_s - last_s, 1)
        if others > 0:
            self._add(started_s + first_s - min(before_s, started_s), others)
        return False

    def _add(self, seconds: float, weight: int) -> None:
        self.seconds.append(seconds)
        self.weight.append(weight)

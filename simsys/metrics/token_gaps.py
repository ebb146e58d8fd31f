"""Which gaps between the tokens of a request are not just one step long, told as they come to pass.

A decoding sequence gets a token in every step of its batch, so a gap is a step, except where it had to wait: while a
step processed prompts alone, or from the loss of its KV cache until its tokens had been computed again.
"""

from __future__ import annotations

from array import array

ROUNDING = 1e-6
"""Part of a step that a sequence may have waited before it without being late: no step is that short."""


class TokenGaps:
    """Gaps of another length than the step that ends them, and who waits for the next token since when."""

    def __init__(self) -> None:
        self.seconds, self.weight = array("d"), array("I")
        """Their lengths, and how many there are of each."""
        self.resumed: list[tuple[int, float, float]] = []
        """Requests that had a token again after a loss of their cache: their last token before it, and that one."""
        self._joined: dict[int, dict[int, float]] = {}  # by rank, the requests with no decode step yet: last token
        self._decoded_s: dict[int, float] = {}  # by rank, the end of the last step with decoding sequences
        self._lost: dict[int, float] = {}  # requests that have lost their cache: last token
        self._rank = 0

    def token(self, request: int, now_s: float, *, more: bool) -> None:
        """A prompt is complete, on the replica whose step ended last; the request has its first token, or the next.

        Args:
            request: The request.
            now_s: When.
            more: Whether further tokens follow.
        """
        last_s = self._lost.pop(request, None)
        if last_s is not None:
            self._add(now_s - last_s, 1)
            self.resumed.append((request, last_s, now_s))
        if more:
            self._joined.setdefault(self._rank, {})[request] = now_s

    def lost(self, request: int, now_s: float) -> None:
        """A request that has tokens has lost its cache, on the replica whose step ended last."""
        if request not in self._lost:
            joined_s = self._joined.get(self._rank, {}).pop(request, None)
            self._lost[request] = self._decoded_s.get(self._rank, now_s) if joined_s is None else joined_s

    def ended(self, request: int) -> None:
        """No further tokens follow, although they were said to."""
        self._joined.get(self._rank, {}).pop(request, None)

    def steps(self, rank: int, started_s: float, first_s: float, ended_s: float, decode_tokens: int) -> bool:
        """A run of steps has ended; whether the gaps that its first step ends are as long as that step.

        If not, they are noted here.
        """
        self._rank = rank
        if not decode_tokens:
            return True
        soon_s = started_s - ROUNDING * first_s
        before_s = self._decoded_s.get(rank, started_s)
        self._decoded_s[rank] = ended_s
        joined = self._joined.get(rank)
        if not joined:
            if before_s >= soon_s:
                return True
        else:
            self._joined[rank] = {}
            decode_tokens -= len(joined)
            if (before_s >= soon_s or decode_tokens <= 0) and min(joined.values()) >= soon_s:
                return True
            for last_s in joined.values():
                self._add(started_s + first_s - last_s, 1)
        if decode_tokens > 0:
            self._add(started_s + first_s - before_s, decode_tokens)
        return False

    def _add(self, seconds: float, weight: int) -> None:
        self.seconds.append(seconds)
        self.weight.append(weight)

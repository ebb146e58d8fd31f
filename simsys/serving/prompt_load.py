"""What a router knows of the prompts that it has sent: how many tokens are to be computed, and how fast that goes."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from simsys.serving.engine import Engine

SMOOTHING = 0.1
"""Weight of the latest observation in the mean time of a token."""


class PromptLoad:
    """Tokens of prompts on each replica without a first token yet, and the time that they take.

    The time of a token is learnt: the mean over requests, with weights that decay exponentially, of the time from
    routing to the first token, divided by the tokens that were to be computed on the replica then, its own included.
    So it contains the steps of sequences that decode meanwhile. It is 0 before the first observation.
    """

    def __init__(self) -> None:
        self.token_s = 0.0
        self._tokens: dict[Engine, int] = {}
        self._sent: dict[int, tuple[Engine, int, int, float]] = {}  # replica, tokens, those ahead with them, and when

    def new_tokens(self, replica: Engine, request: int) -> int:
        """Tokens of the prompt of a request that are to be computed on a replica."""
        return replica.sequences.prompt_tokens[request] - replica.cached_tokens(request)

    def tokens(self, replica: Engine) -> int:
        """Tokens that are to be computed for prompts on a replica, of prompts in progress all."""
        return self._tokens.get(replica, 0)

    def ttft_s(self, replica: Engine, request: int) -> float:
        """Predicted time to the first token of a request that is sent to a replica now, from its arrival there."""
        return (self.tokens(replica) + self.new_tokens(replica, request)) * self.token_s

    def send(self, replica: Engine, request: int) -> Engine:
        """Note that a request is sent to a replica, which is returned."""
        tokens = self.new_tokens(replica, request)
        ahead = self._tokens[replica] = self.tokens(replica) + tokens
        self._sent[request] = replica, tokens, ahead, replica.now_s
        if self._done not in replica.prompt_watchers:
            replica.prompt_watchers.append(self._done)
        return replica

    def _done(self, request: int) -> None:
        """A request has its first token, or has left without one."""
        if request not in self._sent:
            return
        replica, tokens, ahead, sent_s = self._sent.pop(request)
        self._tokens[replica] -= tokens
        if replica.sequences.generated_tokens[request]:
            seen_s = (replica.now_s - sent_s) / ahead
            self.token_s = seen_s if not self.token_s else (1.0 - SMOOTHING) * self.token_s + SMOOTHING * seen_s

"""Which requests an engine can serve at all."""

from __future__ import annotations

from sys import maxsize

from simsys.serving.scheduler import Scheduler


class Limits:
    """What a request may need on an engine.

    Args:
        scheduler: The policy, which may refuse requests too.
        capacity_tokens: Capacity of the KV cache in which requests decode.
        max_context_tokens: Longest prompt plus output the model accepts; 0 for no limit.
    """

    def __init__(self, scheduler: Scheduler, capacity_tokens: int, max_context_tokens: int) -> None:
        self._sequences, self._kv = scheduler.sequences, scheduler.kv
        self._capacity_tokens, self._max_context_tokens = capacity_tokens, max_context_tokens
        self._refuses = None if type(scheduler).refusal is Scheduler.refusal else scheduler.refusal
        self.surely_served = -1
        """A request with no more tokens than that, prompt and output together, can be served."""
        if self._refuses is None:
            self.surely_served = min(capacity_tokens, self._kv.capacity_tokens, max_context_tokens or maxsize)
        self.refuse_none = self._sequences.most_tokens <= self.surely_served
        """Whether none is refused."""

    def refusal(self, request: int) -> str:
        """Why a request can never be served; empty if it can."""
        prompt, context = self._sequences.prompt_tokens[request], self._max_context_tokens
        total = prompt + self._sequences.asked_tokens[request]
        if total <= self.surely_served:
            return ""
        if total > context > 0:
            return f"longer than the model's context of {context} tokens"
        if total - 1 > self._capacity_tokens:
            return f"longer than the KV cache of {self._capacity_tokens} tokens"
        if prompt > self._kv.capacity_tokens:
            return f"its prompt is longer than the KV cache of {self._kv.capacity_tokens} tokens"
        return self._refuses(request) if self._refuses is not None else ""

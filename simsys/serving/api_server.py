"""The server before the engine: processes that parse and tokenise requests, with a queue of their own."""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heapreplace

from simsys.errors import UsageError


class ApiServer:
    """Serves requests in the order of arrival, each by the first process that is free (a queue G/D/c).

    Args:
        count: Number of processes.
        per_request_s: Time that a process needs for a request (s).
        per_token_s: Further time for each token of its prompt (s).
        prompt_tokens: The prompt of each request.

    Raises:
        UsageError: If there is no process.
    """

    def __init__(self, count: int, per_request_s: float, per_token_s: float, prompt_tokens: Sequence[int]) -> None:
        if count < 1:
            raise UsageError(f"an API server needs at least one process, not {count}")
        self._per_request_s, self._per_token_s, self._prompt_tokens = per_request_s, per_token_s, prompt_tokens
        self._free_s = [0.0] * count  # a heap: when each process is free

    def ready_s(self, request: int, now_s: float) -> float:
        """When a request that arrives now is tokenised; call it in the order of arrival."""
        begins_s = max(now_s, self._free_s[0])
        ends_s = begins_s + (self._per_request_s + self._per_token_s * self._prompt_tokens[request])
        heapreplace(self._free_s, ends_s)
        return ends_s

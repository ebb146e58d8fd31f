"""The sequences of one replica, as columns: lengths and progress of each request."""

from __future__ import annotations

from array import array

from simsys.serving.requests import RequestTable
from simsys.serving.swap import SwapSpace


class Sequences:
    """Per-request state, indexed by request number; columns are faster than objects.

    Args:
        requests: All requests of the run; a replica touches only those routed to it.
    """

    __slots__ = (
        "arrival_s",
        "asked_tokens",
        "computed_tokens",
        "generated_tokens",
        "most_tokens",
        "on_host",
        "output_tokens",
        "priority",
        "prompt_tokens",
        "quitting",
        "tenant",
        "tenant_name",
    )

    def __init__(self, requests: RequestTable) -> None:
        self.arrival_s = requests.arrival_s
        self.prompt_tokens = requests.prompt_tokens
        self.asked_tokens = requests.output_tokens
        """Output tokens that each request asks for, which policies know."""
        self.output_tokens = requests.output_tokens
        """Output tokens with which each request ends: those, or fewer if its client cancels it then."""
        self.quitting: set[int] = set()
        """Requests that end with fewer tokens, since their clients cancel them."""
        if any(requests.cancel_tokens):
            pairs = enumerate(zip(requests.output_tokens, requests.cancel_tokens, strict=True))
            self.quitting = {request for request, (asked, enough) in pairs if 0 < enough < asked}
            self.output_tokens = list(requests.output_tokens)
            for request in self.quitting:
                self.output_tokens[request] = requests.cancel_tokens[request]
        self.priority = requests.priority
        self.tenant = requests.tenant
        self.tenant_name = requests.tenant_name
        """The tenant name of a request in the experiment file."""

        self.most_tokens = max(requests.prompt_tokens, default=0) + max(requests.output_tokens, default=0)
        """No request has more of prompt and output together."""
        self.computed_tokens = array("q", bytes(8 * len(requests)))
        """Cached tokens during prefill; an array, since a list would keep an object of 32 bytes for each number."""
        self.generated_tokens = [0] * len(requests)
        """Output tokens at the last change of phase (a decoding sequence is ahead of it)."""

        self.on_host: dict[int, tuple[SwapSpace, int]] = {}
        """Where preempted requests have their cache, and its tokens, if it was copied to a host."""

    def target_tokens(self, request: int) -> int:
        """Tokens to compute before the next output token: the prompt, and after a preemption its output too."""
        return self.prompt_tokens[request] + self.generated_tokens[request]

    def remaining_prompt(self, request: int) -> int:
        """Tokens that are still to be computed before the next output token."""
        return self.prompt_tokens[request] + self.generated_tokens[request] - self.computed_tokens[request]

    def final_cache_tokens(self, request: int) -> int:
        """Most tokens of this request that are ever cached: all but the last output token."""
        return self.prompt_tokens[request] + self.asked_tokens[request] - 1

"""What is known of a request whose client has given up."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Cancelled:
    """A request whose client has given up.

    Args:
        reason: Why.
        prompt_tokens: Tokens of its prompt that were computed, cached ones included.
        output_tokens: Its output tokens.
        time_s: When it left.
        waiting: Whether it waited to be scheduled then.
    """

    reason: str
    prompt_tokens: int
    output_tokens: int
    time_s: float
    waiting: bool

    @property
    def wasted_tokens(self) -> int:
        """Tokens that were computed for nothing."""
        return self.prompt_tokens + self.output_tokens

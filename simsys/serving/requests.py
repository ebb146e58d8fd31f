"""The requests a serving simulation receives: when each arrives, and how many tokens it has."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from itertools import islice
from operator import le

from simsys.errors import UsageError


@dataclass(frozen=True, slots=True, eq=False)
class RequestTable:
    """Requests in order of arrival, one list per column.

    Plain lists, because the simulation reads one element at a time, where a list is faster than an array.

    Args:
        arrival_s: Times of arrival, seconds from the start of the simulation, never decreasing.
        prompt_tokens: Tokens of each prompt, at least 1.
        output_tokens: Tokens each request generates, at least 1.
        priority: Whose turn it is where a scheduler asks for it: smaller comes first; empty if all are alike.
        tenant: Whom each request belongs to; empty if to one.
        after: The request that must have ended before each arrives, -1 for none; empty if there is no such.
        think_s: How long after that one's end it arrives, but not before its `arrival_s`; empty if at once.
        concurrency: How many requests may be under way at once, so that others arrive later; 0 for no limit.

    Raises:
        UsageError: If the columns differ in length, or hold what the lines above rule out.
    """

    arrival_s: list[float]
    prompt_tokens: list[int]
    output_tokens: list[int]
    priority: list[int] = field(default_factory=list)
    tenant: list[int] = field(default_factory=list)
    after: list[int] = field(default_factory=list)
    think_s: list[float] = field(default_factory=list)
    concurrency: int = 0

    def __post_init__(self) -> None:
        lengths = (len(self.arrival_s), len(self.prompt_tokens), len(self.output_tokens))
        if len(set(lengths)) != 1:
            raise UsageError(
                "the columns of a request table must be equally long: "
                "{} arrival_s, {} prompt_tokens, {} output_tokens".format(*lengths)
            )
        self._check_arrivals()
        for name, column in (("prompt_tokens", self.prompt_tokens), ("output_tokens", self.output_tokens)):
            if min(column, default=1) < 1:
                raise UsageError(f"{name} must be at least 1 for every request, not {min(column)}")

    def _check_arrivals(self) -> None:
        times = self.arrival_s
        # NaN fails every comparison, so for two or more times the chain of <= already refuses it.
        if not all(map(le, times, islice(times, 1, None))):
            raise UsageError("arrival_s must never decrease")
        if times and not (times[0] >= 0 and math.isfinite(times[-1])):
            raise UsageError(f"arrival_s must be finite and >= 0, not {times[0]} to {times[-1]}")

    def __len__(self) -> int:
        return len(self.arrival_s)

    @property
    def span_s(self) -> float:
        """Seconds between the first and the last arrival; 0 for an empty table."""
        return self.arrival_s[-1] - self.arrival_s[0] if self.arrival_s else 0.0

    @property
    def mean_rate_per_s(self) -> float | None:
        """Requests per second between the first and the last arrival; None if all arrive at once."""
        return (len(self) - 1) / self.span_s if self.span_s else None

    @property
    def mean_prompt_tokens(self) -> float:
        """Average prompt length; 0 for an empty table."""
        return sum(self.prompt_tokens) / max(len(self), 1)

    @property
    def mean_output_tokens(self) -> float:
        """Average output length; 0 for an empty table."""
        return sum(self.output_tokens) / max(len(self), 1)

    @property
    def gap_cv(self) -> float | None:
        """Coefficient of variation of the gaps between arrivals: 1 for Poisson; None if all arrive at once."""
        if not self.span_s:
            return None
        count = len(self) - 1
        mean_s = self.span_s / count
        pairs = zip(self.arrival_s, islice(self.arrival_s, 1, None), strict=False)
        return math.sqrt(sum((after - before - mean_s) ** 2 for before, after in pairs) / count) / mean_s

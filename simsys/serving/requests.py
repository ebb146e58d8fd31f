"""The requests a serving simulation receives: when each arrives, and how many tokens it has."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from itertools import islice
from operator import gt, le

from simsys.errors import UsageError
from simsys.model.image_grids import ImageWork
from simsys.sums import ordered_sum
from simsys.units import LONGEST_S

OPTIONAL_COLUMNS = (
    *("priority", "tenant", "session", "turn", "after", "think_s", "hash_ids"),
    *("attempt", "cancel_s", "cancel_tokens", "joins", "agent", "reasoning_tokens", "images"),
)
"""Columns of a `RequestTable` that may be empty."""


@dataclass(frozen=True, slots=True, eq=False)
class RequestTable:
    """Requests in order of arrival, one list per column.

    Plain lists, because the simulation reads one element at a time, where a list is faster than an array. Columns
    after the third are empty lists where nothing uses them.

    Args:
        arrival_s: Times of arrival, seconds from the start of the simulation, never decreasing.
        prompt_tokens: Tokens of each prompt, at least 1.
        output_tokens: Tokens each request generates, at least 1.
        priority: Priority of each request; the lower, the more urgent, as in vLLM.
        tenant: Tenant of each request, an index of `tenant_names` if there are names.
        session: Conversation of each request.
        turn: Place of each request in its session, counted from 0.
        after: Index of the request whose end each one waits for, always a smaller index; -1 for none. Such a request
            arrives `think_s` after that end, and not before its own `arrival_s`.
        think_s: Seconds between that end and the arrival.
        hash_ids: Ids of the full blocks of `hash_block_tokens` tokens that each prompt begins with; blocks with the
            same id hold the same tokens, and so do all before them. Unshared blocks at the end may be omitted.
        attempt: 0 for a request that is sent, k for its k-th repetition. A repetition is the row after the attempt
            that it repeats, which is its `after`; it arrives only if that attempt fails, `think_s` later.
        cancel_s: Seconds after its arrival at which a client cancels each request; infinite for never.
        cancel_tokens: Output tokens with which a client has enough and cancels each request; 0 for all.
        joins: Further requests whose ends each one waits for, each with a smaller index.
        agent: 0 for requests of a session itself, or the number of the sub-agent of the session that sends each.
        reasoning_tokens: Tokens of thought at the beginning of each output.
        images: Ids of the images of each request, in the order of its prompt; equal ids are the same image.
        image: What an image becomes; None until the prompts have the tokens of their images.
        hash_block_tokens: Tokens of such a block; 0 without `hash_ids`.
        tenant_names: Names of the tenants; empty if they have none.
        concurrency: If above 0, a closed loop: this number of requests is in the system at a time, and the next one
            arrives at the end of another (not before its `arrival_s`).
        ttft_timeout_s: Seconds that a client waits for the first token of a request; then it cancels the request.
        timeout_s: Seconds that a client waits for the last token.
        forgets_thoughts: Whether the prompt of a following turn has the answer before it without `reasoning_tokens`.
        notes: Relevant facts about the origin of the requests, such as skipped rows of a trace.

    Raises:
        UsageError: If the columns differ in length, or violate the conditions above.
    """

    arrival_s: list[float]
    prompt_tokens: list[int]
    output_tokens: list[int]
    priority: list[int] = field(default_factory=list)
    tenant: list[int] = field(default_factory=list)
    session: list[int] = field(default_factory=list)
    turn: list[int] = field(default_factory=list)
    after: list[int] = field(default_factory=list)
    think_s: list[float] = field(default_factory=list)
    hash_ids: list[tuple[int, ...]] = field(default_factory=list)
    attempt: list[int] = field(default_factory=list)
    cancel_s: list[float] = field(default_factory=list)
    cancel_tokens: list[int] = field(default_factory=list)
    joins: list[tuple[int, ...]] = field(default_factory=list)
    agent: list[int] = field(default_factory=list)
    reasoning_tokens: list[int] = field(default_factory=list)
    images: list[tuple[int, ...]] = field(default_factory=list)
    image: ImageWork | None = None
    hash_block_tokens: int = 0
    tenant_names: tuple[str, ...] = ()
    concurrency: int = 0
    ttft_timeout_s: float = math.inf
    timeout_s: float = math.inf
    forgets_thoughts: bool = False
    notes: tuple[str, ...] = ()

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
        for name in OPTIONAL_COLUMNS:
            if getattr(self, name) and len(getattr(self, name)) != len(self):
                raise UsageError(f"{name} must be empty or have {len(self)} rows, not {len(getattr(self, name))}")
        self._check_sequence()
        self._check_hash_ids()
        if self.concurrency < 0:
            raise UsageError(f"concurrency must be 0 (an open loop) or more, not {self.concurrency}")
        self._check_patience()

    def _check_patience(self) -> None:
        for name in ("attempt", "cancel_s", "cancel_tokens"):
            if min(getattr(self, name), default=0) < 0:
                raise UsageError(f"{name} must be 0 or more for every request, not {min(getattr(self, name))}")
        if not min(self.ttft_timeout_s, self.timeout_s) > 0:
            raise UsageError(f"timeouts must be above 0, not {min(self.ttft_timeout_s, self.timeout_s)}")

    def _check_arrivals(self) -> None:
        times = self.arrival_s
        # NaN fails every comparison, so for two or more times the chain of <= already refuses it.
        if not all(map(le, times, islice(times, 1, None))):
            raise UsageError("arrival_s must never decrease")
        if times and not (times[0] >= 0 and math.isfinite(times[-1])):
            raise UsageError(f"arrival_s must be finite and >= 0, not {times[0]} to {times[-1]}")
        if times and times[-1] > LONGEST_S:
            raise UsageError(
                f"requests arrive for {times[-1]:.3g} s, at most {LONGEST_S:g} s (300 years) are simulated"
            )

    def _check_sequence(self) -> None:
        for index, before in enumerate(self.after):
            if not -1 <= before < index:
                raise UsageError(f"after must be -1 or an earlier request, not {before} for request {index}")
        for index, others in enumerate(self.joins):
            if others and not (min(others) >= 0 and max(others) < index and self.after[index] >= 0):
                raise UsageError(f"joins must be earlier requests, beside after, not {others} for request {index}")
        if self.think_s and not (min(self.think_s) >= 0 and math.isfinite(ordered_sum(self.think_s))):
            raise UsageError("think_s must be finite and >= 0 for every request")
        self._check_span()
        if self.tenant and min(self.tenant) < 0:
            raise UsageError(f"tenant must be 0 or more for every request, not {min(self.tenant)}")
        if self.tenant_names and max(self.tenant, default=0) >= len(self.tenant_names):
            raise UsageError(f"tenant {max(self.tenant)} has no name; there are {len(self.tenant_names)}")

    def _check_span(self) -> None:
        """Refuse conversations whose think times alone last longer than can be simulated."""
        if not self.think_s or self.arrival_s[-1] + ordered_sum(self.think_s) <= LONGEST_S:
            return
        earliest_s = list(self.arrival_s)
        for index, before in enumerate(self.after):
            if before >= 0:
                earliest_s[index] = max(earliest_s[index], earliest_s[before] + self.think_s[index])
        if (longest_s := max(earliest_s)) > LONGEST_S:
            raise UsageError(
                f"with think times, conversations last for {longest_s:.3g} s, at most {LONGEST_S:g} s (300 years) "
                f"are simulated"
            )

    def _check_hash_ids(self) -> None:
        if self.hash_ids and self.hash_block_tokens < 1:
            raise UsageError(f"hash_block_tokens must be at least 1 with hash_ids, not {self.hash_block_tokens}")
        most = [tokens // self.hash_block_tokens for tokens in self.prompt_tokens] if self.hash_ids else []
        if not any(map(gt, map(len, self.hash_ids), most)):
            return
        for index, ids in enumerate(self.hash_ids):
            if len(ids) > most[index]:
                raise UsageError(
                    f"request {index} has {len(ids)} hash_ids of {self.hash_block_tokens} tokens, more than its prompt"
                    f" of {self.prompt_tokens[index]} tokens"
                )

    def __len__(self) -> int:
        return len(self.arrival_s)

    def tenant_name(self, request: int) -> str:
        """The tenant of a request: a name, or a number for tenants without names; empty without tenants."""
        if not self.tenant:
            return ""
        tenant = self.tenant[request]
        return self.tenant_names[tenant] if self.tenant_names else str(tenant)

    @property
    def sent(self) -> int:
        """Number of requests without repetitions."""
        return len(self) - sum(map(bool, self.attempt))

    @property
    def gives_up(self) -> bool:
        """Whether clients may cancel requests, or send them again."""
        limited = min(self.ttft_timeout_s, self.timeout_s) < math.inf
        return limited or bool(self.cancel_s) or bool(self.cancel_tokens) or any(self.attempt)

    @property
    def span_s(self) -> float:
        """Seconds between the first and the last arrival; 0 for an empty table."""
        return self.arrival_s[-1] - self.arrival_s[0] if self.arrival_s else 0.0

    @property
    def mean_rate_per_s(self) -> float | None:
        """Requests per second between the first and the last arrival; None if all arrive at once."""
        return (self.sent - 1) / self.span_s if self.span_s else None

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
        count = self.sent - 1
        mean_s = self.span_s / count
        times_s = self.arrival_s
        if self.attempt:
            times_s = [time_s for time_s, again in zip(times_s, self.attempt, strict=True) if not again]
        pairs = zip(times_s, islice(times_s, 1, None), strict=False)
        return math.sqrt(ordered_sum((after - before - mean_s) ** 2 for before, after in pairs) / count) / mean_s

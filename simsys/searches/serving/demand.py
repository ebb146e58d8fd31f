"""The requests of a serving scenario as arrays: what a deployment has to do, and by when."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from simsys.config.slo import SloConfig
from simsys.serving.requests import RequestTable

Floats = NDArray[np.float64]
Marks = NDArray[np.bool_]
MOMENTS = 16
"""Moments up to which the work that is due is compared with the time that has passed."""


@dataclass(frozen=True)
class Demand:
    """The requests of a run, and its latency targets.

    Args:
        requests: The requests.
        slo: The latency targets; None without targets.
        share: Share of the requests that have to meet all targets.
        timed: Whether the run ends after a given time, with requests in flight.
        cached: Whether parts of prompts may be found in the prefix cache.
    """

    requests: RequestTable
    slo: SloConfig | None
    share: float
    timed: bool
    cached: bool

    @cached_property
    def prompt_tokens(self) -> Floats:
        """Tokens of each prompt."""
        return np.asarray(self.requests.prompt_tokens, dtype=np.float64)

    @cached_property
    def computed_prompt_tokens(self) -> Floats:
        """Tokens of each prompt that are computed at least."""
        return np.ones_like(self.prompt_tokens) if self.cached else self.prompt_tokens

    @cached_property
    def decode_tokens(self) -> Floats:
        """Output tokens of each request after the first one, each of which takes part in a step of its own."""
        return np.asarray(self.requests.output_tokens, dtype=np.float64) - 1.0

    @cached_property
    def context_tokens(self) -> Floats:
        """Cached tokens that all decode steps of each request read together."""
        return self.decode_tokens * (self.prompt_tokens + (self.decode_tokens - 1.0) / 2.0)

    @cached_property
    def arrival_s(self) -> Floats:
        """Time of arrival of each request."""
        return np.asarray(self.requests.arrival_s, dtype=np.float64)

    @property
    def open_loop(self) -> bool:
        """Whether requests arrive at known times, whatever the deployment does."""
        return not self.requests.concurrency and not self.requests.after

    @property
    def allowed_misses(self) -> int:
        """Number of requests that may miss a target."""
        return int(len(self.requests) * (1.0 - self.share) + 1e-9)

    @cached_property
    def due(self) -> Due | None:
        """The work that is due at some moments; None if nothing has to end at a known time."""
        slo = self.slo
        if slo is None or self.timed or not self.open_loop:
            return None
        first_s = np.full_like(self.arrival_s, np.inf if slo.ttft is None else slo.ttft)
        decoding_s = np.full_like(first_s, np.inf) if slo.tpot is None else self.decode_tokens * slo.tpot
        last_s = first_s + np.where(self.decode_tokens > 0, decoding_s, 0.0)
        last_s = np.minimum(last_s, np.inf if slo.e2el is None else slo.e2el)
        first_s = np.minimum(first_s, last_s)
        if not np.isfinite(first_s).any():
            return None
        return self._due(self.arrival_s + first_s, self.arrival_s + last_s)

    def _due(self, first_s: Floats, last_s: Floats) -> Due:
        """The work of prompts that is due at `first_s`, and of decoding that is due at `last_s`."""
        known_s = np.sort(np.where(np.isfinite(last_s), last_s, first_s))
        places = np.unique(np.linspace(0, len(known_s) - 1, MOMENTS + 1).astype(int)[1:])
        until_s = known_s[places]
        decoded, prompts = last_s[None, :] <= until_s[:, None], first_s[None, :] <= until_s[:, None]

        return self._sums(until_s - float(self.arrival_s[0]), prompts, decoded, self.allowed_misses)

    def _sums(self, passed_s: Floats, prompts: Marks, decoded: Marks, misses: int) -> Due:
        """The work of the marked requests, without the largest amounts of those that may miss a target."""

        def sums(amount: Floats, due: Marks) -> Floats:
            missed = np.sort(amount)[::-1][:misses].sum()
            found: Floats = np.maximum(0.0, (amount[None, :] * due).sum(axis=1) - missed)
            return found

        return Due(
            passed_s,
            sums(self.computed_prompt_tokens, prompts),
            sums(self.decode_tokens, decoded),
            sums(self.context_tokens, decoded),
        )

    def everything(self, *, judged: bool) -> Due:
        """The work of all requests; if it is `judged`, without those that may miss a target."""
        marks = np.ones((1, len(self.requests)), dtype=bool)
        return self._sums(np.ones(1), marks, marks, self.allowed_misses if judged else 0)


@dataclass(frozen=True)
class Due:
    """Least amounts of work that are due at some moments, without the requests that may miss a target.

    Args:
        passed_s: Time from the first arrival to each moment (s).
        prompt_tokens: Prompt tokens.
        decode_tokens: Tokens of decode steps.
        context_tokens: Cached tokens that these read.
    """

    passed_s: Floats
    prompt_tokens: Floats
    decode_tokens: Floats
    context_tokens: Floats

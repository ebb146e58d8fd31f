"""Optimistic bounds of what an engine achieves, each on the side of the engine.

Work is conserved: all requests that meet their targets are served by their deadlines, so the replicas have at least
the time for their least work until then. The least work of a decoded token is that of the largest batch that
`max_num_seqs`, the KV cache and the target of the TPOT allow. Prompts may join these steps for nothing, unless their
own computation takes longer. A request is at best alone on its engine.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from simsys.searches.serving.demand import Demand, Due
from simsys.searches.serving.steps import Steps

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Limits:
    """Limits of the engines of a pool, each an array with an entry for each combination of settings.

    Args:
        sequences: Most sequences of a step.
        tokens: Most tokens of a step.
        cached_tokens: Tokens for which the KV cache of an engine has room.
    """

    sequences: Floats
    tokens: Floats
    cached_tokens: Floats

    def at(self, place: int) -> Limits:
        """One of the combinations."""
        part = slice(place, place + 1)
        return Limits(self.sequences[part], self.tokens[part], self.cached_tokens[part])


@dataclass(frozen=True)
class Bounds:
    """Bounds of one kind of engine under a demand.

    Args:
        steps: Least durations of its steps.
        demand: The requests.
        api_s: Time of a request to the scheduler (s).
        drafted: Tokens that are drafted for each sequence and step.
        engines: Engines of a replica that step together.
    """

    steps: Steps
    demand: Demand
    api_s: float
    drafted: int
    engines: int = 1

    # ---- one request alone

    @cached_property
    def tpot_s(self) -> Floats:
        """Least TPOT of each request."""
        context_s = float(self.steps.context_s.sum())
        found: Floats = (self.steps.decode_step_s[0] + context_s * self.demand.prompt_tokens) / (1 + self.drafted)
        found[self.demand.decode_tokens == 0] = 0.0
        return found

    def ttft_s(self, tokens: float) -> Floats:
        """Least TTFT of each request, in steps of at most this number of tokens."""
        prompts = self.demand.computed_prompt_tokens
        each = self.steps.prompt_token_s[self.steps.place(np.minimum(prompts, tokens))]
        found: Floats = self.api_s + np.maximum(each * prompts, float(self.steps.prompts[:, 0].sum()))
        return found

    def attainable(self, ttft_s: Floats, tpot_s: Floats) -> NDArray[np.bool_]:
        """Which requests can meet all targets, by their least latencies."""
        slo, can = self.demand.slo, np.ones(len(ttft_s), dtype=bool)
        if slo is None:
            return can
        if slo.ttft is not None:
            can &= ttft_s <= slo.ttft
        if slo.tpot is not None:
            can &= tpot_s <= slo.tpot
        if slo.e2el is not None:
            can &= ttft_s + tpot_s * self.demand.decode_tokens <= slo.e2el
        return can

    # ---- all requests together

    def decode_token_s(self, limits: Limits, *, within_target: bool) -> Floats:
        """Least time of the busiest stage per decoded token, without its context."""
        most = limits.sequences.copy()
        slo = self.demand.slo
        if within_target and slo is not None and slo.tpot is not None:
            most = np.minimum(most, max(1.0, self.steps.most_sequences(slo.tpot * (1 + self.drafted))))
        found: Floats = self.steps.decode_token_s[self.steps.place(most)] / (1 + self.drafted)
        return found

    def token_s(self, limits: Limits) -> Floats:
        """Least time of the busiest stage per token of a prompt or answer."""
        found: Floats = self.steps.token_s[self.steps.place(limits.tokens)]
        return found

    def work_s(
        self, limits: Limits, due: Due, *, within_target: bool, prompts: bool = True, decodes: bool = True
    ) -> Floats:
        """Least time of the busiest stage for the work that is due, by limits and moments.

        Args:
            limits: The limits.
            due: The work.
            within_target: Whether all of it meets the target of the TPOT.
            prompts: Whether the engines process prompts.
            decodes: Whether the engines decode.
        """
        token_s = self.token_s(limits)[:, None]
        if not decodes:
            return token_s * due.prompt_tokens[None, :] / self.engines
        context_s = float(self.steps.context_s.max())
        steps_s = float(self.steps.decoding[:, 0].max())
        decoding = self.decode_token_s(limits, within_target=within_target)[:, None] * due.decode_tokens[None, :]
        if not self.demand.cached:  # else sequences may share blocks
            full = np.maximum(limits.cached_tokens, 1.0)[:, None]
            decoding = np.maximum(decoding, steps_s * due.context_tokens[None, :] / full / (1 + self.drafted))
        together = due.decode_tokens / (1 + self.drafted) + (due.prompt_tokens if prompts else 0.0)
        reading_s = context_s * due.context_tokens / (1 + self.drafted)
        found: Floats = np.maximum(decoding, token_s * together[None, :]) + reading_s[None, :]
        return found / self.engines

    def least_replicas(self, limits: Limits, *, prompts: bool = True, decodes: bool = True) -> Floats:
        """Fewest replicas that can serve the requests within their targets, by limits."""
        due = self.demand.due
        if due is None:
            return np.ones(len(limits.sequences))
        work_s = self.work_s(limits, due, within_target=True, prompts=prompts, decodes=decodes)
        needed = np.where(due.passed_s > 0, work_s / np.maximum(due.passed_s, 1e-12), 0.0)
        found: Floats = np.maximum(1.0, np.ceil(needed.max(axis=1) - 1e-9))
        return found

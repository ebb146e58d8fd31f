"""Loads of tables of serving runs, as the ``workload`` of an experiment (``measured/loads.yaml``)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from pydantic import PositiveInt

from simsys.fidelity.tables.facts import Facts, facts
from simsys.fidelity.tables.serving_engines import EngineSetup

LOADS = ("static_batch", "concurrency", "request_rate", "offline_max")


class Loads(Facts):
    """Facts about loads that tables leave out.

    Args:
        largest_pass_tokens: Prompt tokens of a static batch that are processed at once.
        requests_per_user: Requests of a closed loop, for each user.
        fewest_requests: Requests of a closed loop, at least.
        rate_requests: Requests that arrive at a rate.
        offline_requests: Requests of each replica that are queued at once, where a row does not state their number.
    """

    filename: ClassVar[str] = "loads.yaml"
    largest_pass_tokens: PositiveInt
    requests_per_user: PositiveInt
    fewest_requests: PositiveInt
    rate_requests: PositiveInt
    offline_requests: PositiveInt


@dataclass(frozen=True)
class Load:
    """The load of an engine.

    Args:
        kind: One of `LOADS`.
        value: Sequences of the batch, users, requests per second, or requests that are queued at once (0 if unknown).
        input_tokens: Largest length of a prompt.
        output_tokens: Largest length of an answer.
        shortest: Smallest length over the largest length; 1 if all lengths are equal.
        requests: Requests of a closed loop; 0 if their number is not known.
    """

    kind: str
    value: float
    input_tokens: int
    output_tokens: int
    shortest: float = 1.0
    requests: int = 0

    def workload(self, replicas: int = 1) -> Mapping[str, Any]:
        """Return the `workload` of an experiment on a number of replicas."""
        return {
            **self._arrivals(replicas),
            "prompt_tokens": self._lengths(self.input_tokens),
            "output_tokens": self._lengths(self.output_tokens),
        }

    def limits(self, setup: EngineSetup, context: float) -> Mapping[str, Any]:
        """Return the settings of `serving` that depend on the load and on the context of the model.

        A static batch is processed as a whole, without HTTP server. Other loads use the engine's scheduler, with room
        for all users and, if prompts are not divided, for the longest prompt.
        """
        tokens = self.input_tokens + self.output_tokens
        longest = {"max_model_len": tokens + 8, "allow_long_max_model_len": tokens + 8 > context}
        if self.kind == "static_batch":
            batch = int(self.value)
            tokens = max(batch, min(batch * self.input_tokens, facts(Loads).largest_pass_tokens))
            limit = {"max_num_seqs": batch, "max_num_batched_tokens": tokens}
            return {"scheduler": "chunked_prefill", "api_overhead": "0 s", **limit, **longest}
        found: dict[str, Any] = dict(longest)
        if setup.scheduler is not None:
            found["scheduler"] = setup.scheduler
        users = int(self.value) if self.kind == "concurrency" else 0
        if users:
            found["max_num_seqs"] = users
        budget = self._step_tokens(setup, users)
        if budget is not None:
            found["max_num_batched_tokens"] = budget
        if self.kind == "offline_max":
            found["api_overhead"] = "0 s"
        return found

    def _step_tokens(self, setup: EngineSetup, users: int) -> int | None:
        """Return the largest number of tokens of a step; None for the default of the engine."""
        whole = 0 if setup.cuts_prompts else self.input_tokens + self.output_tokens
        tokens = max(setup.least_step_tokens, users, whole)
        return None if tokens == setup.least_step_tokens and setup.step_tokens is None else tokens

    def _arrivals(self, replicas: int) -> dict[str, Any]:
        known = facts(Loads)
        if self.kind == "static_batch":
            return {"arrivals": {"kind": "all_at_once"}, "num_requests": int(self.value)}
        if self.kind == "concurrency":
            users = int(self.value)
            requests = self.requests or max(known.requests_per_user * users, known.fewest_requests)
            return {"arrivals": {"kind": "closed_loop", "concurrency": users}, "num_requests": requests}
        if self.kind == "request_rate":
            return {
                "arrivals": {"kind": "poisson", "rate": f"{self.value} req/s"},
                "num_requests": known.rate_requests,
            }
        requests = int(self.value) or known.offline_requests * replicas
        return {"arrivals": {"kind": "all_at_once"}, "num_requests": requests}

    def _lengths(self, tokens: int) -> int | dict[str, Any]:
        low = max(1, round(self.shortest * tokens))
        return tokens if low == tokens else {"kind": "uniform", "low": low, "high": tokens}

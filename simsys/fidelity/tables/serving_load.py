"""The loads of tables of serving runs, each as what it is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from simsys.fidelity.tables.serving_engines import EngineSetup

LARGEST_PASS = 32768
"""Prompt tokens of a static batch that are processed at once; of larger batches in several passes."""
REQUESTS_PER_USER = 10
"""Of a closed loop, as InferenceX and `vllm bench serve` scripts have it."""
FEWEST_REQUESTS = 16
RATE_REQUESTS = 500
OFFLINE_REQUESTS = 2048
"""Requests queued at once: benchmarks of offline throughput have 1,000 to 3,000."""

LOADS = ("static_batch", "concurrency", "request_rate", "offline_max")


@dataclass(frozen=True)
class Load:
    """What is asked of an engine.

    Args:
        kind: One of `LOADS`.
        value: Sequences of the batch, users, or requests per second; none for the offline maximum.
        input_tokens: Of a prompt, at most.
        output_tokens: Of an answer, at most.
        shortest: The least length as a share of these; 1 if all are alike.
    """

    kind: str
    value: float
    input_tokens: int
    output_tokens: int
    shortest: float = 1.0

    def workload(self, replicas: int = 1) -> Mapping[str, Any]:
        """The `workload` of an experiment on so many replicas."""
        return {
            **self._arrivals(replicas),
            "prompt_tokens": self._lengths(self.input_tokens),
            "output_tokens": self._lengths(self.output_tokens),
        }

    def limits(self, setup: EngineSetup) -> Mapping[str, Any]:
        """What of `serving` depends on the load.

        A static batch is processed whole, the HTTP server left out; the others have the engine's scheduler, room for
        all users, and where prompts are not cut, for the longest of them.
        """
        longest = {"max_model_len": self.input_tokens + self.output_tokens + 8}
        if self.kind == "static_batch":
            batch = int(self.value)
            tokens = max(batch, min(batch * self.input_tokens, LARGEST_PASS))
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
        """Tokens of a step; None as the engine sets them."""
        whole = 0 if setup.cuts_prompts else self.input_tokens + self.output_tokens
        tokens = max(setup.least_step_tokens, users, whole)
        return None if tokens == setup.least_step_tokens and setup.step_tokens is None else tokens

    def _arrivals(self, replicas: int) -> dict[str, Any]:
        if self.kind == "static_batch":
            return {"arrivals": {"kind": "all_at_once"}, "num_requests": int(self.value)}
        if self.kind == "concurrency":
            users = int(self.value)
            requests = max(REQUESTS_PER_USER * users, FEWEST_REQUESTS)
            return {"arrivals": {"kind": "closed_loop", "concurrency": users}, "num_requests": requests}
        if self.kind == "request_rate":
            return {"arrivals": {"kind": "poisson", "rate": f"{self.value} req/s"}, "num_requests": RATE_REQUESTS}
        return {"arrivals": {"kind": "all_at_once"}, "num_requests": OFFLINE_REQUESTS * replicas}

    def _lengths(self, tokens: int) -> int | dict[str, Any]:
        low = max(1, round(self.shortest * tokens))
        return tokens if low == tokens else {"kind": "uniform", "low": low, "high": tokens}

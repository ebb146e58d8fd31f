"""The `aiperf profile` line that sends the traffic of a scenario to a server."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from simsys.config.experiment import SimulationConfig
from simsys.deployments.correspondence import Correspondence, Options, Settings
from simsys.deployments.deployment import Deployment
from simsys.deployments.serving_parts import Checkpoint
from simsys.deployments.traffic_parts import (
    Lengths,
    Requests,
    load_generator,
    per_second,
    refused_arrivals,
)

COMMAND = ["aiperf", "profile"]
UNMODELLED = {"url": "http://localhost:8000", "endpoint-type": "completions", "streaming": True}
UNMODELLED["extra-inputs"] = "ignore_eos:true"
"""Options that every run needs: the server, and outputs of the wanted length."""
RATE, PATTERN, SMOOTHNESS, CONCURRENCY = "request-rate", "arrival-pattern", "arrival-smoothness", "concurrency"


@dataclass(frozen=True)
class Arrivals(Correspondence):
    """Times at which requests are sent."""

    paths: ClassVar[tuple[str, ...]] = ("workload.arrivals",)
    options: ClassVar[tuple[str, ...]] = (RATE, PATTERN, SMOOTHNESS, CONCURRENCY)

    def write(self, settings: Settings, deployment: Deployment) -> Options:
        """A rate with its pattern, or a number of requests in flight."""
        given = settings[self.paths[0]]
        if given["kind"] == "closed_loop":
            return {CONCURRENCY: given["concurrency"]}
        if given["kind"] not in ("poisson", "constant", "gamma"):
            raise refused_arrivals(given["kind"], "poisson, constant, gamma, closed_loop")
        pattern = {RATE: given["rate"], PATTERN: given["kind"]}
        return {**pattern, SMOOTHNESS: given["burstiness"]} if given["kind"] == "gamma" else pattern

    def read(self, options: Mapping[str, Any], like: SimulationConfig) -> dict[str, Any]:
        """The arrival process."""
        if CONCURRENCY in options:
            return {self.paths[0]: {"kind": "closed_loop", "concurrency": options[CONCURRENCY]}}
        found = {"kind": options[PATTERN], "rate": per_second(options[RATE])}
        smoothness = {"burstiness": float(options[SMOOTHNESS])} if SMOOTHNESS in options else {}
        return {self.paths[0]: {**found, **smoothness}}


TABLE: tuple[Correspondence, ...] = (
    Checkpoint("model"),
    Lengths("workload.prompt_tokens", "synthetic-input-tokens-mean", "synthetic-input-tokens-stddev"),
    Lengths("workload.output_tokens", "output-tokens-mean", "output-tokens-stddev"),
    Requests("request-count"),
    Arrivals(),
)


TARGET = load_generator(
    name="aiperf",
    tool="AIPerf",
    releases=("0.13", "0.12", "0.11"),
    sources=(
        "https://docs.nvidia.com/aiperf/v0.13.0/benchmark-modes/load-generator-options-reference",
        "https://docs.nvidia.com/aiperf/tutorials/load-patterns-scheduling/arrival-patterns-simulating-realistic-traffic",
    ),
    table=TABLE,
    command=COMMAND,
    unmodelled=UNMODELLED,
)

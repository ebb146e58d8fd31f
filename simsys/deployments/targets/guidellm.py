"""The `guidellm benchmark` line that sends the traffic of a scenario to a server."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from simsys.config.experiment import SimulationConfig
from simsys.deployments.correspondence import Correspondence, Options, Settings
from simsys.deployments.deployment import Deployment
from simsys.deployments.serving_parts import Checkpoint
from simsys.deployments.shell import plain
from simsys.deployments.traffic_parts import (
    Lengths,
    Requests,
    load_generator,
    per_second,
    refused_arrivals,
)

COMMAND = ["guidellm", "benchmark"]
UNMODELLED = {"target": "http://localhost:8000"}
KIND, RATE, DATA = "rate-type", "rate", "data"
IN_DATA = tuple(f"{name}_tokens{end}" for name in ("prompt", "output") for end in ("", "_stdev", "_min", "_max"))
"""Options that are parts of ``--data``."""


@dataclass(frozen=True)
class Arrivals(Correspondence):
    """Times at which requests are sent."""

    paths: ClassVar[tuple[str, ...]] = ("workload.arrivals",)
    options: ClassVar[tuple[str, ...]] = (KIND, RATE)

    def write(self, settings: Settings, deployment: Deployment) -> Options:
        """A rate with its type, or a number of requests in flight."""
        given = settings[self.paths[0]]
        if given["kind"] == "closed_loop":
            return {KIND: "concurrent", RATE: given["concurrency"]}
        if given["kind"] == "all_at_once":
            return {KIND: "throughput"}
        if given["kind"] not in ("poisson", "constant"):
            raise refused_arrivals(given["kind"], "poisson, constant, all_at_once, closed_loop")
        return {KIND: given["kind"], RATE: given["rate"]}

    def read(self, options: Mapping[str, Any], like: SimulationConfig) -> dict[str, Any]:
        """The arrival process."""
        if options[KIND] == "concurrent":
            return {self.paths[0]: {"kind": "closed_loop", "concurrency": options[RATE]}}
        if options[KIND] == "throughput":
            return {self.paths[0]: {"kind": "all_at_once"}}
        return {self.paths[0]: {"kind": options[KIND], "rate": per_second(options[RATE])}}


TABLE: tuple[Correspondence, ...] = (
    Checkpoint("model"),
    Lengths("workload.prompt_tokens", *IN_DATA[:4]),
    Lengths("workload.output_tokens", *IN_DATA[4:]),
    Requests("max-requests"),
    Arrivals(),
)


def _pack(options: Options) -> Options:
    data = ",".join(f"{name}={options[name]}" for name in IN_DATA if name in options)
    return {**{name: value for name, value in options.items() if name not in IN_DATA}, DATA: data}


def _unpack(options: Options) -> Options:
    parts = dict(part.split("=") for part in options.pop(DATA).split(","))
    return {**options, **{name: plain(value) for name, value in parts.items()}}


TARGET = load_generator(
    name="guidellm",
    tool="GuideLLM",
    releases=("0.3",),
    sources=(
        "https://blog.vllm.ai/guidellm/main/getting-started/benchmark",
        "https://raw.githubusercontent.com/vllm-project/guidellm/HEAD/README.md",
    ),
    table=TABLE,
    command=COMMAND,
    unmodelled=UNMODELLED,
    pack=_pack,
    unpack=_unpack,
)

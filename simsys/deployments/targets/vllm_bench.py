"""The `vllm bench serve` line that sends the traffic of a scenario to a server."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from simsys.config.experiment import SimulationConfig
from simsys.deployments.correspondence import Correspondence, InexpressibleError, Options, Settings
from simsys.deployments.deployment import Deployment
from simsys.deployments.launch import Launch
from simsys.deployments.serving_parts import Checkpoint
from simsys.deployments.traffic_parts import (
    Lengths,
    Requests,
    load_generator,
    milliseconds,
    per_second,
    refused_arrivals,
)

COMMAND = ["vllm", "bench", "serve"]
UNMODELLED = {"backend": "vllm", "dataset-name": "random", "ignore-eos": True, "save-result": True}
"""Options that every run needs: random prompts, outputs of the wanted length, and a result to compare."""
RATE, BURSTINESS, CONCURRENCY = "request-rate", "burstiness", "max-concurrency"


@dataclass(frozen=True)
class Arrivals(Correspondence):
    """Times at which requests are sent."""

    paths: ClassVar[tuple[str, ...]] = ("workload.arrivals",)
    options: ClassVar[tuple[str, ...]] = (RATE, BURSTINESS, CONCURRENCY)

    def write(self, settings: Settings, deployment: Deployment) -> Options:
        """A rate with its burstiness, or as many requests at once as are allowed."""
        given = settings[self.paths[0]]
        if given["kind"] == "poisson":
            return {RATE: given["rate"]}
        if given["kind"] == "gamma":
            return {RATE: given["rate"], BURSTINESS: given["burstiness"]}
        if given["kind"] == "all_at_once":
            return {RATE: "inf"}
        if given["kind"] == "closed_loop":
            return {RATE: "inf", CONCURRENCY: given["concurrency"]}
        raise refused_arrivals(given["kind"], "poisson, gamma, all_at_once, closed_loop")

    def read(self, options: Mapping[str, Any], like: SimulationConfig) -> dict[str, Any]:
        """The arrival process."""
        if CONCURRENCY in options:
            return {self.paths[0]: {"kind": "closed_loop", "concurrency": options[CONCURRENCY]}}
        if options[RATE] == float("inf"):
            return {self.paths[0]: {"kind": "all_at_once"}}
        rate = {"rate": per_second(options[RATE])}
        if BURSTINESS in options:
            return {self.paths[0]: {"kind": "gamma", **rate, "burstiness": float(options[BURSTINESS])}}
        return {self.paths[0]: {"kind": "poisson", **rate}}


@dataclass(frozen=True)
class SharedPrefix(Correspondence):
    """One system prompt before every prompt."""

    paths: ClassVar[tuple[str, ...]] = ("workload.prefixes.tokens",)
    options: ClassVar[tuple[str, ...]] = ("random-prefix-len",)

    def write(self, settings: Settings, deployment: Deployment) -> Options:
        """Its tokens."""
        given = settings.get(self.paths[0])
        if given is None:
            return {}
        if given["kind"] != "fixed":
            raise InexpressibleError(
                self.paths[0], f"lengths of kind {given['kind']} cannot be expressed; write a number"
            )
        return {self.options[0]: given["tokens"]}

    def read(self, options: Mapping[str, Any], like: SimulationConfig) -> dict[str, Any]:
        """Its tokens."""
        tokens = options.get(self.options[0])
        return {} if tokens is None else {self.paths[0]: {"kind": "fixed", "tokens": tokens}}


@dataclass(frozen=True)
class Goodput(Correspondence):
    """Latency targets, in milliseconds."""

    paths: ClassVar[tuple[str, ...]] = ("slo.ttft", "slo.tpot", "slo.e2el")
    options: ClassVar[tuple[str, ...]] = ("goodput",)

    def write(self, settings: Settings, deployment: Deployment) -> Options:
        """A word for each target."""
        given = {path.removeprefix("slo."): settings[path] for path in self.paths if path in settings}
        words = [f"{name}:{milliseconds(seconds)}" for name, seconds in given.items()]
        return {self.options[0]: words} if words else {}

    def read(self, options: Mapping[str, Any], like: SimulationConfig) -> dict[str, Any]:
        """The targets."""
        words = options.get(self.options[0], [])
        found = (word.split(":") for word in ([words] if isinstance(words, str) else words))
        return {f"slo.{name}": f"{value} ms" for name, value in found}


TABLE: tuple[Correspondence, ...] = (
    Checkpoint("model"),
    Lengths("workload.prompt_tokens", "random-input-len"),
    Lengths("workload.output_tokens", "random-output-len"),
    SharedPrefix(),
    Requests("num-prompts"),
    Arrivals(),
    Goodput(),
)


LAUNCH = Launch(
    starts=(("vllm", "bench", "serve"), ("*benchmark_serving.py",)),
    other_names={"input-len": "random-input-len", "output-len": "random-output-len"},
    without_effect=frozenset(
        {
            *("base-url", "host", "port", "endpoint", "endpoint-type", "backend", "*header*", "dataset-name"),
            *("save-*", "append-result", "result-*", "metadata", "*seed", "tokenizer*", "trust-remote-code", "label"),
            *("percentile-metrics", "metric-percentiles", "disable-tqdm", "ignore-eos", "*request-id*", "num-warmups"),
            "insecure",
            *("served-model-name", "ready-check-timeout-sec", "profile", "temperature", "top-p", "top-k"),
        }
    ),
    defaults={"random-input-len": 1024, "random-output-len": 128, "num-prompts": 1000, RATE: float("inf")},
    only={"dataset-name": ("random",)},
)


TARGET = replace(
    load_generator(
        name="vllm-bench",
        tool="vLLM",
        releases=("0.22",),
        sources=(
            "https://docs.vllm.ai/en/v0.11.2/cli/bench/serve/",
            "https://docs.vllm.ai/en/latest/cli/bench/serve/",
        ),
        table=TABLE,
        command=COMMAND,
        unmodelled=UNMODELLED,
        more_sections=("slo",),
    ),
    launch=LAUNCH,
)

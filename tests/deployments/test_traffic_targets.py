"""Load generators: the traffic of a scenario is read back, or refused by name."""

from __future__ import annotations

import random
from typing import Any

import pytest

from simsys import SimulationConfig
from simsys.deployments import emit, read_back, target_of
from simsys.deployments.deployment import deployment_of
from simsys.deployments.emission import canonical_settings
from simsys.errors import ConfigError

TARGETS = ("vllm-bench", "aiperf", "guidellm")
ARRIVALS: tuple[dict[str, Any], ...] = (
    {"kind": "poisson", "rate": "6.7 req/s"},
    {"kind": "gamma", "rate": "110 req/s", "burstiness": 0.3},
    {"kind": "constant", "rate": "0.1 req/s"},
    {"kind": "all_at_once"},
    {"kind": "closed_loop", "concurrency": 64},
    {"kind": "time_varying", "rates": [{"duration": "1 s", "rate": "2 req/s"}]},
)
LENGTHS: tuple[Any, ...] = (
    *(128, 1000),
    {"kind": "normal", "mean": 512.0, "std": 64.0},
    {"kind": "normal", "mean": 512.5, "std": 64.25},
    {"kind": "normal", "mean": 512.0, "std": 64.0, "min": 16, "max": 4096},
    {"kind": "lognormal", "mean": 512.0},
    {"kind": "uniform", "low": 10, "high": 20},
)
SLO: tuple[dict[str, Any], ...] = ({}, {"ttft": "500 ms"}, {"ttft": "35.7 ms", "tpot": "30.1 ms", "e2el": "2 s"})


def scenario(**workload: Any) -> SimulationConfig:
    slo = workload.pop("slo", {})
    usual = {"arrivals": ARRIVALS[0], "prompt_tokens": 128, "output_tokens": 32, "num_requests": 500}
    return SimulationConfig.model_validate(
        {
            "name": "x",
            "hardware": {"gpu": "H100-SXM"},
            "model": {"name": "Llama3-8B"},
            "serving": {},
            "workload": {**usual, **workload},
            "slo": slo,
        }
    )


def canonical(config: SimulationConfig, target: str) -> dict[str, Any]:
    tool = target_of(target)
    return canonical_settings(tool, deployment_of(config, tool.releases[0], None))


@pytest.mark.parametrize("target", TARGETS)
def test_random_traffic_is_read_back_or_each_setting_without_an_option_is_named(target: str) -> None:
    equal, named = 0, set[str]()
    for seed in range(150):
        r = random.Random(seed)
        traffic = {
            "arrivals": r.choice(ARRIVALS),
            "prompt_tokens": r.choice(LENGTHS),
            "output_tokens": r.choice(LENGTHS),
        }
        if r.random() < 0.2:
            traffic["prefixes"] = {"groups": r.choice([1, 4]), "tokens": r.choice(LENGTHS[:3])}
        if r.random() < 0.1:
            traffic["priorities"] = {0: 1.0, 1: 2.0}
        config = scenario(**traffic, slo=r.choice(SLO))
        try:
            files = emit(config, target)
        except ConfigError as error:
            paths = {problem.path for problem in error.problems}
            assert all(path.startswith("workload.") for path in paths)
            named |= paths
            continue
        again = read_back(target, files, config)
        assert canonical(again, target) == canonical(config, target)
        assert again.workload == config.workload
        equal += 1
    assert {"workload.arrivals", "workload.prompt_tokens", "workload.output_tokens"} <= named
    assert equal > 4


def test_the_line_of_vllm() -> None:
    config = scenario(arrivals=ARRIVALS[1], prefixes={"tokens": 200}, slo=SLO[2])
    (file,) = emit(config, "vllm-bench")
    for words in (
        "exec vllm bench serve \\\n  --model meta-llama/Meta-Llama-3-8B",
        "--random-input-len 128",
        "--random-prefix-len 200",
        "--request-rate 110.0 \\\n  --burstiness 0.3",
        "--goodput ttft:35.7 tpot:30.1 e2el:2000",
    ):
        assert words in file.text


def test_traffic_without_a_number_of_requests_is_refused() -> None:
    for target in TARGETS:
        with pytest.raises(ConfigError) as caught:
            emit(scenario(num_requests=None, duration="10 s"), target)
        assert {problem.path for problem in caught.value.problems} == {"workload.num_requests", "workload.duration"}


def test_conversations_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"workload\.sessions: .* independent of each other"):
        emit(scenario(sessions={"turns": 3}), "guidellm")

"""Pipelines of servers whose layers do not divide evenly: each engine has its way."""

from __future__ import annotations

from typing import Any

import pytest

from simsys.build.job import build_job
from simsys.build.stage_layers import serving_stage_layers
from simsys.check import check_config
from simsys.config.experiment import SimulationConfig
from simsys.simulation import simulate


def served(engine: str, lod: str = "medium", num_layers: int = 31, **parallelism: Any) -> SimulationConfig:
    return SimulationConfig(
        hardware={"profile": "dgx-h100"},
        model={"name": "Llama3-8B", "num_layers": num_layers},
        parallelism={"tp_degree": 2, "pp_stages": 4, **parallelism},
        serving={"engine": engine},
        workload={
            "arrivals": {"kind": "poisson", "rate": "20 req/s"},
            "prompt_tokens": 300,
            "output_tokens": 20,
            "num_requests": 12,
        },
        simulation={"lod": lod},
    )


def layers(config: SimulationConfig) -> list[int]:
    job = build_job(config)
    assert len(job.stages) == 4
    return list(serving_stage_layers(config.parallelism, job.engine, job.model.num_layers))


@pytest.mark.parametrize(
    ("engine", "sizes"),
    [("vllm", [8, 8, 8, 7]), ("vllm-v0", [8, 8, 8, 7]), ("sglang", [7, 8, 8, 8]), ("tensorrt-llm", [8, 8, 8, 7])],
)
def test_each_engine_divides_layers_in_its_way(engine: str, sizes: list[int]) -> None:
    assert layers(served(engine)) == sizes


def test_the_first_and_the_last_stage_of_vllm_are_shorter() -> None:
    assert layers(served("vllm", num_layers=30)) == [7, 8, 8, 7]


def test_written_layers_are_kept() -> None:
    assert layers(served("vllm", stage_layers=[7, 8, 8, 8])) == [7, 8, 8, 8]


def test_other_engines_refuse_them() -> None:
    (problem,) = check_config(served("lmdeploy"))
    assert "31 layers cannot be divided among 4 stages" in problem.message


def test_more_stages_than_layers_are_refused() -> None:
    assert "3 layers cannot be divided among 4 stages" in check_config(served("vllm", num_layers=3))[0].message


def test_both_levels_of_detail_agree() -> None:
    high, medium = (simulate(served("vllm", lod)).metrics for lod in ("high", "medium"))
    for name in ("mean_ttft_ms", "mean_tpot_ms", "output_throughput"):
        assert medium[name] == pytest.approx(high[name], rel=1e-5)


def test_the_longest_stage_holds_the_most_weights() -> None:
    even, uneven = (build_job(served("vllm", num_layers=count)) for count in (28, 31))
    grown = [after.parameters - before.parameters for before, after in zip(even.stages, uneven.stages, strict=True)]
    assert grown[0] == grown[1] == grown[2] > grown[3] == 0

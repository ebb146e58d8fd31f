"""DDP or FSDP: the figures are those of runs, and the advice follows from them."""

from __future__ import annotations

from typing import Any

import pytest

from simsys.build.job import build_job
from simsys.check.effects import Stopwatch
from simsys.check.remedies import changed
from simsys.check.strategies import StrategyFigures, compare_strategies, strategy_advice
from simsys.config.experiment import SimulationConfig
from simsys.simulation import simulate


def config_of(model: str = "GPT2-XL", *, nodes: int = 1, gpus: int = 8, **rest: Any) -> SimulationConfig:
    training = {"batch_size_per_gpu": 1, "num_iterations": 4, **rest.pop("training", {})}
    hardware = {"profile": "dgx-h100", "num_nodes": nodes, "gpus_per_node": gpus}
    return SimulationConfig(hardware=hardware, model={"name": model}, training=training, **rest)


def compared(config: SimulationConfig, *, every: bool = False) -> list[StrategyFigures]:
    job = build_job(config)
    return compare_strategies(job, Stopwatch(job), every=every)


@pytest.mark.parametrize(
    ("config", "prefix"),
    [
        (config_of(parallelism={"strategy": "DDP"}), ""),
        (config_of("GPT2-Large", parallelism={"strategy": "TP_FSDP", "tp_degree": 2}), "TP_"),
        (config_of(), ""),
    ],
    ids=["DDP", "beside TP", "none named"],
)
def test_the_figures_are_those_of_runs(config: SimulationConfig, prefix: str) -> None:
    found = compared(config)
    assert [figures.strategy for figures in found] == ["DDP", "ZERO1", "ZERO2", "FSDP"]
    for figures in found:
        run = simulate(changed(config, {"parallelism.strategy": f"{prefix}{figures.strategy}"}))
        assert figures.fits
        assert figures.iteration_s == pytest.approx(run.metrics["mean_iteration_s"])
        assert figures.memory_bytes == pytest.approx(run.metrics["peak_memory_bytes"])


def test_each_stage_of_sharding_holds_less() -> None:
    memory = [figures.memory_bytes for figures in compared(config_of())]
    assert memory == sorted(memory, reverse=True)


def test_hybrid_shards_are_compared_where_there_are_several_nodes() -> None:
    assert [figures.strategy for figures in compared(config_of(nodes=2))][-1] == "HSDP"


def test_what_does_not_fit_is_timed_if_asked_only() -> None:
    config = config_of("Llama-2-7B", parallelism={"strategy": "FSDP"})
    assert [figures.iteration_s is None for figures in compared(config)] == [True, False, False, False]
    assert all(figures.iteration_s for figures in compared(config, every=True))


@pytest.mark.parametrize(
    "config",
    [
        config_of(gpus=1),
        config_of(gpus=5, parallelism={"strategy": "TP", "tp_degree": 5}),
        config_of(training={"data_parallel": "ddp"}),
    ],
    ids=["one GPU", "no replicas", "a module of one's own"],
)
def test_without_a_choice_there_is_none(config: SimulationConfig) -> None:
    assert compared(config) == []


DDP, DDP_TOO_LARGE = StrategyFigures("DDP", 61e9, True, 1.0), StrategyFigures("DDP", 142e9, False, None)
FSDP, FSDP_SLOWER = StrategyFigures("FSDP", 20e9, True, 0.9), StrategyFigures("FSDP", 20e9, True, 1.031)


@pytest.mark.parametrize(
    ("found", "text"),
    [
        ([DDP, FSDP_SLOWER], "DDP fits (56.8 GiB of 74.5 GiB) and is 3.1 % faster than FSDP (measured by simulation)"),
        ([DDP, FSDP], "FSDP fits (18.6 GiB of 74.5 GiB) and is 11.1 % faster than DDP (measured by simulation)"),
        (
            [DDP, StrategyFigures("FSDP", 20e9, True, 1.0001)],
            "DDP fits (56.8 GiB of 74.5 GiB) and is as fast as FSDP (measured by simulation)",
        ),
        (
            [DDP, StrategyFigures("FSDP", 20e9, True, 4.2)],
            "DDP fits (56.8 GiB of 74.5 GiB) and is 4.2 times as fast as FSDP (measured by simulation)",
        ),
        ([DDP_TOO_LARGE, FSDP], "FSDP fits (18.6 GiB of 74.5 GiB); DDP would need 132 GiB per GPU"),
        (
            [DDP_TOO_LARGE, StrategyFigures("ZERO1", 70e9, True, 0.99), FSDP_SLOWER],
            "ZERO1 fits (65.2 GiB of 74.5 GiB) and is 4.1 % faster than FSDP (measured by simulation); DDP would "
            "need 132 GiB per GPU",
        ),
        (
            [DDP_TOO_LARGE, StrategyFigures("ZERO1", 70e9, True, 0.99), FSDP],
            "FSDP fits (18.6 GiB of 74.5 GiB) and is 10.0 % faster than ZERO1 (measured by simulation); DDP would "
            "need 132 GiB per GPU",
        ),
        (
            [DDP_TOO_LARGE, StrategyFigures("FSDP", 90e9, False, 2.0)],
            "FSDP needs least, 83.8 GiB per GPU; no strategy fits",
        ),
    ],
)
def test_the_advice_is_the_fastest_that_fits(found: list[StrategyFigures], text: str) -> None:
    assert strategy_advice(found, 80e9) == f"advice: {text}"


def test_the_figures_as_data() -> None:
    assert DDP.as_dict() == {"strategy": "DDP", "memory_bytes": 61e9, "fits": True, "iteration_s": 1.0}

"""The lever that a message names, and what it says of it."""

from __future__ import annotations

from typing import Any

import pytest

from simsys.build.job import build_job
from simsys.build.training import TrainingJob
from simsys.check import check_config, effects
from simsys.check.advice import advice, cheapest_lever, effect_advice
from simsys.check.effects import LeverEffect, Stopwatch, iteration_seconds, lever_effect
from simsys.check.levers import changed, lever_text
from simsys.config.experiment import SimulationConfig


def training(gpu: Any, model: str, batch: int, **settings: Any) -> SimulationConfig:
    return SimulationConfig(
        hardware={"gpu": gpu}, model={"name": model}, training={"batch_size_per_gpu": batch, **settings}
    )


def replicated(model: str, batch: int, *, num_nodes: int = 1, **parallelism: Any) -> SimulationConfig:
    return SimulationConfig(
        hardware={"profile": "dgx-h100", "num_nodes": num_nodes},
        model={"name": model},
        parallelism=parallelism,
        training={"batch_size_per_gpu": batch},
    )


SMALL: dict[str, Any] = {"extends": "H100", "memory": "22 GB"}
CASES: dict[str, tuple[SimulationConfig, dict[str, Any]]] = {
    "a smaller batch": (
        training("H100", "GPT2-Medium", 4096),
        {"training.batch_size_per_gpu": 32, "training.gradient_accumulation_steps": 128},
    ),
    "recomputation, if even one sample is too much": (
        training({"extends": "H100", "memory": "28 GB"}, "GPT2-XL", 1),
        {"training.activation_recompute": "full"},
    ),
    "fused attention before anything else": (
        training("H100", "GPT2-XL", 8, attention="unfused"),
        {"training.attention": "fused"},
    ),
    "sgd, if states alone are too much": (
        training(SMALL, "GPT2-XL", 1, activation_recompute="full"),
        {"training.optimizer": "sgd"},
    ),
    "both sgd and a smaller batch": (
        training(SMALL, "GPT2-XL", 64, activation_recompute="full"),
        {
            "training.optimizer": "sgd",
            "training.batch_size_per_gpu": 1,
            "training.gradient_accumulation_steps": 64,
        },
    ),
    "shards in place of replicas, no more of them than needed": (
        replicated("Llama-2-7B", 1, strategy="DDP"),
        {"parallelism.strategy": "ZERO1"},
    ),
    "also where no strategy is given, with a smaller batch": (
        replicated("Llama3-8B", 8),
        {
            "parallelism.strategy": "FSDP",
            "training.batch_size_per_gpu": 1,
            "training.gradient_accumulation_steps": 8,
        },
    ),
    "shards beside the parallelism there is": (
        replicated("Llama3-70B", 1, num_nodes=16, strategy="TP_ZERO1", tp_degree=8),
        {"parallelism.strategy": "TP_FSDP"},
    ),
    "no further sharding of what is sharded": (
        replicated("Llama3-70B", 1, num_nodes=8, strategy="FSDP"),
        {"training.activation_recompute": "full"},
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_the_lever_is_the_cheapest_and_makes_the_check_pass(case: str) -> None:
    config, expected = CASES[case]
    job = build_job(config)
    (problem,) = check_config(config)
    assert cheapest_lever(job) == expected
    figures = lever_effect(job, expected, Stopwatch(job)).figures()
    assert problem.message.endswith(f"; {lever_text(expected)} would fit ({figures})")
    assert check_config(changed(config, expected)) == []


def test_the_message_says_what_the_lever_saves_and_costs() -> None:
    (problem,) = check_config(CASES["recomputation, if even one sample is too much"][0])
    saved, _, cost = problem.message.partition("would fit (saves ")[2].rstrip(")").partition(", costs ")
    assert saved.endswith(" GB")
    assert 20 < float(cost.removesuffix(" % time")) < 40  # one more forward pass: about a third


@pytest.mark.parametrize("model", ["GPT-3-175B", "Megatron-530B"])
def test_without_a_lever_the_advice_says_what_it_would_take(model: str) -> None:
    config = training("H100", model, 1)
    (problem,) = check_config(config)
    assert cheapest_lever(build_job(config)) is None
    assert problem.message.endswith(
        "no single setting makes it fit, nor do two; a smaller model or a GPU with more memory is needed"
    )


def test_a_known_effect_is_not_simulated_again() -> None:
    job = build_job(CASES["a smaller batch"][0])
    lever = {"training.activation_recompute": "full"}
    known = LeverEffect(lever, 18.2e9, True, 0.041)
    assert effect_advice(known) == "training.activation_recompute: full would fit (saves 18.2 GB, costs 4.1 % time)"
    assert advice(job, None) == effect_advice(None)


@pytest.mark.parametrize(("batch", "simulations"), [(4096, 2), (8, 0)], ids=["does not fit", "fits"])
def test_a_check_simulates_the_lever_it_names_and_no_other(
    batch: int, simulations: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    measured: list[TrainingJob] = []

    def count(job: TrainingJob) -> float:
        measured.append(job)
        return iteration_seconds(job)

    monkeypatch.setattr(effects, "iteration_seconds", count)
    check_config(training("H100", "GPT2-Medium", batch))
    assert len(measured) == simulations

"""Computation that varies at random: its distribution, stragglers, and that levels of detail see the same factors."""

from __future__ import annotations

from itertools import islice
from math import erf, log, log1p, sqrt
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simsys.check import check_config
from simsys.config.experiment import SimulationConfig
from simsys.costs.jitter import Jitter
from simsys.metrics.result import RunResult
from simsys.simulation import simulate
from tests.agreement.test_training_mixes import config_of
from tests.helpers.thorough import cases

GPT2 = {"name": "GPT2-Small"}
SHALLOW = {
    "model_type": "transformer",
    "num_layers": 1,
    "hidden_size": 768,
    "num_attention_heads": 12,
    "vocab_size": 50257,
    "sequence_length": 1024,
}
"""Where only the factors count: they are those of a deep model."""


@pytest.mark.parametrize("distribution", ["lognormal", "gamma"])
@pytest.mark.parametrize("variation", [0.02, 0.3, 1.0])
def test_factors_have_mean_one_and_the_variation_asked_for(distribution: str, variation: float) -> None:
    factors = list(islice(Jitter(variation, 1, distribution).factors([0]), 200_000))
    assert min(factors) > 0.0
    assert np.mean(factors) == pytest.approx(1.0, abs=5 * variation / sqrt(len(factors)))
    assert np.std(factors) == pytest.approx(variation, rel=0.05)


def test_a_rank_has_the_same_factors_whoever_computes_beside_it() -> None:
    jitter = Jitter(0.1, 7)
    alone = [list(islice(jitter.factors([rank]), 300)) for rank in range(5)]
    together = list(islice(jitter.factors([3, 1, 4, 0, 2]), 300))
    assert together == [max(factors) for factors in zip(*alone, strict=True)]
    assert alone[0] != alone[1]
    means = [mean for _, mean in islice(jitter.largest_and_mean([3, 1, 4, 0, 2]), 300)]
    assert means == pytest.approx(np.mean(alone, axis=0))
    assert list(islice(Jitter(0.1, 8).factors([0]), 300)) != alone[0]


NODES, SINGLE = {"profile": "dgx-h100"}, {"gpu": "H100-SXM"}


def train(
    lod: str, gpus: int, iterations: int = 5, jitter: float = 0.1, model: dict[str, Any] = GPT2, **more: Any
) -> RunResult:
    config = SimulationConfig(
        hardware={
            **(
                {"profile": "dgx-h100", "num_nodes": gpus // 8}
                if gpus >= 8
                else {"gpu": "H100-SXM", "num_nodes": gpus}
            ),
            **({"jitter": {"compute": jitter}} if jitter else {}),
        },
        network={"link_bandwidth": "1000000 GB/s", "base_latency": "0 s", "tuning": "none"} if gpus < 8 else {},
        model=model,
        parallelism={"strategy": "DDP", **more},
        training={"batch_size_per_gpu": 8, "num_iterations": iterations, "communication_pattern": "ring"},
        simulation={"lod": lod},
    )
    assert check_config(config) == []
    return simulate(config)


def expected_maximum(count: int, variation: float) -> float:
    """Of so many lognormal numbers with mean 1: the integral of 1 - F(x)^n."""
    sigma = sqrt(log1p(variation**2))
    x = np.linspace(1e-3, 6.0, 60_000)
    below = np.array([0.5 * (1.0 + erf((log(each) + sigma**2 / 2) / (sigma * sqrt(2)))) for each in x])
    return float(np.trapezoid(1.0 - below**count, x) + x[0])


@pytest.mark.parametrize(("variation", "gpus"), [(0.05, 4), (0.3, 2)])
def test_an_iteration_takes_as_long_as_the_slowest_of_all_ranks(variation: float, gpus: int) -> None:
    """Data parallelism waits for the last: the mean is that of the maximum, within 1 % over 2,000 iterations."""
    plain = train("medium", gpus, jitter=0.0, model=SHALLOW).metrics["mean_iteration_s"]
    varied = train("medium", gpus, iterations=2000, jitter=variation, model=SHALLOW).metrics["mean_iteration_s"]
    assert varied / plain == pytest.approx(expected_maximum(gpus, variation), rel=0.01)


COLUMNS = ("iteration_s", "compute_s", "exposed_communication_s", "idle_s")


def assert_equal_rows(high: RunResult, medium: RunResult) -> None:
    whole = max(high.rows["iteration_s"])
    for column in COLUMNS:
        assert list(medium.rows[column]) == pytest.approx(list(high.rows[column]), rel=1e-9, abs=1e-9 * whole), column


@pytest.mark.parametrize("strategy", ["DDP", "ZERO1", "FSDP", "HSDP"])
def test_levels_see_the_same_factors_whichever_ranks_they_simulate(strategy: str) -> None:
    high, medium = (train(lod, 16, strategy=strategy) for lod in ("high", "medium"))
    assert_equal_rows(high, medium)
    assert len(set(high.rows["iteration_s"])) == len(high.rows["iteration_s"])


@pytest.mark.parametrize("strategy", ["DDP", "ZERO1"])
def test_represented_gpus_are_busy_as_long_as_they_compute(strategy: str) -> None:
    """Their representative is the slowest of them, and busy for longer."""
    config = SimulationConfig(
        hardware={"profile": "dgx-a100", "num_nodes": 2, "jitter": {"compute": 0.3}},
        model={"name": "GPT2-Medium"},
        parallelism={"strategy": strategy},
        training={"batch_size_per_gpu": 16, "num_iterations": 5},  # enough for the kernels to limit the speed
    )
    high, medium = (simulate(config.with_(simulation={"lod": lod})) for lod in ("high", "medium"))
    assert medium.simulated_ranks < high.simulated_ranks
    for name in ("gpu_utilization", "energy_per_iteration_j"):
        assert medium.metrics[name] == pytest.approx(high.metrics[name], rel=3e-3), name


@st.composite
def mixes(draw: st.DrawFn) -> dict[str, Any]:
    tensor, stages, data = (draw(st.sampled_from(degrees)) for degrees in ((1, 2), (1, 2, 4), (1, 2, 4)))
    return {
        "tensor": tensor,
        "stages": stages,
        "data": data,
        "schedule": draw(st.sampled_from(["1f1b", "gpipe", "zero_bubble"])),
        "micro_batches": draw(st.integers(1, 4)),
        "hardware": {
            "gpu": "H100-SXM",
            "num_nodes": tensor * stages * data,
            "gpus_per_node": 1,
            "jitter": {"compute": 0.1, "distribution": draw(st.sampled_from(["lognormal", "gamma"]))},
        },
    }


@settings(max_examples=cases(30))
@given(mixes())
def test_levels_agree_in_mixes_of_parallelism(mix: dict[str, Any]) -> None:
    configs = [config_of(lod=lod, **mix) for lod in ("high", "medium")]
    assert check_config(configs[0]) == []
    assert_equal_rows(*map(simulate, configs))


def test_medium_takes_as_few_events_for_many_replicas_as_for_few() -> None:
    assert train("medium", 512).events == train("medium", 16).events
    assert train("medium", 64).events < train("high", 64).events / 20


def serve(lod: str, jitter: float) -> RunResult:
    return simulate(
        SimulationConfig(
            hardware={
                "profile": "dgx-h100",
                "gpus_per_node": 4,
                **({"jitter": {"compute": jitter}} if jitter else {}),
            },
            model={"name": "Llama3-8B"},
            parallelism={"strategy": "TP", "tp_degree": 2},
            serving={},
            workload={
                "arrivals": {"kind": "poisson", "rate": "20 req/s"},
                "prompt_tokens": 128,
                "output_tokens": 32,
                "num_requests": 20,
            },
            simulation={"lod": lod},
        )
    )


def test_a_serving_step_takes_as_long_as_the_slowest_of_its_ranks_at_both_levels() -> None:
    high, medium, plain = serve("high", 0.3), serve("medium", 0.3), serve("medium", 0.0)
    for metric in ("mean_ttft_ms", "mean_tpot_ms", "p99_tpot_ms"):
        assert medium.metrics[metric] == pytest.approx(high.metrics[metric], rel=1e-9)
    # Two ranks with 30 %: the larger factor is 1.16 in the mean; communication and the host do not vary.
    assert 1.05 < medium.metrics["mean_tpot_ms"] / plain.metrics["mean_tpot_ms"] < expected_maximum(2, 0.3) + 0.03


def test_jitter_is_named_among_the_assumptions() -> None:
    assert any("computations vary by 0.1 of their mean" in line for line in train("medium", 2).assumptions)


@pytest.mark.parametrize(("given", "message"), [({"compute": 0}, "greater than 0"), ({"compute": 3}, "less than")])
def test_a_variation_that_cannot_be_is_refused(given: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        SimulationConfig(hardware={"gpu": "H100-SXM", "jitter": given}, model=GPT2, training={"batch_size_per_gpu": 1})

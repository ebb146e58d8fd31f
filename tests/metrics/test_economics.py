"""Money and energy per token, by hand."""

from __future__ import annotations

import pytest

from simsys import DistributedAISimulator, SimulationConfig
from simsys.metrics.economics import IDLE_SHARE, cost, energy

METRICS = {"total_token_throughput": 5000.0, "output_throughput": 1000.0}
NOTHING = {"total_token_throughput": 0.0, "output_throughput": 0.0}


def test_rent_is_paid_for_all_tokens_of_an_hour() -> None:
    """36 $/h are 1 cent a second, for 5,000 tokens: 2 $ per million."""
    found = cost(METRICS, 36.0)
    assert found == {
        "usd_per_hour": 36.0,
        "usd_per_million_tokens": pytest.approx(2.0),
        "usd_per_million_output_tokens": pytest.approx(10.0),
    }


def test_without_a_price_there_are_no_figures_and_without_tokens_none() -> None:
    assert cost(METRICS, 0.0) == {}
    assert cost(NOTHING, 1.0)["usd_per_million_tokens"] is None
    assert energy(NOTHING, 400.0, 0.0)["energy_per_output_token_j"] is None


@pytest.mark.parametrize(("busy", "watt"), [(0.0, IDLE_SHARE * 400.0), (1.0, 400.0), (0.5, (1 + IDLE_SHARE) * 200.0)])
def test_power_is_linear_in_the_busy_share(busy: float, watt: float) -> None:
    found = energy(METRICS, 400.0, busy)
    assert found["gpu_power_watt"] == pytest.approx(watt)
    assert found["energy_per_token_j"] == pytest.approx(watt / 5000.0)
    assert found["energy_per_output_token_j"] == pytest.approx(watt / 1000.0)


def test_gpus_that_are_off_draw_nothing() -> None:
    assert energy(METRICS, 400.0, 0.1, on=0.25)["gpu_power_watt"] == pytest.approx(
        IDLE_SHARE * 100.0 + (1 - IDLE_SHARE) * 40.0
    )


def test_replicas_that_come_and_go_are_paid_for_while_they_are_on() -> None:
    config = SimulationConfig(
        hardware={"gpu": "H100-SXM", "gpus_per_node": 8},
        model={"name": "GPT2-Small"},
        serving={"autoscaling": {"min_replicas": 2}},
        workload={"arrivals": {"kind": "all_at_once"}, "prompt_tokens": 64, "output_tokens": 8, "num_requests": 8},
    )
    metrics = DistributedAISimulator(config).run().metrics
    assert metrics["usd_per_hour"] == pytest.approx(2 * 6.88)
    assert metrics["gpu_power_watt"] < 2 * 700


@pytest.mark.parametrize(("tensor", "data"), [(1, 1), (2, 1), (2, 2)])
def test_a_run_pays_for_the_gpus_that_it_uses(tensor: int, data: int) -> None:
    config = SimulationConfig(
        hardware={"gpu": "H100-SXM", "gpus_per_node": tensor * data},
        model={"name": "Llama3-8B"},
        parallelism={"tp_degree": tensor, "dp_degree": data},
        serving={},
        workload={"arrivals": {"kind": "all_at_once"}, "prompt_tokens": 64, "output_tokens": 8, "num_requests": 8},
    )
    result = DistributedAISimulator(config).run()
    metrics, gpus = result.metrics, tensor * data
    assert metrics["usd_per_hour"] == pytest.approx(gpus * 6.88)
    assert IDLE_SHARE * 700 * gpus < metrics["gpu_power_watt"] <= 700 * gpus
    per_token = metrics["usd_per_hour"] / 3600 * metrics["duration"] / (8 * 72)
    assert metrics["usd_per_million_tokens"] == pytest.approx(1e6 * per_token)
    assert any(text.startswith("price: 6.88 $/h per GPU, AWS") for text in result.assumptions)
    assert any(text.startswith("energy: GPUs only, 15% of 700 W when idle") for text in result.assumptions)

"""Money and energy per token, by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest

from simsys import DistributedAISimulator, SimulationConfig
from simsys.config.economics import IDLE_SHARE
from simsys.metrics.economics import Course, Rates, serving_economics, training_economics

METRICS = {"total_token_throughput": 5000.0, "output_throughput": 1000.0}
NOTHING = {"total_token_throughput": 0.0, "output_throughput": 0.0}
RATES = Rates(usd_per_hour=36.0, tdp_watt=400.0, idle_share=0.15)
TRAINED = {"mean_iteration_s": 2.0, "tokens_per_s": 500.0}


def test_rent_is_paid_for_all_tokens_of_an_hour() -> None:
    """36 $/h are 1 cent a second, for 5,000 tokens: 2 $ per million."""
    found = serving_economics(METRICS, RATES, 0.5)
    assert found["usd_per_hour"] == 36.0
    assert found["usd_per_million_tokens"] == pytest.approx(2.0)
    assert found["usd_per_million_output_tokens"] == pytest.approx(10.0)


def test_without_a_price_there_are_no_figures_and_without_tokens_none() -> None:
    free = serving_economics(METRICS, replace(RATES, usd_per_hour=0.0), 0.0)
    assert [name for name in free if name.startswith("usd")] == []
    nothing = serving_economics(NOTHING, RATES, 0.0)
    assert nothing["usd_per_million_tokens"] is nothing["energy_per_output_token_j"] is None


@pytest.mark.parametrize(("busy", "watt"), [(0.0, 60.0), (1.0, 400.0), (0.5, 230.0)])
def test_power_is_linear_in_the_busy_share(busy: float, watt: float) -> None:
    found = serving_economics(METRICS, RATES, busy)
    assert found["gpu_power_watt"] == pytest.approx(watt)
    assert found["energy_per_token_j"] == pytest.approx(watt / 5000.0)
    assert found["energy_per_output_token_j"] == pytest.approx(watt / 1000.0)


def test_gpus_that_are_off_draw_nothing_and_cost_nothing() -> None:
    found = serving_economics(METRICS, RATES, 0.1, on=0.25)
    assert found["gpu_power_watt"] == pytest.approx(0.15 * 100.0 + 0.85 * 40.0)
    assert found["usd_per_hour"] == pytest.approx(9.0)


def test_the_data_centre_adds_to_energy_and_the_grid_makes_co2_of_it() -> None:
    found = serving_economics(METRICS, replace(RATES, pue=1.5, g_per_kwh=360.0), 1.0)
    assert found["gpu_power_watt"] == pytest.approx(400.0)
    assert found["energy_per_token_j"] == pytest.approx(600.0 / 5000.0)
    assert found["co2_per_million_tokens_kg"] == pytest.approx(0.12e6 / 3.6e6 * 0.36)


def test_an_iteration_has_its_price_energy_and_co2() -> None:
    """2 s at 1 cent a second and, half busy, 230 W, for 1,000 tokens."""
    found = training_economics(TRAINED, replace(RATES, g_per_kwh=360.0), 0.5, Course(2.0, 1.0, 1000.0))
    assert found["usd_per_iteration"] == pytest.approx(0.02)
    assert found["usd_per_million_tokens"] == pytest.approx(20.0)
    assert found["energy_per_iteration_j"] == pytest.approx(460.0)
    assert found["energy_per_token_j"] == pytest.approx(0.46)
    assert found["co2_per_iteration_kg"] == pytest.approx(460.0 / 3.6e6 * 0.36)
    assert found["co2_per_million_tokens_kg"] == pytest.approx(0.46e6 / 3.6e6 * 0.36)
    assert not [name for name in found if "train" in name or "epoch" in name]


def test_a_whole_training_counts_checkpoints_and_an_epoch_is_a_part_of_it() -> None:
    """100 iterations of 2 s, and 9 checkpoints of 4 s in them; 10 iterations are an epoch with none."""
    course = Course(2.0, 1.0, 1000.0, interval=11, stop_s=4.0)
    found = training_economics(TRAINED, RATES, 0.5, course, tokens=99_001.0, epoch_tokens=1e4)
    assert (found["iterations_to_train"], found["iterations_per_epoch"]) == (100, 10)
    assert found["time_to_train_s"] == pytest.approx(236.0)
    assert found["usd_to_train"] == pytest.approx(2.36)
    assert found["energy_to_train_j"] == pytest.approx(400.0 * (0.15 * 236.0 + 0.85 * 100.0))
    assert found["epoch_s"] == pytest.approx(20.0)
    assert found["usd_per_epoch"] == pytest.approx(0.2)


def test_failures_make_training_longer_and_lost_work_needs_energy() -> None:
    course = Course(2.0, 1.0, 1000.0, interval=1, stop_s=9.0, goodput=0.5, repeated=0.1)
    found = training_economics(TRAINED, RATES, 0.5, course, tokens=1e5)
    assert found["time_to_train_s"] == pytest.approx(400.0)
    assert found["energy_to_train_j"] == pytest.approx(400.0 * (0.15 * 400.0 + 0.85 * 110.0))
    hopeless = training_economics(TRAINED, RATES, 0.5, replace(course, goodput=0.0), tokens=1e5)
    assert hopeless["time_to_train_s"] is hopeless["usd_to_train"] is hopeless["co2_to_train_kg"] is None


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

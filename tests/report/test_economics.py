"""Cost, energy and CO2 of training as lines of an answer."""

from __future__ import annotations

from typing import Any

import pytest

from simsys.report.economics import serving_economics, training_economics

METRICS: dict[str, Any] = {
    "energy_per_iteration_j": 1000.0,
    "energy_per_token_j": 0.25,
    "gpu_power_watt": 4500.0,
    "co2_per_million_tokens_kg": 0.033,
}
PRICE = {"usd_per_hour": 55.0, "usd_per_iteration": 0.01, "usd_per_million_tokens": 0.5}
RUN = {
    "iterations_to_train": 12345,
    "time_to_train_s": 86400.0 * 3,
    "energy_to_train_j": 3.6e9,
    "co2_to_train_kg": 481.0,
}
EPOCH = {"iterations_per_epoch": 10, "epoch_s": 60.0, "energy_per_epoch_j": 3.6e6, "co2_per_epoch_kg": 0.5}


def text(**metrics: Any) -> str:
    return " ".join(" ".join(training_economics({**METRICS, **metrics})).split())


def test_energy_is_always_there_and_cost_with_a_price() -> None:
    assert text() == "energy 0.250 J per token, at 4,500 W; 0.0330 kg CO2 per million tokens"
    cost = "cost 0.0100 $ per iteration, 0.500 $ per million tokens, at 55.0 $/h"
    assert text(**PRICE).startswith(cost)


@pytest.mark.parametrize(
    ("metrics", "said"),
    [
        (RUN, "whole training 12,345 iterations in 3 d, 1,000 kWh, 481 kg CO2"),
        ({**RUN, **PRICE, "usd_to_train": 3960.0}, "12,345 iterations in 3 d, 3,960 $, 1,000 kWh"),
        ({**RUN, "time_to_train_s": None}, "12,345 iterations, which failures never let it complete"),
        (EPOCH, "epoch 10 iterations in 1 min, 1.00 kWh, 0.500 kg CO2"),
    ],
)
def test_a_whole_training_and_an_epoch_have_time_price_energy_and_co2(metrics: dict[str, Any], said: str) -> None:
    assert said in text(**metrics)


def test_results_of_an_earlier_version_have_no_such_lines() -> None:
    assert list(training_economics({})) == []
    served = {"energy_per_token_j": 0.1, "energy_per_output_token_j": 0.5, "gpu_power_watt": 650.0}
    assert "CO2" not in " ".join(serving_economics(served))

"""Bounds of the goals of a search among layouts: none prunes the best layout."""

from __future__ import annotations

from functools import cache

import pytest

from simsys.errors import UsageError
from simsys.searches.search import search
from simsys.searches.training.goals import ECONOMIC
from simsys.simulation import simulate
from tests.helpers.search_spaces import candidates, random_question, settled, training
from tests.helpers.thorough import cases

TARGET = {"training.target": {"tokens": 1e9, "dataset_tokens": 1e8}}


@pytest.mark.parametrize("seed", range(100, 100 + cases(12)))
def test_no_bound_of_the_computation_is_above_the_busy_time(seed):
    config, over = random_question(seed)
    base, _, found = candidates(config, over)
    for each in found:
        metrics = simulate(settled(base, each)).metrics
        busy_s = metrics["gpu_utilization"] * metrics["mean_iteration_s"]
        assert 0.0 < each.computed_s <= busy_s * (1 + 1e-9), each


@cache
def simulated():
    config, over = random_question(7)
    config = config.with_(TARGET)
    base, _, found = candidates(config, over)
    return config, over, [simulate(settled(base, each)).metrics for each in found]


@pytest.mark.parametrize("goal", ["energy_per_token_j", "co2_to_train_kg", "time_to_train_s", "usd_per_epoch"])
def test_the_best_layout_is_the_best_of_all_simulated_ones(goal):
    config, over, metrics = simulated()
    answer = search(config, minimize=goal, over=over, top=1)
    assert len(metrics) > 3
    assert answer.best[0].value == pytest.approx(min(each[goal] for each in metrics), rel=1e-12)


def test_a_search_for_energy_leaves_layouts_out_by_their_bounds():
    over = {"parallelism.tp_degree": [1, 2, 4, 8], "training.batch_size_per_gpu": [1, 4]}
    answer = search(training("GPT2-XL", nodes=1, gpus=8, batch=64), minimize="energy_per_token_j", over=over, top=1)
    assert answer.simulated < answer.considered - answer.reasons.get("does not fit into the memory of a GPU", 0)
    assert not answer.notes


@pytest.mark.parametrize("goal", ECONOMIC)
def test_every_goal_has_a_value(goal):
    over = {"training.batch_size_per_gpu": [1, 2]}
    answer = search(training(batch=16).with_(TARGET), minimize=goal, over=over)
    assert answer.best[0].value > 0


@pytest.mark.parametrize(
    ("goal", "message"),
    [
        ("time_to_train_s", "write training.target, with tokens"),
        ("energy_per_epoch_j", "write training.target.dataset_tokens"),
    ],
)
def test_a_goal_without_its_target_is_refused(goal, message):
    with pytest.raises(UsageError, match=message):
        search(training(batch=16), minimize=goal)


def test_a_price_is_needed_for_costs():
    free = training(batch=16, hardware={"gpu": {"extends": "H100-SXM", "price": None}, "gpus_per_node": 8})
    with pytest.raises(UsageError, match="usd_per_iteration needs prices"):
        search(free, minimize="usd_per_iteration")

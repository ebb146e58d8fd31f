"""The expected error of a ratio of two sides."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from simsys import SimulationConfig
from simsys.comparisons.expected import Expected, ExpectedErrors, other_settings
from simsys.comparisons.side import Side
from simsys.config.expected_ratios import ratio_error
from simsys.config.loader import deep_merge
from tests.helpers.compare_toys import SERVING, TRAINING

CLOSED = {"workload": {"arrivals": {"kind": "closed_loop", "concurrency": 8}}}


def side(label: str, scenario: dict[str, Any], **metrics: float) -> Side:
    config = SimulationConfig.model_validate(scenario)
    return Side(label, config.kind, "results", label, config, [metrics])


def trained(changes: dict[str, Any]) -> Side:
    return side(str(changes), deep_merge({**TRAINING["defaults"], **TRAINING["scenarios"][0]}, changes))


def served(changes: dict[str, Any], **metrics: float) -> Side:
    return side(str(changes), deep_merge(SERVING, changes), **metrics)


def of(base: Side, other: Side, metric: str) -> Expected:
    return ExpectedErrors(base, other).of(metric)


def test_it_is_that_of_measured_pairs_that_differ_alike() -> None:
    found = of(trained({}), trained({"training": {"batch_size_per_gpu": 4}}), "samples_per_s")
    stored = ratio_error("training", "iteration_s", ["global batch", "micro-batch"])
    assert not isinstance(stored, str)
    assert (found.median, found.nine_of_ten, found.pairs) == (stored.median, stored.nine_of_ten, stored.pairs)
    assert found.text == stored.text()


def test_a_ratio_is_known_better_than_a_value_where_one_setting_differs() -> None:
    """The errors of both predictions are correlated: the shipped measurements say how much."""
    ratio = of(trained({}), trained({"training": {"gradient_accumulation_steps": 4}}), "mean_iteration_s")
    assert ratio.median is not None
    assert ratio.median < 0.03 < 0.05  # of a value: 5 to 6 %


@pytest.mark.parametrize(
    ("base", "other", "metric", "text"),
    [
        (trained({}), trained({"name": "b"}), "mfu", "the same settings"),
        (trained({}), trained({"training": {"batch_size_per_gpu": 4}}), "bubble_s", "no measurements of bubble_s"),
        (
            trained({}),
            trained({"training": {"optimizer": "sgd"}}),
            "mfu",
            "no measurements of pairs that differ in: training.optimizer",
        ),
        (
            trained({"hardware": {"gpu": "L4"}}),
            trained({"hardware": {"gpu": "L4"}, "training": {"batch_size_per_gpu": 1}}),
            "mfu",
            "no measurements of GPU L4",
        ),
        (served({}), served(CLOSED), "p99_ttft_ms", "no measurements of p99_ttft_ms"),
        (
            served({}),
            served(CLOSED),
            "output_throughput",
            "no measurements of output_tokens_per_s without all requests at once",
        ),
        (served({}, overloaded=1), served(CLOSED), "mean_ttft_ms", "no measurements of overloaded runs"),
    ],
)
def test_what_was_not_measured_is_said(base: Side, other: Side, metric: str, text: str) -> None:
    assert of(base, other, metric) == Expected(text)


def test_a_prediction_against_a_measurement_has_the_error_of_a_value() -> None:
    measured = Side("m", "serving", "measurement", "m", runs=[{}])
    found = of(measured, served({}, mean_ttft_ms=20.0, mean_queue_ms=0.1), "mean_tpot_ms")
    assert found.nine_of_ten is not None
    assert found.text.endswith("error of one prediction)")
    assert of(measured, measured, "mean_tpot_ms") == Expected("both are measured")


def test_jobs_that_share_a_cluster_have_none(tmp_path: Path) -> None:
    base = Side("a", "jobs", "results", "a", None, [{}])
    assert of(base, base, "makespan_s").text == "no measurements of jobs that share a cluster"


def test_settings_that_differ_are_listed() -> None:
    swept = {"name": "b", "serving": {"max_num_seqs": 8}, "sweep": {"over": {"simulation.seed": [1, 2]}}}
    assert other_settings(served({}), served(swept)) == {"serving.max_num_seqs": (None, 8)}

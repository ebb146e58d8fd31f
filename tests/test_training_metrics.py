"""Every figure of a training run from iterations written by hand."""

from __future__ import annotations

import pytest

from simsys.collectives import CollectiveKind
from simsys.metrics.collector import TrainingMetrics
from simsys.metrics.training import IterationLog, training_metrics
from simsys.model.work import Work
from simsys.ops import Collective, Compute
from simsys.parallel.layout import Layout

FACTS = {
    "samples_per_iteration": 32.0,
    "tokens_per_sample": 1024.0,
    "model_flop_per_iteration": 6e12,
    "num_gpus": 4.0,
    "peak_flop_per_s": 10e12,
}


def log() -> IterationLog:
    """Iterations of 1 s and 2 s; the second waits longer for communication."""
    return IterationLog(started_s=[0.0, 1.0], ended_s=[1.0, 3.0], compute=[0.6, 1.0], communication=[0.5, 1.5])


EXPECTED = {
    "iterations": 2,
    "mean_iteration_s": 1.5,
    "first_iteration_s": 1.0,
    "last_iteration_s": 2.0,
    "compute_s": 0.8,
    "communication_s": 1.0,
    "exposed_communication_s": 0.7,  # (0.4 + 1.0) / 2: what the computation does not hide
    "communication_ratio": 0.7 / 1.5,
    "samples_per_s": 32 / 1.5,
    "tokens_per_s": 32 * 1024 / 1.5,
    "tokens_per_s_per_gpu": 32 * 1024 / 1.5 / 4,
    "model_flop_per_s_per_gpu": 1e12,
    "mfu": 0.1,  # 6e12 / 4 / 1.5 s of 10e12
    "num_gpus": 4,
}


def test_figures_of_known_iterations() -> None:
    assert training_metrics(log(), **FACTS) == pytest.approx(EXPECTED)


def test_rows_have_one_entry_per_iteration() -> None:
    rows = log().rows()
    assert rows["iteration"] == [0, 1]
    assert rows["iteration_s"] == [1.0, 2.0]
    assert rows["exposed_communication_s"] == pytest.approx([0.4, 1.0])


def test_computation_that_fills_the_iteration_exposes_nothing() -> None:
    made = IterationLog(started_s=[0.0], ended_s=[1.0], compute=[1.0 + 1e-12], communication=[0.9])
    metrics = training_metrics(made, **FACTS)
    assert metrics["exposed_communication_s"] == metrics["communication_ratio"] == 0.0
    assert metrics["communication_s"] == 0.9


def test_at_full_speed_the_mfu_is_one() -> None:
    made = IterationLog(started_s=[0.0], ended_s=[1.0], compute=[1.0], communication=[0.0])
    assert training_metrics(made, **{**FACTS, "model_flop_per_iteration": 40e12})["mfu"] == 1.0


def test_the_collector_adds_up_the_operations_of_its_rank_within_an_iteration() -> None:
    layout = Layout(data=2)
    collector = TrainingMetrics(0, **FACTS)
    mine, other = (Compute(rank, Work(), "forward") for rank in (0, 1))
    exchange = Collective(0, CollectiveKind.ALL_REDUCE, layout.group(0, "data"), 8.0, "gradients")
    collector.operation(mine, 0.0, 5.0)  # before the first iteration: not counted
    collector.mark(0, "iteration_start", 5.0)
    collector.mark(1, "iteration_start", 5.0)
    collector.operation(mine, 5.0, 7.0)
    collector.operation(other, 5.0, 9.0)
    collector.operation(exchange, 6.0, 7.5)
    collector.mark(0, "backward", 6.0)  # a phase, no boundary
    collector.mark(0, "iteration_end", 8.0)
    collector.mark(0, "iteration_start", 8.0)
    collector.operation(mine, 8.0, 9.0)
    collector.mark(0, "iteration_end", 9.0)
    rows = collector.rows()
    assert rows["iteration_s"] == [3.0, 1.0]
    assert rows["compute_s"] == [2.0, 1.0]
    assert rows["communication_s"] == [1.5, 0.0]
    assert collector.metrics()["iterations"] == 2
    assert collector.end_s == 9.0

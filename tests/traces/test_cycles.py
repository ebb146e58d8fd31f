"""Micro-batches that were not simulated are in the trace, where a full simulation has them."""

from __future__ import annotations

import numpy as np
import pytest

from simsys.config.experiment import SimulationConfig
from simsys.metrics.history import EventHistory
from simsys.simulation import simulate
from simsys.traces.cycles import with_cycles
from simsys.traces.training_trace import TrainingTrace


def scenario(strategy: str, **parallelism: int) -> SimulationConfig:
    return SimulationConfig.model_validate(
        {
            "hardware": {"profile": "dgx-h100"},
            "model": {"name": "GPT2-Small"},
            "parallelism": {"strategy": strategy, **parallelism},
            "training": {"batch_size_per_gpu": 2, "num_iterations": 1, "gradient_accumulation_steps": 12},
        }
    )


@pytest.mark.parametrize("strategy", ["FSDP", "ZERO2"])
def test_a_trace_equals_that_of_a_run_with_all_micro_batches(strategy: str) -> None:
    config = scenario(strategy, dp_degree=8)
    some, every = TrainingTrace(), TrainingTrace()
    simulate(config, [some])
    simulate(config, [every, EventHistory()])
    if strategy == "FSDP":
        assert some._record.arrays()[0].size < 0.6 * every._record.arrays()[0].size
    found, expected = (
        sorted((round(start_s, 9), round(end_s, 9), kind) for start_s, end_s, kind in trace.activities()[0])
        for trace in (some, every)
    )
    assert [kind for _, _, kind in found] == [kind for _, _, kind in expected]
    for place in range(2):
        times = [[piece[place] for piece in pieces] for pieces in (found, expected)]
        assert times[0] == pytest.approx(times[1], abs=1e-9)
    counters = [[text for text in trace.events() if "memory in use" in text] for trace in (some, every)]
    assert len(counters[0]) == len(counters[1])


def test_nothing_changes_without_cycles() -> None:
    columns = np.array([1.0]), np.array([2.0]), np.array([0])
    assert with_cycles(*columns, [], [9.0]) is not None
    assert [column.tolist() for column in with_cycles(*columns, [], [9.0])] == [[1.0], [2.0], [0]]


def test_later_iterations_do_not_move() -> None:
    starts = np.array([0.0, 1.0, 7.0])
    found = with_cycles(starts, starts + 0.5, np.arange(3), [(3, 0.0, 1.0)], [5.0, 9.0])
    assert sorted(found[0].tolist()) == [0.0, 1.0, 2.0, 3.0, 4.0, 7.0]

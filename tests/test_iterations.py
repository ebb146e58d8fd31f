"""Identical training iterations: after two equal ones, medium detail tells the rest instead of simulating it."""

from __future__ import annotations

from typing import Any

import pytest

from simsys.config.experiment import SimulationConfig
from simsys.metrics.history import EventHistory
from simsys.metrics.result import RunResult
from simsys.simulation import simulate


def train(iterations: int, lod: str = "medium", probes: Any = (), **parallelism: Any) -> RunResult:
    return simulate(
        SimulationConfig(
            hardware={"profile": "dgx-a100"},
            model={"name": "GPT2-Small"},
            parallelism={"dp_degree": 8, **parallelism},
            training={"batch_size_per_gpu": 2, "num_iterations": iterations, "gradient_accumulation_steps": 4},
            simulation={"lod": lod},
        ),
        probes,
    )


PIPELINE = {"dp_degree": 2, "tp_degree": 1, "pp_stages": 4}


@pytest.mark.parametrize("parallelism", [{}, PIPELINE], ids=["ddp", "pipeline"])
def test_the_rest_costs_one_event(parallelism: dict[str, Any]) -> None:
    assert train(10, **parallelism).events == train(1000, **parallelism).events


@pytest.mark.parametrize("parallelism", [{}, PIPELINE], ids=["ddp", "pipeline"])
def test_every_figure_is_that_of_simulating_all_of_them(parallelism: dict[str, Any]) -> None:
    told, simulated = train(12, **parallelism), train(12, probes=[EventHistory()], **parallelism)
    assert told.events < simulated.events
    for name, value in simulated.metrics.items():
        assert told.metrics[name] == pytest.approx(value, rel=1e-9), name
    for name, column in simulated.rows.items():
        assert list(told.rows[name]) == pytest.approx(list(column), rel=1e-9), name
    assert told.simulated_s == pytest.approx(simulated.simulated_s, rel=1e-9)


def test_high_simulates_all_of_them() -> None:
    few, many = train(3, "high"), train(6, "high")
    assert many.events == pytest.approx(2 * few.events, rel=0.01)
    assert many.metrics["mean_iteration_s"] == pytest.approx(train(6).metrics["mean_iteration_s"], rel=1e-9)


def test_all_ranks_begin_an_iteration_together() -> None:
    history = EventHistory()
    train(3, "high", [history], **PIPELINE)
    starts: dict[float, int] = {}
    for event in history.event_history:
        if event.event_type == "ITERATION_START":
            starts[event.timestamp] = starts.get(event.timestamp, 0) + 1
    assert list(starts.values()) == [8, 8, 8]


def test_the_first_iteration_of_a_static_graph_is_not_taken_for_the_others() -> None:
    """It hides nothing; the second and the third are equal, and the rest is told."""

    def run(iterations: int, probes: Any = ()) -> RunResult:
        training = {"batch_size_per_gpu": 2, "num_iterations": iterations, "options": {"static_graph": True}}
        return simulate(
            SimulationConfig(
                hardware={"profile": "dgx-a100", "num_nodes": 2},
                model={"name": "GPT2-Small"},
                parallelism={"strategy": "DDP"},
                training=training,
                simulation={"lod": "medium"},
            ),
            probes,
        )

    told, simulated = run(12), run(12, [EventHistory()])
    assert told.events == run(1000).events < simulated.events
    durations = list(told.rows["iteration_s"])
    assert durations[0] > 1.05 * durations[1]
    assert durations[1:] == pytest.approx([durations[1]] * 11, rel=1e-9)
    for name, column in simulated.rows.items():
        assert list(told.rows[name]) == pytest.approx(list(column), rel=1e-9), name

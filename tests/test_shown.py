"""Results print in a few lines, and notebooks show a table."""

from __future__ import annotations

import pickle

import pytest

import simsys
from simsys import DistributedAISimulator, ScalingStudyRunner, SimulationConfig
from simsys.shown import ROWS, Shown

CONFIG = SimulationConfig(
    name="small-1",
    hardware={"profile": "dgx-a100", "num_nodes": 2},
    model={"name": "GPT2-Small"},
    parallelism={"strategy": "DDP"},
    training={"batch_size_per_gpu": 2, "num_iterations": 40},
)


@pytest.fixture(scope="module")
def results() -> list[Shown]:
    other = CONFIG.with_(name="other", training={"batch_size_per_gpu": 4})
    return [
        DistributedAISimulator(CONFIG).run(),
        ScalingStudyRunner(CONFIG).run_scaling_study([1, 2]),
        simsys.compare(CONFIG, other),
    ]


def test_what_python_prints_is_short(results: list[Shown]) -> None:
    for result in results:
        assert 20 < len(str(result)) <= 400
        assert str(result).count("\n") < 10
    assert repr(results[1]).startswith("<ScalingResult 'small-1' weak, nodes 1, 2: efficiency 0.9")


def test_a_notebook_shows_the_first_rows(results: list[Shown]) -> None:
    for result in results:
        shown, html = result.shown(), result._repr_html_()
        assert html.count("<tr") == 1 + min(len(shown), ROWS)
        assert ("more rows" in html) == (len(shown) > ROWS)
        assert "&lt;" in html, "the line is escaped"
    assert "mean_iteration_s" in results[0]._repr_html_()
    assert [len(each.table()) for each in results[:2]] == [40, 2]


def test_every_public_result_has_a_table() -> None:
    for name in ("Comparison", "RunResult", "ScalingResult", "SearchResult", "SweepResult"):
        assert issubclass(getattr(simsys, name), Shown)


def test_a_result_can_be_pickled(results: list[Shown]) -> None:
    assert repr(pickle.loads(pickle.dumps(results[0]))) == repr(results[0])

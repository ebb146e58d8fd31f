"""Metrics and analyses of the user's own."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import pytest
from click.testing import CliRunner, Result

from simsys import DistributedAISimulator, SimulationConfig
from simsys.analysis.analyze import analyze
from simsys.analysis.bottlenecks import find_bottlenecks
from simsys.cli import cli
from simsys.config.sweep import SweepConfig
from simsys.errors import ConfigError, UsageError
from simsys.metrics.definitions import metrics_by_name, shipped_metrics
from simsys.metrics.own import (
    ANALYSES,
    METRICS,
    Observation,
    RunAnalysis,
    RunMetric,
    own_metric,
    register_analysis,
    register_metric,
    with_own,
)
from simsys.metrics.result import RunResult
from simsys.sweeps.evaluate import row_of
from simsys.sweeps.plan import plan_in_python

MODULE = """
from simsys.metrics.own import Observation, RunAnalysis, RunMetric, register_analysis, register_metric


@register_metric
class TokensPerJoule(RunMetric):
    name, unit, meaning = "tokens_per_joule", "1/J", "tokens of a joule"

    def value(self, result):
        return 1.0 / result.metrics["energy_per_token_j"]


@register_analysis
class UnusedMemory(RunAnalysis):
    name, meaning, kinds = "unused_memory", "memory that nothing uses", ("training",)

    def find(self, result):
        free = 1.0 - result.metrics["peak_memory_bytes"] / result.metrics["memory_capacity_bytes"]
        yield Observation(free, "most of the memory is never used", ("a larger batch_size_per_gpu",))


class Fails(RunMetric):
    name = "fails"

    def value(self, result):
        return result.metrics["no_such_metric"]


class Shipped(RunMetric):
    name = "mfu"

    def value(self, result):
        return 0.0


class Nameless(RunMetric):
    def value(self, result):
        return 0.0


class Other(RunMetric):
    name, kinds = "other", ("jogging",)

    def value(self, result):
        return 0.0


class Unfinished(RunMetric):
    name = "unfinished"
"""
SCENARIO: dict[str, Any] = {
    "hardware": {"gpu": "H100-SXM"},
    "model": {"name": "GPT2-Small"},
    "training": {"batch_size_per_gpu": 1, "num_iterations": 2},
}
FILE = """
name: own
hardware: {gpu: H100-SXM}
model: {name: GPT2-Small}
training: {batch_size_per_gpu: 1, num_iterations: 2}
simulation: {metrics: ["mine:TokensPerJoule"], analyses: ["mine:UnusedMemory"]}
"""


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    before = [(registry, set(registry.imported())) for registry in (METRICS, ANALYSES)]
    yield
    for registry, names in before:
        for name in set(registry.imported()) - names:
            registry.forget(name)


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text(MODULE, encoding="utf-8")
    (tmp_path / "own.yaml").write_text(FILE, encoding="utf-8")
    return tmp_path


def simsys(*arguments: str) -> Result:
    return CliRunner().invoke(cli, arguments)


class Twice(RunMetric):
    """Twice the number of GPUs."""

    name: ClassVar[str] = "twice"
    unit: ClassVar[str] = "x"

    def value(self, result: RunResult) -> float | None:
        return 2.0 * result.metrics["num_gpus"]


class Doubts(RunAnalysis):
    name: ClassVar[str] = "doubts"

    def find(self, result: RunResult) -> Iterator[Observation]:
        yield Observation(0.9, "a doubt", ("think again",))
        yield Observation(0.2, "a smaller doubt")


def run(**simulation: Any) -> RunResult:
    return DistributedAISimulator(SimulationConfig(**SCENARIO, simulation=simulation)).run()


# --- in Python ----------------------------------------------------------------------------------------------------


def test_registered_ones_are_in_the_result_and_in_the_table_of_metrics() -> None:
    register_metric(Twice)
    register_analysis(Doubts)
    result = run(metrics=["twice"], analyses=["doubts"])
    assert result.metrics["twice"] == 2.0
    assert result.metrics["doubts_severity"] == 0.9
    assert [each.evidence for each in result.observations["doubts"]] == ["a doubt", "a smaller doubt"]
    known = metrics_by_name()
    assert (known["twice"].unit, known["doubts_severity"].unit) == ("x", "share")
    assert "twice" not in shipped_metrics()


def test_observations_are_bottlenecks_of_their_analysis() -> None:
    register_analysis(Doubts)
    found = {each.kind: each for each in find_bottlenecks(run(analyses=["doubts"]))}
    assert found["doubts"].severity == 0.2
    assert find_bottlenecks(run(analyses=["doubts"]))[0].recommendations == ("think again",)


def test_a_run_without_them_has_none() -> None:
    register_metric(Twice)
    assert "twice" not in run().metrics
    assert run().observations == {}


def test_those_of_another_kind_of_result_are_left_out() -> None:
    result = RunResult("x", "serving", "medium", "fair", {}, {})

    class OfTraining(Twice):
        name = "of_training"
        kinds = ("training",)

    register_metric(OfTraining)
    assert with_own(result, ["of_training"], []).metrics == {}


def test_every_job_of_a_shared_cluster_has_them() -> None:
    register_metric(Twice)
    result = DistributedAISimulator(
        SimulationConfig(
            **{**SCENARIO, "hardware": {"gpu": "H100-SXM", "gpus_per_node": 2}},
            jobs=[{"name": "a", "gpus": 1}, {"name": "b", "gpus": 1}],
            simulation={"metrics": ["twice"]},
        )
    ).run()
    assert [job.metrics["twice"] for job in result.jobs] == [2.0, 2.0]
    assert "twice" not in result.metrics


@pytest.mark.parametrize("value", [float("nan"), float("inf"), "two", True])
def test_a_value_that_is_no_number_is_refused(value: Any) -> None:
    class Wrong(RunMetric):
        name = "wrong"

        def value(self, result: RunResult) -> Any:
            return value

    register_metric(Wrong)
    with pytest.raises(UsageError, match="wrong: a finite number or None is needed"):
        run(metrics=["wrong"])


@pytest.mark.parametrize("seen", ["a text", Observation(1.5, ""), Observation(float("nan"), "")])
def test_an_observation_that_is_none_is_refused(seen: Any) -> None:
    class Wrong(RunAnalysis):
        name = "wrong"

        def find(self, result: RunResult) -> Any:
            return [seen]

    register_analysis(Wrong)
    with pytest.raises(UsageError, match="wrong: "):
        run(analyses=["wrong"])


def test_an_unknown_name_is_refused_with_the_nearest_one() -> None:
    register_metric(Twice)
    with pytest.raises(ConfigError, match="unknown metric 'twise', did you mean 'twice'"):
        run(metrics=["twise"])


def test_a_search_minimizes_them() -> None:
    from simsys import search

    register_metric(Twice)
    data = {**SCENARIO, "training": {"global_batch_size": 4, "num_iterations": 1}}
    config = SimulationConfig(**data, simulation={"metrics": ["twice"]})
    assert search(config, minimize="twice", over={"training.batch_size_per_gpu": [1, 2]}).best[0].value == 2.0


# --- from a file --------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("here")
def test_they_reach_files_tables_and_conditions() -> None:
    found = simsys("run", "own.yaml", "--fail-on", "tokens_per_joule>1", "--fail-on", "unused_memory_severity<0.1")
    assert found.exit_code == 1
    assert "failed: own: tokens_per_joule is" in found.stderr
    assert "unused_memory_severity" not in found.stderr
    assert "  tokens_per_joule" in found.stdout
    assert "  - unused_memory: most of the memory is never used" in found.stdout
    assert json.loads(Path("results/own/own_results.json").read_text())["metrics"]["tokens_per_joule"] > 1
    bottlenecks = json.loads(Path("results/own/own_bottlenecks.json").read_text())["bottlenecks"]
    assert "unused_memory" in [each["kind"] for each in bottlenecks]


@pytest.mark.usefixtures("here")
def test_simsys_list_metrics_shows_them() -> None:
    found = simsys("list", "metrics", "--module", "mine")
    assert found.exit_code == 0
    assert "tokens_per_joule" in found.stdout
    assert "unused_memory_severity" in found.stdout
    assert simsys("list", "metrics", "--module", "yours").exit_code == 2


def test_a_point_of_a_sweep_has_them() -> None:
    register_metric(Twice)
    data = {**SCENARIO, "simulation": {"metrics": ["twice"]}}
    swept = SweepConfig(over={"training.batch_size_per_gpu": [1, 2]}, metrics=["twice"])
    assert plan_in_python(SimulationConfig(**data), swept).config.metrics == ["twice"]
    row = row_of("a", data, {"training.batch_size_per_gpu": 2}, Path())
    assert json.loads(row.figures)["metrics"]["twice"] == 2.0


@pytest.mark.slow
@pytest.mark.usefixtures("here")
def test_a_sweep_has_them_as_columns() -> None:
    sweep = 'sweep: {over: {training.batch_size_per_gpu: [1, 2]}, metrics: ["tokens_per_joule"]}\n'
    Path("swept.yaml").write_text(FILE + sweep, encoding="utf-8")
    found = simsys("sweep", "swept.yaml", "--out", "swept", "--jobs", "1")
    assert found.exit_code == 0
    assert "tokens_per_joule" in found.stdout


@pytest.mark.usefixtures("here")
def test_an_analysis_of_the_run_shows_them(here: Path) -> None:
    found = simsys("analyze", "own.yaml", "--simulations", "0")
    assert "your own analyses\n  - unused_memory: 9" in found.stdout
    assert "    > a larger batch_size_per_gpu" in found.stdout
    data = json.loads(simsys("analyze", "own.yaml", "--simulations", "0", "--json").stdout)
    assert data["analyses"][0]["observations"][0]["analysis"] == "unused_memory"


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("mine:Fails", "fails fails: KeyError: 'no_such_metric' ("),
        ("mine:Shipped", "simsys has a metric 'mfu' already"),
        ("mine:Nameless", "its class needs a name"),
        ("mine:Other", "not 'jogging'"),
        ("mine:Unfinished", "not a complete subclass of RunMetric"),
        ("mine:UnusedMemory", "not a complete subclass of RunMetric"),
        ("mine:Missing", "no metric at 'mine:Missing'"),
        ("yours:Metric", "No module named 'yours'"),
    ],
)
def test_those_that_cannot_be_used_are_refused(name: str, message: str) -> None:
    found = simsys("run", "own.yaml", "--no-files", "--set", f"simulation.metrics=[{name}]")
    assert found.exit_code == 2
    assert message in " ".join(found.stderr.split())


def test_a_name_belongs_to_one_class() -> None:
    class Same(Twice):
        pass

    register_metric(Twice)
    with pytest.raises(UsageError, match="registered twice"):
        register_metric(Same)
    assert own_metric("twice") is Twice


def test_they_survive_an_analysis_in_python() -> None:
    register_analysis(Doubts)
    (found,) = analyze(SimulationConfig(**SCENARIO, simulation={"analyses": ["doubts"]}), simulations=2)
    assert found.result.metrics["doubts_severity"] == 0.9

"""Warnings of a run: in the first lines, in the JSON, and with the jobs' names where there are several."""

from dataclasses import replace

from simsys import DistributedAISimulator, SimulationConfig
from simsys.executors.executor import Executor
from simsys.report.outcome import ScenarioOutcome
from simsys.report.summary import summary_text

TRAINING = {"model": {"name": "GPT2-Small"}, "training": {"batch_size_per_gpu": 1, "num_iterations": 1}}


def _result(**settings):
    return DistributedAISimulator(
        SimulationConfig.model_validate({"hardware": {"gpu": "H100"}, **TRAINING, **settings})
    ).run()


def test_a_run_without_doubt_has_no_warnings():
    assert _result().as_dict()["warnings"] == []


def test_a_warning_follows_the_headline_also_where_the_answer_is_brief():
    result = replace(_result(), warnings=("the links are shared " * 8,))
    for text in (summary_text(result), ScenarioOutcome("a", result).text(brief=True)):
        lines = text.split("\n")
        warned = next(number for number, line in enumerate(lines) if line.startswith("  warning: the links"))
        assert lines[0].startswith("experiment: ")
        assert warned <= 2  # a long headline has two lines
        assert "shared" in lines[warned + 1]
    assert result.as_dict()["warnings"] == list(result.warnings)


def test_warnings_of_jobs_name_the_jobs_that_have_them(monkeypatch):
    monkeypatch.setattr(Executor, "warnings", lambda self: ["doubtful"])
    jobs = [{"name": "a", "gpus": 1}, {"name": "b", "gpus": 1}]
    assert _result(hardware={"gpu": "H100", "gpus_per_node": 2}, jobs=jobs).warnings == ["a, b: doubtful"]

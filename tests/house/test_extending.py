"""Each section on a kind of module is complete: its Python is a file, its YAML an experiment that runs with it."""

from __future__ import annotations

import json
import re
from pathlib import Path
from types import ModuleType

import pytest
from click.testing import CliRunner, Result

from simsys.cli import cli
from simsys.collectives import ALGORITHMS, Algorithm
from simsys.framework import FRAMEWORKS, Scheduler
from simsys.metrics.own import ANALYSES, METRICS, Own
from simsys.testing import check_collective, check_framework, check_metric, check_scheduler
from simsys.user_modules import UserModules, import_user_module, looked_for
from tests.helpers.places import ROOT

PAGE = (ROOT / "docs" / "how-to" / "extending.md").read_text(encoding="utf-8")
SECTIONS = {
    title: (python[0], yaml[0])
    for title, text in re.findall(r"^## How to (?:write|add) an? (.*?)\n(.*?)(?=^## |\Z)", PAGE, re.M | re.S)
    if (yaml := re.findall(r"^```yaml\n(.*?)^```", text, re.M | re.S))
    and (python := re.findall(r"^```python\n(.*?)^```", text, re.M | re.S))
}


@pytest.fixture(autouse=True)
def _forgotten() -> object:
    """What the modules register."""
    registries = (FRAMEWORKS, ALGORITHMS, METRICS, ANALYSES)
    before = [set(registry.names()) for registry in registries]
    yield
    for registry, names in zip(registries, before, strict=True):
        for name in set(registry.names()) - names:
            registry.forget(name)


def written(title: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    python, yaml = SECTIONS[title]
    Path("my_modules.py").write_text(python, encoding="utf-8")
    Path("experiment.yaml").write_text(yaml, encoding="utf-8")


def run(*arguments: str) -> Result:
    return CliRunner().invoke(cli, arguments)


def check(cls: type) -> str:
    if issubclass(cls, Own):
        return check_metric(cls)
    if issubclass(cls, Algorithm):
        return check_collective(cls)
    return check_scheduler(cls) if issubclass(cls, Scheduler) else check_framework(cls)


def classes(module: ModuleType) -> list[type]:
    return [each for each in vars(module).values() if isinstance(each, type) and each.__module__ == module.__name__]


def test_every_kind_has_a_section() -> None:
    assert set(SECTIONS) == {
        "data-parallel module",
        "pipeline schedule",
        "scheduler",
        "router",
        "prefill or decode phase",
        "collective algorithm",
        "metric or an analysis",
    }


@pytest.mark.parametrize("title", SECTIONS)
def test_the_files_of_a_section_run(title: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written(title, tmp_path, monkeypatch)
    result = run("run", "experiment.yaml", "--out", "found")
    assert result.exit_code == 0, result.output
    assert len(list(Path("found").rglob("*_results.json"))) == 1


@pytest.mark.parametrize("title", SECTIONS)
def test_the_classes_of_a_section_obey_the_rules(title: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written(title, tmp_path, monkeypatch)
    with looked_for(UserModules([tmp_path])):
        found = classes(import_user_module("my_modules"))
        assert [check(each) for each in found] == ["ok"] * len(found)
    assert found


def test_own_figures_reach_files_and_thresholds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written("metric or an analysis", tmp_path, monkeypatch)
    commands = re.findall(r"^simsys (run experiment\.yaml --fail-on) '(\S+)' +# exit code (\d)$", PAGE, re.M)
    assert len(commands) == 2
    for words, threshold, code in commands:
        result = run(*words.split(), threshold, "--out", "found")
        assert result.exit_code == int(code), result.output
    metrics = json.loads(next(Path("found").rglob("*_results.json")).read_text(encoding="utf-8"))["metrics"]
    assert metrics["tokens_per_joule"] > 1
    assert 0.5 < metrics["unused_memory_severity"] < 0.99
    bottlenecks = next(Path("found").rglob("*_bottlenecks.json")).read_text(encoding="utf-8")
    assert "of the memory is never used" in bottlenecks

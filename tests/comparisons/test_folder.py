"""Folders of results as sides."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from simsys import DistributedAISimulator, SimulationConfig
from simsys.comparisons.folder import read_folder
from simsys.errors import ConfigError, UsageError
from simsys.report.export import write_results
from tests.helpers.compare_toys import SERVING


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    config = SimulationConfig.model_validate(SERVING)
    write_results(config, DistributedAISimulator(config).run(), tmp_path)
    return tmp_path / "chat"


def changed(folder: Path, changes: dict[str, Any]) -> Path:
    path = folder / "chat_results.json"
    content = {**json.loads(path.read_text(encoding="utf-8")), **changes}
    path.write_text(json.dumps(content), encoding="utf-8")
    return folder


def test_figures_and_settings_are_those_of_the_run(folder: Path) -> None:
    side = read_folder(folder)
    config = SimulationConfig.model_validate(SERVING)
    assert side.metrics == dict(DistributedAISimulator(config).run().metrics)
    assert side.config is not None
    assert side.config.workload == config.workload
    assert list(side.warnings) == []


def test_another_version_is_a_warning_another_format_an_error(folder: Path) -> None:
    assert "written by simsys 0.0.1" in read_folder(changed(folder, {"simsys_version": "0.0.1"})).warnings[0]
    with pytest.raises(UsageError, match=r"format 1 of results, written by simsys 0\.0\.1; this version reads format"):
        read_folder(changed(folder, {"schema_version": 1}))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"kind": "other"}, "it needs a kind"),
        ({"metrics": [1]}, "it needs a kind"),
        ({"schema_version": None}, "format"),
    ],
)
def test_damaged_results_are_refused(folder: Path, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        read_folder(changed(folder, changes))


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", "\0"])
def test_other_content_is_refused(folder: Path, text: str) -> None:
    (folder / "chat_results.json").write_text(text, encoding="utf-8")
    with pytest.raises(UsageError, match=r"chat_results\.json"):
        read_folder(folder)


def test_a_folder_without_results_names_the_ones_inside(folder: Path) -> None:
    with pytest.raises(UsageError, match=f"no results of simsys run.*give one of its folders: {folder}"):
        read_folder(folder.parent)


def test_a_folder_of_several_runs_and_one_without_settings_are_refused(folder: Path) -> None:
    (folder / "chat_config.yaml").rename(folder / "other_config.yaml")
    with pytest.raises(UsageError, match=r"chat_config\.yaml is missing"):
        read_folder(folder)
    (folder / "b_results.json").write_text("{}", encoding="utf-8")
    with pytest.raises(UsageError, match="results of several runs"):
        read_folder(folder)


def test_settings_that_this_version_does_not_know_are_refused(folder: Path) -> None:
    path = folder / "chat_config.yaml"
    path.write_text(path.read_text(encoding="utf-8") + "unheard_of: 1\n", encoding="utf-8")
    with pytest.raises(ConfigError, match="unheard_of"):
        read_folder(folder)

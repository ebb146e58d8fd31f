"""The scenario that a run writes means the same from its new folder, profiles beside the experiment included."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from simsys import SimulationConfig
from simsys.build.relocation import relocated, uses_own_profiles
from simsys.cli import cli

DATED = "x_provenance.json"
"""The only file with a date."""

WORK: dict[str, Any] = {
    "model": {"name": "GPT2-Small"},
    "serving": {},
    "workload": {"arrivals": {"kind": "all_at_once"}, "prompt_tokens": 4, "output_tokens": 2, "num_requests": 1},
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, text in {
        "gpus/mine.yaml": "extends: H100-SXM\nmemory: 96 GB\nprice: 2 $/h\n",
        "hardware_profiles/engines/slow.yaml": "extends: vllm\nper_step: 90 ms\n",
        "fits/gpus/L4.yaml": "tdp: 1 W\nsources: {tdp: test}\n",
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    return tmp_path


def config(folder: Path, hardware: dict[str, Any], **more: Any) -> SimulationConfig:
    return SimulationConfig(**{**WORK, "hardware": hardware, **more}).located_in(folder)


@pytest.mark.parametrize(
    ("hardware", "engine", "own"),
    [
        ({"gpu": "H100"}, "vllm", False),
        ({"gpu": "mine"}, "vllm", True),
        ({"gpu": {"extends": "mine", "tdp": "1 W"}}, "vllm", True),
        ({"gpu": "H100"}, "slow", True),
        ({"gpu": "L4"}, "vllm", True),  # fitted there
    ],
)
def test_the_folder_of_profiles_is_named_where_one_is_used(
    folder: Path, hardware: dict[str, Any], engine: str, own: bool
) -> None:
    scenario = config(folder, hardware, serving={"engine": engine})
    assert uses_own_profiles(scenario) == own
    data = relocated(scenario, folder / "results" / "x")
    assert data["hardware"].get("profile_folder") == ("../.." if own else None)
    assert scenario.hardware.profile_folder is None  # the scenario itself is unchanged


def test_a_folder_that_is_named_moves_along_unless_it_is_absolute(folder: Path) -> None:
    named = config(folder / "sub", {"gpu": "H100", "profile_folder": ".."})
    assert relocated(named, folder / "results")["hardware"]["profile_folder"] == ".."
    absolute = config(folder, {"gpu": "mine", "profile_folder": str(folder)})
    assert relocated(absolute, Path())["hardware"]["profile_folder"] == str(folder)


def test_files_of_jobs_move_along(folder: Path) -> None:
    jobs = [{"name": "a", "gpus": 1, "model": {"huggingface": "config.json"}}, {"name": "b", "gpus": 1}]
    data = relocated(config(folder, {"gpu": "H100", "gpus_per_node": 2}, jobs=jobs), folder / "out")
    assert [job.get("model") for job in data["jobs"]] == [{"huggingface": "../config.json"}, None]


def test_only_what_was_given_is_written_if_asked_for(folder: Path) -> None:
    data = relocated(config(folder, {"gpu": "H100"}), folder, with_defaults=False)
    assert data == {**WORK, "hardware": {"gpu": "H100"}, "workload": data["workload"]}


def run(*arguments: str) -> None:
    result = CliRunner().invoke(cli, list(arguments))
    assert result.exit_code == 0, result.output


@pytest.mark.parametrize(
    "hardware",
    [
        {"gpu": "mine"},
        {"profile": {"extends": "dgx-h100", "nics": {"count": 4}}, "gpu": "mine", "num_nodes": 2},
        {"nodes": [{"profile": {"extends": "dgx-h100", "price": "16 $/h"}}], "gpus_per_node": 1},
        {"gpu": {"extends": "H100", "price": "2.5 $/h", "peak": {"bf16": "1750 TFLOP/s"}}, "num_nodes": 2},
        {"profile": "dgx-h100", "num_nodes": 2, "network_bandwidth_gbps": 50, "gpus_per_node": 1},
    ],
)
def test_a_written_scenario_runs_to_the_same_bytes(folder: Path, hardware: dict[str, Any]) -> None:
    scenario = {"name": "x", **WORK, "hardware": hardware, "serving": {"engine": "slow"}}
    (folder / "e.yaml").write_text(yaml.safe_dump(scenario), encoding="utf-8")
    run("run", str(folder / "e.yaml"), "--out", str(folder / "first"))
    run("run", str(folder / "first" / "x" / "x_config.yaml"), "--out", str(folder / "second"))
    first, second = (
        {path.name: path.read_bytes() for path in (folder / name / "x").iterdir() if path.name != DATED}
        for name in ("first", "second")
    )
    assert first == second


def test_a_global_batch_is_written_without_the_steps_that_follow_from_it(folder: Path) -> None:
    scenario = {
        "name": "x",
        "hardware": {"profile": "dgx-h100", "gpus_per_node": 2},
        "model": {"name": "GPT2-Small"},
        "training": {"global_batch_size": 8, "num_iterations": 1},
    }
    (folder / "e.yaml").write_text(yaml.safe_dump(scenario), encoding="utf-8")
    run("run", str(folder / "e.yaml"), "--out", str(folder / "first"))
    run("run", str(folder / "first" / "x" / "x_config.yaml"), "--out", str(folder / "second"))
    first, second = ((folder / name / "x" / "x_results.json").read_bytes() for name in ("first", "second"))
    assert first == second


@pytest.mark.parametrize("command", ["check", "memory", "topology", "collectives"])
def test_commands_find_profiles_beside_the_experiment_from_anywhere(
    folder: Path, command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    scenario = {"name": "x", **WORK, "hardware": {"gpu": "mine", "gpus_per_node": 2}, "serving": {"engine": "slow"}}
    (folder / "e.yaml").write_text(yaml.safe_dump(scenario), encoding="utf-8")
    monkeypatch.chdir(folder.parent)
    run(command, str(folder / "e.yaml"))

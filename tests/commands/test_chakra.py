"""`simsys chakra`: export, summary and replay on the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner, Result

from simsys.cli import cli
from tests.helpers.chakra_toys import HARDWARE, SCENARIO


@pytest.fixture(autouse=True)
def in_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("x.yaml").write_text(yaml.safe_dump(SCENARIO))
    chakra = {"traces": "out/small"}
    Path("r.yaml").write_text(yaml.safe_dump({"name": "again", "hardware": HARDWARE, "chakra": chakra}))


def simsys(*arguments: str) -> Result:
    return CliRunner().invoke(cli, ["chakra", *arguments])


def test_a_scenario_is_exported_summarised_and_replayed() -> None:
    exported = simsys("export", "x.yaml", "--out", "out", "--set", "simulation.lod=medium")
    assert exported.exit_code == 0, exported.output
    assert "of 2 ranks, process groups: 1; iteration 1 lasts" in exported.stdout
    shown = simsys("show", "out/small")
    assert "complete and matching" in shown.stdout
    assert "all_reduce" in shown.stdout
    replayed = simsys("replay", "r.yaml", "--out", "results")
    assert replayed.exit_code == 0, replayed.output
    assert replayed.stdout.startswith("again: ")
    assert "+0.0 % against the recorded run" in replayed.stdout or "-0.0 %" in replayed.stdout
    result = json.loads(Path("results/again/again_results.json").read_text())
    assert (result["kind"], result["level_of_detail"]) == ("replay", "high")
    assert Path("results/again/again_ranks.csv").read_text().count("\n") == 3


def test_answers_as_json_have_the_same_figures() -> None:
    (exported,) = json.loads(simsys("export", "x.yaml", "--out", "out", "--json", "--gzip").stdout)["exports"]
    found = json.loads(simsys("show", "out/small", "--json").stdout)["traces"]
    assert (found["ranks"], found["nodes"]) == (exported["ranks"], exported["nodes"])
    assert found["metadata"]["iteration_s"] == exported["iteration_s"]
    options = ("--set", "chakra.iterations=2", "--json")
    (replayed,) = json.loads(simsys("replay", "r.yaml", *options).stdout)["replays"]
    assert replayed["recorded_iteration_s"] == exported["iteration_s"]
    assert replayed["metrics"]["iterations"] == 2
    assert replayed["metrics"]["mean_iteration_s"] == pytest.approx(exported["iteration_s"], rel=1e-9)


def test_a_chosen_iteration_is_exported() -> None:
    (exported,) = json.loads(simsys("export", "x.yaml", "--out", "out", "--iteration", "0", "--json").stdout)[
        "exports"
    ]
    (path, *_) = exported["files"]
    assert Path(path).is_file()
    assert "iteration 0" in simsys("show", "out/small").stdout


@pytest.mark.parametrize(
    ("arguments", "code", "reason"),
    [
        (("show", "out/none"), 2, "there is no none.0.et"),
        (("replay", "r.yaml"), 2, "there is no small.0.et"),
        (("replay", "x.yaml"), 2, "missing required key 'chakra'"),
        (("replay", "r.yaml", "--set", "chakra.trace=1"), 2, "did you mean 'traces'"),
        (("replay", "r.yaml", "--set", "chakra.dtype=bf16"), 2, "dtype belongs to compute: scaled"),
        (("export", "x.yaml", "--out", "out", "--iteration", "7"), 2, "has the iterations 0 to 1, not 7"),
        (("export", "x.yaml", "--out", "r.yaml"), 2, "r.yaml is a file, a folder is needed"),
        (("export", "x.yaml", "--out", "out", "--set", "model.name=Llama3-70B"), 3, "does not fit"),
        (("shows",), 2, "did you mean 'show'"),
    ],
)
def test_what_cannot_be_done_is_refused(arguments: tuple[str, ...], code: int, reason: str) -> None:
    found = simsys(*arguments)
    assert (found.exit_code, reason in found.output) == (code, True), found.output


def test_other_commands_name_the_one_that_replays() -> None:
    found = CliRunner().invoke(cli, ["run", "r.yaml"])
    assert found.exit_code == 2
    assert "r.yaml:2:3: chakra: a replay of Chakra traces is no scenario" in found.output
    assert "1 problem" in found.output


def test_more_ranks_than_gpus_are_infeasible() -> None:
    simsys("export", "x.yaml", "--out", "out")
    found = simsys("replay", "r.yaml", "--set", "hardware.gpus_per_node=1")
    assert found.exit_code == 3
    assert "the traces have 2 ranks, the cluster has 1 GPUs" in found.output

"""Each example in the help of a command can be typed as it is, in a folder with the files that it names."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from shutil import copy

import click
import pytest
from click.testing import CliRunner, Result

from simsys.cli import cli
from simsys.commands.example_lines import EXAMPLES
from simsys.data import shipped_folder
from tests.helpers.machine_files import dgx_h100
from tests.helpers.places import ROOT

SWEEP = "simsys sweep serving.yaml --set 'sweep={over: {hardware.num_nodes: [1, 2]}}' --jobs 1"
NEEDS = {
    "sweep status": [SWEEP],
    "sweep export": [SWEEP],
    "sweep merge": [f"{SWEEP} --part 1/2 --out first", f"{SWEEP} --part 2/2 --out second"],
    "chakra show": ["simsys chakra export training.yaml --out traces"],
    "chakra replay": ["simsys chakra export training.yaml --out traces"],
    "report": ["simsys run serving.yaml"],
    "plot": ["simsys run serving.yaml"],
    "validate": ["simsys run serving.yaml"],
}
"""What is typed before an example."""
OF_TORCH = {"measure", "lab", "lab train", "lab compare", "lab bench"}
SLOW: set[str] = set()
STEPS = [
    {"arrived": [{"id": "a", "prompt_tokens": 900, "output_tokens": 2}], "scheduled": {"a": 900}, "preempted": []}
]


def run(line: str) -> Result:
    program, *arguments = shlex.split(line)
    assert program == "simsys"
    return CliRunner().invoke(cli, arguments)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the files that examples name."""
    monkeypatch.chdir(tmp_path)
    for kind in ("serving", "training", "cluster"):
        run(f"simsys init --{kind}")
    traces, measured = shipped_folder("experiments") / "traces", shipped_folder("experiments") / "measured"
    rows = (traces / "chat_sample.csv").read_text(encoding="utf-8").splitlines()[:50]
    Path("requests.csv").write_text("\n".join(rows), encoding="utf-8")
    copy(measured / "collectives.csv", "nccl.csv")
    copy(shipped_folder("experiments") / "search.yaml", "search.yaml")
    copy(ROOT / "examples/lab/experiment.yaml", "lab.yaml")
    Path("topo.txt").write_text(dgx_h100(), encoding="utf-8")
    Path("steps.jsonl").write_text("\n".join(map(json.dumps, STEPS)), encoding="utf-8")
    Path("replay.yaml").write_text(
        "name: again\nhardware: {profile: dgx-h100, num_nodes: 2}\nchakra: {traces: traces/my-training}\n",
        encoding="utf-8",
    )
    return tmp_path


def test_every_command_has_examples() -> None:
    def paths(group: click.Group, above: str = "") -> list[str]:
        found = []
        for name, command in group.commands.items():
            found.append(f"{above} {name}".strip())
            if isinstance(command, click.Group):
                found += paths(command, found[-1])
        return found

    assert sorted(EXAMPLES) == sorted(paths(cli))


@pytest.mark.parametrize("path", EXAMPLES)
def test_help_shows_the_examples(path: str) -> None:
    text = CliRunner().invoke(cli, [*path.split(), "--help"]).stdout
    for line in EXAMPLES[path]:
        assert line in text
        assert shlex.split(line)[1 : len(path.split()) + 1] == path.split() or path in ("chakra", "lab")


def _marks(path: str) -> list[pytest.MarkDecorator]:
    return [pytest.mark.lab] if path in OF_TORCH else [pytest.mark.slow] if path in SLOW else []


@pytest.mark.parametrize("path", [pytest.param(path, marks=_marks(path)) for path in EXAMPLES])
def test_the_examples_run(path: str, folder: Path) -> None:
    for line in NEEDS.get(path, []):
        assert run(line).exit_code == 0
    if path == "init":
        Path("serving.yaml").unlink()
    if path == "validate":
        (folder / "results/my-service/my-service_serving.json").rename("bench.json")
    for line in EXAMPLES[path]:
        result = run(line)
        assert result.exit_code == 0, result.output

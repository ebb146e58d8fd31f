"""`simsys plot`, and pictures and reports beside results."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from simsys.cli import cli

SCENARIO = """
name: train
hardware: {profile: dgx-a100, gpus_per_node: 2}
model: {name: GPT2-Small}
parallelism: {strategy: PP, pp_stages: 2}
training: {batch_size_per_gpu: 1, gradient_accumulation_steps: 4, num_iterations: 2}
"""


def simsys(*arguments: object) -> Result:
    return CliRunner().invoke(cli, [str(each) for each in arguments])


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("results")
    (place / "train.yaml").write_text(SCENARIO, encoding="utf-8")
    ran = simsys("run", place / "train.yaml", "--out", place, "--plots", "--report", place / "r.html", "--json")
    assert ran.exit_code == 0, ran.output
    (place / "answer.json").write_text(ran.stdout, encoding="utf-8")
    return place


def test_plots_and_the_report_are_files_of_the_run(results: Path) -> None:
    files = {Path(file).name for file in json.loads((results / "answer.json").read_text())["files"]}
    assert {"train_pipeline.png", "train_memory.png", "train_roofline.png", "train_traffic.png", "r.html"} <= files
    assert {"train_activity.csv", "train_held.csv", "train_passes.csv", "train_loads.csv"} <= files
    assert all((results / "train" / file).is_file() for file in files if file != "r.html")


def test_the_report_of_a_run_is_that_of_its_files(results: Path) -> None:
    later = results / "later.html"
    assert simsys("report", results / "train", "--out", later).exit_code == 0
    assert later.read_text(encoding="utf-8") == (results / "r.html").read_text(encoding="utf-8")


def test_results_can_be_drawn_later(results: Path, tmp_path: Path) -> None:
    for kind in ("pipeline", "topology", "iteration-breakdown"):
        ran = simsys("plot", results / "train", kind, "--out", tmp_path / f"{kind}.png")
        assert (ran.exit_code, ran.stdout.strip()) == (0, str(tmp_path / f"{kind}.png"))
    first = (results / "train" / "train_pipeline.png").read_bytes()
    assert (tmp_path / "pipeline.png").read_bytes() == first


def test_without_a_kind_the_possible_ones_are_listed(results: Path) -> None:
    listed = simsys("plot", results / "train")
    assert "pipeline" in listed.stdout
    assert "latencies" not in listed.stdout
    kinds = json.loads(simsys("plot", results / "train", "--json").stdout)["kinds"]
    assert {"kind": "traffic", "shows": "bytes sent from each GPU to each other"} in kinds


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["train", "pipelin"], "did you mean 'pipeline'"),
        (["train", "latencies"], "latencies is of serving, but train is training"),
        (["train", "pipeline", "--out", "a.pdf"], "ends with .png or .svg, not .pdf"),
        (["train", "pipeline", "--job", "x"], "unknown job 'x'"),
        (["nothing"], "nothing"),
        (["r.html"], "JSON"),
        (["train", "pipeline", "--out", "train.yaml/a.png"], "is a file, a folder is needed"),
    ],
)
def test_what_cannot_be_drawn_is_said(
    results: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], message: str
) -> None:
    monkeypatch.chdir(results)
    before = sorted(results.rglob("*"))
    ran = simsys("plot", *arguments)
    assert ran.exit_code == 2
    assert message in ran.stderr
    assert sorted(results.rglob("*")) == before


@pytest.mark.parametrize("command", ["plot", "report"])
def test_incomplete_results_are_refused(results: Path, tmp_path: Path, command: str) -> None:
    for file in (results / "train").glob("*.[jc]s*"):
        (tmp_path / file.name).write_bytes(file.read_bytes())
    table = tmp_path / "train_ranks.csv"
    text, out = table.read_text(), tmp_path / "out.svg"
    wanted = ["iteration_breakdown"] if command == "plot" else []
    for damaged in (text.replace("compute_s", "other"), text.replace("\n0,0,", "\n0,0,x"), "a\n1,2\n"):
        table.write_text(damaged)
        ran = simsys(command, tmp_path, *wanted, "--out", out)
        assert (ran.exit_code, out.exists()) == (2, False), ran.output
        assert "incomplete or of another version" in ran.stderr or "run the scenario again" in ran.stderr
    table.write_text(text)
    found = (tmp_path / "train_results.json").read_text()
    (tmp_path / "train_results.json").write_text(found.replace('"schema_version": 2', '"schema_version": 9'))
    ran = simsys(command, tmp_path, *wanted, "--out", out)
    assert ran.exit_code == 2
    assert "this version reads format" in ran.stderr


def test_plots_need_files(results: Path) -> None:
    ran = simsys("run", results / "train.yaml", "--plots", "--no-files")
    assert ran.exit_code == 2
    assert "leave out --no-files" in ran.stderr


def test_a_report_that_cannot_be_written_keeps_the_results(results: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    ran = simsys("run", results / "train.yaml", "--out", tmp_path, "--report", tmp_path / "file" / "r.html")
    assert ran.exit_code == 2
    assert (tmp_path / "train" / "train_results.json").is_file()

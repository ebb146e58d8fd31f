"""`simsys run --trace` and `--events`: files beside the results, and what stops them."""

from __future__ import annotations

import gzip
import json
import os
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from simsys import read_events
from simsys.cli import cli

SCENARIO = """\
name: gpt2
hardware: {profile: dgx-h100, gpus_per_node: 4}
model: {name: GPT2-Small}
parallelism: {strategy: DDP, dp_degree: 4}
training: {batch_size_per_gpu: 2, num_iterations: 4}
"""


@pytest.fixture(autouse=True)
def in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "one.yaml").write_text(SCENARIO)


def run(*arguments: str) -> Result:
    result = CliRunner().invoke(cli, ["run", "one.yaml", *arguments])
    assert "Traceback" not in result.output
    return result


def test_both_files_lie_beside_the_results() -> None:
    result = run("--trace", "--events")
    assert result.exit_code == 0
    trace, events = Path("results/gpt2/gpt2_trace.json.gz"), Path("results/gpt2/gpt2_events.jsonl.gz")
    assert f"  {trace}\n  {events}\n" in result.stdout
    assert "\nthe trace leaves out\n  1 of 4 ranks are shown" in result.stdout
    document = json.loads(gzip.decompress(trace.read_bytes()))
    assert document["simsys"]["scenario"] == "gpt2"
    assert read_events(events)[0].timestamp == 0.0
    assert len([event for event in read_events(events) if event.event_type == "ITERATION_END"]) == 4


def test_programs_hear_what_a_trace_leaves_out() -> None:
    (scenario,) = json.loads(run("--trace", "--json").stdout)["scenarios"]
    assert scenario["trace_leaves_out"][1] == "operations of iterations 1 to 3: each equal to iteration 0"
    assert "trace_leaves_out" not in json.loads(run("--trace", "--lod", "high", "--json").stdout)["scenarios"][0]
    assert "trace_leaves_out" not in json.loads(run("--json").stdout)["scenarios"][0]


def test_the_same_scenario_gives_the_same_bytes() -> None:
    contents = []
    for folder in ("a", "b"):
        run("--trace", "--events", "--out", folder)
        contents.append(
            [Path(folder, "gpt2", f"gpt2_{name}").read_bytes() for name in ("trace.json.gz", "events.jsonl.gz")]
        )
    assert contents[0] == contents[1]


def test_results_do_not_depend_on_being_recorded() -> None:
    for folder, options in (("plain", ()), ("recorded", ("--trace",))):
        run("--out", folder, *options)
    names = {path.name for path in Path("plain/gpt2").iterdir()}
    assert {path.name for path in Path("recorded/gpt2").iterdir()} == names | {"gpt2_trace.json.gz"}
    plain, recorded = (
        json.loads(Path(folder, "gpt2/gpt2_results.json").read_text())["metrics"] for folder in ("plain", "recorded")
    )
    assert plain == pytest.approx(recorded, rel=1e-12)


@pytest.mark.parametrize("option", ["--trace", "--events"])
def test_without_files_there_is_nowhere_to_write(option: str) -> None:
    result = run(option, "--no-files")
    assert (result.exit_code, result.output) == (2, f"error: {option} writes a file; leave out --no-files\n")


@pytest.mark.skipif(os.getuid() == 0, reason="root may write everywhere")
def test_a_read_only_folder() -> None:
    Path("results").mkdir(mode=0o500)
    result = run("--trace")
    assert result.exit_code == 2
    assert "cannot write" in result.output


def test_a_folder_that_is_a_file() -> None:
    Path("results").write_text("")
    result = run("--trace")
    assert result.exit_code == 2
    assert "results is a file, a folder is needed" in result.output


def test_a_full_disk_leaves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    result = run("--trace", "--events")
    assert result.exit_code == 2
    assert "No space left on device" in result.output
    assert [path for path in Path("results").rglob("*") if path.is_file()] == []


def test_a_trace_of_simsys_is_divided_into_ranks() -> None:
    run("--trace", "--lod", "high")
    path = "results/gpt2/gpt2_trace.json.gz"
    result = CliRunner().invoke(cli, ["import-trace", path, "--ranks", "ranks"])
    assert result.exit_code == 0
    for rank in range(4):
        document = json.loads(gzip.decompress(Path(f"ranks/rank{rank}.json.gz").read_bytes()))
        assert document["distributedInfo"]["rank"] == rank
        assert {each["pid"] for each in document["traceEvents"]} == {rank}

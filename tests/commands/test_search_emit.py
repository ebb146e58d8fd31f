"""`simsys search --emit`: files of the answer, refused settings, and the scenario of each written layout."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from simsys.cli import cli

DOCUMENT: dict[str, Any] = {
    "name": "small",
    "hardware": {"profile": "dgx-h100", "gpus_per_node": 2},
    "model": {"name": "GPT2-Small"},
    "training": {"global_batch_size": 8, "num_iterations": 2, "engine": "megatron"},
    "search": {"over": {"parallelism.tp_degree": [1, 2], "parallelism.strategy": ["DDP"]}},
}
WITH_HSDP = {"search": {"over": {"parallelism.strategy": ["DDP", "HSDP"]}}}


@pytest.fixture(autouse=True)
def in_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def search(*options: str, **sections: Any) -> Result:
    Path("x.yaml").write_text(yaml.safe_dump({**DOCUMENT, **sections}))
    return CliRunner().invoke(cli, ["search", "x.yaml", "--jobs", "1", *options])


def test_files_of_the_best_layout_are_written_with_its_scenario() -> None:
    found = search("--emit", "out", "--json")
    assert found.exit_code == 0, found.output
    answer = json.loads(found.stdout)
    assert {(each["target"], each["layout"]) for each in answer["emitted"]} >= {("slurm", 1), ("torchrun-megatron", 1)}
    for path in (path for each in answer["emitted"] for path in each["paths"]):
        assert Path(path).is_file()
    scenario = answer["scenarios"]["1"]
    result = CliRunner().invoke(cli, ["run", scenario, "--no-files", "--json"])
    assert result.exit_code == 0, result.output
    metrics = json.loads(result.stdout)["scenarios"][0]["metrics"]
    assert metrics["steady_iteration_s"] == answer["best"][0]["metrics"]["steady_iteration_s"]
    again = CliRunner().invoke(cli, ["emit", str(Path(scenario).parent), "--for", "torchrun-megatron"])
    assert Path("out/small/1/torchrun-megatron/train.sh").read_text() in again.stdout


def test_settings_that_a_tool_cannot_express_are_listed() -> None:
    found = search("--emit", "out", "--for", "torchrun-megatron", "--emit-top", "9", **WITH_HSDP)
    assert found.exit_code == 0, found.output
    text = " ".join(found.stdout.partition("not expressible:")[2].split())
    assert "torchrun-megatron: parallelism.strategy: Megatron-LM 0.15: HSDP cannot be expressed" in text
    (place,) = Path("out/small").iterdir()  # the other one of the two layouts
    assert (place / "torchrun-megatron" / "train.sh").is_file()


def test_another_engine_is_refused_before_the_search() -> None:
    found = search("--emit", "out", "--for", "deepspeed")
    assert found.exit_code == 2
    assert "training.engine: megatron cannot be expressed; write training.engine: deepspeed" in found.stderr
    assert "stage 1" not in found.output
    assert not Path("out").exists()
    found = search("--for", "slurm")
    assert found.exit_code == 2
    assert "need --emit DIR" in found.stderr


def test_a_folder_that_cannot_be_written_is_an_error_below_the_answer() -> None:
    Path("out").write_text("a file")
    found = search("--emit", "out")
    assert found.exit_code == 2
    assert "best: parallelism.strategy" in found.stdout
    assert "cannot write out" in found.stderr

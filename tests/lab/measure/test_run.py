"""`simsys measure` writes profiles that a scenario uses at once."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.helpers.lab_runs import scenario, simsys, written

pytest.importorskip("torch", reason="PyTorch is not installed (pip install 'simsys[lab]')")
pytestmark = pytest.mark.lab


def test_profiles_of_this_machine(tmp_path: Path) -> None:
    file = written(tmp_path, scenario("DDP"))
    options = ("--out", "mine", "--ranks", "2", "--device", "cpu", "--samples", tmp_path / "samples", "--json")
    found = json.loads(simsys("measure", file, *options).stdout)["measurement"]
    assert [Path(path).parent.name for path in found["files"]] == ["gpus", "nodes", "engines"]
    assert {row["dtype"] for row in found["device"]["kernels"]["gemm"]} == {"fp32", "bf16"}
    assert all(len(row["samples_s"]) == len(row["cpu_s"]) for row in found["device"]["kernels"]["gemm"])
    assert set(found["exchanges"]["collectives"]) >= {"all_reduce", "all_gather", "reduce_scatter"}
    own = ("--set", "hardware.profile=mine", "--set", "training.engine=mine", "--no-files", "--json")
    metrics = json.loads(simsys("run", file, *own).stdout)["scenarios"][0]["metrics"]
    assert metrics["mean_iteration_s"] > 0
    assert metrics["exposed_communication_s"] > 0

"""Real iterations have the collectives and the memory that the simulator predicts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.lab_runs import scenario, simsys, written

pytest.importorskip("torch", reason="PyTorch is not installed (pip install 'simsys[lab]')")
pytestmark = pytest.mark.lab

PLAIN = {"dropout": False, "num_layers": 3, "vocab_size": 512}
ONCE = {"gradient_accumulation_steps": 1}
SMALL = {"bucket_size": "64 KiB", "first_bucket_size": "16 KiB"}

CASES = {
    "ddp": scenario("DDP", model={**PLAIN, "vocab_size": 4096}, training=ONCE),
    "ddp, small buckets": scenario("DDP", model=PLAIN, training={**ONCE, "options": SMALL}),
    "ddp, tied": scenario("DDP", model={**PLAIN, "tied_embeddings": True}, training={**ONCE, "options": SMALL}),
    "ddp, accumulation": scenario("DDP", model=PLAIN, training={"gradient_accumulation_steps": 4, "options": SMALL}),
    "ddp, four ranks": scenario("DDP", 4, model=PLAIN, training=ONCE),
    "zero1": scenario("ZERO1", model=PLAIN, training=ONCE),
    "fsdp": scenario("FSDP", model=PLAIN, training=ONCE),
    "fsdp, accumulation": scenario("FSDP", model=PLAIN, training={"gradient_accumulation_steps": 3}),
    "fsdp, no_sync": scenario("FSDP", model=PLAIN, training={"options": {"no_sync": True}}),
    "fsdp, gathered": scenario("FSDP", model=PLAIN, training={"options": {"reshard_after_forward": False}}),
    "fsdp, bf16": scenario("FSDP", model=PLAIN, training={**ONCE, "mixed_precision": True, "precision": "bf16"}),
}


def compared(folder: Path, content: dict[str, Any]) -> dict[str, Any]:
    """Train and simulate; the comparison in JSON."""
    clipped = {**content, "lab": {key: value for key, value in content["lab"].items() if key != "max_grad_norm"}}
    done = simsys("lab", "compare", written(folder, clipped), "--out", folder / "out", "--json")
    assert (folder / "out" / "lab_compare.svg").is_file()
    return dict(json.loads(done.stdout)["comparisons"][0])


@pytest.mark.parametrize("name", CASES)
def test_collectives_of_a_real_iteration_are_the_simulated_ones(name: str, tmp_path: Path) -> None:
    found = compared(tmp_path, CASES[name])
    measured = found["collectives"]["measured"]
    assert measured == found["collectives"]["predicted"]
    assert measured
    whole = CASES[name]["training"].get("options", {}).get("no_sync")  # gradients, until the last micro-batch
    for component in ("parameters", "optimizer") if whole else ("parameters", "gradients", "optimizer"):
        memory = found["memory_bytes"][component]
        assert memory["measured"] == memory["predicted"]


def test_the_peak_of_memory(tmp_path: Path) -> None:
    sizes = {"hidden_size": 128, "num_layers": 4, "sequence_length": 64, "num_attention_heads": 4}
    batch = {**ONCE, "batch_size_per_gpu": 16}
    for strategy, ranks in (("None", 1), ("DDP", 2), ("FSDP", 2)):
        folder = tmp_path / strategy
        folder.mkdir()
        memory = compared(folder, scenario(strategy, ranks, model={**PLAIN, **sizes}, training=batch))["memory_bytes"]
        assert memory["peak"]["predicted"] == pytest.approx(memory["peak"]["measured"], rel=0.1)


def test_conditions_and_a_table_that_validate_reads(tmp_path: Path) -> None:
    file = written(tmp_path, scenario("DDP", model=PLAIN, training=ONCE))
    done = simsys("lab", "compare", file, "--out", tmp_path, "--fail-on", "cpu_error>=0", code=1)
    assert "failed: run: cpu_error is" in done.stderr
    options = ("--ranks", "1,2", "--strategy", "fsdp", "--set", "training.num_iterations=2")
    simsys("lab", "bench", file, "--out", tmp_path, *options)
    table = (tmp_path / "lab_bench.csv").read_text().splitlines()
    assert len(table) == 1 + 2
    simsys("validate", tmp_path / "lab_bench.csv", code=0)

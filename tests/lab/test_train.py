"""Real runs: every strategy trains, and a run that is interrupted and resumed is the run that was not."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.lab_runs import command, environment, scenario, simsys, trained, written

pytest.importorskip("torch", reason="PyTorch is not installed (pip install 'simsys[lab]')")
pytestmark = pytest.mark.lab

RUNS = {
    "one": scenario("None", 1, training={"optimizer": "sgd"}, lab={"momentum": 0.9}),
    "ddp": scenario("DDP"),
    "zero1": scenario("ZERO1"),
    "fsdp": scenario("FSDP"),
    "fsdp1": scenario("FSDP", lab={"fsdp": "fsdp1"}),
    "bf16": scenario("DDP", training={"mixed_precision": True, "precision": "bf16", "activation_recompute": "full"}),
    "fp16": scenario("FSDP", training={"mixed_precision": True, "precision": "fp16"}),
}


@pytest.mark.parametrize("name", RUNS)
def test_a_resumed_run_has_the_losses_of_an_uninterrupted_one(name: str, tmp_path: Path) -> None:
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    whole.mkdir()
    parts.mkdir()
    losses = trained(whole, RUNS[name])["losses"]
    assert len(losses) == 4
    assert trained(parts, RUNS[name], "--set", "training.num_iterations=2")["losses"] == losses[:2]
    assert trained(parts, RUNS[name], "--resume")["losses"] == losses


def test_strategies_train_alike(tmp_path: Path) -> None:
    losses = []
    for strategy in ("DDP", "ZERO1", "FSDP"):
        folder = tmp_path / strategy
        folder.mkdir()
        losses.append(trained(folder, scenario(strategy, 4, model={"dropout": False}))["losses"])
    for other in losses[1:]:
        assert other == pytest.approx(losses[0], rel=1e-5)


def test_bytes_of_a_text_are_learnt_and_evaluated(tmp_path: Path) -> None:
    (tmp_path / "text.txt").write_text("to be or not to be " * 400, encoding="utf-8")
    lab = {"data": {"kind": "text", "file": "text.txt"}, "learning_rate": 0.01, "evaluation_interval": 30}
    found = trained(tmp_path, scenario("DDP", training={"num_iterations": 60}, model={"dropout": False}, lab=lab))
    assert found["losses"][-1] < 0.6 * found["losses"][0]
    lines = (tmp_path / "out" / "run" / "metrics-of-rank-0.jsonl").read_text().splitlines()
    evaluated = [json.loads(line) for line in lines if "evaluation_loss" in line]
    assert [row["iteration"] for row in evaluated] == [30, 60]
    assert evaluated[1]["evaluation_loss"] < evaluated[0]["evaluation_loss"]


def started(folder: Path, content: dict[str, Any], iterations: int = 3) -> subprocess.Popen[bytes]:
    """Start a long run; returns when some iterations are done."""
    line = command("lab", "train", written(folder, content), "--out", folder / "out")
    with (folder / "stderr").open("w") as file:
        process = subprocess.Popen(line, stderr=file, env=environment())
    metrics = folder / "out" / "run" / "metrics-of-rank-0.jsonl"
    until_s = time.monotonic() + 120
    while not metrics.is_file() or len(metrics.read_text().splitlines()) < iterations:
        assert time.monotonic() < until_s
        assert process.poll() is None, (folder / "stderr").read_text()
        time.sleep(0.05)
    return process


LONG = {"training": {"num_iterations": 100_000}}


def test_sigterm_saves_and_ends(tmp_path: Path) -> None:
    process = started(tmp_path, scenario("DDP", **LONG))
    process.send_signal(signal.SIGTERM)
    assert process.wait(60) == 130
    saved = sorted((tmp_path / "out" / "run" / "checkpoints").glob("iteration-*"))
    assert len(saved) == 1
    done = int(saved[0].name.removeprefix("iteration-"))
    resumed = trained(tmp_path, scenario("DDP", training={"num_iterations": done + 1}), "--resume")
    assert resumed["iterations"] == done + 1
    assert len(resumed["losses"]) == done + 1


def children(process: int) -> list[int]:
    return [int(each) for each in Path(f"/proc/{process}/task/{process}/children").read_text().split()]


@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="finds ranks in /proc")
def test_a_killed_rank_ends_all_and_keeps_the_last_checkpoint(tmp_path: Path) -> None:
    process = started(tmp_path, scenario("DDP", **LONG, lab={"checkpoint_interval": 2}))
    ranks = children(process.pid)
    assert len(ranks) == 2
    os.kill(ranks[1], signal.SIGKILL)
    killed_s = time.monotonic()
    assert process.wait(60) == 1
    assert time.monotonic() - killed_s < 30
    text = (tmp_path / "stderr").read_text()
    assert "rank 1 was ended by SIGKILL" in text
    assert "the last checkpoint is" in text
    assert not any(Path(f"/proc/{rank}").exists() for rank in ranks)
    assert list((tmp_path / "out" / "run" / "checkpoints").glob(".*")) == []


@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="finds ranks in /proc")
def test_a_lost_rank_starts_the_run_again(tmp_path: Path) -> None:
    content = scenario("DDP", training={"num_iterations": 150}, lab={"checkpoint_interval": 2, "max_restarts": 1})
    process = started(tmp_path, content)
    os.kill(children(process.pid)[0], signal.SIGKILL)
    assert process.wait(200) == 0
    assert "restart 1 of 1" in (tmp_path / "stderr").read_text()


def test_a_port_in_use(tmp_path: Path) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        file = written(tmp_path, scenario("DDP", lab={"port": other.getsockname()[1]}))
        done = simsys("lab", "train", file, "--out", tmp_path, code=2)
    assert "lab.port" in done.stderr


def test_a_loss_that_is_no_number(tmp_path: Path) -> None:
    lab = {"learning_rate": 1e6, "max_grad_norm": None, "warmup_iterations": 0, "checkpoint_interval": 1}
    file = written(tmp_path, scenario("None", 1, training={"optimizer": "sgd", "num_iterations": 50}, lab=lab))
    done = simsys("lab", "train", file, "--out", tmp_path / "out", code=1)
    assert "the loss of iteration" in done.stderr
    assert "the last checkpoint is" in done.stderr


def test_a_full_disk_leaves_no_checkpoint(tmp_path: Path) -> None:
    file = written(tmp_path, scenario("DDP"))
    done = simsys("lab", "train", file, "--out", tmp_path / "out", code=2, before="ulimit -f 100")
    assert "cannot write the checkpoint" in done.stderr
    assert list((tmp_path / "out" / "run" / "checkpoints").iterdir()) == []


def test_damaged_and_foreign_checkpoints(tmp_path: Path) -> None:
    trained(tmp_path, scenario("FSDP"))
    saved = tmp_path / "out" / "run" / "checkpoints" / "iteration-000004"
    wider = scenario("FSDP", model={"hidden_size": 128}, training={"num_iterations": 5})
    done = simsys("lab", "train", written(tmp_path, wider), "--out", tmp_path / "out", "--resume", code=2)
    assert "has weights" in done.stderr
    shard = next(saved.glob("*.distcp"))
    content = bytearray(shard.read_bytes())
    content[len(content) // 2] ^= 1
    shard.write_bytes(content)
    again = scenario("FSDP", training={"num_iterations": 5})
    done = simsys("lab", "train", written(tmp_path, again), "--out", tmp_path / "out", "--resume", code=2)
    assert f"damaged: {shard.name}" in done.stderr


def test_fewer_devices_than_ranks(tmp_path: Path) -> None:
    file = written(tmp_path, scenario("DDP", 8, lab={"oversubscribe": False, "threads": 64}))
    done = simsys("lab", "train", file, "--out", tmp_path, code=3)
    assert "processor cores" in done.stderr


def test_a_model_that_does_not_fit_is_refused_before_it_starts(tmp_path: Path) -> None:
    huge = scenario("DDP", model={"num_layers": 96, "hidden_size": 12288, "num_attention_heads": 96})
    done = simsys("lab", "train", written(tmp_path, huge), "--out", tmp_path / "out", code=3)
    assert "GiB" in done.stderr
    assert not (tmp_path / "out").exists()

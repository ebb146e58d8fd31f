"""Predictions of real iterations: what PyTorch does, on a CPU whose collectives have costs of their own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from simsys.build.cluster import build_cluster
from simsys.collectives import CollectiveKind
from simsys.collectives import Path as Way
from simsys.collectives.choose import named
from simsys.collectives.measured_costs import MeasuredCosts
from simsys.config.cluster import HardwareConfig
from simsys.config.network import NetworkConfig
from simsys.lab.prediction import Predicted, predict
from simsys.lab.scenario import lab_job
from tests.helpers.lab_runs import scenario, written

POINT = {"rows": 1, "compute": 1.0, "memory": 0.5}
CPU: dict[str, Any] = {
    "name": "cpu",
    "vendor": "CPU",
    "peak": {"fp32": "100 GFLOP/s", "bf16": "400 GFLOP/s"},
    "memory": "8 GiB",
    "memory_bandwidth": "50 GB/s",
    "link": {"kind": "shared_memory", "bandwidth": "40 GB/s", "latency": "0 s"},
    "efficiency": {
        **{kind: {"default": [POINT]} for kind in ("gemm", "conv", "attention", "decode_attention", "memory")},
        "activation": {"default": [{**POINT, "memory": 0.05}]},
    },
    "sources": dict.fromkeys(("peak", "memory", "memory_bandwidth", "link", "efficiency"), "invented"),
}
NODE: dict[str, Any] = {
    "name": "cpus",
    "gpu": "cpu",
    "gpus_per_node": 2,
    "interconnect": {
        "kind": "shared_memory",
        "bandwidth": "40 GB/s",
        "latency": "0 s",
        "collectives": {
            "all_reduce": {"bandwidth": "1 GB/s", "latency": "100 us"},
            "reduce_scatter": {"bandwidth": "0.5 GB/s", "latency": "200 us"},
        },
    },
    "shared_memory_bandwidth": "60 GB/s",
    "sources": dict.fromkeys(("gpus_per_node", "interconnect", "shared_memory_bandwidth"), "invented"),
}


def machine(folder: Path) -> None:
    """Write the profiles of an invented machine of two ranks."""
    for kind, content in (("gpus", CPU), ("nodes", NODE)):
        (folder / kind).mkdir(exist_ok=True)
        (folder / kind / f"{content['name']}.yaml").write_text(yaml.safe_dump(content), encoding="utf-8")


def predicted(folder: Path, strategy: str, **training: Any) -> Predicted:
    machine(folder)
    model = {"dropout": False, "num_layers": 3, "hidden_size": 256, "vocab_size": 2048}
    content = scenario(strategy, model=model, training={"gradient_accumulation_steps": 1, **training})
    content["hardware"] = {"profile": "cpus"}
    return predict(lab_job(written(folder, content)), on_cpu=True)


def test_buckets_end_with_the_gradients_that_fill_them(tmp_path: Path) -> None:
    made = predicted(tmp_path, "DDP", options={"bucket_size": "1 MiB"})
    head, total = 4.0 * 256 * 2048, 4.0 * (2 * 256 * 2048 + 16 * 256 + 3 * (12 * 256**2 + 13 * 256) + 2 * 256)
    assert [kind for kind, _ in made.collectives] == ["all_reduce"] * len(made.collectives)
    assert made.collectives[0][1] == head
    assert sum(nbytes for _, nbytes in made.collectives) == total
    assert all(nbytes >= 2**20 for _, nbytes in made.collectives[:-1])


def test_zero1_lies_on_top_of_ddp(tmp_path: Path) -> None:
    kinds = [kind for kind, _ in predicted(tmp_path, "ZERO1").collectives]
    assert kinds == ["all_reduce"] * (len(kinds) - 2) + ["broadcast"] * 2


def test_fsdp_on_a_cpu_waits_for_every_collective(tmp_path: Path) -> None:
    blocking = predicted(tmp_path, "FSDP")
    overlapping = predicted(tmp_path, "FSDP", options={"overlap": True})
    assert blocking.collectives == overlapping.collectives
    assert blocking.causes_s["exposed communication"] > 2 * overlapping.causes_s["exposed communication"]
    without = predicted(tmp_path, "FSDP", options={"buffer_copies": False})
    assert blocking.causes_s["backward"] > without.causes_s["backward"]


def test_devices_share_the_memory_of_their_host(tmp_path: Path) -> None:
    machine(tmp_path)
    rates = []
    for count in (1, 2):
        hardware = HardwareConfig.model_validate({"profile": "cpus", "gpus_per_node": count})
        rates.append(build_cluster(hardware, NetworkConfig(), tmp_path).spec.memory_bytes_per_s)
    assert rates == [50e9, 30e9]


def test_a_cpu_needs_no_power_and_no_pcie(tmp_path: Path) -> None:
    machine(tmp_path)
    spec = build_cluster(HardwareConfig.model_validate({"profile": "cpus"}), NetworkConfig(), tmp_path).spec
    assert (spec.tdp_watt, spec.pcie_bytes_per_s, spec.pcie_latency_s) == (0.0, 50e9, 0.0)


@pytest.mark.parametrize(
    ("kind", "seconds"),
    [("all_reduce", 2 * (1e-4 + 5e5 / 1e9)), ("reduce_scatter", 2e-4 + 5e5 / 5e8), ("all_gather", 5e5 / 40e9)],
)
def test_collectives_cost_what_was_measured(kind: str, seconds: float) -> None:
    kinds = CollectiveKind.ALL_REDUCE, CollectiveKind.REDUCE_SCATTER
    costs = MeasuredCosts(dict(zip(kinds, (1e-4, 2e-4), strict=True)), dict(zip(kinds, (1e9, 5e8), strict=True)))
    (plan,) = named("auto", costs)(CollectiveKind(kind), 2, lambda algorithm: [Way(0.0, 40e9)])
    assert plan.seconds(1e6) == pytest.approx(seconds)

"""The table of metrics: every metric of every kind of run is in it, and nothing else."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from simsys import DistributedAISimulator, SimulationConfig
from simsys.metrics.definitions import metrics_by_name
from simsys.metrics.result import SHOWN, RunResult
from tests.helpers.each_case import each_case
from tests.helpers.places import ROOT

SCRIPT = ROOT / "scripts" / "make_metrics_page.py"

HARDWARE = {"hardware": {"gpu": "H100-SXM", "gpus_per_node": 4}}
LLAMA = {"model": {"name": "Llama3-8B"}}
TRAINING: dict[str, Any] = {
    **HARDWARE,
    "model": {"name": "GPT2-Small"},
    "parallelism": {"strategy": "TP_PP_DDP", "tp_degree": 2, "pp_stages": 2},
    "training": {
        "batch_size_per_gpu": 1,
        "num_iterations": 2,
        "gradient_accumulation_steps": 2,
        "failures": {"gpu_mtbf": "1000 h", "duration": "30 d"},
        "checkpoint": {"interval": 1, "storage_bandwidth": "1 GB/s"},
        "target": {"dataset_tokens": 1e9, "epochs": 2},
    },
}
WORKLOAD = {
    "arrivals": {"kind": "poisson", "rate": "20 req/s"},
    "prompt_tokens": 64,
    "output_tokens": 8,
    "num_requests": 20,
}
SERVING: dict[str, Any] = {
    **HARDWARE,
    **LLAMA,
    "serving": {
        "disaggregated": {"prefill_replicas": 2, "decode_replicas": 2, "decode_prefix_caching": True},
        "kv_tiers": [
            {"kind": kind, "capacity": "1 GB", "read_bandwidth": "1 GB/s"} for kind in ("cpu", "ssd", "remote")
        ],
    },
    "workload": WORKLOAD
    | {"prefixes": {"groups": 1, "tokens": 64}}
    | {"cancellation": {"timeout": "10 s", "retry": {"attempts": 1}}},
    "slo": {"ttft": "1 s", "tpot": "50 ms", "e2el": "9 s"},
}
SCALED: dict[str, Any] = {
    **HARDWARE,
    **LLAMA,
    "serving": {"autoscaling": {"min_replicas": 1, "max_replicas": 4}},
    "workload": WORKLOAD,
}
JOBS: dict[str, Any] = {
    **HARDWARE,
    "model": {"name": "GPT2-Small"},
    "training": {"batch_size_per_gpu": 1, "num_iterations": 1},
    "jobs": [{"name": "a", "gpus": 2}, {"name": "b", "gpus": 2}],
}
RARE = {"gpu_failures", "node_failures", "link_failures", "kv_transferred_bytes", "mean_kv_transfer_ms", "gpu_seconds"}
OF_IMAGES = {m.name for m in metrics_by_name().values() if m.only == "with workload.images"}
RARE |= OF_IMAGES
RARE |= {"completed_sessions", "total_reasoning_tokens"}
RARE |= {name for name in metrics_by_name() if name.endswith("_session_ms")}
RARE |= {f"exposed_{axis}_s" for axis in ("context", "data", "expert", "expert_data", "host")}


def result(scenario: dict[str, Any]) -> RunResult:
    return DistributedAISimulator(SimulationConfig(**scenario)).run()


@pytest.mark.parametrize("scenario", [TRAINING, SERVING, SCALED, JOBS], ids=["training", "serving", "scaled", "jobs"])
def test_every_metric_of_a_run_is_defined_for_its_kind(scenario: dict[str, Any]) -> None:
    known, run = metrics_by_name(), result(scenario)
    for one in (run, *run.jobs):
        assert [name for name in one.metrics if name not in known or one.kind not in known[name].kinds] == []


def test_a_run_with_images_has_metrics_of_them() -> None:
    known = metrics_by_name()
    given = SimulationConfig.from_yaml(ROOT / "experiments" / "images.yaml", "one-image")
    run = DistributedAISimulator(given).run()
    assert len(OF_IMAGES) == 6
    assert set(run.metrics) >= OF_IMAGES
    assert [name for name in run.metrics if name not in known] == []


@pytest.mark.parametrize(("scenario", "kind"), [(TRAINING, "training"), (SERVING, "serving"), (JOBS, "jobs")])
def test_every_definition_is_of_a_metric_that_there_is(scenario: dict[str, Any], kind: str) -> None:
    run = result(scenario)
    missing = {m.name for m in metrics_by_name().values() if kind in m.kinds and m.name not in run.metrics}
    assert missing <= RARE, "with failures, checkpoints, targets and pools, nearly all are there"
    assert {metrics_by_name()[name].only != "" for name in missing} <= {True}


@each_case("name", sorted(metrics_by_name()))
def test_a_value_is_a_number_where_the_definition_says_so(name: str) -> None:
    metric = metrics_by_name()[name]
    assert metric.meaning[0].islower() or metric.meaning[:3].isupper() or metric.meaning[0].isdigit()
    assert not metric.meaning.endswith(".")
    assert metric.is_number == (metric.unit not in ("text", "table"))


def test_numbers_are_numbers() -> None:
    for scenario in (TRAINING, SERVING, JOBS):
        run = result(scenario)
        for name, value in run.metrics.items():
            assert (isinstance(value, int | float) or value is None) == metrics_by_name()[name].is_number, name


def test_what_a_result_shows_of_itself_is_defined() -> None:
    for kind, names in SHOWN.items():
        assert all(kind in metrics_by_name()[name].kinds for name in names)


def test_the_page_is_current(tmp_path: Path) -> None:
    assert subprocess.run([sys.executable, str(SCRIPT), "--check"], check=False).returncode == 0
    command = [sys.executable, str(SCRIPT), "--folder", str(tmp_path)]
    assert subprocess.run([*command, "--check"], capture_output=True, check=False).returncode == 1

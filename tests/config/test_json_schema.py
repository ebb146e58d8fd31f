from __future__ import annotations

import copy
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from simsys.config.document import parse_document
from simsys.config.json_schema import experiment_schema
from tests.helpers.places import ROOT

SCHEMA_FILE = ROOT / "experiments" / "experiment.schema.json"
SCHEMA = json.loads(SCHEMA_FILE.read_text(encoding="utf-8"))
FILES = sorted((ROOT / "experiments").glob("*.yaml"))

TRAINING = {"hardware": {"gpu": "H100"}, "model": {"name": "GPT2-Small"}, "training": {"batch_size_per_gpu": 8}}
SERVING = {
    "hardware": {"profile": "dgx-h100"},
    "model": {"name": "Llama3-8B"},
    "serving": {},
    "workload": {
        "arrivals": {"kind": "poisson", "rate": "8 req/s"},
        "prompt_tokens": 512,
        "output_tokens": {"kind": "uniform", "low": 1, "high": 9},
        "num_requests": 10,
    },
}


def is_valid(data: object) -> bool:
    return bool(jsonschema.Draft7Validator(SCHEMA).is_valid(data))


def changed(data: dict[str, Any], path: str, value: object) -> dict[str, Any]:
    result = inner = copy.deepcopy(data)
    *way, last = path.split(".")
    for key in way:
        inner = inner.setdefault(key, {})
    inner[last] = value
    return result


@pytest.mark.parametrize(
    ("workload", "enough"),
    [({"trace": "a.csv"}, True), ({"trace": {"path": "a.csv"}}, True), ({"trace": None}, False), ({}, False)],
)
def test_a_trace_is_a_whole_workload(workload: object, enough: bool) -> None:
    assert is_valid({**SERVING, "workload": workload}) == enough


def test_the_file_is_current() -> None:
    assert experiment_schema() == SCHEMA, "run python scripts/make_schema.py"


def test_the_script_tells_whether_the_file_is_current(tmp_path: Path) -> None:
    command = [sys.executable, str(ROOT / "scripts" / "make_schema.py"), "--folder", str(tmp_path)]
    missing = subprocess.run([*command, "--check"], capture_output=True, check=False)
    assert missing.returncode == 1
    subprocess.run(command, check=True)
    assert (tmp_path / SCHEMA_FILE.name).read_bytes() == SCHEMA_FILE.read_bytes()


def test_the_schema_is_a_schema() -> None:
    jsonschema.Draft7Validator.check_schema(SCHEMA)


def test_there_are_shipped_files() -> None:
    assert FILES


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_shipped_files_fit(file: Path) -> None:
    text = file.read_text(encoding="utf-8")
    jsonschema.Draft7Validator(SCHEMA).validate(parse_document(text, file.name).data)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("hardware", {"gpu_model": "H100", "compute_tflops": 989.0, "memory_gb": 80, "num_gpus_per_node": 8}),
        ("hardware.network_bandwidth_gbps", 200.0),
        ("network.base_latency_us", 0),
        ("training.num_nodes", 16),
        ("hardware.gpu", {"extends": "H100", "memory": "94 GB"}),
        ("parallelism.strategy", "None"),
        ("parallelism.strategy", "FSDP"),
        ("parallelism.strategy", "TP_PP_DDP"),
        ("serving", None),
        ("model", {"layers": [{"name": "a", "forward_flop": 1e9}]}),
    ],
)
def test_a_training_scenario_may_have(path: str, value: object) -> None:
    assert is_valid(changed(TRAINING, path, value))


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("hardware", {}),
        ("hardware", {"num_nodes": 4}),
        ("hardware.gpu", None),
        ("hardware.num_nodes", 0),
        ("hardware.network_bandwidth", 200),
        ("hardware.memory_gb", -1),
        ("hardware.compute_tflops", "989 TFLOP/s"),
        ("hardware.gpuu", "H100"),
        ("network.topology_type", "torus"),
        ("network.base_latency", 5),
        ("parallelism.strategy", "XYZ"),
        ("parallelism.strategy", "TP_None"),
        ("parallelism.strategy", "TP_PP_"),
        ("training.batch_size_per_gpu", 0),
        ("training.batch_size_per_gpu", "eight"),
        ("training.num_nodes", 0),
        ("training", {}),
        ("training", None),
        ("serving", {}),
        ("simulation.lod", "low"),
        ("name", "a/b"),
        ("nmae", "a"),
    ],
)
def test_a_training_scenario_may_not_have(path: str, value: object) -> None:
    assert is_valid(TRAINING)
    assert not is_valid(changed(TRAINING, path, value))


@pytest.mark.parametrize(
    ("path", "value", "valid"),
    [
        ("workload.prompt_tokens", {"kind": "lognormal", "mean": 512}, True),
        ("workload.prompt_tokens", {"mean": 512}, False),
        ("workload.prompt_tokens", {"kind": "zipf", "exponent": 0.6, "max": 4096}, True),
        ("workload.sessions", {"turns": 4, "think_time": "20 s"}, True),
        ("workload.sessions", {"turns": {"kind": "uniform", "low": 1, "high": 9}}, True),
        ("workload.sessions", {"think_time": "20 s"}, False),
        ("workload.sessions", {"turns": 4, "tool_result_tokens": 800}, True),
        ("workload.sessions", {"turns": 4, "tool_result_tokens": 0}, False),
        ("workload.sessions", {"turns": 4, "branches": {"share": 0.2, "agents": 3, "prompt_tokens": 9}}, True),
        ("workload.sessions", {"turns": 4, "branches": {"share": 0.2, "agents": 3}}, False),
        ("workload.reasoning", {"tokens": 300, "budget": 512}, True),
        ("workload.cancellation", {"share": 0.1, "after": "3 s"}, True),
        ("workload.cancellation", {"share": 0.1, "after_tokens": 30}, True),
        ("workload.cancellation", {"timeout": 30}, False),
        ("workload.prefixes", {"groups": 2, "tokens": 512}, True),
        (
            "workload.trace",
            {"path": "x.json", "multi_turn": True, "think_time": {"kind": "exponential", "mean": "9 s"}},
            True,
        ),
        ("workload.trace", {"path": "x.json", "think_time": {"mean": "9 s"}}, False),
        ("workload.arrivals", {"kind": "closed_loop", "concurrency": 4}, True),
        ("workload.arrivals", {"kind": "closed_loop"}, False),
        ("workload.prompt_tokens", {"kind": "uniform", "mean": 512}, False),
        ("workload.prompt_tokens", 0, False),
        ("workload.arrivals", {"kind": "all_at_once"}, True),
        ("workload.arrivals", {"kind": "poisson", "rate": 8}, False),
        ("workload.arrivals", {"kind": "poison", "rate": "8 req/s"}, False),
        ("workload", None, False),
        ("slo", {"ttft": "500 ms"}, True),
        ("slo", {"ttft": 500}, False),
        ("serving.gpu_memory_utilization", 0.9, True),
        ("serving.gpu_memory_utilization", "90 %", True),
        ("serving.precision", "int3", False),
    ],
)
def test_a_serving_scenario(path: str, value: object, valid: bool) -> None:
    assert is_valid(SERVING)
    assert is_valid(changed(SERVING, path, value)) is valid


def test_defaults_and_scenarios_are_complete_only_together() -> None:
    defaults = {key: value for key, value in SERVING.items() if key != "model"}
    scenario = {"name": "a", "model": SERVING["model"], "workload": {"arrivals": {"rate": "9 req/s"}}}
    assert is_valid({"defaults": defaults, "scenarios": [scenario]})
    assert not is_valid({"scenarios": [scenario]})
    assert is_valid({"scenarios": [{"name": "a", **SERVING}]})


@pytest.mark.parametrize(
    "data",
    [
        {"defaults": {}},
        {"defaults": {}, "scenarios": []},
        {"defaults": {}, "scenarios": [TRAINING]},
        {"defaults": {"hardwar": {}}, "scenarios": [{"name": "a", **TRAINING}]},
        {"scenarios": [TRAINING]},
        {"scenarios": [{"name": "a", **TRAINING}], "model": {}},
        [],
        None,
    ],
)
def test_files_of_a_wrong_form(data: object) -> None:
    assert not is_valid(data)

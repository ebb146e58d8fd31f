"""Experiments that were broken on purpose: check and run answer every one or refuse it with its line, and soon."""

from __future__ import annotations

import copy
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.helpers.breakage import VALUES, answer, around, change, places, results_are_finite, says_where
from tests.helpers.places import ROOT

SCHEMA = json.loads((ROOT / "experiments" / "experiment.schema.json").read_text(encoding="utf-8"))["$defs"]
POISSON = {"kind": "poisson", "rate": "9 req/s"}
WORKLOAD = {"arrivals": POISSON, "prompt_tokens": 50, "output_tokens": 5, "num_requests": 8}
TRAINING = {"batch_size_per_gpu": 2, "num_iterations": 2}
FULL = {**TRAINING, "activation_recompute": "full"}
EXPERIMENTS: list[dict[str, Any]] = [
    {"hardware": {"gpu": "H100-SXM", "gpus_per_node": 4}, "training": TRAINING},
    {
        "hardware": {"gpu": "A100-PCIE", "num_nodes": 4, "gpus_per_node": 4, "nic": {"bandwidth": "100 Gb/s"}},
        "network": {"topology_type": "fat_tree", "leaf_size": 2, "oversubscription": 2},
        "parallelism": {
            "strategy": "TP_PP_DDP",
            "tp_degree": 2,
            "pp_stages": 4,
            "virtual_stages": 3,
            "schedule": "interleaved",
        },
        "training": {**FULL, "gradient_accumulation_steps": 4},
    },
    {
        "hardware": {"profile": "dgx-h100", "num_nodes": 2},
        "model": {"name": "Mixtral-8x7B"},
        "parallelism": {"strategy": "EP_FSDP", "ep_degree": 8},
        "training": {
            **TRAINING,
            "activation_recompute": "full",
            "checkpoint": {"interval": 1, "storage_bandwidth": "10 GB/s"},
        },
    },
    {
        "hardware": {"gpu": "H100-SXM", "num_nodes": 2, "gpus_per_node": 2},
        "parallelism": {"strategy": "FSDP"},
        "training": {**TRAINING, "failures": {"duration": "2 d", "gpu_mtbf": "100 h", "restart": "1 min"}},
        "simulation": {"lod": "high"},
    },
    {"hardware": {"gpu": "H100-SXM"}, "serving": {"engine": "vllm", "prefix_caching": True}, "workload": WORKLOAD},
    {
        "hardware": {"gpu": "H100-SXM", "num_nodes": 2, "gpus_per_node": 2},
        "parallelism": {"strategy": "TP", "tp_degree": 2},
        "serving": {"disaggregated": {"prefill_replicas": 1, "decode_replicas": 1}},
        "workload": {**WORKLOAD, "sessions": {"turns": 2, "think_time": "1 s"}},
    },
    {
        "hardware": {"gpu": "A100-SXM-80GB", "num_nodes": 4},
        "network": {"contention": "fair"},
        "serving": {"max_num_seqs": 4, "scheduler": "vllm_v0", "preemption": "swap"},
        "workload": {**WORKLOAD, "output_tokens": {"kind": "lognormal", "mean": 20, "sigma": 1}},
        "simulation": {"duration": "3 s"},
    },
    {
        "hardware": {"profile": "dgx-a100", "num_nodes": 2},
        "training": TRAINING,
        "jobs": [
            {"name": "a", "gpus": 8, "model": {"name": "BERT-Large"}},
            {"name": "b", "gpus": 2, "arrival": "1 s", "serving": {}, "workload": WORKLOAD},
        ],
    },
]
LIMITS = {"suppress_health_check": list(HealthCheck), "print_blob": True}


def _known(path: tuple[Any, ...]) -> dict[str, Any] | None:
    """The settings that the schema knows at a place of an experiment."""
    node: dict[str, Any] | None = SCHEMA["SimulationConfig"]
    for part in path:
        node = _resolved((node or {}).get("properties", {}).get(part, {}) if isinstance(part, str) else {})
    return (node or {}).get("properties")


def _resolved(node: dict[str, Any]) -> dict[str, Any] | None:
    """A part of the schema behind a reference, the first of several that is one."""
    for option in (node, *node.get("anyOf", ())):
        if "$ref" in option:
            return SCHEMA[option["$ref"].rsplit("/", 1)[1]]
        if "properties" in option:
            return option
    return None


def _fitting(draw: st.DrawFn, node: dict[str, Any], depth: int = 0) -> Any:
    """A value that the schema allows, often at its limits."""
    if "$ref" in node:
        node = SCHEMA[node["$ref"].rsplit("/", 1)[1]]
    if "anyOf" in node:
        return _fitting(draw, draw(st.sampled_from(node["anyOf"])), depth)
    if "const" in node or "enum" in node:
        return draw(st.sampled_from(node.get("enum", [node.get("const")])))
    kind = node.get("type")
    if kind in ("integer", "number"):
        low = node.get("minimum", node.get("exclusiveMinimum", 0))
        return draw(st.sampled_from([low, low + 1, 2, 3, 4, 8, 64, 1000, node.get("maximum", 10**9)]))
    if kind == "string" and "examples" in node:
        unit = str(node["examples"][0]).partition(" ")[2]
        return f"{draw(st.sampled_from([0, 1, 3, 0.1, 1e-3, 1e-9, 1e3, 1e6, 1e12, 1e-30, 1e30]))} {unit}"
    if kind == "array" and depth < 4:
        return [
            _fitting(draw, node.get("items", {"type": "integer"}), depth + 1) for _ in range(draw(st.integers(0, 2)))
        ]
    if "properties" in node and depth < 4:
        chosen = [key for key in node["properties"] if key in node.get("required", ()) or draw(st.integers(0, 7)) == 0]
        return {key: _fitting(draw, node["properties"][key], depth + 1) for key in chosen}
    return draw(VALUES)


@st.composite
def broken(draw: st.DrawFn) -> str:
    """The text of an experiment with up to four settings changed, most of them so that they fit the schema."""
    data = copy.deepcopy(draw(st.sampled_from(EXPERIMENTS)))
    data.setdefault("model", {"name": "GPT2-Small"})
    for _ in range(draw(st.integers(1, 4))):
        if draw(st.integers(0, 2)) == 0:
            change(draw, data)
            continue
        path = draw(
            st.sampled_from([(), *(path for path in places(data) if isinstance(around(data, (*path, 0)), dict))])
        )
        if known := _known(path):
            key = draw(st.sampled_from(sorted(known)))
            around(data, (*path, key))[key] = _fitting(draw, known[key])
    return yaml.safe_dump(data, allow_unicode=True)


def check(folder: Path, text: str) -> None:
    """What must hold of any text."""
    file = folder / "x.yaml"
    file.write_text(text, encoding="utf-8", errors="surrogatepass")
    result = answer("check", str(file))
    assert says_where(result), result.output


def run(folder: Path, text: str) -> None:
    """What must hold of any text, and of what is written."""
    file, results = folder / "x.yaml", folder / "results"
    file.write_text(text, encoding="utf-8", errors="surrogatepass")
    shutil.rmtree(results, ignore_errors=True)
    if (
        answer("check", str(file)).exit_code == 0
        and answer("run", str(file), "--quiet", "--out", str(results)).exit_code == 0
    ):
        results_are_finite(results)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("broken")


@pytest.mark.parametrize("data", EXPERIMENTS, ids=range(len(EXPERIMENTS)))
def test_whole_experiments_are_answered(folder: Path, data: dict[str, Any]) -> None:
    file = folder / "whole.yaml"
    file.write_text(yaml.safe_dump({"model": {"name": "GPT2-Small"}, **data}))
    assert answer("run", str(file), "--quiet", "--out", str(folder / "whole")).exit_code == 0


@settings(max_examples=80, **LIMITS)
@given(text=broken())
def test_check_answers_or_refuses(folder: Path, text: str) -> None:
    check(folder, text)


@settings(max_examples=30, **LIMITS)
@given(text=broken())
def test_run_answers_or_refuses(folder: Path, text: str) -> None:
    run(folder, text)


@pytest.mark.slow
@settings(max_examples=3000, **LIMITS)
@given(text=broken())
def test_check_answers_or_refuses_thousands(folder: Path, text: str) -> None:
    check(folder, text)


@pytest.mark.slow
@settings(max_examples=1000, **LIMITS)
@given(text=broken())
def test_run_answers_or_refuses_a_thousand(folder: Path, text: str) -> None:
    run(folder, text)

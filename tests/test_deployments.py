"""What is known of the deployments behind rows, beside the rows."""

from __future__ import annotations

from typing import Any

import pytest

from simsys.fidelity.case import Unsupported
from simsys.fidelity.deployments import ACCEPTANCE, deployment
from simsys.fidelity.table import Row

INFERENCEX = "InferenceX-style run: lengths random in [0.8L,L]; attention_dp 1, moe_tp 8"
SGLANG = {"engine": "SGLang", "model": "deepseek-r1", "gpu": "B200-SXM-180GB", "precision": "fp4", "notes": INFERENCEX}
TRT = {**SGLANG, "engine": "TensorRT-LLM", "engine_version": "1.2.0rc6.post2"}


def known(**cells: str) -> dict[str, Any]:
    row = Row({"load_kind": "concurrency", "load_value": "64", **cells}, "rows.csv", 2, [])
    return deployment(row)


@pytest.mark.parametrize(
    "cells",
    [
        {**SGLANG, "notes": "source_file=own.csv"},
        {**SGLANG, "load_kind": "static_batch"},
        {**SGLANG, "engine": "vLLM"},
    ],
)
def test_nothing_is_known_of_others(cells: dict[str, str]) -> None:
    assert known(**cells) == {}


def test_graphs_are_recorded_for_all_users() -> None:
    assert known(**TRT) == {"max_cudagraph_capture_size": 64}
    assert known(**SGLANG)["max_cudagraph_capture_size"] == 64


@pytest.mark.parametrize(
    ("cells", "interval"),
    [
        ({"load_value": "8"}, 10),
        ({"load_value": "16"}, 30),
        ({"gpu": "B300-SXM-288GB"}, 30),
        ({"gpu": "H200-SXM-141GB"}, None),
        ({"model": "glm-5"}, None),
    ],
)
def test_sglang_polls_on_blackwell(cells: dict[str, str], interval: int | None) -> None:
    assert known(**{**SGLANG, **cells}).get("scheduler_recv_interval") == interval


@pytest.mark.parametrize(
    "cells",
    [
        {**TRT, "engine_version": "1.2.0rc6.post3"},
        {**TRT, "engine_version": "1.1.0rc2.post2", "notes": f"measured 2026-01-14; {INFERENCEX}"},
        {**SGLANG, "model": "qwen3.5-397b-a17b", "precision": "fp8", "tp": "4", "ep": "1"},
    ],
)
def test_some_draft_tokens(cells: dict[str, str]) -> None:
    found = known(**cells)
    assert found["speculative"] == {"draft_tokens": 3, "acceptance_rate": ACCEPTANCE, "draft_layers": 1}
    assert found["max_cudagraph_capture_size"] == 4 * 64


@pytest.mark.parametrize(
    "cells",
    [
        TRT,
        {**TRT, "engine_version": "1.1.0rc2.post2", "notes": f"measured 2025-12-15; {INFERENCEX}"},
        {**SGLANG, "model": "qwen3.5-397b-a17b", "precision": "fp8", "tp": "4", "ep": "4"},
        {**SGLANG, "model": "qwen3.5-397b-a17b", "precision": "fp8", "tp": "8", "ep": "1"},
        {**TRT, "model": "gpt-oss-120b", "engine_version": "1.2.0rc6.post3"},
    ],
)
def test_others_do_not(cells: dict[str, str]) -> None:
    assert "speculative" not in known(**cells)


def test_what_may_be_either_is_not_predicted() -> None:
    cells = {**SGLANG, "precision": "fp8", "engine_version": "0.5.9", "notes": f"measured 2026-03-25; {INFERENCEX}"}
    with pytest.raises(Unsupported, match="multi-token prediction is not stated"):
        known(**cells)

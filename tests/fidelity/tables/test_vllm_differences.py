"""What a result of a benchmark says of itself that is not so in the experiment."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from simsys.fidelity.tables.vllm_differences import vllm_warnings

RESULT: dict[str, Any] = {
    **{"completed": 100, "total_input_tokens": 51200, "total_output_tokens": 12800, "request_throughput": 7.9},
    **{"model_id": "meta-llama/Meta-Llama-3-8B-Instruct", "request_rate": 8.0, "max_concurrency": None},
}
SCENARIO: dict[str, Any] = {
    "model": {"name": "Llama3-8B"},
    "hardware": {"gpu": "H100-SXM"},
    "serving": {"engine": "vllm"},
    "workload": {
        "arrivals": {"kind": "poisson", "rate": "8 req/s"},
        "prompt_tokens": 512,
        "output_tokens": 128,
        "num_requests": 100,
    },
}
CLOSED = {**SCENARIO["workload"], "arrivals": {"kind": "closed_loop", "concurrency": 32}}


def warnings(tmp_path: Path, found: dict[str, Any], scenario: dict[str, Any]) -> list[str]:
    path = tmp_path / "r.json"
    path.write_text(json.dumps({**RESULT, **found}))
    return [text.removeprefix(f"{path}: ") for text in vllm_warnings(path, {**SCENARIO, **scenario})]


@pytest.mark.parametrize(
    ("found", "scenario"),
    [
        ({}, {}),
        ({"model_id": "Llama3-8B"}, {}),
        ({"request_rate": 8.05}, {}),
        ({"model_id": None}, {}),
        ({"max_concurrency": 32, "request_rate": "inf"}, {"workload": CLOSED}),
        ({"tensor_parallel_size": "1"}, {}),
        ({"request_rate": 3.0}, {"workload": None}),
        ({"request_rate": 3.0}, {"workload": {"arrivals": "nonsense"}}),
    ],
)
def test_what_is_so_is_no_warning(tmp_path: Path, found: dict[str, Any], scenario: dict[str, Any]) -> None:
    assert warnings(tmp_path, found, scenario) == []


@pytest.mark.parametrize(
    ("found", "scenario", "text"),
    [
        (
            {"model_id": "meta-llama/Llama-3.1-70B"},
            {},
            "measured on model 'meta-llama/Llama-3.1-70B', predicted on 'Llama3-8B', another model",
        ),
        (
            {"model_id": "acme/secret"},
            {},
            "measured on model 'acme/secret', predicted on 'Llama3-8B': it is not known whether these are the same",
        ),
        ({"request_rate": 20.0}, {}, "measured at 20 req/s, the experiment has 8 req/s; predicted as measured"),
        (
            {"request_rate": "inf"},
            {},
            "measured with all requests at once, the experiment has 8 req/s; predicted as measured",
        ),
        (
            {"max_concurrency": 64, "request_rate": "inf"},
            {"workload": CLOSED},
            "measured with 64 requests at once, the experiment has 32 at once; predicted as measured",
        ),
        ({}, {"workload": CLOSED}, "measured at 8 req/s, the experiment has 32 at once; predicted as measured"),
        (
            {"total_input_tokens": 102400},
            {},
            "measured with 1024 prompt tokens on average, the experiment has 512; predicted as measured",
        ),
        ({"tp": "4"}, {}, "measured with tp_degree 4, predicted with 1"),
        ({"tp": "4"}, {"parallelism": {"tp_degree": 2}}, "measured with tp_degree 4, predicted with 2"),
    ],
)
def test_what_is_otherwise_is_named(
    tmp_path: Path, found: dict[str, Any], scenario: dict[str, Any], text: str
) -> None:
    assert warnings(tmp_path, found, scenario) == [text]


def test_a_trace_says_itself_when_requests_come(tmp_path: Path) -> None:
    traced = {**SCENARIO["workload"], "arrivals": {"kind": "trace"}, "trace": {"path": "r.json"}}
    assert warnings(tmp_path, {}, {"workload": traced}) == []

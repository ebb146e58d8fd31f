"""Tiers of the KV cache as options of vLLM and SGLang: read back into an equal scenario, or refused by name."""

from __future__ import annotations

import json
from typing import Any

import pytest

from simsys.deployments import emit, read_back
from simsys.errors import SimsysError
from tests.deployments.test_serving_targets import canonical, scenario, text_of

CPU = {"kind": "cpu", "capacity": "200 GB", "read_bandwidth": "50 GB/s"}
GIVEN: dict[str, dict[str, Any]] = {
    "vllm": {"kv_tiers": [CPU], "kv_offload": {"chunk_tokens": 64, "save_decode_cache": True}},
    "sglang": {
        "kv_tiers": [{**CPU, "write_policy": "write_back"}],
        "kv_offload": {"load": "layerwise", "save_decode_cache": True},
    },
}


@pytest.mark.parametrize("target", GIVEN)
def test_a_tier_of_cpu_memory_is_read_back(target: str) -> None:
    given = scenario(target, **GIVEN[target])
    files = emit(given, target)
    again = read_back(target, files, given)
    assert canonical(again, target) == canonical(given, target)


def test_options_of_the_tools() -> None:
    vllm = text_of(emit(scenario("vllm", **GIVEN["vllm"]), "vllm"), "vllm.yaml")
    extra = {"cpu_bytes_to_use": 200_000_000_000, "block_size": 64, "offload_prompt_only": False}
    assert json.dumps(extra) in vllm
    sglang = text_of(emit(scenario("sglang", **GIVEN["sglang"]), "sglang"), "serve.sh")
    assert "--hicache-size 100" in sglang  # of each of two ranks
    assert "--hicache-write-policy write_back" in sglang


@pytest.mark.parametrize(
    ("target", "serving", "word"),
    [
        ("vllm", {"kv_tiers": [{**CPU, "kind": "remote"}]}, "one tier of kind cpu"),
        ("vllm", {"kv_tiers": [{**CPU, "write_policy": "write_back"}]}, "write_policy: write_through"),
        ("sglang", {"kv_tiers": [CPU]}, "load: layerwise"),
        ("sglang", {"kv_tiers": [CPU], "kv_offload": {"load": "layerwise"}}, "save_decode_cache: true"),
        ("sglang", GIVEN["sglang"] | {"kv_tiers": [{**CPU, "capacity": "1 GB"}]}, "a whole number"),
        ("vllm", {"kv_tiers": [CPU], "kv_offload": {"load": "blocking"}}, "kv_offload.load"),
    ],
)
def test_what_a_tool_has_no_option_for_is_refused(target: str, serving: dict[str, Any], word: str) -> None:
    with pytest.raises(SimsysError, match=word):
        emit(scenario(target, **serving), target)

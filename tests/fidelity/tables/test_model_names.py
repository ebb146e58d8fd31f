"""Models by the names that benchmarks give them."""

from __future__ import annotations

import pytest

from simsys.fidelity.tables.model_names import database_name, served_name


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("Llama3-8B", "Llama3-8B"),
        ("meta-llama/Meta-Llama-3-8B-Instruct", "Llama3-8B"),
        ("meta-llama/Llama-3.1-70B-Instruct", "Llama-3.1-70B"),
        ("RedHatAI/Llama-3.1-8B-Instruct-FP8-dynamic", "Llama-3.1-8B"),
        ("meta-llama/Llama-2-7b-chat-hf", "Llama-2-7B"),
        ("mistralai/Mistral-7B-Instruct-v0.3", "Mistral-7B"),
        ("Qwen/Qwen3-235B-A22B-Instruct-2507", "Qwen3-235B-A22B"),
        ("deepseek-ai/DeepSeek-R1", "DeepSeek-V3"),
        ("llama3.x-70b", "Llama-3.1-70B"),
        ("/models/Qwen3-32B/", "Qwen3-32B"),
        ("my-own-model", None),
        ("", None),
    ],
)
def test_a_name_leads_to_the_model_db(name: str, found: str | None) -> None:
    assert database_name(name) == found


def test_a_checkpoint_that_is_stored_in_its_own_way_is_a_model_of_its_own() -> None:
    assert served_name("deepseek-r1", "fp4") == "DeepSeek-R1-NVFP4"
    assert served_name("deepseek-r1", "fp8_block") == served_name("deepseek-v3", "bf16") == "DeepSeek-V3"
    assert served_name("my-own-model", "fp4") is None

"""What is known of the deployments behind rows, beside the rows."""

from __future__ import annotations

from typing import Any

import pytest

from simsys.config.experts import ExpertsConfig
from simsys.config.serving import ServingConfig
from simsys.fidelity.case import Unsupported
from simsys.fidelity.tables.deployments import (
    Deployments,
    Formula,
    _Amounts,
    corrected,
    deployment,
    lengths,
    requests_of,
)
from simsys.fidelity.tables.facts import facts
from simsys.fidelity.tables.table import Row

INFERENCEX = "InferenceX-style run: lengths random in [0.8L,L]; attention_dp 1, moe_tp 8"
TABLE = "ai-dynamo/aiconfigurator, silicon_sample.csv"
SGLANG = {
    "source": TABLE,
    "engine": "SGLang",
    "model": "deepseek-r1",
    "gpu": "B200-SXM-180GB",
    "precision": "fp4",
    "notes": INFERENCEX,
}
TRT = {**SGLANG, "engine": "TensorRT-LLM", "engine_version": "1.2.0rc6.post2"}


def known(**cells: str) -> dict[str, Any]:
    return deployment(row_of(**cells))


def row_of(**cells: str) -> Row:
    given = {
        "load_kind": "concurrency",
        "load_value": "64",
        "input_len": "1024",
        "output_len": "1024",
        "tp": "8",
        **cells,
    }
    return Row(given, "rows.csv", 2, [])


@pytest.mark.parametrize(
    "cells",
    [
        {**SGLANG, "notes": "source_file=own.csv"},
        {**SGLANG, "load_kind": "static_batch"},
        {**SGLANG, "engine": "vLLM", "load_kind": "static_batch"},
    ],
)
def test_nothing_is_known_of_others(cells: dict[str, str]) -> None:
    assert known(**cells) == {}


def test_first_tokens_of_a_server_that_stalled_are_left_out_with_the_reason() -> None:
    stalled = {**SGLANG, "engine_version": ""}
    with pytest.raises(Unsupported, match="the server stalled for about a minute"):
        known(**stalled, metric="ttft_ms")
    assert known(**stalled, metric="tpot_ms")
    assert known(**{**stalled, "engine_version": "0.5.9"}, metric="ttft_ms")
    assert known(**{**stalled, "gpu": "H200-SXM-141GB"}, metric="ttft_ms")


def test_runs_that_may_have_their_start_up_in_them_are_left_out_with_the_reason() -> None:
    row = {"source": "argonne-lcf/LLM-Inference-Bench", "engine": "vLLM", "gpu": "Intel-Max-1550"}
    with pytest.raises(Unsupported, match="start-up"):
        known(**row, tp="1")
    known(**row, tp="2")
    known(**{**row, "gpu": "MI300X-192GB"}, tp="1")


def test_runs_whose_prompts_were_cached_are_left_out_with_the_reason() -> None:
    cached = {
        **SGLANG,
        "engine": "vLLM",
        "engine_version": "0.12.0",
        "model": "llama3.1-8b",
        "gpu": "H200-SXM-141GB",
        "notes": "source_file=nvidia_Llama-3.1-8B-Instruct-FP8.csv; batch_size field 64",
    }
    with pytest.raises(Unsupported, match="prompts came from the prefix cache"):
        known(**cached)
    assert known(**{**cached, "gpu": "H100-SXM-80GB"})


OWN = "source_file=Qwen_Qwen3-32B.csv; batch_size field 32, moe_tp 1"


@pytest.mark.parametrize(("engine", "tokens"), [("vLLM", 2556), ("TensorRT-LLM", 2556), ("SGLang", 2556)])
def test_steps_are_as_long_as_the_configurator_proposes(engine: str, tokens: int) -> None:
    assert known(engine=engine, load_value="32", notes=OWN) == {"max_num_batched_tokens": tokens}
    assert known(engine=engine, load_value="32", notes=INFERENCEX).get("max_num_batched_tokens") != tokens


def test_a_step_has_room_for_the_users_and_for_whole_prompts_where_they_are_not_divided() -> None:
    long = {"input_len": "100", "output_len": "4000", "notes": OWN}
    assert known(engine="vLLM", **long)["max_num_batched_tokens"] == 32 + 100 + 1500
    assert known(engine="TensorRT-LLM", **long)["max_num_batched_tokens"] == 4100
    assert known(engine="vLLM", **long, load_value="5000")["max_num_batched_tokens"] == 5000


@pytest.mark.parametrize(
    ("cells", "tokens"),
    [
        ({}, 8192),
        ({"input_len": "8192"}, 8320),
        ({"engine_version": ""}, 1152),
        ({"engine_version": "1.2.0rc6.post3"}, 1344),  # with drafts
        ({"model": "gpt-oss-120b"}, 20000),
        ({"model": "llama3.x-70b"}, 16384),
        ({"model": "llama3.x-70b", "gpu": "H200-SXM-141GB"}, 2248),
    ],
)
def test_tensorrt_llm_has_the_steps_of_its_launch_scripts(cells: dict[str, str], tokens: int) -> None:
    assert known(**{**TRT, **cells})["max_num_batched_tokens"] == tokens


@pytest.mark.parametrize(
    ("cells", "steps"),
    [({}, 20), ({"tp": "8"}, None), ({"output_len": "8192"}, None), ({"model": "gpt-oss-120b"}, None)],
)
def test_tensorrt_llm_lets_prompts_wait_where_its_launch_script_does(cells: dict[str, str], steps: int | None) -> None:
    assert known(**{**TRT, "model": "llama3.x-70b", "tp": "2", **cells}).get("batch_wait_timeout_iters") == steps


@pytest.mark.parametrize(
    ("cells", "precision"),
    [
        ({"engine": "vLLM", "model": "gpt-oss-120b", "gpu": "H100-SXM-80GB"}, "bf16"),
        ({"engine": "vLLM", "model": "gpt-oss-120b", "gpu": "H200-SXM-141GB"}, "bf16"),
        ({"engine": "vLLM", "model": "gpt-oss-120b"}, None),
        ({"engine": "vLLM", "model": "minimax-m2.5", "precision": "fp8", "engine_version": "0.17.0"}, "bf16"),
        ({"engine": "vLLM", "model": "minimax-m2.5", "precision": "fp8", "engine_version": "0.19.0"}, None),
        ({"engine": "vLLM", "model": "minimax-m2.5", "precision": "fp4"}, None),
        ({"engine": "TensorRT-LLM", "model": "gpt-oss-120b", "gpu": "H200-SXM-141GB"}, "bf16"),
        ({"model": "deepseek-r1", "gpu": "H200-SXM-141GB", "precision": "fp8"}, "bf16"),
        ({"model": "deepseek-r1", "gpu": "H200-SXM-141GB", "precision": "fp8", "prefill_tp": "8"}, None),
    ],
)
def test_the_cache_is_as_wide_as_launch_scripts_say(cells: dict[str, str], precision: str | None) -> None:
    assert known(**{**SGLANG, **cells}).get("kv_precision") == precision


def test_memory_and_steps_are_those_of_launch_scripts() -> None:
    found = known(**{**SGLANG, "model": "qwen3.5-397b-a17b", "precision": "fp8", "tp": "8"})
    assert (found["max_num_batched_tokens"], found["gpu_memory_utilization"]) == (32768, 0.82)
    assert known(**TRT)["free_gpu_memory_fraction"] == 0.8
    assert known(**{**TRT, "gpu": "H200-SXM-141GB"})["free_gpu_memory_fraction"] == 0.75
    assert known(**{**TRT, "model": "gpt-oss-120b"})["free_gpu_memory_fraction"] == 0.85


@pytest.mark.parametrize(
    ("cells", "steps"),
    [({}, 40), ({"load_value": "32"}, None), ({"precision": "fp4"}, None), ({"attention_dp": "8"}, None)],
)
def test_tensorrt_llm_delays_batches_where_its_launch_script_does(cells: dict[str, str], steps: int | None) -> None:
    assert known(**{**TRT, "precision": "fp8", **cells}).get("batch_wait_timeout_iters") == steps


def test_vllm_has_the_graphs_of_its_launch_scripts() -> None:
    vllm = {**SGLANG, "engine": "vLLM"}
    assert known(**{**vllm, "model": "gpt-oss-120b"}) == {"async_scheduling": True, "max_cudagraph_capture_size": 2048}
    assert known(**{**vllm, "model": "llama3.x-70b"}) == {"async_scheduling": True, "cuda_graphs": "decode_only"}
    assert known(**{**vllm, "model": "llama3.x-70b", "gpu": "H200-SXM-141GB"}) == {"async_scheduling": True}


@pytest.mark.parametrize(
    ("notes", "shares"),
    [
        (INFERENCEX, (0.8, 1.0)),
        ("source_file=kimi-k2.5-gap-analysis.csv; x", (0.8, 1.0)),
        ("150 requests, lengths +-15%", (0.85, 1.15)),
        (OWN, (1.0, 1.0)),
        ("", (1.0, 1.0)),
    ],
)
def test_lengths_are_drawn_where_they_are(notes: str, shares: tuple[float, float]) -> None:
    assert lengths(row_of(notes=notes)) == pytest.approx(shares)


def test_requests_of_a_run_are_those_that_its_notes_or_its_script_say() -> None:
    assert requests_of(row_of(notes="150 requests, lengths +-15%")) == 150
    glm = {**SGLANG, "model": "glm-5", "gpu": "H200-SXM-141GB", "load_value": "16"}
    assert requests_of(row_of(**glm)) == 80
    assert requests_of(row_of(**{**glm, "gpu": "B200-SXM-180GB"})) == 0


def test_seats_may_be_fewer_than_users() -> None:
    notes = "source_file=meta-llama_Llama-3.1-8B-Instruct.csv; batch_size field 64, moe_tp 1"
    cells = {**TRT, "engine_version": "1.0.0rc3", "model": "llama3.1-8b", "load_value": "64", "notes": notes}
    assert known(**cells)["max_num_seqs"] == 63
    assert "max_num_seqs" not in known(**{**cells, "model": "qwen3-32b"})


def test_graphs_are_recorded_for_all_users() -> None:
    assert known(**TRT)["max_cudagraph_capture_size"] == 64
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
        {
            **{**SGLANG, "gpu": "B300-SXM-288GB", "engine_version": "0.5.9"},
            **{"model": "qwen3.5-397b-a17b", "precision": "fp8", "tp": "4", "ep": "1"},
        },
    ],
)
def test_some_draft_tokens(cells: dict[str, str]) -> None:
    found = known(**cells)
    assert found["speculative"] == {"draft_tokens": 3, "acceptance_rate": 0.7, "draft_layers": 1}
    assert found["max_cudagraph_capture_size"] == 4 * 64


@pytest.mark.parametrize(
    "cells",
    [
        {**TRT, "engine_version": "1.2.0rc6.post3"},
        {**TRT, "engine_version": "1.1.0rc2.post2", "notes": f"measured 2026-01-14; {INFERENCEX}"},
    ],
)
@pytest.mark.parametrize(("ranks", "drafted"), [("1", 3), ("8", 1), ("16", 1)])
def test_fewer_with_data_parallel_attention(cells: dict[str, str], ranks: str, drafted: int) -> None:
    assert known(**cells, attention_dp=ranks)["speculative"]["draft_tokens"] == drafted


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


def test_amounts_are_sums_rounded_up_and_the_largest_of_several() -> None:
    amounts = _Amounts({"users": 3, "prompt_tokens": 100})
    assert amounts.value(7) == 7
    assert amounts.value("users") == 3
    assert amounts.value(Formula(sum=("users", "prompt_tokens", 1))) == 104
    assert amounts.value(Formula(sum=("users", "prompt_tokens", 1), multiple_of=64)) == 128
    assert amounts.value(Formula(sum=("users", 61), multiple_of=64)) == 64
    assert amounts.value(Formula(largest=("users", Formula(sum=("users", 1)), 2))) == 4


def test_every_setting_of_a_deployment_is_one_of_serving() -> None:
    known = facts(Deployments)
    named = {name for each in known.deployments for rule in each.settings for name in (*rule.set, *rule.tokens)}
    inner = {name for name in named if "." in name}
    assert inner == {"experts.identical_sequences"}
    assert "identical_sequences" in ExpertsConfig.model_fields
    assert named - inner <= set(ServingConfig.model_fields)


def test_the_first_rule_that_sets_something_counts() -> None:
    blackwell = {**SGLANG, "load_value": "15"}
    assert known(**blackwell)["scheduler_recv_interval"] == 10
    assert known(**{**blackwell, "load_value": "16"})["scheduler_recv_interval"] == 30


@pytest.mark.parametrize(
    ("cells", "expected"),
    [
        ({"model": "gpt-oss-120b", "gpu": "H100-SXM-80GB"}, {"kv_precision": "bf16"}),
        ({"model": "minimax-m2.5", "gpu": "H200-SXM-141GB"}, {"kv_precision": "bf16", "gpu_memory_utilization": 0.95}),
        ({"model": "minimax-m2.5", "gpu": "B200-SXM-180GB", "engine_version": "0.19.0"}, {"block_size": 32}),
        ({"model": "kimi-k2.5", "precision": "int4", "gpu": "B200-SXM-180GB"}, {"gpu_memory_utilization": 0.97}),
    ],
)
def test_caches_and_memory_of_vllm_are_as_in_its_launch_scripts(
    cells: dict[str, str], expected: dict[str, object]
) -> None:
    given = {"engine": "vLLM", "engine_version": "0.18.0", "precision": "fp8", "notes": INFERENCEX, **cells}
    assert known(**given).items() >= expected.items()
    pools = known(**given, prefill_tp="8")
    assert not pools.keys() & expected.keys(), "recipes of pools set their own"


def test_tensorrt_llm_routes_to_the_rank_with_the_fewest_requests() -> None:
    ranks = {**TRT, "attention_dp": "8"}
    assert known(**ranks)["router"] == "least_outstanding"
    assert known(**ranks)["attention_dp_timeout_iters"] == 60
    assert known(**{**ranks, "model": "gpt-oss-120b"})["attention_dp_timeout_iters"] == 50
    assert "router" not in known(**TRT)


def test_prefill_workers_of_tensorrt_llm_have_room_for_several_short_prompts() -> None:
    pools = {**TRT, "prefill_tp": "1"}
    assert known(**pools)["router"] == "least_outstanding"
    assert known(**pools | {"precision": "fp4"})["max_num_batched_tokens"] == 8192
    assert known(**pools | {"precision": "fp8", "gpu": "B200-SXM-180GB"})["max_num_batched_tokens"] == 16384
    assert 8192 < known(**pools | {"precision": "fp4", "input_len": "8192"})["max_num_batched_tokens"] < 2 * 8192


QWEN = {
    **{"source": "ai-dynamo/aiconfigurator", "engine": "vLLM", "engine_version": "0.12.0", "precision": "fp8"},
    **{"model": "qwen3-235b-a22b", "gpu": "H200-SXM-141GB"},
}


def test_vllm_0_12_pads_experts_in_blocks_of_fp8_on_hopper() -> None:
    notes = "source_file=Qwen.csv; batch_size field 16, moe_tp 2"
    assert known(**QWEN, notes=notes)["experts"] == {"padded_rows": 128}
    for other in ({"engine_version": "0.18.0"}, {"gpu": "B200-SXM-180GB"}, {"model": "qwen3-32b"}):
        assert "experts" not in known(**{**QWEN, **other}, notes=notes)


def test_batches_of_one_prompt_use_the_same_experts() -> None:
    batch = {"source": "LLM-Inference-Bench", "load_kind": "static_batch", "load_value": "32", "model": "mixtral-8x7b"}
    assert known(**batch, engine="TensorRT-LLM") == {"experts": {"identical_sequences": 32}}
    first_call = {"experts": {"identical_sequences": 32}, "api_overhead": "0.47 s"}
    assert known(**batch, engine="Deepspeed-MII", tp="4") == first_call
    assert not known(**batch, engine="vLLM"), "its prompts are drawn at random"
    assert not known(**{**batch, "model": "llama2-7b"}, engine="TensorRT-LLM")


@pytest.mark.parametrize(
    ("tensor", "experts", "ranks", "gpus"), [("1", "2", "2", "2"), ("1", "4", "4", "4"), ("2", "4", "2", "4")]
)
def test_degrees_of_experts_say_how_many_ranks_attention_has(tensor: str, experts: str, ranks: str, gpus: str) -> None:
    row = corrected(row_of(**QWEN, notes=f"moe_tp {experts};", tp=tensor, gpus=tensor, attention_dp=""))
    assert [row.text(column) for column in ("tp", "attention_dp", "gpus")] == [tensor, ranks, gpus]
    same = row_of(**QWEN, notes="moe_tp 2;", tp="2", gpus="2", attention_dp="")
    assert corrected(same) is same


def test_rows_whose_layout_was_another_one_are_corrected() -> None:
    many = {**TRT, "engine_version": "", "ep": "1", "attention_dp": "1"}
    runs = {"256": ("1", "8", "8"), "64": ("8", "1", "1")}
    for users, layout in runs.items():
        row = corrected(row_of(**many, load_value=users))
        assert tuple(row.text(column) for column in ("tp", "attention_dp", "ep")) == layout
    long = corrected(row_of(**many, load_value="64", input_len="8192", tp="4"))
    assert tuple(long.text(column) for column in ("tp", "attention_dp", "ep")) == ("1", "4", "4")


def test_cards_of_two_dies_are_two_gpus() -> None:
    cells = {
        "source": "argonne-lcf/LLM-Inference-Bench Plots/All_results.csv",
        "engine": "vLLM",
        "engine_version": "2024",
    }
    for cards, dies in (("1", "2"), ("2", "4"), ("4", "8")):
        row = corrected(row_of(**cells, gpu="MI250", tp=cards, gpus=cards))
        assert [row.text(column) for column in ("tp", "gpus", "engine_version")] == [dies, dies, "0.6.1"]
    whole = corrected(row_of(**cells, gpu="MI300X-192GB", tp="2", gpus="2"))
    assert [whole.text(column) for column in ("tp", "gpus", "engine_version")] == ["2", "2", "0.6.1"]


def test_half_of_512_users_had_a_seat_and_70b_models_a_cache_of_16_bit_on_h100() -> None:
    cells = {"engine": "vLLM", "engine_version": "0.11.2", "gpu": "H100-SXM-80GB", "notes": INFERENCEX}
    assert known(**cells, model="gpt-oss-120b", precision="fp4", load_value="512")["max_num_seqs"] == 256
    assert "max_num_seqs" not in known(**cells, model="gpt-oss-120b", precision="fp4")
    assert known(**cells, model="llama3.x-70b", precision="fp8")["kv_precision"] == "bf16"
    assert "kv_precision" not in known(**{**cells, "gpu": "H200-SXM-141GB"}, model="llama3.x-70b", precision="fp8")


def test_chunks_of_answers_are_those_of_the_launch_scripts() -> None:
    assert known(**TRT)["stream_interval"] == 10
    assert known(**{**TRT, "model": "gpt-oss-120b"})["stream_interval"] == 20
    assert known(**TRT, prefill_tp="4")["stream_interval"] == 100
    own = {**TRT, "engine_version": "1.0.0rc3", "notes": "source_file=Qwen.csv; batch_size field 16"}
    assert "stream_interval" not in known(**own)
    assert known(**{**own, "model": "qwen3-235b-a22b"}, input_len="256")["max_num_batched_tokens"] == 528


def test_products_of_degrees_are_taken_apart() -> None:
    cells = {**TRT, "engine_version": "gpt-oss-dev", "model": "gpt-oss-120b", "gpu": "H200-SXM-141GB"}
    row = corrected(row_of(**cells, tp="4", ep="2", gpus="4"))
    assert [row.text(column) for column in ("tp", "ep", "gpus")] == ["2", "2", "2"]
    other = row_of(**cells, tp="4", ep="4", gpus="4")
    assert corrected(other) is other


def test_problems_of_a_corrected_row_are_problems_of_its_table() -> None:
    given = row_of(**{**TRT, "engine_version": ""}, load_value="256")
    row = corrected(given)
    row.wrong("tp", "so")
    assert row.used is given.used
    assert given.problems


def test_degrees_of_early_pools_of_sglang_are_those_of_their_recipes() -> None:
    pools = {**SGLANG, "engine_version": "0.5.5.post2", "gpu": "GB200-192GB", "prefill_ep": "1"}
    wide = corrected(row_of(**pools, prefill_dp="4", decode_tp="1", decode_dp="32", decode_ep="1"))
    assert (wide.text("prefill_ep"), wide.text("decode_ep")) == ("4", "32")
    low = corrected(row_of(**pools, prefill_dp="1", decode_tp="1", decode_dp="4", decode_ep="1"))
    assert (low.text("decode_tp"), low.text("decode_dp")) == ("4", "1")


def test_rows_of_another_table_stay_as_they_are() -> None:
    mine = row_of(**{**TRT, "source": "my cluster", "engine_version": ""}, load_value="256")
    assert corrected(mine) is mine


def test_the_cells_of_a_correction_may_be_those_of_others() -> None:
    overview = {"source": "perf-overview.md commit 00f37686", "model": "qwen3-30b-a3b", "load_kind": "offline_max"}
    for degree in ("2", "4", "8"):
        row = corrected(row_of(**overview, tp=degree, ep="see notes"))
        assert [row.text(column) for column in ("tp", "attention_dp", "ep")] == ["1", degree, degree]
    alone = row_of(**overview, tp="1", ep="see notes")
    assert corrected(alone) is alone

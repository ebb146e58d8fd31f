"""Options of serving that do not fit: each is one problem at its place, with what would be right."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from simsys.check import check_file
from simsys.config.cluster import HardwareConfig
from simsys.config.experiment import SimulationConfig, SimulationSettings, SloConfig
from simsys.config.serving import ServingConfig
from simsys.config.workload import WorkloadConfig
from simsys.errors import ConfigError, InfeasibleConfigError

SCENARIO = """\
hardware: {{profile: {profile}}}
model: {{name: {model}}}
parallelism: {{{parallelism}}}
serving: {{{serving}}}
workload: {{arrivals: {{kind: all_at_once}}, prompt_tokens: 64, output_tokens: 16, num_requests: 4}}
"""


def problems(tmp_path: Path, **given: str) -> list[str]:
    settings = {"profile": "dgx-h100", "model": "Mixtral-8x7B", "parallelism": "tp_degree: 8", "serving": ""} | given
    file = tmp_path / "scenario.yaml"
    file.write_text(SCENARIO.format(**settings), encoding="utf-8")
    try:
        check_file(file)
    except ConfigError as error:
        return [str(problem).removeprefix(f"{file}:") for problem in error.problems]
    return []


GOOD = [
    {"serving": "precision: fp8, kv_precision: fp8"},
    {"serving": "precision: int4"},
    {"serving": "precision: int8, kv_precision: int8, engine: tensorrt-llm"},
    {"serving": "cuda_graphs: true"},
    {"serving": "prefix_caching: true"},
    {"serving": "prefix_caching: true, router: prefix_affinity, router_options: {balance_abs_threshold: 8}"},
    {"serving": "preemption: swap"},
    {"serving": "preemption: swap, swap_space: 16 GiB, prefix_caching: true"},
    {"serving": "cuda_graphs: false"},
    {"serving": "cuda_graphs: false, engine: pytorch-eager"},
    {"serving": "lora: {adapters: 100, rank: 16}"},
    {"serving": "speculative: {draft_tokens: 4, acceptance_rate: 0.7, draft_model: Llama3-8B}"},
    {"serving": "speculative: {draft_tokens: 4, acceptance_rate: 0.7, draft_cost: 1 ms}"},
    {"serving": "speculative: {draft_tokens: 4, acceptance_rate: 0}"},
    {"serving": "speculative: {draft_tokens: 3, acceptance_rate: 0.7, draft_layers: 1}"},
    {"serving": "max_cudagraph_capture_size: 1024"},
    {"serving": "engine: sglang, scheduler_recv_interval: 10"},
    {"serving": "engine: tensorrt-llm, batch_wait_timeout_iters: 20, batch_wait_max_tokens_ratio: 0.9"},
    {"parallelism": "tp_degree: 8, ep_degree: 8"},
    {"parallelism": "tp_degree: 4, ep_degree: 4, pp_stages: 2, expert_skew: 1.5"},
    {"parallelism": "tp_degree: 8, ep_degree: 8, sequence_parallel: true, strategy: TP_EP"},
    {"parallelism": "tp_degree: 4, pp_stages: 2, strategy: TP_PP"},
    {"parallelism": "tp_degree: 2, pp_stages: 4, stage_layers: [7, 8, 8, 9]"},
    {"profile": "dgx-a100", "serving": "precision: int8"},
    {"profile": "dgx-v100", "serving": "precision: int8"},
]


@pytest.mark.parametrize("given", GOOD, ids=lambda given: next(iter(given.values())))
def test_what_fits_together_passes(tmp_path: Path, given: dict[str, str]) -> None:
    assert problems(tmp_path, **given) == []


KV = "vllm keeps keys and values in fp16, bf16, fp32, fp8, not in int8; write kv_precision: fp8 or engine: tensor"
BAD = [
    (
        {"serving": "swap_space: 4 GiB"},
        "4:10: serving: swap_space is for preemption: swap; write that too or remove swap_space",
    ),
    (
        {"serving": "preemption: discard"},
        "4:23: serving.preemption: 'discard' is not one of recompute, swap",
    ),
    (
        {"serving": "router: prefix_affinity, prefix_caching: false"},
        "4:19: serving.router: prefix_affinity routes by cached prefixes, but there are none; write prefix_caching: ",
    ),
    (
        {"serving": "prefix_caching: true, router: prefix_affinity, router_options: {balance_rel_threshold: 0.5}"},
        "4:98: serving.router_options.balance_rel_threshold: ",
    ),
    (
        {"profile": "dgx-a100", "serving": "precision: fp8"},
        "4:22: serving.precision: A100-SXM-80GB does not compute in fp8; it has bf16, fp16, fp32; write precision: "
        "int8 or bf16",
    ),
    (
        {"serving": "precision: int5"},
        "4:22: serving.precision: 'int5' is not one of fp32, fp16, bf16, fp8, fp8_block, int8, fp4, mxfp4, int4",
    ),
    ({"serving": "kv_precision: int8"}, f"4:25: serving.kv_precision: {KV}"),
    (
        {"serving": "kv_precision: int4"},
        "4:25: serving.kv_precision: vllm keeps keys and values in fp16, bf16, fp32, fp8, not in int4; "
        "write kv_precision: fp8",
    ),
    (
        {"serving": "engine: gpt-fast, precision: int8, kv_precision: fp8"},
        "4:60: serving.kv_precision: gpt-fast keeps keys and values in bf16, not in fp8; write kv_precision: bf16",
    ),
    (
        {"serving": "engine: pytorch-eager, cuda_graphs: true"},
        "4:47: serving.cuda_graphs: pytorch-eager has no CUDA graphs, but deepspeed-inference",
    ),
    (
        {"serving": "speculative: {draft_tokens: 4, acceptance_rate: 0.7, draft_model: Llama3-9B}"},
        "4:77: serving.speculative.draft_model: unknown model 'Llama3-9B', did you mean 'Llama3-8B'?",
    ),
    (
        {"serving": "speculative: {draft_tokens: 4, acceptance_rate: 0.7, draft_model: Llama3-70B}"},
        "4:77: serving.speculative.draft_model: Llama3-70B is no smaller than Mixtral-8x7B, for which it drafts",
    ),
    (
        {"serving": "speculative: {draft_tokens: 4, acceptance_rate: 0.7, draft_model: BERT-Large}"},
        "4:77: serving.speculative.draft_model: BERT-Large has no KV cache and cannot draft; use a small decoder",
    ),
    (
        {"serving": "speculative: {draft_tokens: 4, acceptance_rate: 0.7, draft_model: GPT2-Small}"},
        "4:77: serving.speculative.draft_model: GPT2-Small has 12 attention heads, which tp_degree 8 does not divide",
    ),
    (
        {"serving": "speculative: {draft_tokens: 4, acceptance_rate: 1.5}"},
        "4:59: serving.speculative.acceptance_rate: must be at most 1, not 1.5",
    ),
    (
        {"serving": "speculative: {draft_tokens: 2, acceptance_rate: 0.5, draft_model: GPT2-XL, draft_cost: 1 ms}"},
        "4:24: serving.speculative: tokens are drafted in one way, not by draft_model and draft_cost; keep one",
    ),
    (
        {"serving": "speculative: {draft_tokens: 2, acceptance_rate: 0.5, draft_layers: 32}"},
        "4:78: serving.speculative.draft_layers: must be less than the 32 layers of Mixtral-8x7B",
    ),
    (
        {"serving": "engine: pytorch-eager, max_cudagraph_capture_size: 64"},
        "4:62: serving.max_cudagraph_capture_size: pytorch-eager has no CUDA graphs, but deepspeed-inference",
    ),
    (
        {"serving": "cuda_graphs: false, max_cudagraph_capture_size: 64"},
        "4:59: serving.max_cudagraph_capture_size: there are no graphs with cuda_graphs: false; remove one of them",
    ),
    (
        {"serving": "batch_wait_timeout_iters: 20, scheduler_recv_interval: 10"},
        "4:37: serving.batch_wait_timeout_iters: no engine polls and lets prompts wait; remove",
    ),
    (
        {"serving": "batch_wait_max_tokens_ratio: 0.5"},
        "4:40: serving.batch_wait_max_tokens_ratio: prompts do not wait; give the longest wait with",
    ),
    (
        {"serving": "scheduler_recv_interval: 0"},
        "4:36: serving.scheduler_recv_interval: must be above 0, not 0",
    ),
    (
        {
            "serving": "speculative: {draft_tokens: 8, acceptance_rate: 0.5}, max_num_seqs: 256, "
            "max_num_batched_tokens: 2048"
        },
        "4:10: serving: max_num_batched_tokens (2048) must be at least max_num_seqs x (draft_tokens + 1), 2304",
    ),
    (
        {
            "parallelism": "tp_degree: 4, pp_stages: 2",
            "serving": "speculative: {draft_tokens: 2, acceptance_rate: 0.5}",
        },
        "4:11: serving.speculative: speculative decoding with pipeline parallelism is not available",
    ),
    ({"serving": "lora: {adapters: 0, rank: 8}"}, "4:28: serving.lora.adapters: must be above 0, not 0"),
    (
        {"parallelism": "tp_degree: 8, ep_degree: 4"},
        "3:40: parallelism.ep_degree: in serving, the ranks that share a layer each have whole experts, so ep_degree "
        "is tp_degree (8), not 4",
    ),
    (
        {"parallelism": "tp_degree: 8, ep_degree: 3"},
        "3:40: parallelism.ep_degree: ep_degree 3 does not divide 8 experts",
    ),
    (
        {"parallelism": "tp_degree: 8, ep_degree: 8", "model": "Llama3-8B"},
        "3:40: parallelism.ep_degree: Llama3-8B has no experts to divide",
    ),
    (
        {"parallelism": "tp_degree: 8, expert_skew: 1.5"},
        "3:42: parallelism.expert_skew: expert_skew has no effect without expert parallelism",
    ),
    (
        {"parallelism": "tp_degree: 8, ep_degree: 8, expert_capacity_factor: 1.5"},
        "3:67: parallelism.expert_capacity_factor: expert_capacity_factor is for training",
    ),
    (
        {"parallelism": "tp_degree: 2, pp_stages: 4, virtual_stages: 2"},
        "3:59: parallelism.virtual_stages: virtual_stages are for training",
    ),
    (
        {"parallelism": "tp_degree: 2, pp_stages: 4, stage_layers: [8, 8, 8]"},
        "3:57: parallelism.stage_layers: stage_layers must be 4 numbers that add up to 32 layers",
    ),
    (
        {"parallelism": "tp_degree: 3"},
        "3:26: parallelism.tp_degree: 8 GPUs cannot be divided into groups of tp_degree 3",
    ),
]


@pytest.mark.parametrize(("given", "expected"), BAD, ids=[expected.split(": ")[1] for _, expected in BAD])
def test_what_does_not_is_a_problem_at_its_place(tmp_path: Path, given: dict[str, str], expected: str) -> None:
    found = problems(tmp_path, **given)
    assert any(problem.startswith(expected) for problem in found), found


def test_a_model_that_does_not_fit_is_infeasible_and_the_smallest_degree_that_does_is_named(tmp_path: Path) -> None:
    file = tmp_path / "scenario.yaml"
    given = {"profile": "dgx-a100", "model": "Llama3-70B", "parallelism": "tp_degree: 1", "serving": ""}
    file.write_text(SCENARIO.format(**given), encoding="utf-8")
    with pytest.raises(InfeasibleConfigError) as caught:
        check_file(file)
    assert caught.value.exit_code == 3
    (problem,) = caught.value.problems
    assert str(problem).partition("; ")[2].startswith("parallelism.tp_degree: 2 would fit (")


@pytest.mark.parametrize(
    ("serving", "message"),
    [
        ("kv_cache_dtype: fp8", "4:11: serving.kv_cache_dtype: unknown key"),
        ("kv_cache_dtype: fp8", "did you mean 'kv_precision'?"),
        ("tensor_parallel_size: 8", "did you mean 'parallelism.tp_degree'?"),
        ("enable_prefix_caching: true", "did you mean 'prefix_caching'?"),
    ],
)
def test_names_of_vllm_lead_to_those_here(tmp_path: Path, serving: str, message: str) -> None:
    (found,) = problems(tmp_path, serving=serving)
    assert message in found


@pytest.mark.parametrize(
    ("setting", "instead"),
    [
        ("order: dp-tp-pp", "the ranks of a replica are consecutive"),
        ("schedule: gpipe", "in the order in which they are issued"),
        ("p2p_overlap: false", "sends between stages always overlap with the next batch"),
    ],
)
def test_settings_that_change_nothing_in_serving_are_refused(tmp_path: Path, setting: str, instead: str) -> None:
    (found,) = problems(tmp_path, parallelism=f"tp_degree: 2, pp_stages: 2, {setting}")
    key = setting.partition(":")[0]
    assert f"parallelism.{key}: {key} is for training: in serving, " in found
    assert instead in found


@pytest.mark.parametrize("section", [ServingConfig, WorkloadConfig, SloConfig, SimulationSettings, HardwareConfig])
def test_names_of_others_lead_to_settings_that_exist(section: Any) -> None:
    for other, name in section.other_names.items():
        assert other not in section.model_fields
        first = name.partition(".")[0]
        assert first in section.model_fields or first in SimulationConfig.model_fields

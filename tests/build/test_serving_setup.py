"""How a serving scenario is divided among GPUs, what these hold, and when it does not fit."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from simsys.build.job import build_job
from simsys.build.serving import ServingJob
from simsys.check.remedies import memory_problem
from simsys.config.engine_schema import ExpertEffort
from simsys.config.experiment import SimulationConfig
from simsys.errors import InfeasibleError
from simsys.simulation import simulate, simulate_job

GIB = 2**30
WORKLOAD = {"arrivals": {"kind": "all_at_once"}, "prompt_tokens": 128, "output_tokens": 16, "num_requests": 8}


def job(model: str = "Llama3-8B", gpus: int = 1, *, gpu: Any = "A100", **sections: Any) -> ServingJob:
    hardware = {"gpu": gpu, "gpus_per_node": gpus}
    serving = {"gpu_memory_utilization": 0.9, **sections.pop("serving", {})}
    settings = {"hardware": hardware, "model": {"name": model}, "workload": WORKLOAD, **sections}
    return build_job(SimulationConfig(**settings, serving=serving))


def test_the_cache_has_what_weights_activations_and_context_leave() -> None:
    """Llama 3 8B on an A100 of which programs see 79.15 GiB, against numbers from the model card."""
    weights = 8_030_261_248 * 2
    activations = 2048 * 3 * 14336 * 2 + 256 * 128_256 * 4
    room = 0.9 * 79.15 * GIB - weights - activations - 1.5 * GIB
    made = job()
    assert made.block_bytes(0) == 16 * 32 * 2 * 8 * 128 * 2
    assert made.num_blocks == made.engine_blocks == int(room // made.block_bytes(0))
    assert sum(made.memory_bytes.values()) == pytest.approx(0.9 * 79.15 * GIB, abs=made.block_bytes(0))


@pytest.mark.parametrize(("share", "used"), [(0.5, 0.5), (0.8, 0.8), (1.0, None)])
def test_activations_of_sglang_are_beside_its_share(share: float, used: float | None) -> None:
    """In SGLang, `mem_fraction_static` is of weights, context and cache; all together fit into the GPU."""
    made = job(serving={"engine": "sglang", "gpu_memory_utilization": share})
    memory_bytes, held = made.cluster.smallest.memory_bytes, made.memory_bytes
    beside = 0.0 if used is None else held["activations"]
    assert held["activations"] > made.block_bytes(0)
    assert sum(held.values()) - beside == pytest.approx(share * memory_bytes, abs=made.block_bytes(0))
    assert sum(held.values()) <= memory_bytes
    warned = [problem.message for problem in made.warnings() if problem.path == "serving.gpu_memory_utilization"]
    assert len(warned) == (used is None)
    assert all("1 leaves 0" in message and "sglang may run out of memory" in message for message in warned)


@pytest.mark.parametrize(("kv", "size"), [("bf16", 2.0), ("fp8", 1.0)])
def test_a_smaller_cache_precision_holds_more_tokens(kv: str, size: float) -> None:
    made = job(serving={"kv_precision": kv})
    assert made.block_bytes(0) == 16 * 32 * 2 * 8 * 128 * size


@pytest.mark.parametrize(
    ("precision", "kv"), [("bf16", 2.0), ("fp16", 2.0), ("int8", 2.0), ("int4", 2.0), ("fp8", 1.0)]
)
def test_by_default_the_cache_is_in_16_bit_unless_all_is_in_8(precision: str, kv: float) -> None:
    assert job(gpu="H100", serving={"precision": precision}).precision.kv_bytes == kv


def test_the_16_bit_dtype_is_the_one_that_the_gpu_has() -> None:
    assert job(gpu="V100", serving={"precision": "int8"}).precision.plain_compute == "fp16"
    assert job(serving={"precision": "int8"}).precision.plain_compute == "bf16"


def test_each_stage_holds_its_layers_and_the_cache_is_as_large_as_the_fullest_allows() -> None:
    made = job(gpus=8, parallelism={"tp_degree": 2, "pp_stages": 4})
    whole = job(gpus=2, parallelism={"tp_degree": 2})
    held = made.memory_by_stage
    assert len(held) == 4
    assert sum(stage["weights"] for stage in held) == pytest.approx(whole.memory_bytes["weights"])
    assert {stage["kv_cache"] for stage in held} == {made.num_blocks * whole.block_bytes(0) / 4}
    assert made.fullest_stage == 3  # the head and its logits
    usable_bytes = made.usable_bytes(made.fixed_bytes)
    assert sum(held[3].values()) <= usable_bytes < sum(held[3].values()) + made.block_bytes(3)
    assert made.engine_blocks == made.num_blocks // 4


def test_the_ranks_of_a_replica_are_consecutive() -> None:
    made = job(gpus=8, parallelism={"tp_degree": 2, "pp_stages": 2})
    assert made.roles() == [(0, 1), (2, 3), (4, 5), (6, 7)]
    assert [[group.ranks for group in made.teams(replica)] for replica in (0, 1)] == [
        [(0, 1), (2, 3)],
        [(4, 5), (6, 7)],
    ]


def test_adapters_and_drafts_are_components_of_their_own() -> None:
    plain = job(gpus=2, parallelism={"tp_degree": 2})
    rich = job(
        gpus=2,
        parallelism={"tp_degree": 2},
        serving={
            "lora": {"adapters": 10, "rank": 16},
            "speculative": {"draft_tokens": 3, "acceptance_rate": 0.6, "draft_model": "GPT2-Medium"},
        },
    )
    draft = job("GPT2-Medium", gpus=2, parallelism={"tp_degree": 2})
    widths = 4096 + 6144 + 4096 + 4096 + 4096 + 28672 + 14336 + 4096
    assert rich.fixed_bytes["adapters"] == 10 * 16 * widths * 32 * 2 / 2
    assert rich.fixed_bytes["weights"] == pytest.approx(plain.fixed_bytes["weights"])
    assert rich.fixed_bytes["draft"] == draft.fixed_bytes["weights"]
    assert rich.block_bytes(0) == plain.block_bytes(0) + draft.block_bytes(0)


@pytest.mark.parametrize("stages", [1, 2])
def test_what_does_not_fit_says_how_much_is_missing(stages: int) -> None:
    made = job("Llama3-70B", gpus=stages, gpu="A100-SXM-40GB", parallelism={"pp_stages": stages})
    with pytest.raises(InfeasibleError, match="Llama3-70B does not fit") as caught:
        _ = made.num_blocks
    assert caught.value.exit_code == 3
    assert "before any KV cache" in memory_problem(made)


@pytest.mark.parametrize("parallelism", [{"tp_degree": 4}, {"tp_degree": 2, "pp_stages": 2}])
def test_the_process_that_hands_prompts_over_does_so_for_each_other_rank(parallelism: dict[str, int]) -> None:
    made = job(gpus=4, serving={"engine": "pytorch-eager"}, parallelism=parallelism)
    given = made.engine.prompt_hand_over
    assert given is not None
    speed = made.cluster.spec.host_speed
    assert made.launches.token_layer_s * made.model.num_layers == pytest.approx(3 * given.per_token / speed)
    assert made.launches.above_tokens == given.above
    assert job(serving={"engine": "pytorch-eager"}).launches.token_layer_s == 0.0


def test_the_api_delays_requests_and_is_part_of_ttft_and_not_of_the_queue() -> None:
    config = job(serving={"api_overhead": "0 s"}).config
    slow = config.model_copy(update={"serving": config.serving.model_copy(update={"api_overhead": 0.25})})
    quick, late = simulate(config).metrics, simulate(slow).metrics
    assert late["mean_ttft_ms"] - quick["mean_ttft_ms"] == pytest.approx(250)
    assert late["mean_e2el_ms"] - quick["mean_e2el_ms"] == pytest.approx(250)
    assert late["mean_queue_ms"] == pytest.approx(quick["mean_queue_ms"])
    assert late["mean_tpot_ms"] == pytest.approx(quick["mean_tpot_ms"])


# --- whole runs ---------------------------------------------------------------------------------------------------

MIXTRAL = {"model": {"name": "Mixtral-8x7B"}}
CASES: dict[str, dict[str, Any]] = {
    "stages": {"parallelism": {"pp_stages": 4}},
    "stages of several ranks, two replicas": {"parallelism": {"tp_degree": 2, "pp_stages": 2}},
    "whole hidden states": {"parallelism": {"tp_degree": 4, "pp_stages": 2, "scatter_gather": False}},
    "experts": {"parallelism": {"tp_degree": 8, "ep_degree": 8, "expert_skew": 1.4}, **MIXTRAL},
    "experts, tokens sent": {"parallelism": {"tp_degree": 8, "ep_degree": 8, "sequence_parallel": True}, **MIXTRAL},
    "experts in stages": {"parallelism": {"tp_degree": 4, "ep_degree": 4, "pp_stages": 2}, **MIXTRAL},
    "drafts": {"serving": {"speculative": {"draft_tokens": 3, "acceptance_rate": 0.7, "draft_model": "GPT2-Small"}}},
    "adapters, quantised, eager": {
        "serving": {
            "lora": {"adapters": 4, "rank": 8},
            "precision": "int4",
            "kv_precision": "fp8",
            "cuda_graphs": False,
        }
    },
}


SEEDS = {"experts in stages": {"seed": 0}}
"""At which no hidden states arrive during an all-reduce: in high alone, they share a link with it."""


@pytest.mark.parametrize("case", CASES)
def test_both_levels_agree_on_every_request(case: str) -> None:
    sections = CASES[case]
    settings: dict[str, Any] = {
        "hardware": {"profile": "dgx-h100"},
        "model": {"name": "Llama3-8B"},
        "workload": {
            "arrivals": {"kind": "poisson", "rate": "60 req/s"},
            "prompt_tokens": {"kind": "uniform", "low": 10, "high": 700},
            "output_tokens": {"kind": "uniform", "low": 1, "high": 12},
            "num_requests": 24,
        },
        "serving": {},
        **sections,
    }
    high, medium = (
        simulate(SimulationConfig.model_validate({**settings, "simulation": {"lod": lod, **SEEDS.get(case, {})}}))
        for lod in ("high", "medium")
    )
    assert medium.metrics["completed"] == 24
    # Hidden states on their way to the next stage share links with the all-reduces of that stage at high.
    within = 1e-4 if "pp_stages" in sections.get("parallelism", {}) else 1e-9
    for column in ("admitted_s", "first_token_s", "finished_s"):
        assert high.rows[column] == pytest.approx(medium.rows[column], rel=within)
    for name in ("gpu_utilization", "peak_memory_bytes"):
        assert high.metrics[name] == pytest.approx(medium.metrics[name], rel=within)


def test_both_levels_agree_on_every_overhead_of_an_engine() -> None:
    """Unequal lengths, steps, sequences, launches and graphs that end in the middle of the run's batch sizes."""
    made = job(gpus=2, parallelism={"tp_degree": 2}, workload={**WORKLOAD, "num_requests": 24})
    graphs = made.engine.cuda_graphs
    assert graphs is not None
    overheads = {
        "length_skew": 1.4,
        "per_step": 3e-4,
        "per_sequence": 2e-5,
        "launch_per_layer": 9e-4,
        "cuda_graphs": graphs.model_copy(update={"max_tokens": 12}),
    }
    costly = replace(made, engine=made.engine.model_copy(update=overheads))
    results = {}
    for name, each in (("plain", made), ("costly", costly)):
        for lod in ("high", "medium"):
            simulation = each.config.simulation.model_copy(update={"lod": lod})
            config = each.config.model_copy(update={"simulation": simulation})
            results[name, lod] = simulate_job(replace(each, config=config))
        rows = [results[name, lod].rows["finished_s"] for lod in ("high", "medium")]
        assert rows[0] == pytest.approx(rows[1], rel=1e-9)
    plain, slow = (results[name, "medium"].metrics["mean_tpot_ms"] for name in ("plain", "costly"))
    assert slow > plain + 0.3


def test_answers_in_larger_chunks_cost_the_host_less_at_both_levels() -> None:
    """A small model on a fast GPU, whose steps last as long as the host needs."""
    tpot_ms = {}
    for interval in (1, 20):
        sections = {"serving": {"engine": "tensorrt-llm", "stream_interval": interval}}
        for lod in ("high", "medium"):
            workload = {**WORKLOAD, "output_tokens": 16, "num_requests": 64}
            made = job("Llama-3.2-1B", gpu="H100", workload=workload, simulation={"lod": lod}, **sections)
            tpot_ms[interval, lod] = simulate_job(made).metrics["mean_tpot_ms"]
        assert tpot_ms[interval, "high"] == pytest.approx(tpot_ms[interval, "medium"], rel=1e-9)
    assert tpot_ms[1, "medium"] > 1.1 * tpot_ms[20, "medium"]


def test_both_levels_agree_on_early_attention_which_costs_more_above_512_blocks_of_threads() -> None:
    """Llama-3-8B has 32 query heads: 17 sequences are 544 blocks, 16 are 512."""
    sections = {"serving": {"engine": "vllm-v0", "engine_release": "0.6.1"}}
    tpot_ms = {}
    for release in ("0.6.1", "0.6.2"):
        sections["serving"]["engine_release"] = release
        for count in (16, 17):
            workload = {**WORKLOAD, "prompt_tokens": 2048, "output_tokens": 8, "num_requests": count}
            for lod in ("high", "medium"):
                made = job("Llama3-8B", gpu="MI300X", workload=workload, simulation={"lod": lod}, **sections)
                tpot_ms[release, count, lod] = simulate_job(made).metrics["mean_tpot_ms"]
            assert tpot_ms[release, count, "high"] == pytest.approx(tpot_ms[release, count, "medium"], rel=1e-9)
    early, later = (tpot_ms[each, 17, "medium"] - tpot_ms[each, 16, "medium"] for each in ("0.6.1", "0.6.2"))
    assert early > 2 * later > 0  # the 17th prompt delays answers, too


def decode_s(prompt: int, **given: Any) -> float:
    """Time per token of a single request (s), which both levels agree on."""
    workload = {**WORKLOAD, "prompt_tokens": prompt, "output_tokens": 8, "num_requests": 1}
    tpot_ms = [
        simulate_job(job(workload=workload, simulation={"lod": lod}, **given)).metrics["mean_tpot_ms"]
        for lod in ("high", "medium")
    ]
    assert tpot_ms[0] == pytest.approx(tpot_ms[1], rel=1e-9)
    return float(tpot_ms[0]) / 1e3


def test_a_cached_token_of_masked_attention_costs_as_much_with_fewer_heads() -> None:
    """One block of threads walks through the context of each query head, however many there are."""

    def more_s(release: str, tensor: int) -> float:
        given = {"gpu": "A100", "gpus": tensor, "parallelism": {"tp_degree": tensor}}
        given["serving"] = {"engine": "tensorrt-llm-cpp", "engine_release": release}
        short_s, long_s = (decode_s(prompt=prompt, **given) for prompt in (1000, 3000))
        return (long_s - short_s) / 2000 / 32

    for tensor in (1, 4):
        assert more_s("0.11", tensor) == pytest.approx(13e-9, rel=0.25)
    assert more_s("0.12", 4) < 0.3 * more_s("0.12", 1) < 0.3 * more_s("0.11", 1)


def test_the_host_of_vllm_v0_counts_cached_tokens_and_hands_steps_to_other_ranks() -> None:
    """Each cached token of each sequence costs a step the same, whatever the number of GPUs."""
    made = job("Llama3-8B", gpu="A100", serving={"engine": "vllm-v0"})
    engine, speed = made.engine, made.cluster.spec.host_speed
    free = made.engine.model_copy(update={"per_cached_token": None, "step_hand_over": None})
    for gpus in (1, 2):
        workload = {**WORKLOAD, "prompt_tokens": 1000, "output_tokens": 2, "num_requests": 4}
        given = {"gpus": gpus, "parallelism": {"tp_degree": gpus}, "serving": {"engine": "vllm-v0"}}
        one = job("Llama3-8B", gpu="A100", workload=workload, **given)
        with_s, without_s = (
            simulate_job(replace(one, engine=each)).metrics["mean_tpot_ms"] / 1e3 for each in (engine, free)
        )
        tables_s = 4 * 1001 * engine.per_cached_token / speed
        assert with_s - without_s == pytest.approx(
            tables_s + (engine.step_hand_over / speed if gpus > 1 else 0.0), rel=0.02
        )


@pytest.mark.parametrize(("precision", "effort"), [("bf16", 2.0), ("int4", 3.0)])
def test_both_levels_agree_on_the_effort_of_products_of_experts(precision: str, effort: float) -> None:
    """Weights that are stored in fewer bits have a factor of their own; first tokens feel it."""
    sections = {"serving": {"precision": precision}, "workload": {**WORKLOAD, "prompt_tokens": 2048}}
    made = job("Mixtral-8x7B", gpu="H100", gpus=4, parallelism={"tp_degree": 4}, **sections)
    first_s = {}
    for factors in ({"default": 1.0, "weight_only": 1.0}, {"default": 2.0, "weight_only": 3.0}):
        engine = made.engine.model_copy(update={"expert_effort": ExpertEffort(**factors)})
        for lod in ("high", "medium"):
            simulation = made.config.simulation.model_copy(update={"lod": lod})
            config = made.config.model_copy(update={"simulation": simulation})
            rows = simulate_job(replace(made, engine=engine, config=config)).rows
            first_s[factors["default"], lod] = list(rows["first_token_s"])  # all arrive at 0
    assert first_s[2.0, "high"] == pytest.approx(first_s[2.0, "medium"], rel=1e-9)
    ratio = first_s[2.0, "medium"][0] / first_s[1.0, "medium"][0]
    assert 1.2 < ratio < effort


def test_products_of_experts_in_blocks_of_8_bit_have_an_effort_of_their_own() -> None:
    made = job("Mixtral-8x7B", gpu="H100", gpus=4, parallelism={"tp_degree": 4})
    given = ExpertEffort(default=2.0, fp8_block=1.5)
    engine = made.engine.model_copy(update={"expert_effort": given})
    efforts = {dtype: engine.effort_of_experts(dtype) for dtype in ("bf16", "fp8", "fp8_block", "weight_only")}
    assert efforts == {"bf16": 2.0, "fp8": 2.0, "fp8_block": 1.5, "weight_only": 2.0}


def test_a_pipeline_serves_more_than_one_gpu_and_a_step_takes_no_less() -> None:
    def run(stages: int) -> dict[str, Any]:
        workload = {**WORKLOAD, "num_requests": 512, "output_tokens": 64}
        made = job(gpus=stages, parallelism={"pp_stages": stages}, workload=workload)
        return dict(simulate(made.config).metrics)

    one, four = run(1), run(4)
    assert 2.0 < four["output_throughput"] / one["output_throughput"] < 4.0
    assert one["completed"] == four["completed"] == 512


def test_windows_and_states_take_their_share_of_the_cache() -> None:
    """Twelve of the layers of gpt-oss-20b keep 128 tokens at most, and contexts are longer."""
    workload = {**WORKLOAD, "prompt_tokens": 512, "output_tokens": 256}
    made = job("gpt-oss-20b", gpu="H100", serving={"precision": "mxfp4"}, workload=workload)
    layer = 2 * 8 * 64 * 2
    assert made.token_bytes(0) == pytest.approx(12 * layer + 12 * layer * 128 / (512 + 256 / 2))
    short = job("gpt-oss-20b", gpu="H100", serving={"precision": "mxfp4"}, workload={**WORKLOAD, "prompt_tokens": 96})
    assert short.token_bytes(0) == 24 * layer


def test_activations_are_those_of_tokens_not_of_windows() -> None:
    serving = {"precision": "mxfp4", "max_num_seqs": 256, "max_num_batched_tokens": 2048}
    made = job("gpt-oss-20b", gpu="H100", serving=serving, workload={**WORKLOAD, "prompt_tokens": 512})
    assert made.fixed_bytes["activations"] < 0.5e9


def test_stages_share_layers_with_windows_evenly() -> None:
    """Half of the layers of each stage have a cache that grows."""
    parallelism, workload = {"pp_stages": 2}, {**WORKLOAD, "prompt_tokens": 4096}
    made = job("gpt-oss-20b", gpus=2, gpu="H100", parallelism=parallelism, workload=workload)
    assert made.token_bytes(0) == made.token_bytes(1)
    assert made.num_blocks > 0


@pytest.mark.parametrize("prompt_tokens", [64, 2048])
def test_levels_of_detail_agree_on_windows(prompt_tokens: int) -> None:
    workload = {**WORKLOAD, "prompt_tokens": prompt_tokens}
    times = []
    for lod in ("high", "medium"):
        made = job("gpt-oss-20b", gpu="H100", simulation={"lod": lod}, workload=workload)
        times.append(simulate_job(made).metrics["mean_e2el_ms"])
    assert times[0] == pytest.approx(times[1], rel=1e-9)

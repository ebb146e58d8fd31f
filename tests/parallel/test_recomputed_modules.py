"""Recomputation by module: what is kept, what runs again, and what is exchanged again."""

from __future__ import annotations

from typing import Any

import pytest

from simsys.build.job import build_job
from simsys.config.experiment import SimulationConfig
from simsys.model.model_db import load_model
from simsys.parallel.activations import activation_elements
from simsys.parallel.passes import forward_pass
from simsys.parallel.plan import Block
from simsys.parallel.recomputed_modules import LACKING, discarded, modules_in

TOKENS = 1024


def job_of(recompute: Any, name: str = "DeepSeek-V3", **parallelism: Any) -> Any:
    layout = {"strategy": "EP_ZERO1", "ep_degree": 8, "expert_dispatch": "all_to_all", **parallelism}
    return build_job(
        SimulationConfig(
            hardware={"profile": "dgx-h200", "num_nodes": 1, "gpus_per_node": 8},
            model={"name": name, "sequence_length": TOKENS, "num_layers": 4},
            parallelism=layout,
            training={"engine": "nemo", "batch_size_per_gpu": 1, "activation_recompute": recompute},
        )
    )


def blocks_of(job: Any, name: str) -> list[Block]:
    return [block for block in job.plans[0][0].blocks if block.name.startswith(name)]


def backward_flop(blocks: list[Block]) -> float:
    return sum(part.work.flop for block in blocks for part in block.backward)


def saved(recompute: Any, name: str = "DeepSeek-V3") -> float:
    """Elements of a token that the last layer need not keep."""
    job = job_of(recompute, name)
    stretch = job.stages[0][0].stretches[-2]
    batch = job.micro_batch(job.phases[0])
    parts = tuple(recompute)
    return (activation_elements(stretch, batch) - activation_elements(stretch, batch, parts)) / batch.tokens


def test_modules_keep_what_megatron_core_keeps() -> None:
    heads, experts, latent = 128, 256, 1536 + 512
    assert saved(["layernorm"]) == 2 * 7168
    assert saved(["mla_up_proj"]) == heads * (2 * 192 + 128) + latent
    assert saved(["moe_act"]) == 8 * 2048
    assert saved(["shared_experts"]) == 3 * 2048
    assert saved(["moe"]) == 8 * 3 * 2048 + 3 * 2048 + 2 * 8 * 7168 + experts
    assert saved(["moe", "moe_act", "shared_experts"]) == saved(["moe"])
    assert saved(["core_attn"]) == 0  # fused attention keeps no scores


def test_latent_experts_keep_latent_vectors() -> None:
    model = load_model("Nemotron-3-Super")
    block = next(block for block in model.blocks if block.name == "moe_layer")
    divided, replicated, _ = discarded(block, "moe")
    assert divided == 22 * 2 * 2688 + 2 * 2 * 2688  # without a gate
    assert replicated == 2 * 22 * 1024 + 512 + 2 * 1024
    kept = block.activation_elements_per_token - divided - replicated
    assert kept == 2 * 4096  # input and output of the norm


def test_what_a_model_has() -> None:
    def modules(name: str) -> set[str]:
        return {module for block in load_model(name).kinds_of_blocks for module in modules_in(block.operators)}

    assert modules("DeepSeek-V3") == set(LACKING)
    assert modules("Llama3-8B") == {"core_attn", "layernorm", "mlp"}
    assert modules("Qwen3-30B-A3B") == {"core_attn", "layernorm", "moe", "moe_act"}
    assert modules("ResNet-50") == set()


@pytest.mark.parametrize(
    ("module", "names"),
    [
        ("mla_up_proj", ("q_up", "kv_up")),
        ("shared_experts", ("shared_gate_up", "shared_down")),
        ("moe", ("router", "shared_gate_up", "shared_down", "experts_gate_up", "experts_down")),
        ("moe_act", ()),
    ],
)
def test_the_products_of_a_module_run_again(module: str, names: tuple[str, ...]) -> None:
    plain, again = job_of("none"), job_of([module])
    operators = {op.name: op for op in plain.stages[0][0].stretches[-2].operators}
    more = backward_flop(blocks_of(again, "moe_layer")) - backward_flop(blocks_of(plain, "moe_layer"))
    layers = len([block for block in blocks_of(plain, "moe_layer") if block.over == "data"])
    expected = layers * TOKENS * sum(operators[name].flop_per_token for name in names)
    assert more == pytest.approx(expected, rel=1e-9, abs=1.0)
    kernels = [sum(len(part.work.kernels) for part in b.backward) for j in (plain, again) for b in blocks_of(j, "moe")]
    assert sum(kernels[len(kernels) // 2 :]) > sum(kernels[: len(kernels) // 2])


def test_a_mixture_that_is_recomputed_sends_its_tokens_again() -> None:
    def exchanges(recompute: Any) -> int:
        return sum(part.kind is not None for block in blocks_of(job_of(recompute), "moe") for part in block.backward)

    assert exchanges(["moe"]) == 2 * exchanges("none")
    assert exchanges(["moe_act", "shared_experts"]) == exchanges("none")


def test_overlapped_all_to_alls_are_not_repeated_with_the_attention_core() -> None:
    def exchanges(recompute: Any) -> int:
        blocks = blocks_of(job_of(recompute, expert_overlap=True), "moe")
        return sum(part.kind is not None for block in blocks for part in block.backward)

    assert exchanges("selective") == exchanges("none")


def test_the_attention_core_alone_is_selective_recomputation() -> None:
    selective, core = job_of("selective"), job_of(["core_attn"])
    assert backward_flop(blocks_of(core, "")) == backward_flop(blocks_of(selective, ""))
    assert core.memory_bytes == selective.memory_bytes
    assert core.hardware_flop(8) == selective.hardware_flop(8) > core.model_flop(8)


def test_each_module_saves_memory_and_costs_time_up_to_full_recomputation() -> None:
    def activations(recompute: Any) -> int:
        parts = job_of(recompute).memory_bytes
        return parts["activations"] + parts["recomputed"]

    growing = [["layernorm"], ["layernorm", "mla_up_proj"], ["layernorm", "mla_up_proj", "moe", "mlp"]]
    found = [activations(each) for each in ("none", *growing, "full")]
    assert found == sorted(found, reverse=True)
    assert len(set(found)) == len(found)


def test_scans_of_hybrids_are_no_attention_core() -> None:
    model = forward_pass(load_model("Nemotron-3-Nano"))
    mamba = next(stretch for stretch in model.stretches if stretch.name == "mamba_layer")
    assert [module for module, _ in mamba.module_elements] == ["layernorm"]

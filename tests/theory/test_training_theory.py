"""Whole training scenarios against the formulas of the papers, on hardware where nothing is shared."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simsys.build.job import build_job
from simsys.build.training import TrainingJob
from simsys.check import check_config
from simsys.config.experiment import SimulationConfig
from simsys.simulation import simulate
from tests.helpers.thorough import cases

GB_PER_S, LATENCY_S = 20e9, 3e-6
"""Of the link that each pair of GPUs has."""
LAYERS, HIDDEN, HEADS, VOCABULARY, SEQUENCE, SAMPLES = 8, 512, 8, 8192, 256, 2
TOKENS = SAMPLES * SEQUENCE
TRANSFORMER = {
    "model_type": "transformer",
    "num_layers": LAYERS,
    "hidden_size": HIDDEN,
    "num_attention_heads": HEADS,
    "vocab_size": VOCABULARY,
    "sequence_length": SEQUENCE,
}
MIXTRAL = {"name": "Mixtral-8x7B", "sequence_length": SEQUENCE}
ROOMY = {"extends": "H100-SXM", "memory": "4 TB"}
both_levels = pytest.mark.parametrize("lod", ["high", "medium"])


def scenario(
    gpus: int,
    parallelism: dict[str, Any] | None = None,
    *,
    model: dict[str, Any] = TRANSFORMER,
    lod: str = "medium",
    latency_s: float = LATENCY_S,
    **training: Any,
) -> SimulationConfig:
    """One GPU per node and a link for each pair; rings, whose times are those of Thakur et al. 2005."""
    return SimulationConfig(
        hardware={"gpu": ROOMY, "num_nodes": gpus, "gpus_per_node": 1},
        network={
            "topology_type": "full_mesh",
            "tuning": "none",
            "link_bandwidth": f"{GB_PER_S / 1e9} GB/s",
            "base_latency": f"{latency_s * 1e6} us",
        },
        model=model,
        parallelism=parallelism or {},
        training={
            "batch_size_per_gpu": SAMPLES,
            "num_iterations": 2,
            "communication_pattern": "ring",
            "attention": "unfused",
            "engine": "megatron",  # whose steps take nothing besides their layers
            **training,
        },
        simulation={"lod": lod},
    )


def metrics_of(config: SimulationConfig) -> dict[str, Any]:
    assert check_config(config) == []
    return simulate(config).metrics


# --- bubbles ----------------------------------------------------------------------------------------------------

EQUAL_LAYERS = {"name": "equal", "layers": [{"forward_flop": 2e11}] * 8}
"""Without weights there is no optimizer; what a layer hands on is nothing."""


ROUGHLY = {"zero_bubble": 0.05}
"""Where theory takes forward pass and both halves of the backward pass to be equal; gradients are added up, too."""


@both_levels
@pytest.mark.parametrize(
    ("schedule", "virtual", "share"),
    [
        ("gpipe", 1, 1.0),  # Huang et al. 2019, section 2.3
        ("1f1b", 1, 1.0),  # Narayanan et al. 2021, section 2.2.1
        ("interleaved", 2, 1 / 2),  # the same, section 2.2.2
        ("zero_bubble", 1, 1 / 3),  # ZB-H1 at equal times (Qi et al. 2023, table 2)
    ],
)
@pytest.mark.parametrize(("stages", "micro_batches"), [(2, 4), (4, 4), (4, 12)])
def test_the_bubble_of_a_scenario_is_a_share_of_p_minus_1_over_m(
    stages: int, micro_batches: int, schedule: str, virtual: int, share: float, lod: str
) -> None:
    settings = {"model": EQUAL_LAYERS, "latency_s": 0.0, "gradient_accumulation_steps": micro_batches, "lod": lod}
    pipeline = {"strategy": "PP", "pp_stages": stages, "schedule": schedule, "virtual_stages": virtual}
    alone, divided = (
        metrics_of(scenario(gpus, given, **settings))["mean_iteration_s"]
        for gpus, given in ((1, None), (stages, pipeline))
    )
    bubble, within = share * (stages - 1) / micro_batches, ROUGHLY.get(schedule, 1e-9)
    assert divided / (alone / stages) - 1 == pytest.approx(bubble, rel=within)


# --- exchanges that nothing hides -------------------------------------------------------------------------------


def ring_s(nbytes: float, ranks: int, steps: int = 1) -> float:
    """`steps` times around a ring: 1 for all-gather, reduce-scatter and all-to-all, 2 for all-reduce."""
    return steps * (ranks - 1) * (nbytes / (ranks * GB_PER_S) + LATENCY_S)


HIDDEN_BYTES = 2.0 * TOKENS * HIDDEN
WHOLE = {"options": {"overlap": False}}


def weights_of(model: dict[str, Any]) -> float:
    return build_job(scenario(1, model=model)).model.parameters


@both_levels
@pytest.mark.parametrize("ranks", [2, 4])
@pytest.mark.parametrize(
    ("strategy", "bytes_per_weight", "steps"),
    [
        ("DDP", (4.0,), 2),  # fp32 gradients: 2(n-1)/n of them over each link
        ("ZERO1", (4.0, 2.0), 1),  # gradients scattered, 16-bit weights gathered (Rajbhandari et al. 2020, 7.1)
        ("ZERO2", (4.0, 2.0), 1),
    ],
)
def test_data_parallelism_adds_the_exchange_of_its_gradients(
    strategy: str, bytes_per_weight: tuple[float, ...], steps: int, ranks: int, lod: str
) -> None:
    metrics = metrics_of(scenario(ranks, {"strategy": strategy}, lod=lod, **WHOLE))
    expected_s = sum(ring_s(each * weights_of(TRANSFORMER), ranks, steps) for each in bytes_per_weight)
    exposed_s = metrics["mean_iteration_s"] - metrics["compute_s"]
    assert exposed_s == pytest.approx(expected_s, rel=1e-9)
    assert metrics["exposed_communication_s"] == pytest.approx(expected_s, rel=1e-9)


@both_levels
@pytest.mark.parametrize(("reshard", "gathers"), [(True, 2), (False, 1)])
def test_fsdp_moves_three_times_the_weights_or_twice_without_resharding(reshard: bool, gathers: int, lod: str) -> None:
    """Zhao et al. 2023, section 3; gradients are in fp32 here, and the head, a unit, always stays for the backward.

    Without prefetching nothing hides the all-gathers, but gradients still are reduced beside the backward pass.
    """
    ranks = 4
    options = {"forward_prefetch": False, "backward_prefetch": False, "reshard_after_forward": reshard}
    metrics = metrics_of(scenario(ranks, {"strategy": "FSDP"}, lod=lod, options=options))
    blocks = build_job(scenario(1)).plans[0][0].blocks
    sizes = [block.parameter_bytes for block in blocks]
    gathered_s = sum(ring_s(size, ranks) for size in [*sizes, *sizes[: len(sizes) * (gathers - 1)]])
    if gathers == 2:
        gathered_s -= ring_s(sizes[-1], ranks)
    scattered_s = sum(ring_s(block.gradient_bytes, ranks) for block in blocks)
    assert metrics["communication_s"] == pytest.approx(gathered_s + scattered_s, rel=1e-9)


@both_levels
@pytest.mark.parametrize("by_tokens", [False, True])
@pytest.mark.parametrize("tensor", [2, 4])
def test_tensor_parallelism_adds_four_all_reduces_a_layer(tensor: int, by_tokens: bool, lod: str) -> None:
    """2·b·s·h bytes each (Shoeybi et al. 2019, section 3), one for the embedding, one for the head.

    With sequence parallelism a reduce-scatter and an all-gather instead, and inputs are gathered again in the
    backward pass (Korthikanti et al. 2022, section 4.2.2): two more in a layer, one more in the head.
    """
    micro_batches = 2
    given = {"strategy": "TP", "tp_degree": tensor, "sequence_parallel": by_tokens}
    metrics = metrics_of(scenario(tensor, given, lod=lod, gradient_accumulation_steps=micro_batches))
    rings = 2 * (4 * LAYERS + 2) + (2 * LAYERS + 1 if by_tokens else 0)
    expected_s = micro_batches * rings * ring_s(HIDDEN_BYTES, tensor)
    assert metrics["mean_iteration_s"] - metrics["compute_s"] == pytest.approx(expected_s, rel=1e-9)


@both_levels
@pytest.mark.parametrize("expert", [2, 4])
def test_expert_parallelism_adds_four_all_to_alls_a_layer(expert: int, lod: str) -> None:
    """k·h elements for each token (Lepikhin et al. 2020, section 3.2).

    In the end, gradients of what all ranks hold and of each one's experts go over other links at the same time.
    """
    layers, hidden, per_token, experts = 32, 4096, 2, 8
    given = {"strategy": "EP_DDP", "ep_degree": expert}
    metrics = metrics_of(scenario(4, given, model=MIXTRAL, lod=lod, num_iterations=1, **WHOLE))
    routed = layers * experts * 3 * hidden * 14336
    alike_s = ring_s(4.0 * (weights_of(MIXTRAL) - routed), 4, 2)
    experts_s = ring_s(4.0 * routed / expert, 4 // expert, 2) if expert < 4 else 0.0
    away_s = 4 * layers * ring_s(2.0 * per_token * hidden * TOKENS, expert)
    exposed_s = metrics["mean_iteration_s"] - metrics["compute_s"]
    assert exposed_s == pytest.approx(away_s + max(alike_s, experts_s), rel=1e-9)


# --- FLOP -------------------------------------------------------------------------------------------------------


def narayanan_flop(samples: int, *, recompute: bool) -> float:
    """Narayanan et al. 2021, eq. 3, and the same without the second forward pass of the layers."""
    first, last = (96, 16) if recompute else (72, 12)
    return (
        first
        * samples
        * SEQUENCE
        * LAYERS
        * HIDDEN**2
        * (1 + SEQUENCE / (6 * HIDDEN) + VOCABULARY / (last * LAYERS * HIDDEN))
    )


@st.composite
def layouts(draw: st.DrawFn) -> tuple[dict[str, Any], int]:
    """Degrees of parallelism and micro-batches that fit together."""
    tensor, context, data = (draw(st.sampled_from(degrees)) for degrees in ([1, 2, 4, 8], [1, 2, 4], [1, 2, 3]))
    stages = draw(st.sampled_from([1, 2, 4, 8]))
    schedule = draw(st.sampled_from(["1f1b", "gpipe", "zero_bubble", "interleaved"]))
    virtual = draw(st.sampled_from([1, 2])) if schedule == "interleaved" and 1 < stages < 8 else 1
    micro_batches = stages * draw(st.integers(1, 2)) if schedule == "interleaved" else draw(st.integers(1, 5))
    by_tokens = tensor > 1 and draw(st.booleans())
    given = {
        "tp_degree": tensor,
        "sequence_parallel": by_tokens,
        "tp_overlap": by_tokens and draw(st.booleans()),
        "cp_degree": context,
        "pp_stages": stages,
        "dp_degree": data,
        "schedule": schedule,
        "virtual_stages": virtual,
        "stage_layers": [1, 3, 3, 1] if stages == 4 and virtual == 1 and draw(st.booleans()) else None,
    }
    return given, micro_batches


@settings(max_examples=cases(30))
@given(layout=layouts(), recompute=st.booleans())
def test_flop_of_an_iteration_are_those_of_narayanan_2021_in_every_layout(
    layout: tuple[dict[str, Any], int], recompute: bool
) -> None:
    given, micro_batches = layout
    gpus = given["tp_degree"] * given["cp_degree"] * given["pp_stages"] * given["dp_degree"]
    config = scenario(
        gpus,
        given,
        gradient_accumulation_steps=micro_batches,
        activation_recompute="full" if recompute else "none",
    )
    assert check_config(config) == []
    samples, facts = SAMPLES * micro_batches * given["dp_degree"], build_job(config).collector().facts
    for name in ("hardware_flop_per_iteration", "executed_flop_per_iteration"):
        assert facts[name] == pytest.approx(narayanan_flop(samples, recompute=recompute), rel=1e-3), name
    assert facts["model_flop_per_iteration"] == pytest.approx(narayanan_flop(samples, recompute=False), rel=1e-3)


def executed_flop(config: SimulationConfig) -> float:
    assert check_config(config) == []
    return build_job(config).collector().facts["executed_flop_per_iteration"]


BART = {"name": "BART-Large", "sequence_length": SEQUENCE, "decoder_sequence_length": SEQUENCE // 4}


@pytest.mark.parametrize(
    "given",
    [
        {"tp_degree": 4, "dp_degree": 1},
        {"tp_degree": 2, "sequence_parallel": True, "dp_degree": 2},
        {"cp_degree": 2, "dp_degree": 2},
        {"pp_stages": 4, "dp_degree": 1},
        {"pp_stages": 2, "tp_degree": 2, "schedule": "zero_bubble"},
        {"pp_stages": 4, "schedule": "interleaved", "virtual_stages": 3},
    ],
    ids=str,
)
def test_an_encoder_decoder_needs_the_same_flop_in_every_layout(given: dict[str, Any]) -> None:
    divided = scenario(4, given, model=BART, gradient_accumulation_steps=4)
    alone = scenario(1, model=BART, gradient_accumulation_steps=4 * given.get("dp_degree", 1))
    assert executed_flop(divided) == pytest.approx(executed_flop(alone), rel=1e-9)


@pytest.mark.parametrize("expert", [1, 2, 4])
def test_a_mixture_of_experts_computes_the_active_ones_only(expert: int) -> None:
    """6 FLOP for each active weight and token, the embedding being a lookup, and 12·s·h of attention a layer."""
    strategy = {"strategy": "EP_DDP", "ep_degree": expert} if expert > 1 else {"strategy": "DDP"}
    config = scenario(4, strategy, model=MIXTRAL)
    model = build_job(config).model
    assert model.active_parameters < 0.3 * model.parameters
    norms = 65 * 4096
    products = model.active_parameters - norms - model.vocab_size * model.hidden_size
    per_token = 6 * products + 12 * model.num_layers * SEQUENCE * model.hidden_size
    assert executed_flop(config) == pytest.approx(4 * TOKENS * per_token, rel=1e-9)


# --- memory -----------------------------------------------------------------------------------------------------

STATES = ("parameters", "gradients", "optimizer", "buffers")


def states_bytes(job: TrainingJob) -> float:
    """Model states of all GPUs together, and what gradients are collected in."""
    layout = job.layout
    return layout.tensor * layout.replicas * sum(stage[name] for stage in job.memory_by_stage for name in STATES)


@pytest.mark.parametrize("tensor", [1, 2, 4])
@pytest.mark.parametrize("stages", [1, 4])
@pytest.mark.parametrize("data", [2, 8])
@pytest.mark.parametrize(
    ("strategy", "options", "whole", "shared"),
    [  # bytes per weight that every replica holds, and that all replicas hold together
        ("DDP", {}, 16, 0),
        ("DDP", {"gradient_as_bucket_view": False}, 20, 0),
        ("ZERO1", {}, 2 + 4, 12),
        ("ZERO2", {"bucket_size": "1 B"}, 2, 4 + 12),  # and two bytes of buckets
        ("FSDP", {}, 0, 16),
        ("FSDP", {"no_sync": True}, 4, 12),
    ],
)
def test_the_states_of_all_gpus_add_up_to_those_of_the_model(
    strategy: str, options: dict[str, Any], whole: float, shared: float, data: int, stages: int, tensor: int
) -> None:
    """Rajbhandari et al. 2020, section 5; tensor parallelism leaves only norms and some biases whole."""
    parts = [("TP", tensor), ("PP", stages), (strategy, data)]
    given = {
        "strategy": "_".join(kind for kind, degree in parts if degree > 1),
        "tp_degree": tensor,
        "pp_stages": stages,
    }
    job = build_job(scenario(tensor * stages * data, given, gradient_accumulation_steps=4, options=options))
    per_weight = states_bytes(job) / (job.model.parameters + tied(job))
    exact = 1e-9 if tensor == 1 else 1e-2
    assert per_weight == pytest.approx(whole * data + shared, rel=exact, abs=1e-5)


def tied(job: TrainingJob) -> float:
    """The table that the first and the last stage both hold."""
    return job.model.tied_parameters if job.layout.pipeline > 1 else 0.0

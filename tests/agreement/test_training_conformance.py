"""Layouts drawn from every dimension of parallelism at once: high and medium detail agree where no link is shared."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from simsys.check import check_config
from simsys.config.experiment import SimulationConfig
from simsys.simulation import simulate
from tests.helpers.thorough import cases

LAYERS, EXPERTS, SEQUENCE = 8, 4, 128
MIXTURE = {
    "model_type": "mixtral",
    "num_hidden_layers": LAYERS,
    "hidden_size": 256,
    "num_attention_heads": 8,
    "num_key_value_heads": 4,
    "intermediate_size": 512,
    "vocab_size": 4096,
    "max_position_embeddings": SEQUENCE,
    "num_local_experts": EXPERTS,
    "num_experts_per_tok": 2,
    "tie_word_embeddings": False,
}
DENSE = {
    "model_type": "transformer",
    "num_layers": LAYERS,
    "hidden_size": 256,
    "num_attention_heads": 8,
    "vocab_size": 4096,
    "sequence_length": SEQUENCE,
}
MAX_GPUS = 32
DEGREES = [1, 1, 2, 4]
COLUMNS = ("iteration_s", "compute_s", "exposed_communication_s")


@pytest.fixture(scope="module")
def mixture(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """A small mixture of experts, as a Hugging Face configuration."""
    file: Path = tmp_path_factory.mktemp("mixture") / "config.json"
    file.write_text(json.dumps(MIXTURE), encoding="utf-8")
    return {"huggingface": str(file), "sequence_length": SEQUENCE}


@st.composite
def layouts(draw: st.DrawFn, *, experts: bool) -> tuple[dict[str, Any], dict[str, Any]]:
    """`parallelism` and `training` of a scenario.

    ZeRO-2 and FSDP exchange gradients and weights beside the passes, so they come without what shares links with that.
    Nor are experts in distant ranks (``ep`` behind ``dp``): their gradients would go over links of the others'.
    """
    tensor, context, stages, data = (draw(st.sampled_from(DEGREES)) for _ in range(4))
    while tensor * context * stages * data > MAX_GPUS:
        tensor, context = max(1, tensor // 2), max(1, context // 2)
    replicas = context * data
    expert = draw(st.sampled_from([degree for degree in (1, 2, 4) if replicas % degree == 0])) if experts else 1
    apart = context == expert == 1
    kinds = ["DDP", "ZERO1", *(["ZERO2", "FSDP"] if apart else [])]
    strategy = draw(st.sampled_from(kinds))
    by_tokens = tensor > 1 and (expert > 1 or draw(st.booleans()))
    parallelism = {
        "strategy": _strategy(TP=tensor, CP=context, EP=expert, PP=stages, **{strategy: replicas}),
        "tp_degree": tensor,
        "sequence_parallel": by_tokens,
        "tp_overlap": by_tokens and draw(st.booleans()),
        "cp_degree": context,
        "ep_degree": expert,
        "pp_stages": stages,
        "dp_degree": data,
        "scatter_gather": draw(st.booleans()),
        "order": draw(st.sampled_from(["tp-cp-ep-dp-pp", "pp-dp-cp-tp", "ep-dp-tp-cp-pp"])),
        **(draw(_loads()) if expert > 1 else {}),
        **draw(_schedules(stages)),
    }
    rounds = draw(st.integers(1, 3))
    training = {
        "gradient_accumulation_steps": stages * rounds if parallelism["schedule"] == "interleaved" else rounds,
        "batch_size_per_gpu": draw(st.integers(1, 2)),
        "activation_recompute": draw(st.sampled_from(["none", "selective", "full"])),
        "attention": draw(st.sampled_from(["fused", "unfused"])),
        "optimizer": draw(st.sampled_from(["adam", "sgd"])),
        "options": {} if strategy == "FSDP" or replicas == 1 else {"overlap": False},
    }
    return parallelism, training


def _strategy(**degrees: int) -> str:
    return "_".join(kind for kind, degree in degrees.items() if degree > 1) or "None"


def _loads() -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries(
        {},
        optional={
            "expert_skew": st.sampled_from([1.0, 1.5]),
            "expert_capacity_factor": st.sampled_from([0.75, 1.25]),
        },
    )


def _schedules(stages: int) -> st.SearchStrategy[dict[str, Any]]:
    names = ["1f1b", "gpipe", "zero_bubble", "interleaved"]
    plain = st.fixed_dictionaries({"schedule": st.sampled_from(names)})
    if stages == 1:
        return plain
    chunks = st.just({"schedule": "interleaved", "virtual_stages": 2})
    uneven = [1] * (stages - 1) + [LAYERS - stages + 1]
    return st.one_of(plain, chunks, st.just({"schedule": "1f1b", "stage_layers": uneven}))


def check_levels(model: dict[str, Any], layout: tuple[dict[str, Any], dict[str, Any]]) -> None:
    """One GPU per node and a link for each pair."""
    parallelism, training = layout
    degrees = ("tp_degree", "cp_degree", "pp_stages", "dp_degree")
    gpus = 1
    for key in degrees:
        gpus *= parallelism[key]
    rows = []
    for lod in ("high", "medium"):
        config = SimulationConfig(
            hardware={"gpu": "H100-SXM", "num_nodes": gpus, "gpus_per_node": 1},
            network={"topology_type": "full_mesh", "link_bandwidth": "20 GB/s", "base_latency": "2 us"},
            model=model,
            parallelism=parallelism,
            training={"engine": "megatron", "num_iterations": 2, "communication_pattern": "ring", **training},
            simulation={"lod": lod},
        )
        assert check_config(config) == []
        rows.append(simulate(config).rows)
    high, medium = rows
    for column in COLUMNS:
        assert list(medium[column]) == pytest.approx(list(high[column]), rel=1e-9, abs=1e-12), column


several = settings(max_examples=cases(30), suppress_health_check=[HealthCheck.function_scoped_fixture])


@several
@given(layout=layouts(experts=False))
def test_the_levels_agree_on_a_transformer(layout: tuple[dict[str, Any], dict[str, Any]]) -> None:
    check_levels(DENSE, layout)


@several
@given(layout=layouts(experts=True))
def test_the_levels_agree_on_a_mixture_of_experts(
    mixture: dict[str, Any], layout: tuple[dict[str, Any], dict[str, Any]]
) -> None:
    check_levels(mixture, layout)

"""Expert parallelism: what each rank holds, computes, sends and reduces."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest

from simsys.build.job import build_job
from simsys.build.training import TrainingJob
from simsys.check import check_config
from simsys.config.experiment import SimulationConfig
from simsys.executors.recording import Recording
from simsys.simulation import simulate

LAYERS, HIDDEN, PER_TOKEN, EXPERTS, TOKENS = 32, 4096, 2, 8, 1024
EXPERT_PARAMETERS = LAYERS * EXPERTS * 3 * HIDDEN * 14336
"""Mixtral-8x7B: gate, up and down of each expert."""


def config_of(
    expert: int,
    *,
    data: int = 8,
    tensor: int = 1,
    context: int = 1,
    pipeline: int = 1,
    lod: str = "medium",
    **more: Any,
) -> SimulationConfig:
    """Mixtral on GPUs with a link for each pair, so that nothing is shared."""
    degrees = {"TP": tensor, "CP": context, "EP": expert, "PP": pipeline}
    kinds = [kind for kind, degree in degrees.items() if degree > 1]
    strategy = more.pop("data_strategy", "DDP" if data > 1 else None)
    return SimulationConfig(
        hardware={"gpu": {"extends": "H200", "memory": "2 TB"}, "num_nodes": data * tensor * context * pipeline},
        network={"topology_type": "full_mesh", "link_bandwidth": "400 GB/s", "base_latency": "2 us"},
        model={"name": "Mixtral-8x7B", "sequence_length": TOKENS},
        parallelism={
            "strategy": "_".join([*kinds, *([strategy] if strategy else [])]) or "None",
            "tp_degree": tensor,
            "cp_degree": context,
            "ep_degree": expert,
            "pp_stages": pipeline,
            "dp_degree": data,
            "sequence_parallel": tensor > 1,
            **more.pop("parallelism", {}),
        },
        training={
            "batch_size_per_gpu": 1,
            "num_iterations": 1,
            "gradient_accumulation_steps": 2 * pipeline,
            "communication_pattern": "ring",
            **more,
        },
        simulation={"lod": lod},
    )


def recorded(config: SimulationConfig) -> tuple[TrainingJob, list[dict[str, Any]]]:
    job = build_job(config)
    executor = Recording(job.cluster.platform(), job.execution_model(), job.roles())
    job.start(executor)
    executor.env.run()
    executor.check_finished()
    return job, executor.operations


@pytest.mark.parametrize("expert", [2, 4, 8])
def test_each_rank_holds_its_part_of_the_experts(expert: int) -> None:
    whole, divided = build_job(config_of(1)), build_job(config_of(expert))
    per_parameter = whole.memory_bytes["parameters"] / whole.model.parameters
    away = (whole.memory_bytes["parameters"] - divided.memory_bytes["parameters"]) / per_parameter
    assert away == pytest.approx(EXPERT_PARAMETERS * (1 - 1 / expert), rel=1e-12)


@pytest.mark.parametrize("expert", [2, 8])
def test_balanced_experts_do_the_same_work_as_undivided_ones(expert: int) -> None:
    whole, divided = build_job(config_of(1)), build_job(config_of(expert))
    assert divided.plans[0][0].flop == pytest.approx(whole.plans[0][0].flop, rel=1e-12)


PAIRS = {(2, 1, 1), (2, 2, 2), (4, 2, 1), (4, 1, 2)}
"""Among these there is each pair of degrees."""


@pytest.mark.parametrize(
    ("expert", "tensor", "context"),
    [
        pytest.param(*degrees, marks=() if degrees in PAIRS else pytest.mark.slow)
        for degrees in product((2, 4), (1, 2), (1, 2))
    ],
)
def test_tokens_go_to_their_experts_and_back_in_both_passes(expert: int, tensor: int, context: int) -> None:
    """Four all-to-alls of k·h elements for each of the rank's tokens, layer and micro-batch (Lepikhin et al. 2020)."""
    _, operations = recorded(config_of(expert, data=4, tensor=tensor, context=context))
    sent = [op for op in operations if op["verb"] == "all_to_all" and op["rank"] == 0]
    each = 2.0 * PER_TOKEN * HIDDEN * TOKENS / tensor / context
    assert {(op["nbytes"], len(op["group"])) for op in sent} == {(each, expert)}
    assert len(sent) == 2 * 4 * LAYERS


@pytest.mark.parametrize("strategy", ["DDP", "ZERO1", "FSDP"])
@pytest.mark.parametrize("expert", [2, 8])
def test_gradients_of_experts_are_reduced_over_the_ranks_that_hold_the_same(expert: int, strategy: str) -> None:
    job, operations = recorded(config_of(expert, data_strategy=strategy))
    mine = [op for op in operations if op["name"] == "gradients" and "group" in op and op["rank"] == 0]
    by_size: dict[int, float] = {}
    for op in mine:
        by_size[len(op["group"])] = by_size.get(len(op["group"]), 0.0) + op["nbytes"]
    micro_batches = 2 if strategy == "FSDP" else 1
    dense = job.model.parameters - EXPERT_PARAMETERS
    expected = {8: 4.0 * dense * micro_batches}
    if expert < 8:  # otherwise each expert is on one rank, and there is nothing to reduce
        expected[8 // expert] = 4.0 * EXPERT_PARAMETERS / expert * micro_batches
    else:
        by_size.pop(1, None)
    assert by_size == pytest.approx(expected, rel=1e-9)


def test_optimizer_states_of_experts_are_divided_among_their_replicas() -> None:
    """ZeRO-1: in the end each rank holds a share of all states, whatever the expert-parallel degree."""
    whole, divided = (build_job(config_of(expert, data_strategy="ZERO1")) for expert in (1, 4))
    assert divided.memory_bytes["optimizer"] == pytest.approx(whole.memory_bytes["optimizer"], rel=1e-12)
    (update,) = divided.plans[0][0].optimizer.kernels
    assert update.nbytes == pytest.approx(whole.plans[0][0].optimizer.kernels[0].nbytes, rel=1e-12)


@pytest.mark.parametrize(
    ("settings", "load"),
    [
        ({}, 1.0),
        ({"expert_skew": 1.5}, 1.5),
        ({"expert_skew": 1.5, "expert_capacity_factor": 1.25}, 1.25),
        ({"expert_skew": 1.1, "expert_capacity_factor": 1.25}, 1.1),
        ({"expert_capacity_factor": 0.8}, 0.8),
    ],
)
def test_the_busiest_rank_decides_up_to_the_capacity(settings: dict[str, float], load: float) -> None:
    even, uneven = build_job(config_of(4)), build_job(config_of(4, parallelism=settings))
    layer = 2 * TOKENS * PER_TOKEN * 3 * HIDDEN * 14336
    more = (load - 1.0) * 2 * 3 * LAYERS * layer
    assert uneven.plans[0][0].flop - even.plans[0][0].flop == pytest.approx(more, rel=1e-9, abs=1.0)
    _, operations = recorded(config_of(4, parallelism=settings))
    (size,) = {op["nbytes"] for op in operations if op["verb"] == "all_to_all"}
    assert size == pytest.approx(load * 2.0 * PER_TOKEN * HIDDEN * TOKENS, rel=1e-12)


APART = {"options": {"overlap": False}}
"""Gradients are not reduced while tokens travel over the same links."""
MIXES = [
    {"expert": 2, "data": 4, **APART},
    {"expert": 4, "data": 4, "data_strategy": "ZERO1", **APART},
    {"expert": 2, "data": 2, "tensor": 2, **APART},
    {"expert": 4, "data": 2, "context": 2, **APART},
    {"expert": 2, "data": 2, "pipeline": 2, "parallelism": {"expert_skew": 1.3}, **APART},
    {"expert": 2, "data": 2, "tensor": 2, "pipeline": 2, "activation_recompute": "selective", **APART},
    {"expert": 2, "data": 4, "activation_recompute": "full", **APART},
    {"expert": 4, "data": 2, "tensor": 2, "context": 2, "data_strategy": "ZERO1", **APART},
]
SHARING = [
    {"expert": 2, "data": 4},
    {"expert": 2, "data": 4, "data_strategy": "FSDP"},
    {"expert": 2, "data": 4, "data_strategy": "FSDP", "activation_recompute": "full"},
    {"expert": 4, "data": 2, "tensor": 2, "context": 2, "data_strategy": "ZERO2"},
]


@pytest.mark.parametrize("mix", MIXES)
def test_the_levels_agree_where_no_link_is_shared(mix: dict[str, Any]) -> None:
    assert check_config(config_of(**mix)) == []
    high, medium = (simulate(config_of(lod=lod, **mix)) for lod in ("high", "medium"))
    for column in ("iteration_s", "compute_s", "exposed_communication_s"):
        assert list(medium.rows[column]) == pytest.approx(list(high.rows[column]), rel=1e-9), column


@pytest.mark.parametrize("mix", SHARING)
def test_tokens_and_gradients_on_the_same_links_can_only_make_high_detail_slower(mix: dict[str, Any]) -> None:
    high, medium = (simulate(config_of(lod=lod, **mix)).metrics["mean_iteration_s"] for lod in ("high", "medium"))
    assert medium <= high * (1 + 1e-5), "equal steps of a collective are one transfer at medium, for others too"
    assert high < 1.2 * medium


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (
            config_of(3, data=6),
            "ep_degree 3 does not divide 8 experts; ep_degree: 2 or ep_degree: 1 and strategy: DDP would fit",
        ),
        (
            config_of(4, data=6),
            "ep_degree 4 does not divide the 6 ranks that hold the same weights (dp_degree x cp_degree); "
            "ep_degree: 2 or ep_degree: 1 and strategy: DDP would fit",
        ),
        (
            config_of(2, data=2, tensor=2, parallelism={"sequence_parallel": False}),
            "expert with tensor parallelism needs sequence_parallel: true, so that each token is sent once; "
            "sequence_parallel: true would fit",
        ),
        (
            config_of(1, parallelism={"expert_skew": 1.5}),
            "expert_skew has no effect without expert parallelism; write ep_degree: 2 and strategy: "
            "EP_DDP or expert_skew: 1.0",
        ),
    ],
)
def test_what_does_not_fit_is_explained(config: SimulationConfig, message: str) -> None:
    (problem,) = check_config(config)
    assert problem.message == message


def test_a_dense_model_has_no_experts() -> None:
    config = config_of(2)
    config = config.model_copy(update={"model": type(config.model)(name="Llama3-8B")})
    (problem,) = check_config(config)
    assert problem.message == "Llama3-8B has no experts to divide; use a mixture of experts such as Mixtral-8x7B"


WHOLE = {"expert_tp_degree": 1}


@pytest.mark.parametrize("expert", [2, 4, 8])
def test_whole_experts_are_divided_among_tensor_parallel_ranks_too(expert: int) -> None:
    """Eight experts on 4 x 2 ranks: an eighth of them on each rank, undivided, for ``ep_degree`` 8."""
    whole = build_job(config_of(expert, data=4, tensor=2, parallelism=WHOLE))
    held = whole.stages[0][0].expert_parameters
    assert held == pytest.approx(EXPERT_PARAMETERS / expert, rel=1e-12)


def test_whole_experts_compute_as_much_and_send_only_a_rank_s_own_tokens() -> None:
    """Without gathering: each of the two ranks sends its half of the tokens, to two experts each, and back."""
    divided, operations = recorded(config_of(4, data=4, tensor=2))
    whole, others = recorded(config_of(4, data=4, tensor=2, parallelism=WHOLE))
    assert whole.plans[0][0].flop == pytest.approx(divided.plans[0][0].flop, rel=1e-12)
    sent = [each for each in others if each["verb"] == "all_to_all"]
    assert {each["nbytes"] for each in sent} == {TOKENS * HIDDEN * PER_TOKEN * 2.0 / 2}

    def gathered(found: list[dict[str, Any]]) -> int:
        return sum(each["verb"] == "all_gather" for each in found)

    assert gathered(others) < gathered(operations)


def test_gradients_of_whole_experts_are_summed_over_the_ranks_with_equal_ones() -> None:
    job = build_job(config_of(4, data=4, tensor=2, parallelism=WHOLE))
    assert job.layout.group(0, "expert").ranks == (0, 1, 2, 3)
    assert job.layout.group(0, "expert_data").ranks == (0, 4)
    assert job.layout.group(0, "data").ranks == (0, 2, 4, 6)


@pytest.mark.parametrize(
    ("parallelism", "message"),
    [
        ({"expert_tp_degree": 4}, "as other layers (2) or not at all (1)"),
        ({"expert_tp_degree": 1, "ep_degree": 1, "strategy": "TP_DDP"}, "write ep_degree"),
    ],
)
def test_other_divisions_of_experts_are_refused(parallelism: dict[str, Any], message: str) -> None:
    found = check_config(config_of(4, data=4, tensor=2, parallelism=parallelism))
    assert any(message in each.message and each.path.startswith("parallelism.expert_tp") for each in found)


def test_deepep_sends_a_token_once_to_each_node_of_its_experts() -> None:
    """Two experts on four nodes are expected on 4 (1 - (3/4)^2) = 1.75 of them."""
    _, operations = recorded(config_of(4, parallelism={"expert_dispatch": "deepep"}))
    (size,) = {op["nbytes"] for op in operations if op["verb"] == "all_to_all"}
    assert size == pytest.approx(TOKENS * HIDDEN * 1.75 * 2.0)


@pytest.mark.parametrize("tensor", [1, 2])
def test_overlapped_all_to_alls_are_hidden_by_computation(tensor: int) -> None:
    results = [
        simulate(config_of(4, data=4, tensor=tensor, lod=lod, parallelism={"expert_overlap": overlap}))
        for overlap, lod in [(False, "medium"), (True, "medium"), (True, "high")]
    ]
    alone, beside, high = (result.metrics for result in results)
    # collectives occupy multiprocessors, which slows computations
    assert 0.999 * alone["compute_s"] < beside["compute_s"] < 1.05 * alone["compute_s"]
    assert beside["exposed_expert_s"] < 0.55 * alone["exposed_expert_s"]
    assert beside["mean_iteration_s"] == pytest.approx(high["mean_iteration_s"], rel=1e-3)


@pytest.mark.parametrize("setting", [{"expert_overlap": True}, {"expert_dispatch": "deepep"}])
def test_settings_of_divided_experts_need_expert_parallelism(setting: dict[str, Any]) -> None:
    (found,) = check_config(config_of(1, parallelism=setting))
    assert "has no effect without expert parallelism" in found.message

"""The remedies of training: where each kind applies, that the global batch stays, and that the check passes."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest

from simsys.build.job import build_job
from simsys.build.rules.findings import Remedy
from simsys.build.training import TrainingJob
from simsys.check.effects import Stopwatch, remedy_effects
from simsys.check.remedies import memory_problem, remedy_text
from simsys.check.scenario import trials_of
from simsys.check.training_remedies import (
    KINDS,
    MAX_MICRO_BATCHES,
    Kind,
    current_strategy,
    full_recompute,
    fully_sharded,
    fused_attention,
    more_stages,
    more_tensor,
    offload,
    remedy_pairs,
    selective_recompute,
    sequence_parallel,
    sgd,
    single_remedies,
    smaller_batch,
    strategy_remedy,
    zero1,
    zero2,
)
from simsys.config.experiment import SimulationConfig
from tests.helpers.thorough import THOROUGH


def config_of(
    model: str = "GPT2-Medium", *, nodes: int = 1, parallelism: dict[str, Any] | None = None, **training: Any
) -> SimulationConfig:
    return SimulationConfig(
        hardware={"profile": "dgx-h100", "num_nodes": nodes},
        model={"name": model},
        parallelism=parallelism or {},
        training={"batch_size_per_gpu": 4, **training},
    )


def job_of(*args: Any, **settings: Any) -> TrainingJob:
    return build_job(config_of(*args, **settings))


TP = {"strategy": "TP_DDP", "tp_degree": 2}
PP = {"strategy": "PP_DDP", "pp_stages": 2, "dp_degree": 4}
OPTIMIZER_AWAY, WEIGHTS_AWAY = ({"training.options": {"offload": each}} for each in ("optimizer", "parameters"))


@pytest.mark.parametrize(
    ("kind", "settings", "expected"),
    [
        (fused_attention, {}, []),
        (fused_attention, {"attention": "unfused"}, [{"training.attention": "fused"}]),
        (sequence_parallel, {}, []),
        (sequence_parallel, {"parallelism": TP}, [{"parallelism.sequence_parallel": True}]),
        (sequence_parallel, {"parallelism": {**TP, "sequence_parallel": True}}, []),
        (zero1, {}, [{"parallelism.strategy": "ZERO1"}]),
        (zero1, {"parallelism": {"strategy": "ZERO1"}}, []),
        (zero2, {"parallelism": TP}, [{"parallelism.strategy": "TP_ZERO2"}]),
        (fully_sharded, {"parallelism": PP}, [{"parallelism.strategy": "PP_FSDP"}]),
        (fully_sharded, {"parallelism": {"strategy": "HSDP"}}, [{"parallelism.strategy": "FSDP"}]),
        (fully_sharded, {"parallelism": {"strategy": "FSDP"}}, []),
        (fully_sharded, {"parallelism": {"strategy": "TP", "tp_degree": 8}}, []),
        (fully_sharded, {"data_parallel": "ddp"}, []),
        (
            fully_sharded,
            {"options": {"first_bucket_size": "1 MB"}},
            [{"parallelism.strategy": "FSDP", "training.options": {}}],
        ),
        (zero1, {"options": {"first_bucket_size": "1 MB"}}, [{"parallelism.strategy": "ZERO1"}]),
        (
            smaller_batch,
            {"gradient_accumulation_steps": 3},
            [
                {"training.batch_size_per_gpu": 12 // steps, "training.gradient_accumulation_steps": steps}
                for steps in (4, 6, 12)
            ],
        ),
        (smaller_batch, {"batch_size_per_gpu": 1}, []),
        (selective_recompute, {}, [{"training.activation_recompute": "selective"}]),
        (selective_recompute, {"activation_recompute": "full"}, []),
        (full_recompute, {"activation_recompute": "selective"}, [{"training.activation_recompute": "full"}]),
        (full_recompute, {"activation_recompute": "full"}, []),
        (
            more_tensor,
            {"parallelism": {"strategy": "FSDP", "dp_degree": 8}},
            [
                {
                    "parallelism.tp_degree": degree,
                    "parallelism.strategy": "TP_FSDP" if degree < 8 else "TP",
                    "parallelism.dp_degree": 8 // degree,
                    "training.gradient_accumulation_steps": degree,
                }
                for degree in (2, 4, 8)
            ],
        ),
        (
            more_tensor,
            {"parallelism": {"tp_degree": 4}},
            [{"parallelism.tp_degree": 8, "training.gradient_accumulation_steps": 2}],
        ),
        (
            more_stages,
            {"parallelism": PP, "gradient_accumulation_steps": 8},
            [
                {
                    "parallelism.pp_stages": stages,
                    "parallelism.strategy": "PP_DDP" if stages < 8 else "PP",
                    "parallelism.dp_degree": 8 // stages,
                    "training.gradient_accumulation_steps": 4 * stages,
                }
                for stages in (4, 8)
            ],
        ),
        (more_stages, {"parallelism": PP, "gradient_accumulation_steps": 1}, []),  # fewer micro-batches than stages
        (offload, {}, []),
        (offload, {"parallelism": {"strategy": "FSDP"}}, [OPTIMIZER_AWAY, WEIGHTS_AWAY]),
        (offload, {"parallelism": {"strategy": "FSDP"}, "options": {"offload": "optimizer"}}, [WEIGHTS_AWAY]),
        (offload, {"parallelism": {"strategy": "FSDP"}, "options": {"offload": "parameters"}}, []),
        (
            offload,
            {"parallelism": {"strategy": "HSDP"}, "options": {"shard_size": 4}},
            [{"training.options": {"shard_size": 4, "offload": each}} for each in ("optimizer", "parameters")],
        ),
        (sgd, {}, [{"training.optimizer": "sgd"}]),
        (sgd, {"optimizer": "sgd"}, []),
    ],
)
def test_a_kind_yields_its_variants_where_it_applies(
    kind: Kind, settings: dict[str, Any], expected: list[Remedy]
) -> None:
    assert list(kind(job_of(**settings))) == expected


def test_tensor_parallelism_stays_within_a_node() -> None:
    assert not list(more_tensor(job_of(nodes=2, parallelism={"tp_degree": 8})))


def test_a_batch_is_not_cut_into_more_micro_batches_than_anybody_would_wait_for() -> None:
    batches = [
        remedy["training.gradient_accumulation_steps"] for remedy in smaller_batch(job_of(batch_size_per_gpu=2**20))
    ]
    assert batches == [2**power for power in range(1, 11)]
    assert batches[-1] == MAX_MICRO_BATCHES
    many = job_of("GPT-3-175B", parallelism={"tp_degree": 4}, gradient_accumulation_steps=MAX_MICRO_BATCHES)
    assert not list(more_tensor(many))


SCENARIOS = {
    "ddp": config_of("Llama3-8B", parallelism={"strategy": "DDP"}),
    "no strategy": config_of("Llama3-8B", nodes=2),
    "unfused": config_of(batch_size_per_gpu=24, attention="unfused", parallelism={"strategy": "ZERO1"}),
    "tensor and data": config_of("Llama3-70B", nodes=16, parallelism={"strategy": "TP_ZERO1", "tp_degree": 8}),
    "stages": config_of("Llama3-8B", parallelism=PP, gradient_accumulation_steps=8),
    "interleaved": config_of(
        "Llama3-8B", parallelism={**PP, "schedule": "interleaved", "virtual_stages": 2}, gradient_accumulation_steps=8
    ),
    "gpipe": config_of("GPT2-Large", parallelism={**PP, "schedule": "gpipe"}, gradient_accumulation_steps=64),
    "options": config_of("Llama3-8B", parallelism={"strategy": "FSDP"}, options={"reshard_after_forward": False}),
    "own module": config_of("Llama3-8B", data_parallel="fsdp", batch_size_per_gpu=64),
    "experts": config_of("Mixtral-8x7B", nodes=4, parallelism={"strategy": "FSDP"}),
    "a cnn": config_of("ResNet-50", batch_size_per_gpu=4096, parallelism={"strategy": "DDP"}),
    "fits": config_of(parallelism=TP),
    "only the host has room": config_of(
        "Llama3-70B", parallelism={"strategy": "FSDP"}, batch_size_per_gpu=1, activation_recompute="full"
    ),
    "zero": config_of("Llama3-8B", parallelism={"strategy": "ZERO2"}, batch_size_per_gpu=1),
}


@cache
def variants(name: str) -> list[tuple[Remedy, TrainingJob]]:
    job = build_job(SCENARIOS[name])
    return [*single_remedies(job), *remedy_pairs(job)]


def problems(config: SimulationConfig, remedy: Remedy) -> set[str]:
    """What a check finds wrong with a scenario that has a remedy's settings, without advice."""
    found = trials_of(config).problems(remedy)
    assert found is not None
    return {message for _, message in found}


@pytest.mark.parametrize("name", SCENARIOS)
def test_what_is_said_to_fit_passes_the_check_and_what_does_not_suffice_is_infeasible_but_not_wrong(name: str) -> None:
    found = variants(name)
    assert any(not memory_problem(job) for _, job in found)
    for remedy, job in found if THOROUGH else found[::3]:
        problem = memory_problem(job)
        assert problems(SCENARIOS[name], remedy) == ({problem} if problem else set()), remedy_text(remedy)


@pytest.mark.parametrize("name", SCENARIOS)
def test_the_global_batch_stays(name: str) -> None:
    samples = build_job(SCENARIOS[name]).global_batch_size
    for remedy, job in variants(name):
        assert job.global_batch_size == samples, remedy_text(remedy)


@pytest.mark.parametrize("name", SCENARIOS)
def test_of_each_kind_there_is_at_most_one_and_of_it_the_mildest_that_fits(name: str) -> None:
    job = build_job(SCENARIOS[name])
    singles = [remedy for remedy, _ in single_remedies(job)]
    for kind in KINDS:
        own = [remedy for remedy in kind(job) if remedy in singles]
        assert len(own) <= 1
        for remedy in own:
            milder = list(kind(job))[: list(kind(job)).index(remedy)]
            fitting = [other for other in milder if problems(job.config, other) == set()]
            assert fitting == []


def test_offloading_saves_memory_for_time() -> None:
    job = build_job(SCENARIOS["only the host has room"])
    (effect,) = (effect for effect in remedy_effects(job, Stopwatch(job)) if "training.options" in effect.remedy)
    assert effect.remedy == OPTIMIZER_AWAY  # the mildest that fits
    assert effect.fits
    assert effect.saved_bytes > 0.9 * 14 * job.model.parameters / 8
    assert effect.time_cost is not None
    assert effect.time_cost > 0.1


def test_zero_keeps_its_weights_on_the_gpu() -> None:
    job = build_job(SCENARIOS["zero"])
    offloads = [remedy for remedy, _ in single_remedies(job) if "training.options" in remedy]
    assert offloads == [OPTIMIZER_AWAY]


def test_what_a_check_refuses_is_no_remedy() -> None:
    job = build_job(SCENARIOS["interleaved"])  # 32 layers: not 16 stages of two chunks of 3
    for remedy, _ in single_remedies(job):
        assert remedy.get("training.gradient_accumulation_steps", 8) % remedy.get("parallelism.pp_stages", 2) == 0
    no_heads = build_job(SCENARIOS["a cnn"])
    assert not any("parallelism.tp_degree" in remedy for remedy, _ in single_remedies(no_heads))


def test_a_pair_is_two_kinds_that_suffice_together() -> None:
    job = build_job(SCENARIOS["ddp"].model_copy(update={"training": config_of(batch_size_per_gpu=8).training}))
    singles = [remedy for remedy, _ in single_remedies(job)]
    assert all(memory_problem(changed_job) for _, changed_job in single_remedies(job))
    pairs = [remedy for remedy, _ in remedy_pairs(job)]
    assert {
        "parallelism.strategy": "FSDP",
        "training.batch_size_per_gpu": 1,
        "training.gradient_accumulation_steps": 8,
    } in pairs
    assert {"parallelism.tp_degree", "parallelism.sequence_parallel"} <= set().union(*map(set, pairs))
    assert not any(remedy in singles for remedy in pairs)


def test_what_communicates_in_every_micro_batch_is_late_in_a_pipeline() -> None:
    def order(job: TrainingJob) -> list[str]:
        return [remedy_text(remedy).partition(" and ")[0] for remedy, _ in single_remedies(job)]

    plain, pipeline = order(build_job(SCENARIOS["ddp"])), order(build_job(SCENARIOS["stages"]))
    recompute = "training.activation_recompute: full"
    assert plain.index("parallelism.strategy: FSDP") < plain.index(recompute)
    assert pipeline.index("parallelism.strategy: PP_FSDP") > pipeline.index(recompute)
    assert plain[-1] == "training.optimizer: sgd"


@pytest.mark.parametrize(
    ("parallelism", "current"),
    [({}, "DDP"), ({"strategy": "FSDP"}, "FSDP"), (TP, "DDP"), ({"strategy": "TP_ZERO2", "tp_degree": 2}, "ZERO2")],
)
def test_the_current_strategy_is_named(parallelism: dict[str, Any], current: str) -> None:
    assert current_strategy(job_of(parallelism=parallelism)) == current


def test_options_that_both_strategies_have_are_kept() -> None:
    kept = strategy_remedy(job_of(options={"bucket_size": "10 MB"}), "ZERO1")
    assert kept == {"parallelism.strategy": "ZERO1"}
    dropped = strategy_remedy(job_of(options={"bucket_size": "10 MB"}), "FSDP")
    assert dropped == {"parallelism.strategy": "FSDP", "training.options": {}}


def test_ranks_that_share_their_sequences_can_divide_states_too() -> None:
    shared = job_of("Llama3-8B", parallelism={"strategy": "CP", "cp_degree": 8})
    assert strategy_remedy(shared, "FSDP") == {"parallelism.strategy": "CP_FSDP"}
    assert "CP_ZERO1" in [remedy.get("parallelism.strategy") for remedy, _ in single_remedies(shared)]
    alone = job_of(parallelism={"strategy": "TP", "tp_degree": 8})
    assert strategy_remedy(alone, "FSDP") is None

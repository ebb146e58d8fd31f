"""Training of adapters: what is trained, what it costs, and what it occupies."""

from __future__ import annotations

from typing import Any

import pytest

from simsys.build.job import build_job
from simsys.build.training import TrainingJob
from simsys.check import check_config
from simsys.config.experiment import SimulationConfig
from simsys.errors import UnknownNameError
from simsys.executors.recording import Recording
from simsys.model.adapters import NF4_BYTES, Adapters, dequantized, with_trained_adapters
from simsys.model.batch import Batch
from simsys.model.model_db import load_model
from simsys.model.work import Precision, forward_work
from simsys.parallel.training import model_flop
from simsys.simulation import simulate

SEQUENCE = 512
LLAMA_LINEAR = 32 * (4 * 4096 * 4096 + 3 * 4096 * 11008)
"""Weights of the linear layers of Llama-2-7B."""


def config_of(adapter: dict[str, Any] | None = None, lod: str = "medium", **parallelism: Any) -> SimulationConfig:
    given = {"strategy": "DDP", "dp_degree": 4, **parallelism}
    gpus = given["dp_degree"] * given.get("tp_degree", 1) * given.get("pp_stages", 1)
    return SimulationConfig(
        hardware={"gpu": "H100-SXM", "num_nodes": 1, "gpus_per_node": gpus},
        model={"name": "Llama-2-7B", "sequence_length": SEQUENCE},
        parallelism=given,
        training={
            "batch_size_per_gpu": 1,
            "num_iterations": 1,
            "gradient_accumulation_steps": 2 * given.get("pp_stages", 1),
            "adapter": {"kind": "lora", "rank": 16} if adapter is None else adapter,
        },
        simulation={"lod": lod},
    )


def recorded(config: SimulationConfig) -> tuple[TrainingJob, list[dict[str, Any]]]:
    job = build_job(config)
    executor = Recording(job.cluster.platform(), job.execution_model(), job.roles())
    job.start(executor)
    executor.env.run()
    return job, executor.operations


@pytest.mark.parametrize(
    ("rank", "modules", "trained"),
    [
        (8, ("q_proj", "v_proj"), 4_194_304),
        (16, ("all-linear",), 32 * 16 * (2 * (4096 + 4096) + (4096 + 3 * 4096) + (4096 + 22016) + (11008 + 4096))),
        (64, ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"), 159_907_840),
        (16, ("linear_qkv", "linear_proj"), 32 * 16 * ((4096 + 3 * 4096) + 2 * 4096)),
    ],
)
def test_the_number_of_trained_parameters_is_that_of_peft(rank: int, modules: tuple[str, ...], trained: int) -> None:
    """PEFT prints 4,194,304 for q and v at rank 8 of Llama-2-7B, and 159,907,840 for all seven modules at rank 64."""
    if modules == ("all-linear",):
        trained = 32 * 16 * ((4096 + 3 * 4096) + 2 * 4096 + (4096 + 22016) + (11008 + 4096))
    assert with_trained_adapters(load_model("Llama-2-7B"), Adapters(rank, modules)).parameters == trained


def test_frozen_weights_take_four_flop_a_token_and_adapters_six() -> None:
    """Without attention: forward 2, gradients of inputs 2, gradients of weights 2 for trained weights alone."""
    model = load_model("Llama-2-7B")
    batch = Batch(tokens=100.0, logits=100.0)
    with_adapters = with_trained_adapters(model, Adapters(16, ("all-linear",)))
    frozen = LLAMA_LINEAR + 32000 * 4096
    assert model_flop(model, batch) == pytest.approx(6.0 * 100 * frozen, rel=1e-12)
    assert model_flop(with_adapters, batch) == pytest.approx(100 * (4.0 * frozen + 6.0 * with_adapters.parameters))


@pytest.mark.parametrize("kind", ["lora", "qlora"])
def test_only_adapters_have_gradients_and_optimizer_states(kind: str) -> None:
    job = build_job(config_of({"kind": kind, "rank": 16}))
    trained = job.trained_model.parameters
    memory, all_weights = job.memory_bytes, job.model.parameters
    assert memory["gradients"] == 4 * trained
    assert memory["optimizer"] == 8 * trained
    linear = NF4_BYTES if kind == "qlora" else 2.0
    frozen = LLAMA_LINEAR * linear + (all_weights - LLAMA_LINEAR) * 2.0
    assert memory["parameters"] == pytest.approx(4 * trained + frozen, abs=1.0)


def test_inputs_of_frozen_layers_without_adapters_are_not_kept() -> None:
    """Query and value projections share one input; the MLP keeps gate and up for its activation, but no inputs."""
    every = build_job(config_of()).memory_bytes["activations"]
    few = build_job(config_of({"rank": 16, "target_modules": ["q_proj", "v_proj"]})).memory_bytes["activations"]
    ranks = {"all": 4 * 16, "few": 2 * 16}
    per_token = 32 * 2 * (4096 + 11008 + ranks["all"] - ranks["few"])
    assert every - few == pytest.approx(per_token * SEQUENCE, rel=1e-6)


def test_replicas_exchange_gradients_of_adapters_alone() -> None:
    job, operations = recorded(config_of())
    sent = sum(op["nbytes"] for op in operations if op["name"] == "gradients" and "group" in op and op["rank"] == 0)
    assert sent == pytest.approx(4 * job.trained_model.parameters)


def test_sharded_weights_are_gathered_as_they_are_stored() -> None:
    job, operations = recorded(config_of({"kind": "qlora"}, strategy="FSDP"))
    gathered = [op for op in operations if op["verb"] == "all_gather" and op["rank"] == 0]
    layer = LLAMA_LINEAR / 32 * NF4_BYTES + 2 * 4096 * 2.0 + job.trained_model.parameters / 32 * 2.0
    assert any(op["nbytes"] == pytest.approx(layer) for op in gathered)
    assert job.memory_bytes["parameters"] * 4 == pytest.approx(
        4 * job.trained_model.parameters + LLAMA_LINEAR * NF4_BYTES + (job.model.parameters - LLAMA_LINEAR) * 2,
        rel=1e-9,
    )


@pytest.mark.parametrize("sequence_parallel", [False, True])
def test_adapters_add_no_collectives_to_tensor_parallelism(sequence_parallel: bool) -> None:
    """The partial sums of a row-split layer and of its adapter are added up together."""
    degrees = {"strategy": "TP_DDP", "dp_degree": 2, "tp_degree": 2, "sequence_parallel": sequence_parallel}
    plain = config_of(**degrees).model_dump(mode="json")
    plain["training"]["adapter"] = None
    _, without = recorded(SimulationConfig.model_validate(plain))
    _, operations = recorded(config_of(**degrees))

    def within_layers(found: list[dict[str, Any]]) -> list[str]:
        return [op["name"] for op in found if op["name"].startswith("tensor") and op["rank"] == 0]

    assert within_layers(operations) == within_layers(without)


def test_weights_in_four_bit_are_written_in_sixteen_once_in_either_pass() -> None:
    model = with_trained_adapters(load_model("Llama-2-7B"), Adapters(16, ("all-linear",), quantized=True))
    operators = model.blocks[1].operators
    plain = forward_work(operators, Batch(tokens=1.0, logits=1.0), Precision())
    kernel = dequantized(plain, operators).kernels[0]
    assert kernel.nbytes == pytest.approx((NF4_BYTES + 2.0) * LLAMA_LINEAR / 32)
    assert kernel.backward_share * model.blocks[1].backward_flop_ratio == 1.0


def test_adapters_are_trained_faster_and_conversion_costs_time() -> None:
    plain = config_of(strategy="FSDP").model_dump(mode="json")
    plain["training"]["adapter"] = None
    full_s = simulate(SimulationConfig.model_validate(plain)).metrics["mean_iteration_s"]
    lora_s = simulate(config_of(strategy="FSDP")).metrics["mean_iteration_s"]
    qlora_s = simulate(config_of({"kind": "qlora", "rank": 16}, strategy="FSDP")).metrics["mean_iteration_s"]
    assert 0.55 * full_s < lora_s < qlora_s < full_s


@pytest.mark.parametrize("parallelism", [{}, {"strategy": "TP_DDP", "tp_degree": 2, "dp_degree": 2}])
def test_both_levels_of_detail_agree(parallelism: dict[str, Any]) -> None:
    times = [simulate(config_of(lod=lod, **parallelism)).metrics["mean_iteration_s"] for lod in ("medium", "high")]
    assert times[0] == pytest.approx(times[1], rel=1e-9)


def test_unknown_modules_are_refused_at_their_line() -> None:
    with pytest.raises(UnknownNameError, match="did you mean 'q_proj'"):
        with_trained_adapters(load_model("Llama-2-7B"), Adapters(16, ("q_prj",)))
    found = check_config(config_of({"rank": 16, "target_modules": ["q_prj"]}))
    assert [each.path for each in found] == ["training.adapter.target_modules"]


@pytest.mark.parametrize(
    ("change", "path"),
    [
        ({"parallelism": {"strategy": "PP_DDP", "pp_stages": 2, "schedule": "zero_bubble"}}, "parallelism.schedule"),
        ({"training": {"options": {"offload": "optimizer"}}}, "training.options.offload"),
    ],
)
def test_combinations_that_are_not_modelled_are_refused(change: dict[str, Any], path: str) -> None:
    config = config_of(**{"strategy": "FSDP", **change.pop("parallelism", {})})
    changed = {section: {**config.model_dump(mode="json")[section], **values} for section, values in change.items()}
    found = check_config(SimulationConfig.model_validate({**config.model_dump(mode="json"), **changed}))
    assert path in [each.path for each in found]

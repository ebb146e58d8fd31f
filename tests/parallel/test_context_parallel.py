"""Context parallelism: what a rank computes, keeps and sends around, and how much of that is hidden."""

from __future__ import annotations

import pytest

from simsys.build.job import build_job
from simsys.build.training import TrainingJob
from simsys.check import check_config
from tests.agreement.test_training_mixes import ITERATIONS, LAYERS, config_of, recorded, run

MICRO_BATCHES, SEQUENCE, SAMPLES, HIDDEN = 2, 256, 2, 512


def job(context: int, **more: object) -> TrainingJob:
    return build_job(config_of(1, 1, 1, context=context, micro_batches=MICRO_BATCHES, **more))


@pytest.mark.parametrize("context", [2, 4, 8])
def test_the_work_is_divided(context: int) -> None:
    alone, divided = job(1), job(context)
    assert context * divided.plans[0][0].flop == pytest.approx(alone.plans[0][0].flop, rel=1e-12)
    facts, same = divided.collector().facts, alone.collector().facts
    for name in (
        "samples_per_iteration",
        "model_flop_per_iteration",
        "hardware_flop_per_iteration",
        "executed_flop_per_iteration",
    ):
        assert facts[name] == pytest.approx(same[name], rel=1e-12), "the ranks share their samples"


@pytest.mark.parametrize("context", [2, 4])
@pytest.mark.parametrize("recompute", ["none", "selective", "full"])
def test_activations_are_divided_and_weights_are_not(context: int, recompute: str) -> None:
    alone, divided = job(1, recompute=recompute).memory_bytes, job(context, recompute=recompute).memory_bytes
    for component in ("activations", "logits", "recomputed"):
        assert divided[component] == pytest.approx(alone[component] / context, rel=1e-9)
    assert divided["parameters"] == alone["parameters"]


@pytest.mark.parametrize(("context", "tensor"), [(2, 1), (4, 1), (8, 1), (2, 4)])
def test_keys_and_values_go_around_once_forward_and_twice_and_a_step_backward(context: int, tensor: int) -> None:
    """Liu et al. 2023, section 3: c-1 steps; backward their gradients go along, and c-th to their owner."""
    _, operations = recorded(config_of(tensor, 1, 1, context=context, micro_batches=MICRO_BATCHES))
    around = [op for op in operations if op["verb"] == "send_recv"]
    kv_bytes = 2 * 2.0 * SAMPLES * SEQUENCE / context * HIDDEN / tensor  # each rank those of its heads
    assert {len(op["group"]) for op in around} == {context}
    per_layer = (context - 1) * (1 + 2) + 1
    mine = sum(op["nbytes"] for op in around if op["rank"] == 0)
    assert mine == pytest.approx(ITERATIONS * MICRO_BATCHES * LAYERS * per_layer * kv_bytes, rel=1e-12)


def test_gradients_are_reduced_over_all_parts_of_the_sequences() -> None:
    _, operations = recorded(config_of(1, 1, 2, context=4, micro_batches=MICRO_BATCHES))
    groups = {tuple(op["group"]) for op in operations if op["name"] == "gradients" and "group" in op}
    assert groups == {tuple(range(8))}


def test_long_attention_hides_the_ring_and_short_attention_does_not() -> None:
    """The exposed time is that of what goes around beyond the attention beside it."""

    def exposed(sequence: int, bandwidth: str) -> float:
        config = config_of(1, 1, 1, context=4, micro_batches=1, sequence=sequence, bandwidth=bandwidth)
        metrics = run(config).metrics
        return float(metrics["exposed_communication_s"] / metrics["communication_s"])

    assert exposed(32768, "400 GB/s") < 0.3 < exposed(256, "4 GB/s")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"context": 2, "model": {"name": "T5-Large", "decoder_sequence_length": 114}},
            "parallelism.cp_degree: context parallelism divides sequences into 2 x cp_degree = 4 parts, "
            "not 114 tokens; decoder_sequence_length: 112 or 116 would fit",
        ),
        ({"context": 2, "sequence": 250}, "parallelism.cp_degree: context parallelism divides sequences into 2 x"),
        (
            {"context": 8, "gpus": 4},
            "parallelism.cp_degree: tp 1 x cp 8 x pp 1 = 8 does not divide 4 GPUs; cp_degree: 1 or 2 or 4 would fit",
        ),
    ],
)
def test_what_does_not_fit_is_explained(changes: dict[str, int], message: str) -> None:
    gpus = changes.pop("gpus", None)
    config = config_of(1, 1, 1, **changes)  # type: ignore[arg-type]
    if gpus is not None:
        hardware = config.hardware.model_copy(update={"num_nodes": gpus})
        free = config.parallelism.model_copy(update={"dp_degree": None, "strategy": None})
        config = config.model_copy(update={"hardware": hardware, "parallelism": free})
    (problem,) = check_config(config)
    assert str(problem).startswith(message)


def test_a_cnn_has_nothing_that_could_go_around() -> None:
    config = config_of(1, 1, 1, context=2)
    config = config.model_copy(update={"model": type(config.model)(name="ResNet-50")})
    (problem,) = check_config(config)
    assert "ResNet-50 has no attention with keys and values to exchange; cp_degree: 1" in str(problem)

"""Where time is lost: disjoint parts of an iteration or of a request's latency, always named."""

from __future__ import annotations

import json
from typing import Any

import pytest

from simsys.analysis.losses import Loss, largest_losses, losses
from simsys.config.experiment import SimulationConfig
from simsys.metrics.result import RunResult
from simsys.report.export import write_results
from simsys.report.summary import summary_text
from simsys.simulation import simulate


def trained(model: str = "Llama3-8B", *, parallelism: dict[str, Any], nodes: int = 1, **training: Any) -> RunResult:
    settings = {"batch_size_per_gpu": 1, "num_iterations": 2, **training}
    hardware = {"profile": "dgx-h100", "num_nodes": nodes}
    return simulate(
        SimulationConfig(hardware=hardware, model={"name": model}, parallelism=parallelism, training=settings)
    )


def served(rate: float, *, gpus: int = 1, tensor: int = 1, simulation: Any = None, **serving: Any) -> RunResult:
    workload = {
        "arrivals": {"kind": "poisson", "rate": f"{rate} req/s"},
        "prompt_tokens": 512,
        "output_tokens": 128,
        "num_requests": 150,
    }
    return simulate(
        SimulationConfig(
            hardware={"profile": "dgx-h100", "gpus_per_node": gpus},
            model={"name": "Llama3-8B"},
            parallelism={"tp_degree": tensor},
            serving=serving,
            workload=workload,
            simulation=simulation or {},
        )
    )


def whole_s(result: RunResult) -> float:
    return float(result.metrics.get("mean_iteration_s") or result.metrics["mean_e2el_ms"] / 1e3)


def seconds(result: RunResult) -> dict[str, float]:
    return {loss.name: loss.seconds for loss in losses(result)}


PIPELINE = {"strategy": "PP_FSDP", "pp_stages": 2}
RUNS = {
    "ddp": lambda: trained("GPT2-Medium", parallelism={"strategy": "DDP"}),
    "pipeline": lambda: trained(parallelism=PIPELINE, gradient_accumulation_steps=8, activation_recompute="full"),
    "tensor": lambda: trained(parallelism={"strategy": "TP_FSDP", "tp_degree": 4}, nodes=2),
    "offload": lambda: trained(parallelism={"strategy": "FSDP"}, options={"offload": "optimizer"}),
    "loaded": lambda: served(60, gpu_memory_utilization=0.25),
    "idle": lambda: served(2),
    "tensor serving": lambda: served(20, gpus=4, tensor=4),
    "disaggregated": lambda: served(20, gpus=4, disaggregated={"prefill_replicas": 2, "decode_replicas": 2}),
}


@pytest.mark.parametrize("name", RUNS)
def test_losses_are_disjoint_parts_of_the_whole_and_the_largest_are_named(name: str) -> None:
    result = RUNS[name]()
    found = losses(result)
    assert 0.0 < sum(loss.seconds for loss in found) <= whole_s(result)
    assert all(loss.share == pytest.approx(loss.seconds / whole_s(result)) for loss in found)
    named = largest_losses(result)
    assert named == sorted(found, key=lambda loss: -loss.seconds)[:3]
    assert len(named) == 3
    assert "bottlenecks" in summary_text(result)
    flat = " ".join(summary_text(result).split())
    assert all(" ".join(loss.text().split()) in flat for loss in named)
    assert all(loss.remedy for loss in named)
    assert json.loads(json.dumps(named[0].as_dict()))["level"] == named[0].level


def test_training_losses_are_the_parts_that_the_iteration_is_told_in() -> None:
    result = RUNS["pipeline"]()
    found, metrics = seconds(result), result.metrics
    assert found["bubble"] == pytest.approx(metrics["bubble_s"])
    assert found["exposed data communication"] == pytest.approx(metrics["exposed_data_s"])
    assert found["optimizer"] == pytest.approx(metrics["optimizer_s"])
    passes_s = metrics["compute_s"] - metrics["optimizer_s"]
    assert found["recomputation"] == pytest.approx(passes_s * (1 - metrics["mfu"] / metrics["hfu"]))
    assert found["recomputation"] + found["kernel inefficiency"] < passes_s


def test_without_recomputation_none_is_lost_to_it_and_useful_time_is_that_at_the_dense_peak() -> None:
    result = RUNS["ddp"]()
    found, metrics = seconds(result), result.metrics
    assert "recomputation" not in found
    useful_s = metrics["mean_iteration_s"] - sum(found.values())
    assert useful_s == pytest.approx(metrics["attained_peak_share"] * metrics["mean_iteration_s"])


@pytest.mark.parametrize(("batch", "least", "most"), [(1, 0.2, 0.6), (16, 0.0, 0.02)])
def test_small_batches_wait_for_launches(batch: int, least: float, most: float) -> None:
    result = trained("GPT2-Medium", parallelism={"strategy": "DDP"}, batch_size_per_gpu=batch)
    found, metrics = seconds(result), result.metrics
    waiting_s = found.get("waiting for kernel launches", 0.0)
    assert waiting_s == metrics["launch_s"]
    assert least <= waiting_s / metrics["compute_s"] < most
    useful_s = metrics["mean_iteration_s"] - sum(found.values())
    assert useful_s == pytest.approx(metrics["attained_peak_share"] * metrics["mean_iteration_s"])
    printed = "of it waiting for kernel launches" in " ".join(summary_text(result).split())
    assert printed == (metrics["launch_s"] > 0.01 * metrics["mean_iteration_s"])


def test_recomputation_takes_what_a_run_without_it_is_shorter_by() -> None:
    with_it, without = (
        trained(parallelism={"strategy": "FSDP"}, activation_recompute=kind) for kind in ("full", "none")
    )
    saved_s = with_it.metrics["compute_s"] - without.metrics["compute_s"]
    assert seconds(with_it)["recomputation"] == pytest.approx(saved_s, rel=0.1)


def test_queueing_is_the_wait_of_requests_and_preemption_that_for_the_next_token() -> None:
    result = RUNS["loaded"]()
    found = seconds(result)
    assert found["queueing"] == pytest.approx(result.metrics["mean_queue_ms"] / 1e3)
    assert result.metrics["preemptions"]
    assert found["preemption"] > 0.0


def test_only_replicas_that_prefill_too_delay_decoding_by_prompts() -> None:
    assert "prompts of other requests" in seconds(RUNS["tensor serving"]())
    apart = seconds(RUNS["disaggregated"]())
    assert "prompts of other requests" not in apart
    assert apart["move to another replica"] > 0.0


def test_both_levels_of_detail_lose_the_same() -> None:
    high = served(20, gpus=4, tensor=4, simulation={"lod": "high"})
    assert seconds(high) == pytest.approx(seconds(RUNS["tensor serving"]()), rel=1e-6)


@pytest.mark.parametrize(("share", "level"), [(0.3, "minor"), (0.31, "high"), (0.5, "high"), (0.51, "bound")])
def test_levels_are_those_of_the_first_design_document(share: float, level: str) -> None:
    metrics = {
        "mean_iteration_s": 1.0,
        "compute_s": 1 - share,
        "exposed_communication_s": share,
        "attained_peak_share": 0.4,
    }
    (loss,) = (
        each
        for each in losses(RunResult("t", "training", "medium", "fifo", metrics, {}))
        if each.name == "exposed communication"
    )
    assert loss.level == level
    assert isinstance(loss, Loss)


def test_no_completed_request_loses_nothing() -> None:
    assert losses(RunResult("s", "serving", "medium", "fifo", {"mean_e2el_ms": None}, {})) == []


def test_losses_are_written_beside_the_bottlenecks(tmp_path: Any) -> None:
    result = RUNS["idle"]()
    config = SimulationConfig(
        name=result.name, hardware={"gpu": "H100"}, model={"name": "GPT2-Small"}, training={"batch_size_per_gpu": 1}
    )
    write_results(config, result, tmp_path)
    written = json.loads((tmp_path / result.name / f"{result.name}_bottlenecks.json").read_text())
    assert written["losses"] == [loss.as_dict() for loss in largest_losses(result)]
    assert written["bottlenecks"] == []

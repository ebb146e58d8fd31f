"""Every figure of a training run from iterations written by hand."""

from __future__ import annotations

from typing import Any

import pytest

from simsys import DistributedAISimulator, SimulationConfig
from simsys.collectives import CollectiveKind
from simsys.metrics.collector import TrainingMetrics
from simsys.metrics.iteration_log import IterationLog
from simsys.metrics.result import RunResult
from simsys.metrics.training import mean_parts, training_metrics
from simsys.model.work import Work
from simsys.ops import Collective, Compute, Recv, Send
from simsys.parallel.layout import Layout

FACTS = {
    "samples_per_iteration": 32.0,
    "tokens_per_sample": 1024.0,
    "model_flop_per_iteration": 6e12,
    "hardware_flop_per_iteration": 9e12,
    "executed_flop_per_iteration": 7.5e12,
    "num_gpus": 4.0,
    "peak_flop_per_s": 10e12,
}


def log() -> IterationLog:
    """Iterations of 1 s and 2 s; the second waits longer for communication, and for others."""
    return IterationLog(
        started_s=[0.0, 1.0],
        ended_s=[1.0, 3.0],
        compute=[0.6, 1.0],
        optimizer=[0.1, 0.2],
        communication=[0.5, 1.5],
        exposed=[{"data": 0.1, "tensor": 0.3}, {"tensor": 0.8}],
        bubble=[0.0, 0.05],
        data=[0.0, 0.0],
        checkpoint=[0.0, 0.0],
    )


EXPECTED = {
    "iterations": 2,
    "mean_iteration_s": 1.5,
    "first_iteration_s": 1.0,
    "last_iteration_s": 2.0,
    "steady_iteration_s": 2.0,
    "compute_s": 0.8,
    "optimizer_s": 0.15,
    "communication_s": 1.0,
    "exposed_communication_s": 0.6,  # (0.4 + 0.8) / 2: what the computation does not hide
    "communication_ratio": 1.0 / 1.8,  # hidden communication included
    "exposed_communication_ratio": 0.6 / 1.5,
    "exposed_data_s": 0.05,
    "exposed_tensor_s": 0.55,
    "bubble_s": 0.025,
    "data_s": 0.0,
    "checkpoint_s": 0.0,
    "checkpoint_bytes": 0.0,
    "idle_s": 0.075,  # (0.0 + 0.15) / 2
    "samples_per_s": 32 / 1.5,
    "tokens_per_s": 32 * 1024 / 1.5,
    "tokens_per_s_per_gpu": 32 * 1024 / 1.5 / 4,
    "model_flop_per_s_per_gpu": 1e12,
    "mfu": 0.1,  # 6e12 / 4 / 1.5 s of 10e12
    "hardware_flop_per_s_per_gpu": 1.5e12,
    "hfu": 0.15,
    "attained_peak_share": 0.125,
    "num_gpus": 4,
}


def test_figures_of_known_iterations() -> None:
    assert training_metrics(log(), **FACTS) == pytest.approx(EXPECTED)


def test_rows_have_one_entry_per_iteration() -> None:
    rows = log().rows()
    assert rows["iteration"] == [0, 1]
    assert rows["iteration_s"] == [1.0, 2.0]
    assert rows["exposed_communication_s"] == [0.4, 0.8]
    assert rows["bubble_s"] == [0.0, 0.05]
    assert rows["idle_s"] == pytest.approx([0.0, 0.15])
    assert rows["idle_s"][0] == 0.0, "rounding is no idling"
    assert len(set(map(len, rows.values()))) == 1


def test_repeated_iterations_are_like_the_last_one() -> None:
    repeated = log()
    repeated.repeat(3, 3.0, 2.0, like=1)
    rows = repeated.rows()
    assert rows["started_s"] == [0.0, 1.0, 3.0, 5.0, 7.0]
    for name in ("iteration_s", "compute_s", "optimizer_s", "communication_s", "exposed_communication_s", "idle_s"):
        assert rows[name][1:] == pytest.approx([rows[name][1]] * 4), name
    assert rows["bubble_s"] == [0.0, 0.05, 0.05, 0.05, 0.05]
    assert repeated.exposed_along("data") == pytest.approx(0.1 / 5)


def test_the_parts_of_a_rank_add_up_whoever_communicates() -> None:
    parts = mean_parts(log(), {"data", "tensor", "pipeline"})
    assert list(parts) == [
        "compute_s",
        "optimizer_s",
        "exposed_tensor_s",
        "exposed_data_s",
        "exposed_pipeline_s",
        "bubble_s",
        "idle_s",
        "data_s",
        "checkpoint_s",
    ]
    assert parts["exposed_pipeline_s"] == 0.0
    assert sum(parts.values()) - parts["optimizer_s"] == pytest.approx(1.5)


def test_at_full_speed_the_mfu_is_one() -> None:
    one_second = IterationLog([0.0], [1.0], [1.0], [0.0], [0.0], [{}], [0.0], [0.0], [0.0])
    figures = training_metrics(one_second, **{**FACTS, "model_flop_per_iteration": 40e12})
    assert figures["mfu"] == 1.0


def test_the_collector_adds_up_the_operations_of_its_rank_within_an_iteration() -> None:
    layout = Layout(data=2)
    collector = TrainingMetrics(0, **FACTS)
    mine, other = (Compute(rank, Work(), "forward") for rank in (0, 1))
    exchange = Collective(0, CollectiveKind.ALL_REDUCE, layout.group(0, "data"), 8.0, "gradients")
    collector.operation(mine, 0.0, 5.0)  # before the first iteration: not counted
    collector.mark(0, "iteration_start", 5.0)
    collector.mark(1, "iteration_start", 5.0)
    collector.operation(mine, 5.0, 7.0)
    collector.operation(other, 5.0, 9.0)
    collector.operation(exchange, 6.0, 7.5)
    collector.mark(0, "backward", 6.0)  # a phase, no boundary
    collector.mark(0, "iteration_end", 8.0)
    collector.mark(0, "iteration_start", 8.0)
    collector.operation(mine, 8.0, 8.5)
    collector.operation(Compute(0, Work(), "optimizer"), 8.5, 9.0)
    collector.mark(0, "iteration_end", 9.0)
    rows = collector.rows()
    assert rows["iteration_s"] == [3.0, 1.0]
    assert rows["compute_s"] == [2.0, 1.0]
    assert rows["optimizer_s"] == [0.0, 0.5]
    assert rows["communication_s"] == [1.5, 0.0]
    assert rows["exposed_communication_s"] == [0.5, 0.0]
    assert rows["idle_s"] == [0.5, 0.0]
    assert collector.metrics()["iterations"] == 2
    assert collector.end_s == 9.0


def test_collectives_of_its_groups_count_whoever_joins_first_and_so_do_messages_it_sends() -> None:
    layout = Layout(tensor=2, data=2)
    collector = TrainingMetrics(1, **FACTS)
    collector.mark(1, "iteration_start", 0.0)
    for joined_first, axis, start_s in ((0, "tensor", 0.0), (3, "data", 2.0), (2, "tensor", 4.0)):
        group = layout.group(joined_first, axis)
        collector.operation(Collective(joined_first, CollectiveKind.ALL_REDUCE, group, 8.0, "x"), start_s, start_s + 1)
    collector.operation(Send(1, 0, 8.0, None, "boundary"), 6.0, 6.5)
    collector.operation(Send(0, 1, 8.0, None, "boundary"), 7.0, 7.5)
    collector.mark(1, "iteration_end", 8.0)
    rows = collector.rows()
    assert rows["communication_s"] == [2.5]  # ranks 2 and 3 are not in its tensor-parallel group
    assert rows["exposed_communication_s"] == [2.5]
    assert rows["idle_s"] == [5.5]
    metrics = collector.metrics()
    assert [metrics[f"exposed_{axis}_s"] for axis in ("tensor", "data", "pipeline")] == [1.0, 1.0, 0.5]
    assert "exposed_expert_s" not in metrics


def test_every_stage_has_a_row_with_its_own_times_and_memory() -> None:
    collector = TrainingMetrics(0, stages={0: 0, 2: 1}, **FACTS)
    collector.memory(0, 70.0, 0.0)
    collector.memory(2, 50.0, 0.0)
    collector.memory(2, 20.0, 0.0)
    collector.memory(1, 90.0, 0.0)  # nobody's row
    for rank in (0, 1, 2):
        collector.mark(rank, "iteration_start", 0.0)
    collector.operation(Compute(0, Work(), "forward"), 0.0, 3.0)
    collector.waited(Recv(2, 0, "tag", "recv"), 0.0, 3.0, 4.0)
    collector.operation(Compute(2, Work(), "forward"), 4.0, 8.0)
    collector.operation(Compute(1, Work(), "forward"), 0.0, 8.0)
    for rank in (0, 1, 2):
        collector.mark(rank, "iteration_end", 8.0)
        collector.repeated(rank, 3, 8.0, 8.0, 0)
    assert collector.ranks() == {
        "rank": [0, 2],
        "stage": [0, 1],
        "compute_s": [3.0, 4.0],
        "optimizer_s": [0.0, 0.0],
        "exposed_pipeline_s": [0.0, 1.0],
        "bubble_s": [5.0, 3.0],  # stage 0 waits at the end
        "idle_s": [0.0, 0.0],
        "data_s": [0.0, 0.0],
        "checkpoint_s": [0.0, 0.0],
        "peak_memory_bytes": [70.0, 50.0],
    }
    assert collector.metrics()["bubble_s"] == 3.0, "of the stage that computes longest"
    assert collector.rows()["bubble_s"] == [3.0] * 4


def run(lod: str, parallelism: dict[str, Any], **training: Any) -> RunResult:
    """A GPT on eight GPUs that are joined pairwise, so that no two transfers meet on a link."""
    config = SimulationConfig(
        hardware={"gpu": "A100-SXM-80GB", "num_nodes": 8, "gpus_per_node": 1},
        network={"topology_type": "full_mesh"},
        model={"model_type": "gpt", "num_layers": 4, "hidden_size": 512, "num_attention_heads": 8},
        parallelism=parallelism,
        training={
            "batch_size_per_gpu": 2,
            "num_iterations": 2,
            "gradient_accumulation_steps": 3,
            "communication_pattern": "direct",
            **training,
        },
        simulation={"lod": lod},
    )
    return DistributedAISimulator(config).run()


def figures(result: RunResult) -> dict[str, float]:
    return {name: value for name, value in result.metrics.items() if isinstance(value, float)}


@pytest.mark.parametrize("attention", ["fused", "unfused"])
@pytest.mark.parametrize("recompute", ["none", "selective", "full"])
@pytest.mark.parametrize("by_tokens", [False, True])
@pytest.mark.parametrize("kinds", [{"strategy": "TP_DDP"}, {"strategy": "TP_PP", "pp_stages": 2}], ids=["dp", "pp"])
def test_both_levels_of_detail_agree_on_every_figure(
    kinds: dict[str, Any], by_tokens: bool, recompute: str, attention: str
) -> None:
    parallelism = {"tp_degree": 4, "sequence_parallel": by_tokens, **kinds}
    high, medium = (
        run(lod, parallelism, activation_recompute=recompute, attention=attention) for lod in ("high", "medium")
    )
    assert figures(medium) == pytest.approx(figures(high), rel=1e-9)
    metrics = high.metrics
    parts = sum(metrics[f"{part}_s"] for part in ("compute", "exposed_communication", "bubble", "idle"))
    assert parts == pytest.approx(metrics["mean_iteration_s"])
    assert 0.0 < metrics["optimizer_s"] < metrics["compute_s"]
    assert (metrics["bubble_s"] > 0.0) == ("pp_stages" in kinds)


def test_a_run_that_neither_computes_nor_communicates_has_no_communication_ratio() -> None:
    idle = IterationLog([0.0], [1.0], [0.0], [0.0], [0.0], [{}], [1.0], [0.0], [0.0])
    assert training_metrics(idle, **FACTS)["communication_ratio"] == 0.0


@pytest.mark.parametrize("attention", ["fused", "unfused"])
@pytest.mark.parametrize("strategy", ["DDP", "FSDP"])
@pytest.mark.parametrize("recompute", ["none", "selective", "half", "full"])
def test_hfu_is_mfu_and_recomputation(attention: str, strategy: str, recompute: str) -> None:
    """PaLM, appendix B: both count alike, so HFU is never below MFU, whatever kernels skip."""
    metrics = run("medium", {"strategy": strategy}, attention=attention, activation_recompute=recompute).metrics
    if recompute == "none":
        assert metrics["hfu"] == metrics["mfu"]
    else:
        assert 1.001 * metrics["mfu"] < metrics["hfu"] < 1.34 * metrics["mfu"]  # at most a second forward pass


def test_skipped_pairs_are_neither_in_mfu_nor_in_hfu_but_in_what_kernels_execute() -> None:
    one = {"strategy": "DDP"}
    plain, unfused, again = (
        run("medium", one, attention=attention, activation_recompute=recompute).metrics
        for attention, recompute in (("fused", "none"), ("unfused", "none"), ("unfused", "full"))
    )
    flop = [each["model_flop_per_s_per_gpu"] * each["mean_iteration_s"] for each in (plain, unfused, again)]
    assert flop == pytest.approx([flop[0]] * 3)
    assert plain["attained_peak_share"] < plain["hfu"]  # a fused kernel skips what the causal mask hides
    for each in (unfused, again):
        assert each["attained_peak_share"] == pytest.approx(each["hfu"])
    tokens, layers, hidden, length, vocabulary = 6 * 1024, 4, 512, 1024, 50257
    expected = (
        96 * tokens * layers * hidden**2 * (1 + length / (6 * hidden) + vocabulary / (16 * layers * hidden))
    )  # Narayanan et al. 2021, eq. 3
    assert again["hfu"] / again["mfu"] == pytest.approx(expected / flop[0], rel=1e-3)

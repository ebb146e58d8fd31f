"""Mixes of tensor, pipeline and data parallelism: both levels of detail agree, and the volumes are those of theory."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simsys import DistributedAISimulator, SimulationConfig
from simsys.build.job import build_job
from simsys.build.training import TrainingJob
from simsys.check import check_config
from simsys.executors.recording import Recording
from simsys.metrics.result import RunResult
from simsys.probes import Probe
from simsys.simulation import simulate
from tests.helpers.thorough import cases

LAYERS, HIDDEN, SEQUENCE, SAMPLES, HEADS, VOCABULARY = 12, 512, 256, 2, 8, 8192
HIDDEN_BYTES = 2.0 * SAMPLES * SEQUENCE * HIDDEN
"""One micro-batch's hidden states in 16 bit: 2·b·s·h."""
ITERATIONS = 3
GPT2, T5 = ("GPT2-Small", 50257, 768), ("T5-Large", 32128, 1024)
"""Models with a table that embedding and head share: vocabulary and width."""


def config_of(
    tensor: int,
    stages: int,
    data: int,
    *,
    lod: str = "medium",
    context: int = 1,
    hardware: dict[str, Any] | None = None,
    model: dict[str, Any] | None = None,
    micro_batches: int = 4,
    sequence: int = SEQUENCE,
    bandwidth: str = "400 GB/s",
    exceptions: tuple[dict[str, Any], ...] = (),
    recompute: str = "none",
    **parallelism: Any,
) -> SimulationConfig:
    """Without `hardware`, one GPU per node and a link for each pair, so that nothing is shared."""
    gpus = tensor * context * stages * data
    degrees = {"TP": tensor, "CP": context, "PP": stages, "DDP": data}
    kinds = [kind for kind, degree in degrees.items() if degree > 1]
    if context > 1 and data == 1:
        kinds.append("DDP")  # the ranks that share a sequence hold the same weights
    return SimulationConfig(
        hardware={
            **(hardware or {"gpu": "H100-SXM", "num_nodes": gpus, "gpus_per_node": 1}),
            "exceptions": list(exceptions),
        },
        network={"topology_type": "full_mesh", "link_bandwidth": bandwidth, "base_latency": "2 us"},
        model=model
        or {
            "model_type": "transformer",
            "num_layers": LAYERS,
            "hidden_size": HIDDEN,
            "num_attention_heads": HEADS,
            "vocab_size": VOCABULARY,
            "sequence_length": sequence,
        },
        parallelism={
            "strategy": "_".join(kinds) or "None",
            "tp_degree": tensor,
            "cp_degree": context,
            "pp_stages": stages,
            "dp_degree": data,
            **parallelism,
        },
        training={
            "batch_size_per_gpu": SAMPLES,
            "num_iterations": ITERATIONS,
            "gradient_accumulation_steps": micro_batches,
            "communication_pattern": "ring",
            "activation_recompute": recompute,
            # Gradients are reduced over the same links that keys and values go around on.
            "options": {"overlap": False} if context > 1 else {},
        },
        simulation={"lod": lod},
    )


def run(config: SimulationConfig) -> RunResult:
    assert check_config(config) == []
    return DistributedAISimulator(config).run()


def recorded(config: SimulationConfig) -> tuple[TrainingJob, list[dict[str, Any]]]:
    """What every rank asks for in all iterations."""
    job = build_job(config)
    executor = Recording(job.cluster.platform(), job.execution_model(), job.roles())
    job.start(executor)
    executor.env.run()
    executor.check_finished()
    return job, executor.operations


@st.composite
def mixes(draw: st.DrawFn) -> dict[str, Any]:
    tensor, stages, data = draw(st.sampled_from([1, 2, 4])), draw(st.sampled_from([1, 2, 4])), draw(st.integers(1, 2))
    schedule = draw(st.sampled_from(["1f1b", "gpipe", "zero_bubble", "interleaved"]))
    chosen = {
        "tensor": tensor,
        "context": draw(st.sampled_from([1, 1, 2, 4])),
        "stages": stages,
        "data": data,
        "schedule": schedule,
        "sequence_parallel": tensor > 1 and draw(st.booleans()),
        "scatter_gather": draw(st.booleans()),
        "recompute": draw(st.sampled_from(["none", "selective", "full", ["layernorm", "mlp"]])),
        "order": draw(st.sampled_from(["tp-cp-ep-dp-pp", "pp-dp-tp", "dp-cp-tp-pp"])),
    }
    chosen["tp_overlap"] = chosen["sequence_parallel"] and draw(st.booleans())
    if schedule == "interleaved":
        virtual = draw(st.sampled_from([1, 3])) if stages > 1 else 1
        return {**chosen, "virtual_stages": virtual, "micro_batches": stages * draw(st.integers(1, 2))}
    uneven = stages == 4 and draw(st.booleans())
    return {
        **chosen,
        "stage_layers": [2, 4, 5, 1] if uneven else None,
        "micro_batches": draw(st.integers(1, 6)),
    }


def check_levels(**mix: Any) -> None:
    high, medium = run(config_of(lod="high", **mix)), run(config_of(lod="medium", **mix))
    for column in ("iteration_s", "compute_s"):
        assert list(medium.rows[column]) == pytest.approx(list(high.rows[column]), rel=1e-9), column
    assert medium.metrics["mfu"] == pytest.approx(high.metrics["mfu"], rel=1e-9)
    check_parts(high, medium)


def check_parts(high: RunResult, medium: RunResult) -> None:
    """On every stage's rank the parts add up to the iteration, and both levels agree on each."""
    mean_s = high.metrics["mean_iteration_s"]
    within = {"rel": 1e-9, "abs": 1e-9 * mean_s}
    assert list(medium.ranks) == list(high.ranks)
    for column, values in high.ranks.items():
        assert list(medium.ranks[column]) == pytest.approx(list(values), **within), column
    for result in (high, medium):
        parts = {
            name: values for name, values in result.ranks.items() if name.endswith("_s") and name != "optimizer_s"
        }
        for row in zip(*parts.values(), strict=True):
            assert sum(row) == pytest.approx(mean_s, rel=1e-9)
        work_s = [
            sum(
                values[stage]
                for name, values in parts.items()
                if not name.startswith(("bubble", "exposed_pipe", "idle"))
            )
            for stage in range(len(result.ranks["rank"]))
        ]
        busiest = next(stage for stage, seconds in enumerate(work_s) if seconds >= max(work_s) * (1 - 1e-9))
        own = {name: values[busiest] for name, values in parts.items() if name in result.metrics}
        assert own == {name: result.metrics[name] for name in own}
        assert sum(result.exposed_s.values()) == pytest.approx(result.metrics["exposed_communication_s"])
        for index, seconds in enumerate(result.rows["iteration_s"]):
            names = ("compute_s", "exposed_communication_s", "bubble_s", "idle_s")
            assert sum(result.rows[name][index] for name in names) == pytest.approx(seconds, rel=1e-9)
    for column in ("exposed_communication_s", "bubble_s", "idle_s", "communication_s"):
        assert list(medium.rows[column]) == pytest.approx(list(high.rows[column]), **within), column


@settings(max_examples=cases(40, 8))
@given(mix=mixes())
def test_the_levels_agree_where_no_link_is_shared(mix: dict[str, Any]) -> None:
    check_levels(**mix)


@pytest.mark.parametrize("schedule", ["1f1b", "gpipe", "zero_bubble"])
@pytest.mark.parametrize(("tensor", "stages", "data"), [(2, 2, 2), (4, 2, 1), (1, 4, 2), (2, 4, 1)])
def test_the_levels_agree_on_a_node_with_a_link_for_each_pair(
    tensor: int, stages: int, data: int, schedule: str
) -> None:
    check_levels(tensor=tensor, stages=stages, data=data, schedule=schedule, hardware={"profile": "mi300x-platform"})


BART = {"name": "BART-Large", "sequence_length": SEQUENCE, "decoder_sequence_length": SEQUENCE // 4}


@pytest.mark.parametrize(
    "mix",
    [
        {"data": 4},
        {"data": 4, "strategy": "FSDP"},
        {"tensor": 4},
        {"tensor": 4, "sequence_parallel": True},
        {"context": 2},
        {"context": 2, "tensor": 2},
        {"context": 2, "tensor": 2, "sequence_parallel": True, "tp_overlap": True},
        {"stages": 4},
        {"stages": 4, "schedule": "zero_bubble"},
        {"stages": 3, "schedule": "interleaved", "virtual_stages": 4, "micro_batches": 6},
        {"tensor": 2, "stages": 2, "data": 2},
        {"tensor": 2, "stages": 2, "data": 2, "sequence_parallel": True, "strategy": "TP_PP_ZERO2"},
    ],
    ids=lambda mix: "-".join(f"{key}={value}" for key, value in mix.items()),
)
def test_the_levels_agree_on_an_encoder_decoder(mix: dict[str, Any]) -> None:
    check_levels(**{"tensor": 1, "stages": 1, "data": 1, "model": BART, **mix})


@pytest.mark.parametrize("schedule", ["1f1b", "gpipe", "zero_bubble"])
def test_shared_links_can_only_make_high_detail_slower(schedule: str) -> None:
    """Behind a switch, messages between stages share links with the all-reduces of the tensor-parallel group."""
    hardware = {"profile": "dgx-h100"}
    high, medium = (
        run(config_of(2, 2, 2, lod=lod, schedule=schedule, hardware=hardware)).metrics["mean_iteration_s"]
        for lod in ("high", "medium")
    )
    assert medium <= high * (1 + 1e-9)
    assert high < 1.1 * medium


@pytest.mark.parametrize(("tensor", "stages", "data"), [(2, 1, 1), (4, 1, 1), (2, 2, 1), (2, 4, 2)])
def test_tensor_parallelism_exchanges_four_all_reduces_per_layer_and_micro_batch(
    tensor: int, stages: int, data: int
) -> None:
    """Shoeybi et al. 2019, section 3: two forward, two backward, of 2·b·s·h bytes; embedding and head one each."""
    micro_batches = 3
    _, operations = recorded(config_of(tensor, stages, data, micro_batches=micro_batches))
    exchanges = [op for op in operations if op["verb"] == "all_reduce" and op["name"].startswith("tensor")]
    assert {op["nbytes"] for op in exchanges} == {HIDDEN_BYTES}
    assert {len(op["group"]) for op in exchanges} == {tensor}
    steps = ITERATIONS * micro_batches
    per_rank = Counter(op["rank"] for op in exchanges)
    for rank in range(tensor * stages * data):
        stage = rank // (tensor * data)
        ends = (stage == 0) + (stage == stages - 1)
        assert per_rank[rank] == steps * (4 * LAYERS // stages + ends)


@pytest.mark.parametrize("schedule", ["1f1b", "gpipe", "zero_bubble"])
@pytest.mark.parametrize(("tensor", "stages", "data"), [(1, 2, 1), (1, 4, 2), (2, 2, 1), (4, 4, 1)])
def test_a_micro_batch_crosses_each_boundary_once_each_way(tensor: int, stages: int, data: int, schedule: str) -> None:
    """2·b·s·h bytes each way, divided among the tensor-parallel ranks (Narayanan et al. 2021, section 4.1)."""
    micro_batches = 3
    _, operations = recorded(config_of(tensor, stages, data, micro_batches=micro_batches, schedule=schedule))
    sent: Counter[tuple[int, int]] = Counter()
    for op in operations:
        if op["verb"] == "send":
            sent[op["rank"], op["peer"]] += op["nbytes"]
    per_stage = tensor * data
    pairs = [(rank, rank + per_stage) for rank in range(per_stage * (stages - 1))]
    nbytes = ITERATIONS * micro_batches * HIDDEN_BYTES / tensor
    assert sent == {pair: nbytes for low, high in pairs for pair in ((low, high), (high, low))}


@pytest.mark.parametrize("virtual", [1, 3])
def test_virtual_stages_multiply_the_messages(virtual: int) -> None:
    stages, micro_batches = 2, 4
    config = config_of(1, stages, 1, schedule="interleaved", virtual_stages=virtual, micro_batches=micro_batches)
    _, operations = recorded(config)
    nbytes = sum(op["nbytes"] for op in operations if op["verb"] == "send")
    assert nbytes == ITERATIONS * micro_batches * 2 * (stages * virtual - 1) * HIDDEN_BYTES


@pytest.mark.parametrize("schedule", ["1f1b", "zero_bubble"])
@pytest.mark.parametrize(("tensor", "stages", "data"), [(1, 1, 2), (2, 1, 2), (1, 2, 2), (2, 4, 2)])
def test_each_rank_exchanges_the_gradients_of_its_own_weights_once(
    tensor: int, stages: int, data: int, schedule: str
) -> None:
    job, operations = recorded(config_of(tensor, stages, data, schedule=schedule))
    exchanged: Counter[int] = Counter()
    for op in operations:
        if op["name"] == "gradients" and op["verb"] == "all_reduce":
            assert len(op["group"]) == data
            exchanged[op["rank"]] += op["nbytes"]
    for rank in range(tensor * stages * data):
        plan = job.plans[0][rank // (tensor * data)]
        assert exchanged[rank] == pytest.approx(ITERATIONS * plan.gradient_bytes)
    if tensor == 1 and stages == 1:
        assert exchanged[0] == pytest.approx(ITERATIONS * 4 * job.model.parameters)


@pytest.mark.parametrize(("tensor", "stages"), [(1, 2), (1, 4), (2, 2), (4, 3)])
def test_the_work_of_all_ranks_is_that_of_one(tensor: int, stages: int) -> None:
    one, many = build_job(config_of(1, 1, 1)), build_job(config_of(tensor, stages, 1))
    assert tensor * sum(plan.flop for plan in many.plans[0]) == pytest.approx(one.plans[0][0].flop, rel=1e-12)
    split = build_job(config_of(tensor, stages, 1, schedule="zero_bubble"))
    assert tensor * sum(plan.flop for plan in split.plans[0]) == pytest.approx(one.plans[0][0].flop, rel=1e-12)


@pytest.mark.parametrize(("strategy", "model"), [("TP_PP_DDP", GPT2), ("TP_PP_ZERO2", GPT2), ("TP_PP_DDP", T5)])
def test_tied_embeddings_are_summed_between_the_first_and_the_last_stage(
    strategy: str, model: tuple[str, int, int]
) -> None:
    name, vocabulary, hidden = model

    class Tied(Probe):
        def __init__(self) -> None:
            self.seen: dict[tuple[int, ...], float] = {}

        def operation(self, op: Any, started_s: float, ended_s: float) -> None:
            if op.name == "tied embeddings":
                self.seen[op.group.ranks] = op.nbytes

    times = []
    for lod in ("high", "medium"):
        probe = Tied()
        config = SimulationConfig(
            hardware={"profile": "mi300x-platform"},
            model={"name": name},
            parallelism={"strategy": strategy, "tp_degree": 2, "pp_stages": 2, "dp_degree": 2},
            training={"batch_size_per_gpu": 1, "gradient_accumulation_steps": 4, "num_iterations": 1},
            simulation={"lod": lod},
        )
        times.append(simulate(config, [probe]).metrics["mean_iteration_s"])
        each = vocabulary * hidden / 2 * 4 / (2 if "ZERO2" in strategy else 1)
        assert set(probe.seen.values()) == {each}
        assert (0, 4) in probe.seen
    assert times[0] == pytest.approx(times[1], rel=1e-9)


def test_the_order_of_ranks_decides_what_crosses_nodes() -> None:
    def seconds(order: str) -> float:
        config = SimulationConfig(
            hardware={"profile": "dgx-a100", "num_nodes": 2},
            model={"name": "Megatron-22B"},
            parallelism={"strategy": "TP_PP", "tp_degree": 8, "pp_stages": 2, "order": order},
            training={"batch_size_per_gpu": 1, "num_iterations": 1, "activation_recompute": "full"},
        )
        return simulate(config).metrics["mean_iteration_s"]

    assert seconds("pp-tp-dp") > 1.1 * seconds("tp-dp-pp"), "tensor parallelism across nodes is slow"

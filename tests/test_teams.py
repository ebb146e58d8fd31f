"""Pipelines and drafts at both levels of detail, against times worked out by hand."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import pytest

from simsys.collectives.choose import cheapest
from simsys.executors import LEVELS, Executor
from simsys.executors.execution_model import ExecutionModel
from simsys.executors.recording import Recording
from simsys.model.batch import Batch
from simsys.model.speculation import Speculation
from simsys.model.transformer import build_transformer, gpt_architecture
from simsys.model.work import Precision
from simsys.ops import Forward
from simsys.parallel.layout import Layout
from simsys.parallel.passes import ForwardPass, forward_pass
from simsys.parallel.replica import replica_stages
from simsys.probes import Probe, Probes
from simsys.teams import DraftingTeam, PipelineTeam
from simsys.testing.toys import TOY_LINK_BYTES_PER_S, TOY_LINK_LATENCY_S, toy_model, toy_platform

HIDDEN = 256
MODEL = build_transformer(
    gpt_architecture("toy", num_layers=8, hidden_size=HIDDEN, num_attention_heads=8, vocab_size=512)
)
PROMPT = Batch(tokens=64, logits=1, attention_pairs=2080)
DECODE = Batch(8, 8, decode_context_tokens=4000, decode_sequences=8)
HOST_S = 1e-4

levels = pytest.mark.parametrize("level", ["high", "medium"])


class Told(Probe):
    """The passes, in order of their ends."""

    def __init__(self) -> None:
        self.passes: list[tuple[int, str, float, float]] = []

    def operation(self, op: Any, started_s: float, ended_s: float) -> None:
        if isinstance(op, Forward):
            self.passes.append((op.rank, op.name, started_s, ended_s))


class Pipeline:
    """A pipeline on toy GPUs, of which each pair has a link of its own."""

    def __init__(self, level: str, *, tensor: int = 1, stages: int = 2, gather: bool = True) -> None:
        self.platform = toy_platform(tensor * stages)
        layout = Layout(tensor=tensor, pipeline=stages)
        groups = [layout.group(stage * tensor, "tensor") for stage in range(stages)]
        self.plans = replica_stages(MODEL, tensor=tensor, stages=stages, gather=gather)
        self.told = Told()
        model = ExecutionModel(cheapest, Precision(), 1e-5)
        roles = [group.ranks for group in groups]
        self.executor: Executor = LEVELS[level](self.platform, model, roles, Probes([self.told]))
        self.team = PipelineTeam(groups, self.plans, self.executor, parts=tensor if gather else 1)
        self.groups = groups

    def stage_s(self, stage: int, batch: Batch) -> float:
        cost = self.executor.pass_cost(Forward(self.groups[stage], self.plans[stage], batch, 0.0, "step"))
        return sum(cost.seconds(batch))

    def run(self, *engines: list[Batch], host_s: float = HOST_S) -> list[list[float]]:
        """Let engines drive the pipeline, each one batch after another; return when each batch has left."""
        ends: list[list[float]] = []

        def engine(batches: list[Batch], left: list[float]) -> Iterator[Any]:
            for batch in batches:
                yield self.team.forward(batch, host_s=host_s)
                left.append(self.platform.env.now)

        for batches in engines:
            ends.append([])
            self.platform.env.process(engine(batches, ends[-1]))
        self.platform.env.run()
        return ends


def hop_s(batch: Batch, parts: int = 1) -> float:
    return TOY_LINK_LATENCY_S + batch.tokens * HIDDEN * 2 / parts / TOY_LINK_BYTES_PER_S


def traffic_of(pipeline: Pipeline) -> dict[tuple[int, int], float]:
    """Bytes by source and destination."""
    return {(src, dst): nbytes for src, dst, nbytes in zip(*pipeline.platform.traffic().values(), strict=True)}


@levels
@pytest.mark.parametrize("batch", [PROMPT, DECODE], ids=["prompt", "decode"])
@pytest.mark.parametrize(("tensor", "stages", "gather"), [(1, 2, True), (1, 8, True), (2, 4, True), (2, 4, False)])
def test_a_step_takes_all_stages_and_the_transfers_between_them(
    level: str, batch: Batch, tensor: int, stages: int, gather: bool
) -> None:
    pipeline = Pipeline(level, tensor=tensor, stages=stages, gather=gather)
    ((first, second),) = pipeline.run([batch, batch])
    work_s = sum(pipeline.stage_s(stage, batch) for stage in range(stages))
    step_s = HOST_S + work_s + (stages - 1) * hop_s(batch, tensor if gather else 1)
    assert first == pytest.approx(step_s, rel=1e-9)
    assert second == pytest.approx(2 * step_s, rel=1e-9)


@levels
def test_as_many_batches_as_stages_keep_the_slowest_stage_busy(level: str) -> None:
    """With enough batches in flight, one leaves for every time that the slowest stage needs."""
    stages, steps = 4, 12
    pipeline = Pipeline(level, stages=stages)
    ends = pipeline.run(*([[PROMPT] * steps] * (stages + 1)), host_s=0.0)
    slowest_s = max(pipeline.stage_s(stage, PROMPT) for stage in range(stages))
    left = sorted(end for engine in ends for end in engine)
    gaps = [after - before for before, after in pairwise(left[stages:])]
    assert gaps == pytest.approx([slowest_s] * len(gaps), rel=1e-6)


@levels
def test_one_engine_leaves_the_other_stages_idle(level: str) -> None:
    pipeline = Pipeline(level, stages=4)
    ((*_, end),) = pipeline.run([PROMPT] * 5, host_s=0.0)
    busy_s = [pipeline.platform.devices[rank].busy_s for rank in range(4)]
    work_s = [pipeline.stage_s(stage, PROMPT) for stage in range(4)]
    assert busy_s == pytest.approx([5 * seconds for seconds in work_s])
    assert sum(busy_s) < end


@levels
def test_a_stage_serves_one_batch_at_a_time_in_the_order_of_issue(level: str) -> None:
    pipeline = Pipeline(level, tensor=2, stages=2)
    ends = pipeline.run([PROMPT, DECODE], [DECODE, DECODE], [DECODE])
    assert [len(engine) for engine in ends] == [2, 2, 1]
    for rank in (0, 2):
        spans = sorted((start, end) for each, _, start, end in pipeline.told.passes if each == rank)
        assert len(spans) == 5
        assert all(end <= start + 1e-12 for (_, end), (start, _) in pairwise(spans))


def test_both_levels_agree_with_many_batches_in_flight() -> None:
    engines = [[PROMPT, DECODE, DECODE], [DECODE] * 4, [PROMPT, PROMPT], [DECODE]]
    for tensor, stages in ((1, 2), (2, 4)):
        high, medium = (Pipeline(level, tensor=tensor, stages=stages) for level in ("high", "medium"))
        for one, other in zip(high.run(*engines), medium.run(*engines), strict=True):
            assert one == pytest.approx(other, rel=1e-9)
        assert traffic_of(high) == pytest.approx(traffic_of(medium))
        for rank in (group.ranks[0] for group in high.groups):
            assert high.platform.devices[rank].busy_s == pytest.approx(medium.platform.devices[rank].busy_s)


@levels
def test_the_graph_of_communication_shows_what_stages_hand_on(level: str) -> None:
    pipeline = Pipeline(level, tensor=2, stages=2, gather=False)
    pipeline.run([DECODE] * 3)
    sent = traffic_of(pipeline)
    for src, dst in ((0, 2), (1, 3)):
        assert sent[src, dst] == 3 * DECODE.tokens * HIDDEN * 2


def test_a_pipelined_step_is_recorded_stage_by_stage() -> None:
    recording = Recording(toy_platform(2), ExecutionModel(cheapest, Precision()), [(0,), (1,)])
    layout, plans = Layout(pipeline=2), replica_stages(MODEL, stages=2)
    team = PipelineTeam([layout.group(rank, "tensor") for rank in (0, 1)], plans, recording)
    team.forward(DECODE, name="step")
    (entry,) = recording.operations
    assert entry["verb"] == "pipelined"
    assert [each["group"] for each in entry["passes"]] == [[0], [1]]


# --- drafts -------------------------------------------------------------------------------------------------------

SPECULATION = Speculation(3, 0.5)
VERIFICATION = SPECULATION.verification(8, 4000)


def drafting(level: str, batch: Batch, draft: ForwardPass | None, draft_s: float) -> tuple[float, Executor, Told]:
    platform, told = toy_platform(1), Told()
    executor = LEVELS[level](platform, ExecutionModel(cheapest, Precision(), 1e-5), [(0,)], Probes([told]))
    group = Layout().group(0, "tensor")
    team = DraftingTeam(group, forward_pass(MODEL), executor, speculation=SPECULATION, draft=draft, draft_s=draft_s)
    ends: list[float] = []

    def engine() -> Iterator[Any]:
        for _ in range(2):
            yield team.forward(batch, host_s=HOST_S)
            ends.append(platform.env.now)

    platform.env.process(engine())
    platform.env.run()
    assert ends[1] == pytest.approx(2 * ends[0], rel=1e-9)
    return ends[0], executor, told


def pass_s(executor: Executor, plan: ForwardPass, batch: Batch) -> float:
    cost = executor.pass_cost(Forward(Layout().group(0, "tensor"), plan, batch, 0.0, "step"))
    return sum(cost.seconds(batch))


@levels
@pytest.mark.parametrize("batch", [VERIFICATION, VERIFICATION + PROMPT, PROMPT], ids=["drafts", "both", "prompt"])
def test_a_draft_is_as_many_passes_of_its_model_before_the_verification(level: str, batch: Batch) -> None:
    draft = forward_pass(toy_model())
    took_s, executor, told = drafting(level, batch, draft, 0.0)
    passes = SPECULATION.drafts(batch)
    expected_s = HOST_S + sum(pass_s(executor, draft, each) for each in passes)
    assert took_s == pytest.approx(expected_s + pass_s(executor, forward_pass(MODEL), batch), rel=1e-9)
    names = [name for _, name, _, _ in sorted(told.passes, key=lambda each: each[3])]
    assert names == (["draft"] * len(passes) + ["forward"]) * 2


@levels
@pytest.mark.parametrize(("batch", "drafted"), [(VERIFICATION, 3), (PROMPT, 0)], ids=["drafts", "prompt"])
def test_a_draft_without_a_model_takes_a_time_for_each_token(level: str, batch: Batch, drafted: int) -> None:
    took_s, executor, _ = drafting(level, batch, None, 2e-4)
    assert took_s == pytest.approx(HOST_S + drafted * 2e-4 + pass_s(executor, forward_pass(MODEL), batch), rel=1e-9)

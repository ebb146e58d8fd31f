"""Drafts of data-parallel ranks in lock-step: levels agree on each request, and each pass waits for the slowest."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from simsys.build.job import build_job
from simsys.build.serving import ServingJob
from simsys.check import check_config
from simsys.config.experiment import SimulationConfig
from simsys.executors.steps.rounds import Work, drafted_s, rounds_of
from simsys.metrics.result import RunResult
from simsys.model.batch import NOTHING, Batch
from simsys.model.speculation import Speculation
from simsys.ops import Forward, Operation
from simsys.parallel.layout import Group
from simsys.probes import Probe
from simsys.simulation import simulate
from simsys.starter import Drafting
from tests.executors.steps.test_cohort import DISPATCHES, LAYOUTS, config
from tests.parallel.test_lockstep import plan_of, step_of

OWN_LAYERS = {"draft_tokens": 3, "acceptance_rate": 0.7, "draft_layers": 1}
DRAFTERS: dict[str, dict[str, Any]] = {
    "own layers": OWN_LAYERS,
    "two own layers": {"draft_tokens": 2, "acceptance_rate": [0.9, 0.4], "draft_layers": 2},
    "a model": {"draft_tokens": 2, "acceptance_length": 2.0, "draft_model": "GPT2-Small"},
    "a cost": {"draft_tokens": 4, "acceptance_rate": 0.5, "draft_cost": "1 ms"},
    "nothing": {"draft_tokens": 2, "acceptance_rate": 0.6},
}
ONE_EACH = LAYOUTS["one GPU each"]
LEVELS = ("high", "medium")
TIMES = ("admitted_s", "first_token_s", "finished_s")


def drafting(
    layout: dict[str, Any], drafter: dict[str, Any], lod: str = "medium", **sections: Any
) -> SimulationConfig:
    return config(layout, lod, serving={**sections.pop("serving", {}), "speculative": drafter}, **sections)


def agree(one: RunResult, other: RunResult, rel: float = 1e-9) -> None:
    """On the states and times of each request, and on the work of the GPUs."""
    assert list(one.rows["state"]) == list(other.rows["state"])
    for name in TIMES:
        for here, there in zip(one.rows[name], other.rows[name], strict=True):
            assert here == (there if there is None else pytest.approx(there, rel=rel)), name
    shares = [each.metrics["gpu_utilization"] for each in (one, other)]
    assert shares[0] == pytest.approx(shares[1], rel=rel)
    assert one.metrics["total_output_tokens"] == other.metrics["total_output_tokens"]


# --- all levels agree ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("host", [False, True], ids=["host before", "host beside"])
@pytest.mark.parametrize("drafter", DRAFTERS)
@pytest.mark.parametrize("layout", ["one GPU each", "two GPUs each", "two replicas"])
def test_the_levels_agree(layout: str, drafter: str, host: bool) -> None:
    how = {"async_scheduling": host}
    high, medium, occupied, stepping = (
        simulate(drafting(LAYOUTS[layout], DRAFTERS[drafter], lod, serving={**how, **more}, simulation=run))
        for lod, more, run in (
            ("high", {}, {}),
            ("medium", {}, {}),
            ("medium", {}, {"occupy_links": True}),
            ("medium", {"stepping": True}, {}),
        )
    )
    agree(high, medium)
    agree(occupied, medium)
    agree(stepping, medium, rel=1e-12)


@pytest.mark.parametrize("dispatch", DISPATCHES)
def test_they_agree_with_each_way_to_send_tokens(dispatch: str) -> None:
    experts = {"dispatch": dispatch, "dispatch_precision": "fp8", "popularity_exponent": 0.5}
    layout = LAYOUTS["two nodes"]
    high, medium = (simulate(drafting(layout, OWN_LAYERS, lod, serving={"experts": experts})) for lod in LEVELS)
    agree(high, medium)


@pytest.mark.parametrize("shared", ["in_turn", "overlapped"])
def test_they_agree_with_latent_attention_and_shared_experts(shared: str) -> None:
    high, medium = (
        simulate(
            SimulationConfig(
                hardware={"profile": "dgx-h200", "gpus_per_node": 4},
                model={"name": "DeepSeek-V3", "num_layers": 5},
                parallelism=ONE_EACH,
                serving={"precision": "fp8_block", "speculative": OWN_LAYERS, "experts": {"shared_experts": shared}},
                workload={
                    "arrivals": {"kind": "poisson", "rate": "80 req/s"},
                    "prompt_tokens": {"kind": "uniform", "low": 10, "high": 2000},
                    "output_tokens": {"kind": "uniform", "low": 1, "high": 90},
                    "num_requests": 40,
                },
                simulation={"lod": lod},
            )
        )
        for lod in LEVELS
    )
    agree(high, medium)


EXPERTS: list[dict[str, Any]] = [
    {},
    {"two_batch_overlap": True},
    {"popularity_exponent": 1.0, "eplb": True, "redundant_experts": 8, "rebalance_steps": 50},
    {"dispatch": "all_to_all"},
]
HARDWARE: list[dict[str, Any]] = [
    {},
    {"jitter": {"compute": 0.2}},
    {"slowdowns": [{"gpus": [0], "speed": 0.5, "from": "10 ms", "until": "200 ms"}]},
]
LENGTHS = st.fixed_dictionaries({"kind": st.just("uniform"), "low": st.just(1), "high": st.sampled_from([3, 60, 700])})
ENGINE = st.fixed_dictionaries(
    {
        "max_num_seqs": st.sampled_from([2, 16]),
        "max_num_batched_tokens": st.sampled_from([256, 2048]),
        "router": st.sampled_from(["round_robin", "least_outstanding"]),
        "scheduler": st.sampled_from(["chunked_prefill", "prefill_first", "orca"]),
        "async_scheduling": st.booleans(),
    },
    optional={
        "num_gpu_blocks_override": st.just(110),
        "attention_dp_timeout_iters": st.sampled_from([3, 30]),
        "experts": st.sampled_from(EXPERTS),
    },
)
WORKLOAD = st.fixed_dictionaries(
    {
        "arrivals": st.sampled_from(
            [
                {"kind": "poisson", "rate": "100 req/s"},
                {"kind": "all_at_once"},
                {"kind": "closed_loop", "concurrency": 3},
            ]
        ),
        "prompt_tokens": LENGTHS,
        "output_tokens": LENGTHS,
        "num_requests": st.integers(1, 15),
    },
    optional={"cancellation": st.just({"ttft_timeout": "40 ms", "retry": {"attempts": 1, "backoff": "5 ms"}})},
)


def check_levels(
    layout: str, drafter: str, engine: dict[str, Any], workload: dict[str, Any], hardware: dict[str, Any], seed: int
) -> None:
    """High, medium, and single steps at medium agree on each request."""
    degrees = LAYOUTS[layout]
    gpus = degrees.get("tp_degree", 1) * degrees["attention_dp"] * degrees.get("dp_degree", 1)
    found = []
    for lod, stepping in (("high", False), ("medium", False), ("medium", True)):
        scenario = SimulationConfig(
            hardware={"profile": "dgx-h100", "gpus_per_node": gpus, **hardware},
            model={"name": "gpt-oss-20b"},
            parallelism=degrees,
            serving={"precision": "bf16", **engine, "stepping": stepping, "speculative": DRAFTERS[drafter]},
            workload=workload,
            simulation={"lod": lod, "seed": seed},
        )
        if problems := check_config(scenario):
            event(f"refused: {problems[0].path}")
            return
        found.append(simulate(scenario))
    agree(found[0], found[1])
    agree(found[2], found[1])


scenarios = given(
    layout=st.sampled_from([name for name in LAYOUTS if name != "two nodes"]),
    drafter=st.sampled_from(sorted(DRAFTERS)),
    engine=ENGINE,
    workload=WORKLOAD,
    hardware=st.sampled_from(HARDWARE),
    seed=st.integers(0, 9),
)
quickly = settings(max_examples=8, deadline=None, suppress_health_check=list(HealthCheck))


@quickly
@scenarios
def test_they_agree_whatever_is_combined(**parts: Any) -> None:
    check_levels(**parts)


@pytest.mark.slow
@settings(quickly, max_examples=200)
@scenarios
def test_they_agree_in_many_more(**parts: Any) -> None:
    check_levels(**parts)


def test_pools_draft_with_layouts_of_their_own() -> None:
    """Prompts on ranks of their own, tokens on ranks in lock-step, and the other way round."""
    for ranks in ({"decode_attention_dp": 4, "decode_ep_degree": 4}, {"prefill_attention_dp": 4}):
        split = {"prefill_replicas": 1, "decode_replicas": 1, **ranks}
        runs = [
            simulate(drafting({"attention_dp": 1}, OWN_LAYERS, lod, gpus=5, serving={"disaggregated": split}))
            for lod in LEVELS
        ]
        assert runs[0].metrics["completed"] == 30
        assert runs[1].metrics["mean_tpot_ms"] == pytest.approx(runs[0].metrics["mean_tpot_ms"], rel=1e-3)


# --- what a step is -----------------------------------------------------------------------------------------------

AT_ONCE = {"arrivals": {"kind": "all_at_once"}, "prompt_tokens": 256, "output_tokens": 41, "num_requests": 4}


class Passes(Probe):
    """Counts the operations of passes by name, part and number of GPUs."""

    def __init__(self) -> None:
        self.found = Counter[tuple[str, str, int]]()
        self.spans: list[tuple[str, str, float, float]] = []

    def operation(self, op: Operation, started_s: float, ended_s: float) -> None:
        if isinstance(op, Forward):
            part = op.plan.name.rpartition(" ")[2]
            self.found[op.name, part, op.team.size] += 1
            self.spans.append((op.name, part, started_s, ended_s))


@pytest.mark.parametrize("lod", LEVELS)
def test_each_drafted_token_is_a_pass_with_an_exchange_of_all_ranks(lod: str) -> None:
    """All drafts are accepted, so 40 tokens after the first one are ten steps of four tokens each."""
    certain, probe = {**OWN_LAYERS, "acceptance_rate": 1.0}, Passes()
    simulate(drafting(ONE_EACH, certain, lod, workload=AT_ONCE), probes=[probe])
    steps, prompts = 10, 1
    for part, gpus, each in (("own", 1, 4), ("exchange", 4, 1), ("experts", 1, 4)):
        assert probe.found["step", part, gpus] == each * (steps + prompts)
        assert probe.found["draft", part, gpus] == each * (3 * steps + prompts)


def test_parts_of_passes_follow_one_another() -> None:
    probe = Passes()
    simulate(drafting(ONE_EACH, OWN_LAYERS, workload=AT_ONCE), probes=[probe])
    exchanges = sorted(span[2:] for span in probe.spans if span[1] == "exchange")
    assert all(end_s <= start_s + 1e-12 for (_, end_s), (start_s, _) in pairwise(exchanges))
    assert all(start_s < end_s for start_s, end_s in exchanges)


def test_a_model_without_experts_drafts_without_exchanges() -> None:
    probe = Passes()
    simulate(drafting(ONE_EACH, DRAFTERS["a model"], workload=AT_ONCE), probes=[probe])
    assert {part for name, part, _ in probe.found if name == "draft"} == {"own"}


def test_a_step_takes_the_passes_of_its_drafts_and_the_verification() -> None:
    """Equal ranks: the time of a token with drafts that cost nothing differs by that of the drafts' passes."""
    certain = {"draft_tokens": 3, "acceptance_rate": 1.0}

    def tpot_ms(**more: Any) -> float:
        result = simulate(drafting(ONE_EACH, {**certain, **more}, workload=AT_ONCE))
        return float(result.metrics["mean_tpot_ms"])

    free, cost, one, two = tpot_ms(), tpot_ms(draft_cost="2 ms"), tpot_ms(draft_layers=1), tpot_ms(draft_layers=2)
    assert cost - free == pytest.approx(3 * 2.0 / 4, rel=1e-9)  # 3 drafts for 4 tokens
    assert free < one < two < cost


def test_dummy_ranks_take_part_in_every_pass() -> None:
    """So a rank alone hardly takes less time for a token than if the others had requests, too."""
    one, four = (
        simulate(drafting(ONE_EACH, {**OWN_LAYERS, "acceptance_rate": 1.0}, workload={**AT_ONCE, "num_requests": n}))
        for n in (1, 4)
    )
    assert one.metrics["mean_tpot_ms"] <= four.metrics["mean_tpot_ms"]
    assert one.metrics["mean_tpot_ms"] > 0.8 * four.metrics["mean_tpot_ms"]


def test_ranks_end_by_what_their_own_drafts_have_yielded() -> None:
    result = simulate(drafting(ONE_EACH, OWN_LAYERS, workload=AT_ONCE))
    assert len({round(each, 9) for each in result.rows["finished_s"]}) > 1
    assert len({round(each, 9) for each in result.rows["first_token_s"]}) == 1


TEAMS = [Group((rank,), "tensor") for rank in range(4)]
SPECULATION = Speculation(3, 0.5)
DECODES = SPECULATION.verification(8, 4000)
PROMPTS = Batch(100.0, 1.0, 5050.0, 0.0)


def test_a_step_has_as_many_passes_as_the_rank_with_most_of_them() -> None:
    plan = plan_of(4, 4)
    step = step_of(plan, 4)
    step = step.with_draft(step.own, step.exchange, step.experts, None)
    drafts = Drafting(plan, SPECULATION, plan)
    works = [Work(0, TEAMS[0], PROMPTS, NOTHING), Work(1, TEAMS[2], DECODES, Batch(verified_pairs=3.0))]
    rounds = list(rounds_of(step, drafts, works))
    assert [each.name for each in rounds] == ["draft"] * 3 + ["step"]
    assert [[work.place for work in each.works] for each in rounds] == [[0, 1], [1], [1], [0, 1]]
    tokens = [each.loads()[0].tokens for each in rounds]
    assert tokens == [(100 + 8 + 2) / 4, (8 + 3) / 4, (8 + 3) / 4, (100 + 4 * 8 + 2) / 4]  # idle ranks pass dummies
    only_prompts = list(rounds_of(step, drafts, works[:1]))
    assert [each.name for each in only_prompts] == ["draft", "step"]
    assert [each.name for each in rounds_of(step_of(plan, 4), None, works)] == ["step"]


def test_without_a_model_the_slowest_drafter_decides() -> None:
    plan = plan_of(4, 4)
    drafts = Drafting(plan, SPECULATION, None, 1e-3)
    decoding, prompts = (Work(0, TEAMS[0], batch, NOTHING) for batch in (DECODES, PROMPTS))
    assert drafted_s(drafts, [prompts, decoding]) == 3e-3
    assert drafted_s(drafts, [prompts]) == drafted_s(None, [decoding]) == 0.0


@given(st.integers(1, 20), st.integers(0, 5000), st.integers(0, 500), st.integers(1, 50))
def test_drafts_grow_as_their_steps_do(sequences: int, cached: int, growth: int, steps: int) -> None:
    """The draft of a later step is that of the first one, grown."""
    drafts = Drafting(plan_of(4, 4), SPECULATION, plan_of(4, 4))
    first = SPECULATION.verification(sequences, cached)
    more = Batch(decode_context_tokens=growth, verified_pairs=3.0 * growth)
    later = [each.grown(steps, drafts.growth(more)) for each in drafts.drafts(first)]
    assert later == drafts.drafts(first.grown(steps, more))


# --- memory -------------------------------------------------------------------------------------------------------


def test_the_experts_that_draft_are_divided_among_the_ranks() -> None:
    jobs = [build_job(drafting(layout, OWN_LAYERS)) for layout in (ONE_EACH, {"attention_dp": 1, "dp_degree": 4})]
    held = [job.memory_bytes["draft"] for job in jobs if isinstance(job, ServingJob)]
    assert held[0] < 0.7 * held[1]  # the head, which is not divided, remains


def test_experts_that_draft_are_placed_anew_with_the_others() -> None:
    moving = {"experts": {"popularity_exponent": 1.0, "eplb": True, "rebalance_steps": 100}}
    moved = []
    for drafter in (OWN_LAYERS, DRAFTERS["nothing"]):
        job = build_job(drafting(ONE_EACH, drafter, serving=moving))
        assert isinstance(job, ServingJob)
        moved.append(job.lockstep(0).moved_bytes)
    assert moved[0] == pytest.approx(moved[1] * 25 / 24, rel=1e-9)  # one layer more than the 24 of gpt-oss-20b

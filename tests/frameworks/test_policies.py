"""What sets the shipped scheduler policies apart, and one of a user's own."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from statistics import mean
from types import SimpleNamespace
from typing import Any

import pytest

from frameworks.chunked_prefill import ChunkedPrefill
from frameworks.orca import Orca
from frameworks.prefill_first import PrefillFirst
from frameworks.priority import Priority
from frameworks.shortest_job_first import ShortestJobFirst
from frameworks.static_batching import StaticBatching
from frameworks.vllm_v0 import VLLMv0
from frameworks.whole_prompts import WholePrompts
from simsys.config.experiment import SimulationConfig
from simsys.framework import FRAMEWORKS, Scheduler
from simsys.serving.requests import RequestTable
from simsys.simulation import simulate
from simsys.testing import check_framework
from tests.helpers import weighted_fair_queueing
from tests.helpers.reference_serving import Limits
from tests.helpers.serving_harness import Served, serve
from tests.helpers.weighted_fair_queueing import WeightedFairQueueing

AMPLE = Limits(num_blocks=1000, max_num_seqs=4, max_num_batched_tokens=64)


def steps(policy: type[Scheduler], requests: RequestTable, limits: Limits = AMPLE) -> list[tuple[int, int]]:
    """Prompt tokens and decoding sequences of every step."""
    served = serve(requests, limits, policy=policy)
    return [(sum(tokens for _, tokens in step.chunks), int(step.batch.decode_sequences)) for step in served.steps]


def order(served: Served, event: str) -> list[int]:
    return [request for name, request, _ in served.events if name == event]


def test_a_static_batch_ends_with_its_longest_request() -> None:
    requests = RequestTable([0.0, 0.0, 1e-9], [8, 8, 8], [2, 5, 2])
    assert steps(StaticBatching, requests) == [(16, 0), (0, 2), (0, 1), (0, 1), (0, 1), (8, 0), (0, 1)]


def test_orca_lets_requests_join_with_their_whole_prompt_at_any_step() -> None:
    requests = RequestTable([0.0, 1e-9], [8, 20], [4, 3])
    assert steps(Orca, requests) == [(8, 0), (20, 1), (0, 2), (0, 2)]


def test_a_whole_prompt_may_fill_all_free_blocks() -> None:
    requests = RequestTable([0.0, 1e-9], [7, 32], [2, 1])
    assert steps(Orca, requests, replace(AMPLE, num_blocks=10)) == [(7, 0), (32, 1)]
    assert steps(Orca, requests, replace(AMPLE, num_blocks=9)) == [(7, 0), (0, 1), (32, 0)]


def test_vllm_v0_processes_prompts_alone_and_first() -> None:
    requests = RequestTable([0.0, 1e-9], [8, 20], [4, 3])
    assert steps(VLLMv0, requests) == [(8, 0), (20, 0), (0, 2), (0, 2), (0, 1)]


@pytest.mark.parametrize("policy", [WholePrompts, ChunkedPrefill])
def test_limits_of_a_step_are_those_of_vllm_by_default(policy: type[Scheduler]) -> None:
    assert (policy.Options().max_num_seqs, policy.Options().max_num_batched_tokens) == (256, 2048)  # type: ignore[attr-defined]


@pytest.mark.parametrize("policy", [WholePrompts, ChunkedPrefill])
@pytest.mark.parametrize(("running", "wanted"), [(0, True), (1, True), (2, False)])
def test_only_the_first_of_the_queue_is_wanted_and_only_where_a_seat_is_free(
    policy: Any, running: int, wanted: bool
) -> None:
    options = SimpleNamespace(max_num_seqs=2)
    seen = SimpleNamespace(waiting=[7, 8], running=[0] * running, options=options, seats=2, budget=10)
    assert policy.wants(seen, 7, 9) is wanted
    assert policy.wants(seen, 8, 9) is False
    assert list(policy.considers(seen)) == [7] * wanted


@pytest.mark.parametrize(("policy", "first"), [(PrefillFirst, (32, 0)), (ChunkedPrefill, (31, 1))])
def test_prompts_have_all_tokens_of_a_step_in_which_nothing_decodes(
    policy: type[Scheduler], first: tuple[int, int]
) -> None:
    limits = Limits(num_blocks=1000, max_num_batched_tokens=32)
    requests = RequestTable([0.0, 1e-9], [8, 34], [6, 1])
    assert steps(policy, requests, limits)[:2] == [(8, 0), first]


def test_chunked_prefill_cuts_a_prompt_where_whole_prompts_wait() -> None:
    limits = Limits(num_blocks=1000, max_num_batched_tokens=20)
    requests = RequestTable([0.0, 0.0], [12, 12], [1, 1])
    assert steps(ChunkedPrefill, requests, limits) == [(20, 0), (4, 0)]
    assert steps(Orca, requests, limits) == [(12, 0), (12, 0)]


@pytest.mark.parametrize("policy", [StaticBatching, Orca])
def test_the_longest_length_is_reserved_so_that_nothing_is_preempted(policy: type[Scheduler]) -> None:
    limits = Limits(num_blocks=7, block_size=4)
    requests = RequestTable([0.0, 0.0], [8, 8], [8, 8])  # each ends with 4 blocks
    served = serve(requests, limits, policy=policy)
    assert not served.times("preempted")
    assert max(served.running) == 1
    assert serve(requests, limits).times("preempted")


def test_vllm_v0_keeps_some_blocks_free_when_it_admits() -> None:
    requests = RequestTable([0.0, 0.0], [200, 200], [1, 1])
    for blocks, together in ((400, False), (408, True)):
        limits = Limits(num_blocks=blocks, block_size=1, max_num_batched_tokens=1000)
        assert (max(serve(requests, limits, policy=VLLMv0).running) == 2) == together


@pytest.mark.parametrize(
    ("policy", "prompt", "refused"), [(Orca, 20, 0), (Orca, 21, 1), (VLLMv0, 19, 0), (VLLMv0, 20, 1)]
)
def test_a_prompt_that_cannot_be_cut_must_fit_into_a_step(policy: type[Scheduler], prompt: int, refused: int) -> None:
    served = serve(RequestTable([0.0], [prompt], [2]), Limits(100, max_num_batched_tokens=20), policy=policy)
    assert len(served.reasons) == refused
    assert all("longer than max_num_batched_tokens=20, " in reason for reason in served.reasons.values())


def test_the_more_important_request_comes_first_and_takes_the_seat_of_another() -> None:
    limits = Limits(num_blocks=1000, max_num_seqs=1)
    requests = RequestTable([0.0, 0.0, 1e-5], [8, 8, 8], [20, 2, 2], priority=[1, 2, 0])
    served = serve(requests, limits, policy=Priority)
    assert order(served, "preempted") == [0]
    assert order(served, "finished") == [2, 0, 1]


def test_the_least_important_request_is_preempted_where_blocks_run_out() -> None:
    limits = Limits(num_blocks=7, block_size=4)
    requests = RequestTable([0.0, 0.0], [8, 8], [8, 8], priority=[1, 0])
    assert set(order(serve(requests, limits, policy=Priority), "preempted")) == {0}
    assert set(order(serve(requests, limits), "preempted")) == {1}


def test_without_priorities_the_policy_is_first_come_first_served() -> None:
    requests = RequestTable([0.0, 0.0, 0.0], [8, 8, 8], [3, 3, 3])
    assert order(serve(requests, Limits(1000, max_num_seqs=1), policy=Priority), "finished") == [0, 1, 2]


def test_the_shortest_job_comes_first() -> None:
    requests = RequestTable([0.0] * 4, [8, 8, 2, 4], [9, 2, 30, 2])
    served = serve(requests, Limits(1000, max_num_seqs=1), policy=ShortestJobFirst)
    assert order(served, "finished") == [3, 1, 0, 2]


def test_shortest_job_first_has_the_least_mean_time() -> None:
    requests = RequestTable([0.0] * 20, [4] * 20, [(7 * place) % 20 + 1 for place in range(20)])
    fcfs, sjf = (
        sum(serve(requests, Limits(1000, max_num_seqs=1), policy=policy).times("finished").values())
        for policy in (ChunkedPrefill, ShortestJobFirst)
    )
    assert sjf < 0.8 * fcfs


def test_tenants_share_by_weight_under_a_users_own_policy_of_forty_lines() -> None:
    assert len(Path(weighted_fair_queueing.__file__).read_text().splitlines()) <= 40
    count = 60
    tenants = [0] * (count // 2) + [1] * (count // 2)  # the first tenant comes first with all it has
    requests = RequestTable([0.0] * count, [8] * count, [8] * count, tenant=tenants, tenant_names=("free", "paid"))
    limits = Limits(1000, max_num_seqs=1)
    shares: dict[str, list[int]] = {}
    for name, policy in (("fcfs", ChunkedPrefill), ("fair", WeightedFairQueueing), ("weighted", Weighted)):
        finished = order(serve(requests, limits, policy=policy), "finished")[: count // 2]
        shares[name] = [sum(tenants[request] == each for request in finished) for each in (0, 1)]
    assert shares == {"fcfs": [30, 0], "fair": [15, 15], "weighted": [10, 20]}


class Weighted(WeightedFairQueueing):
    """The second tenant counts twice."""

    def __init__(self, options: Any, *args: Any) -> None:
        super().__init__(options.model_copy(update={"weights": {"paid": 2.0}}), *args)


def test_a_users_own_policy_is_named_in_a_scenario_and_serves_who_pays_sooner_at_both_levels() -> None:
    rows = {}
    for name, lod, stepping in (("jumps", "medium", False), ("steps", "medium", True), ("layers", "high", False)):
        config = SimulationConfig(
            hardware={"gpu": "A100-SXM-80GB"},
            model={"name": "GPT2-Small"},
            serving={
                "scheduler": "tests.helpers.weighted_fair_queueing:WeightedFairQueueing",
                "max_num_seqs": 4,
                "stepping": stepping,
                "api_overhead": "0 s",
                "options": {"weights": {"paid": 4}},
            },
            workload={
                "arrivals": {"kind": "poisson", "rate": "2000 req/s"},
                "prompt_tokens": 64,
                "output_tokens": {"kind": "uniform", "low": 1, "high": 40},
                "num_requests": 80,
                "tenants": {"free": 3, "paid": 1},
            },
            simulation={"lod": lod},
        )
        rows[name] = {column: list(values) for column, values in simulate(config).rows.items()}
    assert rows["jumps"] == rows["steps"]
    assert rows["layers"]["finished_s"] == pytest.approx(rows["jumps"]["finished_s"], rel=1e-9)
    found = rows["jumps"]
    waits: dict[str, list[float]] = {"free": [], "paid": []}
    for tenant, arrival_s, admitted_s in zip(found["tenant"], found["arrival_s"], found["admitted_s"], strict=True):
        waits[tenant].append(admitted_s - arrival_s)
    assert mean(waits["paid"]) < 0.8 * mean(waits["free"])


def test_a_users_own_policy_conforms_at_all_levels() -> None:
    check_framework(WeightedFairQueueing)
    assert (
        FRAMEWORKS.get("tests.helpers.weighted_fair_queueing:WeightedFairQueueing", Scheduler) is WeightedFairQueueing
    )

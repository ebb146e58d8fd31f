"""A router that sheds rejects some requests; the other ones are served as if these had not arrived."""

from __future__ import annotations

from typing import Any

import pytest

from frameworks.round_robin import RoundRobin
from frameworks.shedding import Shedding
from simsys.check import check_config
from simsys.config.experiment import SimulationConfig
from simsys.framework import Router
from simsys.metrics.result import RunResult
from simsys.serving.admission import LATE, SATURATED
from simsys.serving.requests import RequestTable
from simsys.serving.selection import with_attempts
from simsys.simulation import simulate
from tests.helpers.each_case import each_case
from tests.helpers.reference_serving import Limits
from tests.helpers.serving_harness import Served, serve

ONE_SEAT = Limits(num_blocks=1000, max_num_seqs=1)


def shed(requests: RequestTable, limits: Limits = ONE_SEAT, **options: Any) -> Served:
    class Given(Shedding):
        def __init__(self, replicas: Any, seed: int) -> None:
            super().__init__(replicas, seed, Shedding.Options(**options))

    return serve(requests, limits, router=Given)


def test_a_queue_beyond_the_threshold_is_saturated() -> None:
    """One runs, six wait: the seventh that would wait is rejected, as five may wait when one comes."""
    requests = RequestTable([1e-7 * place for place in range(10)], [8] * 10, [50] * 10)
    served = shed(requests)
    assert sorted(served.reasons) == [7, 8, 9]
    assert set(served.reasons.values()) == {SATURATED}
    assert served.times("rejected")[7] == pytest.approx(7e-7)
    assert sorted(shed(requests, queue_depth_threshold=0).reasons) == list(range(2, 10))


def test_a_full_cache_is_saturated() -> None:
    requests = RequestTable([0.0, 1e-4, 1.0], [40, 4, 4], [40, 4, 4])
    limits = Limits(num_blocks=20, max_num_seqs=4, max_num_batched_tokens=64)
    assert sorted(shed(requests, limits, kv_cache_util_threshold=0.5).reasons) == [1]
    assert shed(requests, limits).reasons == {}


def test_requests_of_urgent_priorities_are_kept() -> None:
    requests = RequestTable([0.0] * 10, [8] * 10, [50] * 10, priority=[place % 2 for place in range(10)])
    assert sorted(shed(requests, queue_depth_threshold=0, keeps_up_to=0).reasons) == [1, 3, 5, 7, 9]


def test_what_would_miss_its_slo_is_rejected_once_that_can_be_known() -> None:
    """Prompts of 100 tokens take the same time each; the first one shows how long."""
    alone_s = serve(RequestTable([0.0], [100], [1]), ONE_SEAT).times("first token")[0]
    requests = RequestTable([0.0, *[1.0] * 6], [100] * 7, [1] * 7)
    served = shed(requests, ttft_slo=f"{3.5 * alone_s} s")
    assert served.reasons == {4: LATE, 5: LATE, 6: LATE}
    first_s = served.times("first token")
    assert max(first_s[request] - 1.0 for request in (1, 2, 3)) == pytest.approx(3 * alone_s, rel=1e-6)


def test_what_is_rejected_takes_nothing_from_the_others() -> None:
    requests = RequestTable([1e-7 * place for place in range(10)], [8] * 10, [50] * 10)
    kept = RequestTable(requests.arrival_s[:7], [8] * 7, [50] * 7)
    alone = serve(kept, ONE_SEAT, router=RoundRobin)
    assert shed(requests).times("finished") == alone.times("finished")


def test_a_client_that_is_rejected_retries() -> None:
    """Two places in the system: the third request is rejected twice, and accepted when the first one has ended."""
    busy_s = serve(RequestTable([0.0], [8], [60]), ONE_SEAT).times("finished")[0]
    requests = with_attempts(RequestTable([0.0, 1e-7, 2e-7], [8] * 3, [60] * 3), 2, [0.3 * busy_s, 0.9 * busy_s] * 3)
    served = shed(requests, queue_depth_threshold=0)
    assert sorted(served.reasons) == [6, 7]
    assert served.arrived[8] == pytest.approx(1.2 * busy_s + 2e-7)
    assert sorted(served.times("finished")) == [0, 3, 8]


def scenario(**serving: Any) -> SimulationConfig:
    return SimulationConfig(
        hardware={"profile": "dgx-h100", "gpus_per_node": 2},
        model={"name": "GPT2-Small"},
        serving={"max_num_seqs": 4, **serving},
        workload={
            "arrivals": {"kind": "poisson", "rate": "300 req/s"},
            "prompt_tokens": 300,
            "output_tokens": 60,
            "num_requests": 400,
        },
    )


def run(**serving: Any) -> RunResult:
    return simulate(scenario(**serving))


def test_shedding_keeps_the_latency_of_those_served() -> None:
    plain, kept = run(router="least_outstanding"), run(router="shedding")
    assert kept.metrics["rejected"] > 0
    assert kept.metrics["rejected_by_reason"] == {SATURATED: kept.metrics["rejected"]}
    assert kept.metrics["p99_ttft_ms"] < 0.5 * plain.metrics["p99_ttft_ms"]


WRONG: dict[str, tuple[dict[str, Any], str, str]] = {
    "unknown": ({"router": "least_kb"}, "serving.router_options.router", "did you mean 'least_kv'"),
    "central": ({"router": "central_queue"}, "serving.router_options.router", "cannot pass requests on to router"),
    "option": (
        {"router": "kv_aware", "router_options": {"router_temprature": 1}},
        "serving.router_options.router_options",
        "router_temprature",
    ),
}


@each_case("name", list(WRONG))
def test_the_other_router_is_checked(name: str) -> None:
    options, path, message = WRONG[name]
    problems = check_config(scenario(router="shedding", router_options=options))
    assert any(each.path.startswith(path) and message in str(each) for each in problems), problems


def test_a_decode_router_cannot_shed() -> None:
    split = {"prefill_replicas": 1, "decode_replicas": 1, "decode_router": "shedding"}
    (problem,) = check_config(scenario(disaggregated=split))
    assert problem.message == "shedding sheds requests, which a prefill replica has accepted already"
    assert not Router.sheds

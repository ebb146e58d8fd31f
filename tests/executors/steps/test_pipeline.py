"""Steps of engines that share a pipeline: a run of them as one event is, to the last bit, what they are one by one."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from frameworks.chunked_prefill import ChunkedPrefill
from frameworks.least_kv import LeastKV
from frameworks.round_robin import RoundRobin
from simsys.check import check_config
from simsys.config.experiment import SimulationConfig
from simsys.executors.steps.pipeline import FEWEST
from simsys.framework import Router, Scheduler
from simsys.metrics.result import RunResult
from simsys.metrics.token_times import gaps_by_request
from simsys.serving.requests import RequestTable
from simsys.simulation import simulate
from tests.helpers.pipeline_harness import Piped, serve
from tests.helpers.random_serving import POLICIES, ROUTERS, limits, shared, workload
from tests.helpers.reference_serving import Limits
from tests.helpers.thorough import cases
from tests.helpers.weighted_fair_queueing import WeightedFairQueueing

AMPLE = Limits(num_blocks=10_000, max_num_seqs=64)


def scenario(seed: int) -> tuple[RequestTable, Limits, dict[str, Any]]:
    """Requests, limits and a pipeline by chance."""
    rng = random.Random(seed)
    requests, found = workload(rng), limits(rng)
    prefixes = rng.random() < 0.3
    if prefixes:
        requests = shared(rng, requests)
    stages = rng.choice([2, 2, 3, 4])
    given: dict[str, Any] = {
        "seed": seed,
        "stages": stages,
        "tensor": rng.choice([1, 1, 2]),
        "stage_layers": rng.choice([None, [rng.randint(1, 4) for _ in range(stages)]]),
        "replicas": rng.choice([1, 1, 2]),
        "prefix_caching": prefixes,
        "swap_blocks": rng.choice([None, None, 20]),
        "ends_s": rng.choice([None, None, rng.random() * 2e-3]),
    }
    return requests, found, given


def equal(one: Piped, other: Piped) -> None:
    assert one.times() == other.times()
    assert one.passes == other.passes
    assert one.busy_s == pytest.approx(other.busy_s, rel=1e-9)
    assert one.sent_bytes == pytest.approx(other.sent_bytes, rel=1e-9)


def compared(seed: int, policy: type[Scheduler], router: type[Router]) -> None:
    requests, found, given = scenario(seed)
    given |= {"policy": policy, "router": router}
    jump, steps = (serve(requests, found, level=level, **given) for level in ("medium", "stepping"))
    equal(jump, steps)
    told, watched = (serve(requests, found, level=level, passes=True, **given) for level in ("medium", "stepping"))
    equal(told, watched)
    assert told.times() == jump.times()
    assert len(told.passes) == len(watched.passes)


chosen = given(seed=st.integers(0, 1_000_000), policy=st.sampled_from(POLICIES), router=st.sampled_from(ROUTERS))


@settings(max_examples=cases(150, 8), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@example(seed=289628, policy=WeightedFairQueueing, router=LeastKV)  # who waits finds less in the cache, and so fits
@chosen
def test_a_jump_is_bit_identical_to_its_steps(seed: int, policy: type[Scheduler], router: type[Router]) -> None:
    compared(seed, policy, router)


@pytest.mark.slow
@settings(max_examples=3000, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@chosen
def test_it_is_however_rare_the_case(seed: int, policy: type[Scheduler], router: type[Router]) -> None:
    compared(seed, policy, router)


@pytest.mark.parametrize("policy", POLICIES)
def test_steps_take_what_operations_one_by_one_take(policy: type[Scheduler]) -> None:
    for seed in range(cases(12)):
        requests, found, given = scenario(seed)
        given |= {"policy": policy, "replicas": 1}
        jump, single = (
            serve(requests, found, level=level, **given, passes=True) for level in ("medium", "one by one")
        )
        times = {(name, request): time_s for name, request, time_s in single.served.events}
        assert {(name, request): time_s for name, request, time_s in jump.served.events} == pytest.approx(
            times, rel=1e-9
        )
        assert jump.busy_s == pytest.approx(single.busy_s, rel=1e-9)
        assert jump.sent_bytes == pytest.approx(single.sent_bytes, rel=1e-9)
        assert jump.runs.keys() == single.runs.keys()
        for rank, runs in jump.runs.items():
            assert runs == pytest.approx(single.runs[rank], rel=1e-9, abs=1e-15)
        assert len(jump.passes) == len(single.passes)


def test_a_long_output_is_a_few_events() -> None:
    requests = RequestTable([0.0] * 4, [8] * 4, [10_000] * 4)
    jump, steps = (serve(requests, AMPLE, stages=2, level=level) for level in ("medium", "stepping"))
    equal(jump, steps)
    assert steps.events > 20_000
    assert jump.events < 40


def test_an_engine_that_gets_work_holds_up_the_others_from_then_on() -> None:
    """It enters behind what is under way, and takes turns with it on the stage that has most to do."""
    uneven: dict[str, Any] = {"stage_layers": [8, 1]}
    alone = serve(RequestTable([0.0], [8], [500]), AMPLE, **uneven)
    requests = RequestTable([0.0, 1e-3], [8, 8], [500, 100])
    both, steps = (serve(requests, AMPLE, level=level, **uneven) for level in ("medium", "stepping"))
    equal(both, steps)
    before = sum(started_s < 1e-3 for started_s in alone.runs[0][::6])
    assert 0 < before < 500
    assert both.runs[0][: 6 * before] == alone.runs[0][: 6 * before]
    assert both.served.times("finished")[0] > alone.served.times("finished")[0] + 50e-6


def test_a_cut_run_goes_on_as_if_it_had_been_so_long() -> None:
    """Requests that come to a busy engine end its run at the next step; the other one's goes on."""
    rng = random.Random(1)
    requests = RequestTable([0.0, 0.0, *sorted(rng.random() * 0.05 for _ in range(30))], [8] * 32, [FEWEST * 20] * 32)
    jump, steps = (serve(requests, AMPLE, level=level) for level in ("medium", "stepping"))
    equal(jump, steps)
    assert jump.events * 20 < steps.events


def test_the_random_cases_cover_what_can_happen() -> None:
    wanted = {"admitted", "first token", "finished", "preempted", "rejected", "jump", "stopped", "prefixes"}
    seen: set[str] = set()
    for seed in range(60):
        if seen >= wanted:
            return
        requests, found, given = scenario(seed)
        jump, steps = (serve(requests, found, level=level, **given) for level in ("medium", "stepping"))
        seen |= {name for name, _, _ in jump.served.events}
        seen |= {"jump"} if jump.events < 0.7 * steps.events else set()
        done = sum(1 for name, _, _ in jump.served.events if name in ("finished", "rejected"))
        seen |= {"stopped"} if done < len(requests) else set()
        seen |= {"prefixes"} if any(hit for _, hit, _, _ in jump.served.lookups) else set()
    assert seen >= wanted


def test_high_detail_gives_the_same_times() -> None:
    for seed in range(6):
        requests, found, given = scenario(seed)
        given |= {"replicas": 1, "tensor": 1, "policy": ChunkedPrefill, "router": RoundRobin}
        high, medium = (serve(requests, found, level=level, **given) for level in ("high", "medium"))
        times = {(name, request): time_s for name, request, time_s in medium.served.events}
        assert {(name, request): time_s for name, request, time_s in high.served.events} == pytest.approx(
            times, rel=1e-9
        )


def test_the_engines_of_a_pipeline_are_told_apart() -> None:
    piped = serve(RequestTable([0.0] * 6, [8] * 6, [20] * 6), AMPLE, stages=3, tensor=2)
    assert sorted(piped.runs) == [0, 2, 4]
    assert all(sum(runs[2::6]) == 2 * 19 for runs in piped.runs.values())


def test_a_request_that_waits_longer_than_the_run_does_not_end_it() -> None:
    full = replace(AMPLE, max_num_seqs=1)
    requests = RequestTable([0.0, 0.0, 1e-4, 2e-4], [8] * 4, [400] * 4)
    jump, steps = (serve(requests, full, level=level) for level in ("medium", "stepping"))
    equal(jump, steps)
    assert jump.events < 60


def simulated(stepping: bool, **settings: Any) -> RunResult:
    """Replicas of two stages with GPT-2 on a node, from the configuration to the result."""
    serving = {"stepping": stepping, "max_num_batched_tokens": 256, **settings.pop("serving", {})}
    gpus = settings.pop("gpus", 2)
    config = SimulationConfig(
        hardware={"profile": "dgx-h100", "gpus_per_node": gpus, **settings.pop("hardware", {})},
        model={"name": "GPT2-Small"},
        parallelism={"pp_stages": 2},
        serving=serving,
        workload={
            "arrivals": {"kind": "poisson", "rate": "300 req/s"},
            "prompt_tokens": {"kind": "uniform", "low": 1, "high": 700},
            "output_tokens": {"kind": "uniform", "low": 1, "high": 200},
            "num_requests": 50,
        },
        simulation=settings,
    )
    assert check_config(config) == []
    return simulate(config)


def figures(result: RunResult) -> dict[str, float]:
    return {name: value for name, value in result.metrics.items() if isinstance(value, int | float)}


WHOLE: dict[str, dict[str, Any]] = {
    "alone": {},
    "contiguous prompts": {"serving": {"scheduler": "vllm_v0"}},
    "scarce memory": {"serving": {"gpu_memory_utilization": 0.0242}},
    "swapping": {"serving": {"gpu_memory_utilization": 0.0242, "preemption": "swap"}},
    "replicas": {"gpus": 6, "serving": {"router": "least_kv"}},
    "scaled": {"gpus": 6, "serving": {"autoscaling": {"scale_up_queue": 1, "startup": "20 ms", "interval": "5 ms"}}},
    "split": {"gpus": 6, "serving": {"disaggregated": {"prefill_replicas": 1, "decode_replicas": 2}}},
    "ended": {"duration": "150 ms"},
}


@pytest.mark.parametrize("name", WHOLE)
def test_figures_do_not_depend_on_how_many_steps_are_one_run(name: str) -> None:
    jump, steps = (simulated(stepping, **WHOLE[name]) for stepping in (False, True))
    assert jump.events < 0.7 * steps.events
    assert jump.rows == steps.rows
    assert figures(jump) == pytest.approx(figures(steps), rel=1e-9)
    assert jump.requests is not None
    assert steps.requests is not None
    gaps_s, expected_s = gaps_by_request(jump.requests), gaps_by_request(steps.requests)
    assert gaps_s is not None
    assert gaps_s == expected_s


@pytest.mark.parametrize(
    "hardware",
    [{"jitter": {"compute": 0.2}}, {"slowdowns": [{"gpus": [0], "speed": 0.5, "from": "10 ms", "until": "50 ms"}]}],
)
def test_steps_are_simulated_one_by_one_where_hardware_varies(hardware: dict[str, Any]) -> None:
    result = simulated(False, hardware=hardware)
    assert result.events > result.metrics["steps"]


def test_steps_are_simulated_one_by_one_on_occupied_links_which_takes_as_long() -> None:
    """Two replicas that share no links: what stages hand on is on the links, and nobody slows it."""
    found, idle = simulated(False, gpus=4, occupy_links=True), simulated(False, gpus=4)
    assert found.events > idle.events
    assert figures(found) == pytest.approx(figures(idle), rel=1e-6)

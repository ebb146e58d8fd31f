"""The loop of a replica's steps against the parts in whose place it works: equal to the last bit."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from random_serving import limits, workload
from reference_serving import Limits
from serving_harness import HOST, SLOW_HOST, Served, serve
from simsys.executors.steps.express import Express

from frameworks.chunked_prefill import ChunkedPrefill
from frameworks.least_kv import LeastKV
from frameworks.least_outstanding import LeastOutstanding
from frameworks.prefix_affinity import PrefixAffinity
from frameworks.random import Random
from frameworks.round_robin import RoundRobin
from frameworks.shortest_job_first import ShortestJobFirst
from simsys.framework import Replica, Router, Scheduler
from simsys.ops import Operation
from simsys.probes import Probe
from simsys.serving.requests import RequestTable
from simsys.simulator import DistributedAISimulator, SimulationConfig

POLICIES = (ChunkedPrefill, ShortestJobFirst)


class Nosy(Router):
    """A router of a user's own, which looks at whatever it likes."""

    def route(self, request: int) -> Replica:
        def known(replica: Replica) -> tuple[int, ...]:
            decode, kv = replica.scheduler.decode, replica.kv
            return decode.size, decode.cached_tokens, -kv.free_blocks, kv.taken_blocks, kv.peak_blocks

        return min(self.replicas, key=known)


ROUTERS = (LeastKV, LeastOutstanding, Nosy, PrefixAffinity, Random, RoundRobin)


class Runs(Probe):
    """Keeps what is told of runs of steps, by replica."""

    def __init__(self) -> None:
        self.told: dict[int, list[float]] = {}

    def steps(self, rank: int, runs: Sequence[float]) -> None:
        self.told.setdefault(rank, []).extend(runs)


class Passes(Probe):
    """Wants to hear of every pass, so that steps are carried out part by part."""

    def operation(self, op: Operation, started_s: float, ended_s: float) -> None:
        pass


def served(requests: RequestTable, limits: Limits, *probes: Probe, **given: Any) -> tuple[Served, Any]:
    """A run, and all that is to be equal."""
    runs = Runs()
    found = serve(requests, limits, details=False, probes=(runs, *probes), **given)
    peaks = [(kv.peak_blocks, kv.free_blocks, kv.taken_blocks) for kv in found.kvs]
    return found, (found.events, found.arrived, found.reasons, found.lookups, found.busy_s, peaks, runs.told)


def shared(rng: random.Random, requests: RequestTable) -> RequestTable:
    """The requests with prompts that begin alike, by blocks of 4 tokens."""
    ids = [tuple(range(rng.randint(0, tokens // 4))) for tokens in requests.prompt_tokens]
    return replace(requests, hash_ids=ids, hash_block_tokens=4)


def compared(seed: int, policy: type[Scheduler], router: type[Router], replicas: int, prefixes: bool) -> None:
    """Serve by chance in the loop, interrupted now and then, and part by part."""
    rng = random.Random(seed)
    requests, settings = workload(rng), limits(rng)
    if prefixes:
        requests = shared(rng, requests)
    given: dict[str, Any] = {"policy": policy, "router": router, "replicas": replicas, "prefix_caching": prefixes}
    given |= {"seed": seed, "beside": seed % 2 == 1, "host": SLOW_HOST if seed % 2 else HOST}
    pauses_s = sorted(rng.random() * 1e-3 for _ in range(rng.choice([0, 0, 3])))
    _, fast = served(requests, settings, pauses_s=pauses_s, **given)
    _, parts = served(requests, settings, Passes(), **given)
    assert fast == parts


cases = given(
    seed=st.integers(0, 1_000_000),
    policy=st.sampled_from(POLICIES),
    router=st.sampled_from(ROUTERS),
    replicas=st.integers(1, 4),
    prefixes=st.booleans(),
)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@cases
def test_the_loop_is_bit_identical_to_its_parts(
    seed: int, policy: type[Scheduler], router: type[Router], replicas: int, prefixes: bool
) -> None:
    compared(seed, policy, router, replicas, prefixes)


@pytest.mark.slow
@settings(max_examples=3000, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@cases
def test_the_loop_is_bit_identical_to_its_parts_however_rare_the_case(
    seed: int, policy: type[Scheduler], router: type[Router], replicas: int, prefixes: bool
) -> None:
    compared(seed, policy, router, replicas, prefixes)


@pytest.mark.parametrize("replicas", [1, 4])
def test_most_steps_are_ended_in_the_loop(monkeypatch: pytest.MonkeyPatch, replicas: int) -> None:
    entered: list[bool] = []
    go = Express.go
    monkeypatch.setattr(Express, "go", lambda self: entered.append(go(self)) or entered[-1])
    requests = RequestTable([1e-4 * place for place in range(200)], [8] * 200, [30] * 200)
    found, _ = served(requests, Limits(num_blocks=1000), replicas=replicas)
    assert any(entered)
    assert len(entered) < 10 * replicas, "a loop stays open while others act"
    if replicas == 1:
        assert found.scheduled < 20, "events do not grow with the requests of an open loop on one replica"


@pytest.mark.parametrize("threshold", [0, 3])
def test_prompts_of_many_steps_are_processed_in_the_loop(threshold: int) -> None:
    requests = RequestTable([1e-4 * place for place in range(50)], [300] * 50, [5] * 50)
    settings = Limits(num_blocks=5000, long_prefill_token_threshold=threshold)
    found, fast = served(requests, settings)
    assert fast == served(requests, settings, Passes())[1]
    assert found.scheduled < 20
    (runs,) = fast[-1].values()
    assert any(count > 1 and prompts for count, prompts in zip(runs[1::6], runs[3::6], strict=True))


@pytest.mark.parametrize("replicas", [1, 4])
def test_hooks_are_called_in_order_of_time(replicas: int) -> None:
    rng = random.Random(1)
    found, _ = served(workload(rng), limits(rng), replicas=replicas)
    times_s = [time_s for *_, time_s in found.events]
    assert times_s == sorted(times_s)


class Asked(ChunkedPrefill):
    """A policy of a user's own, which derives from one that need not be asked."""

    questions = 0

    def schedule(self) -> Any:
        type(self).questions += 1
        return super().schedule()


def test_a_policy_of_a_users_own_is_asked() -> None:
    served(RequestTable([0.0, 1e-3], [8, 8], [4, 4]), Limits(num_blocks=100), policy=Asked)
    assert Asked.questions >= 2


def test_what_is_amended_at_one_module_is_heeded(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []

    class Amended(ChunkedPrefill):
        inlined = True

        def __init__(self, *given: Any) -> None:
            super().__init__(*given)
            self.schedule = lambda: asked.append(1) or ChunkedPrefill.schedule(self)  # type: ignore[method-assign]

    served(RequestTable([0.0], [8], [4]), Limits(num_blocks=100), policy=Amended)
    assert asked


@pytest.mark.parametrize("replicas", [1, 2])
@pytest.mark.parametrize("more", [{}, {"prefix_caching": True}, {"scheduler": "shortest_job_first"}])
@pytest.mark.parametrize("end", [{}, {"duration": "7.3 s"}])
def test_all_figures_are_those_of_the_parts(replicas: int, more: dict[str, Any], end: dict[str, str]) -> None:
    scenario = SimulationConfig(
        hardware={"profile": "dgx-a100", "gpus_per_node": replicas},
        model={"name": "Llama-2-7B"},
        serving={"engine": "vllm", "router": "least_outstanding", **more},
        workload={
            "arrivals": {"kind": "poisson", "rate": f"{9 * replicas} req/s"},
            "prompt_tokens": {"kind": "lognormal", "mean": 600, "max": 3000},
            "output_tokens": {"kind": "lognormal", "mean": 100, "max": 900},
            "prefixes": {"groups": 3, "tokens": 100},
            **({} if end else {"num_requests": 150}),
        },
        simulation=end,
    )
    fast, parts = (DistributedAISimulator(scenario, probes).run() for probes in ([], [Passes()]))
    assert fast.events < 1.15 * parts.events
    assert fast.metrics == parts.metrics
    assert all(fast.rows[name] == parts.rows[name] for name in parts.rows)
    assert fast.timeline == parts.timeline

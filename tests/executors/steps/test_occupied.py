"""Runs of steps on links that several teams share: to the last bit their steps one by one, and near to high."""

from __future__ import annotations

import random
from itertools import pairwise

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from frameworks.chunked_prefill import ChunkedPrefill
from frameworks.least_kv import LeastKV
from frameworks.least_outstanding import LeastOutstanding
from frameworks.orca import Orca
from frameworks.priority import Priority
from frameworks.round_robin import RoundRobin
from frameworks.static_batching import StaticBatching
from frameworks.vllm_v0 import VLLMv0
from simsys.config.experiment import SimulationConfig
from simsys.framework import Router, Scheduler
from simsys.platform.topology import LinkSpec, Topology, both_ways
from simsys.simulation import simulate
from simsys.testing.toys import TOY_LINK_BYTES_PER_S, TOY_LINK_LATENCY_S
from tests.helpers.random_serving import limits, workload
from tests.helpers.reference_serving import Limits
from tests.helpers.replica_harness import TOKEN_BYTES, Toy, disaggregated, replicated
from tests.helpers.thorough import cases

POLICIES = (ChunkedPrefill, Orca, Priority, StaticBatching, VLLMv0)
ROUTERS = (LeastKV, LeastOutstanding, RoundRobin)
AMPLE = Limits(num_blocks=1000, block_size=4)


def halves(teams: int, slow: float) -> Topology:
    """Teams of two GPUs, one behind each of two switches, whose cable is `slow` times as slow as the other links."""
    gpus = 2 * teams
    cable = gpus, gpus + 1
    ways = [way for gpu in range(gpus) for way in both_ways(gpu, cable[gpu % 2])]
    links = [LinkSpec(*way, TOY_LINK_BYTES_PER_S, TOY_LINK_LATENCY_S, "port") for way in ways]
    links += [LinkSpec(*way, TOY_LINK_BYTES_PER_S / slow, TOY_LINK_LATENCY_S, "cable") for way in both_ways(*cable)]
    return Topology(gpus, gpus + 2, tuple(links), "halves")


def serve(
    seed: int,
    level: str,
    policy: type[Scheduler] = ChunkedPrefill,
    router: type[Router] = RoundRobin,
    *,
    teams: int = 2,
    slow: float = 4.0,
    split: bool = False,
    contention: str = "fifo",
) -> Toy:
    rng = random.Random(seed)
    shared = {
        "policy": policy,
        "router": router,
        "level": level,
        "tensor": 2,
        "topology": halves(teams, slow),
        "contention": contention,
        "overlapped": seed % 2 == 1,
    }
    requests, caps = workload(rng), limits(rng)
    if split:
        decode = teams - 1
        return disaggregated(requests, caps, prefill=1, decode=decode, token_bytes=10.0 * TOKEN_BYTES, **shared)
    return replicated(requests, caps, replicas=teams, **shared)


@settings(max_examples=cases(150, 10), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    seed=st.integers(0, 1_000_000),
    policy=st.sampled_from(POLICIES),
    router=st.sampled_from(ROUTERS),
    teams=st.integers(2, 4),
    slow=st.sampled_from([0.1, 1.0, 4.0, 50.0]),
    split=st.booleans(),
    contention=st.sampled_from(["fifo", "fair"]),
)
@example(seed=0, policy=ChunkedPrefill, router=LeastKV, teams=2, slow=4.0, split=False, contention="fair")
def test_runs_are_bit_identical_to_single_steps(
    seed: int,
    policy: type[Scheduler],
    router: type[Router],
    teams: int,
    slow: float,
    split: bool,
    contention: str,
) -> None:
    runs, steps = (
        serve(seed, level, policy, router, teams=teams, slow=slow, split=split, contention=contention)
        for level in ("occupied", "occupied stepping")
    )
    assert runs.served.history() == steps.served.history()
    assert runs.moves.transfers == steps.moves.transfers
    assert [kv.peak_blocks for kv in runs.served.kvs] == [kv.peak_blocks for kv in steps.served.kvs]
    told, expected = (sorted(toy.served.steps_told()) for toy in (runs, steps))
    assert told == [pytest.approx(step, rel=1e-9) for step in expected]
    told, expected = (sorted((op.rank, *span) for op, *span in toy.served.passes) for toy in (runs, steps))
    assert told == expected
    for rank in range(0, 2 * teams, 2):
        spans = [span[1:] for span in told if span[0] == rank]
        assert all(end <= start for (_, end), (start, _) in pairwise(spans)), "steps do not overlap"
    assert [device.busy_s for device in runs.platform.devices] == pytest.approx(
        [device.busy_s for device in steps.platform.devices], rel=1e-9
    )
    carried, expected = (toy.platform.link_statistics() for toy in (runs, steps))
    for column in ("nbytes", "utilization"):
        assert carried[column] == pytest.approx(expected[column], rel=1e-9)
    assert set(steps.served.runs) <= {1}


@pytest.mark.parametrize(("bandwidth", "within"), [("5 GB/s", 0.01), ("1 GB/s", 0.025), ("0.3 GB/s", 0.07)])
def test_teams_slow_each_other_as_at_high(bandwidth: str, within: float) -> None:
    """Prompts of one team hold up the tokens of the other, whether or not the cable is full."""
    levels = ("high", False), ("medium", True), ("medium", False)
    high, occupied, idle = (shared_cable(lod, occupy, bandwidth) for lod, occupy in levels)
    for name in ("mean_ttft_ms", "mean_tpot_ms", "mean_e2el_ms"):
        assert occupied[name] == pytest.approx(high[name], rel=within)
    assert idle["mean_tpot_ms"] < occupied["mean_tpot_ms"]


def shared_cable(lod: str, occupy: bool, bandwidth: str) -> dict[str, float]:
    ends = [("gpu0", "left"), ("gpu1", "right"), ("gpu2", "left"), ("gpu3", "right"), ("left", "right")]
    config = SimulationConfig(
        hardware={"gpu": "A100-SXM-80GB", "num_nodes": 4, "gpus_per_node": 1, "network_bandwidth": bandwidth},
        network={
            "topology_type": "custom",
            "edges": [{"from": src, "to": dst} for src, dst in ends],
        },
        model={"name": "GPT2-Small"},
        parallelism={"strategy": "TP", "tp_degree": 2, "dp_degree": 2},
        serving={},
        workload={
            "arrivals": {"kind": "poisson", "rate": "6 req/s"},
            "prompt_tokens": 512,
            "output_tokens": 64,
            "num_requests": 20,
        },
        simulation={"lod": lod, "occupy_links": occupy},
    )
    found: dict[str, float] = simulate(config).metrics
    return found

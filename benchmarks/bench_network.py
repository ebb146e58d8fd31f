"""How fast transfers and collectives are on links, alone and contended. Asserted are amounts and ratios."""

from __future__ import annotations

import random
import time
import tracemalloc
from collections.abc import Callable
from typing import Any

import pytest
from conftest import FIGURES

from simsys.config.experiment import SimulationConfig
from simsys.platform.environment import Environment
from simsys.platform.fair import FairNetwork
from simsys.platform.fifo import CutThroughNetwork
from simsys.platform.network import Network
from simsys.platform.topology import Topology, full_mesh, ring, single_switch
from simsys.simulator import DistributedAISimulator

BANDWIDTH, LATENCY, SIZE = 50e9, 500e-9, 1e9
Timed = Callable[..., Any]


def ring_all_reduce(network: Network[Any], size: int, nbytes: float = SIZE) -> Any:
    """Steps of the algorithm over all GPUs."""
    return network.schedule([([(i, (i + 1) % size) for i in range(size)], nbytes / size, 2 * (size - 1), 0.0)])


def closed_form(size: int, hops: int) -> float:
    return 2 * (size - 1) * (SIZE / size / BANDWIDTH + hops * LATENCY)


@pytest.mark.parametrize("size", [64, 1024, 8192])
def test_quiet_all_reduces(timed: Timed, size: int) -> None:
    """One event each, whatever the number of ranks."""
    network = CutThroughNetwork(Environment(), single_switch(size, BANDWIDTH, LATENCY))
    schedule, count = ring_all_reduce(network, size), 20_000

    def run() -> int:
        left, before = count, network.env.events_scheduled

        def again(_: object) -> None:
            nonlocal left
            if left:
                left -= 1
                schedule.start(again)

        again(None)
        network.env.run()
        return network.env.events_scheduled - before

    assert timed(run, "all-reduces", count) == count


def contended(kind: type[Network[Any]], topology: Topology, size: int) -> Network[Any]:
    """Two all-reduces of different sizes that start shortly after one another and meet on every link."""
    network = kind(Environment(), topology)
    ring_all_reduce(network, size).start(lambda _: None)
    other = ring_all_reduce(network, size, 0.77 * SIZE)
    network.env.at(1.3e-5, lambda _: other.start(lambda _: None))
    network.env.run()
    return network


@pytest.mark.parametrize("size", [64, 1024])
@pytest.mark.parametrize("make", [ring, single_switch])
def test_two_all_reduces_that_share_all_links_fifo(timed: Timed, make: Any, size: int) -> None:
    """An event per hop and step, not per transfer."""
    topology, hops = make(size, BANDWIDTH, LATENCY), 1 if make is ring else 2
    steps = 2 * 2 * (size - 1)
    network = timed(lambda: contended(CutThroughNetwork, topology, size), "transfers", steps * size, rounds=1)
    assert network.env.events_scheduled <= (steps + 10) * hops
    assert closed_form(size, hops) < network.env.now < 2 * closed_form(size, hops)


def test_two_all_reduces_that_share_all_links_fair(timed: Timed) -> None:
    topology = single_switch(64, BANDWIDTH, LATENCY)
    network = timed(lambda: contended(FairNetwork, topology, 64), "transfers", 2 * 2 * 63 * 64)
    assert closed_form(64, 2) < network.env.now < 2 * closed_form(64, 2)


def test_memory_of_a_contended_all_reduce_of_1024(timed: Timed) -> None:
    """The first thousandth of it: nothing grows from step to step."""
    topology = single_switch(1024, BANDWIDTH, LATENCY)

    def peak() -> int:
        tracemalloc.start()
        network = CutThroughNetwork(Environment(), topology)
        ring_all_reduce(network, 1024).start(lambda _: None)
        ring_all_reduce(network, 1024).start(lambda _: None)
        network.env.run(until=40e-6)
        found = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return found

    assert timed(peak, "runs", 1, rounds=1) < 16 * 2**20


@pytest.mark.parametrize("topology_type", ["switch", "fat_tree", "torus_2d"])
def test_data_parallelism_on_8_nodes_of_8_fair_against_fifo(benchmark: Any, topology_type: str) -> None:
    """An undisturbed collective is one event with either, so fair links cost at most three times as much."""
    scenarios = {
        contention: SimulationConfig.model_validate(
            {
                "hardware": {"profile": "dgx-a100", "num_nodes": 8},
                "network": {"topology_type": topology_type, "contention": contention},
                "model": {"name": "GPT2-XL"},
                "parallelism": {"strategy": "DDP"},
                "training": {"batch_size_per_gpu": 4, "num_iterations": 1},
                "simulation": {"lod": "high"},
            }
        )
        for contention in ("fifo", "fair")
    }
    cpu_s: dict[str, list[float]] = {contention: [] for contention in scenarios}

    def both() -> None:
        for contention, scenario in scenarios.items():
            started_s = time.process_time()
            DistributedAISimulator(scenario).run()
            cpu_s[contention].append(time.process_time() - started_s)

    benchmark.pedantic(both, rounds=3, warmup_rounds=1)
    fair_s, fifo_s = min(cpu_s["fair"]), min(cpu_s["fifo"])
    text = f"fair {1e3 * fair_s:.0f} ms, fifo {1e3 * fifo_s:.0f} ms: {fair_s / fifo_s:.2f} times"
    FIGURES.append((f"DDP on 8 x 8, {topology_type}", text))
    assert fair_s <= 3.0 * fifo_s


FLOWS = 64


@pytest.mark.parametrize(
    "topology",
    [
        full_mesh(2, BANDWIDTH, LATENCY),
        single_switch(16, BANDWIDTH, LATENCY),
        single_switch(64, BANDWIDTH, LATENCY),
        ring(16, BANDWIDTH, LATENCY),
    ],
    ids=["one link", "switch of 16", "switch of 64", "ring of 16"],
)
def test_64_flows_at_a_time_fair(timed: Timed, topology: Topology) -> None:
    """Each end is followed by the start of another; both change the rates."""
    count = 5_000

    def run() -> FairNetwork:
        network, rng, left = FairNetwork(Environment(), topology), random.Random(3), count

        def start(_: object) -> None:
            nonlocal left
            if left:
                left -= 1
                src, dst = (0, 1) if topology.num_gpus == 2 else rng.sample(range(topology.num_gpus), 2)
                network.transfer(src, dst, rng.expovariate(1e-7)).callbacks.append(start)

        for _ in range(FLOWS):
            start(None)
        network.env.run()
        return network

    network = timed(run, "starts and ends", 2 * count)
    assert network.env.events_scheduled < 6 * count

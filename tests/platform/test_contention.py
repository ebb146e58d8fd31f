"""Models of contention as a setting: each is named by the results, all end, and all agree where nothing is shared."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import partial
from typing import Any

import pytest
from pydantic import ValidationError

from simsys.config.experiment import SimulationConfig
from simsys.config.network import NetworkConfig
from simsys.platform.contention import NETWORKS
from simsys.platform.environment import Environment
from simsys.platform.network import Network
from simsys.platform.topology import LinkSpec, Topology
from simsys.simulation import simulate
from tests.agreement.test_training_mixes import config_of
from tests.helpers.thorough import THOROUGH

SETTINGS = [{"contention": contention, "switching": switching} for contention, switching in NETWORKS]
NAMES = ["fifo, cut-through", "fifo, store-and-forward", "fair (max-min)"]


def on_a_ring(lod: str = "high", **network: Any) -> SimulationConfig:
    """Tensor, pipeline and data parallelism of degree 2 on a ring of eight GPUs, where messages share links."""
    config = config_of(2, 2, 2, lod=lod, micro_batches=4)
    ring = {"topology_type": "ring", "link_bandwidth": "50 GB/s", "base_latency": "2 us", **network}
    return config.model_copy(update={"network": NetworkConfig(**ring)})


@pytest.mark.parametrize(("network", "name"), list(zip(SETTINGS, NAMES, strict=True)), ids=NAMES)
def test_results_name_the_model(network: dict[str, Any], name: str) -> None:
    result = simulate(on_a_ring(**network))
    assert result.contention == result.as_dict()["contention"] == name
    assert simulate(on_a_ring("medium", **network)).contention in (name, f"{name}, none met")
    idle = on_a_ring("medium", **network)
    settings = idle.simulation.model_copy(update={"occupy_links": False})
    assert simulate(idle.model_copy(update={"simulation": settings})).contention == "none (idle links)"


def test_links_are_shared_fairly_unless_whole_messages_are_stored() -> None:
    assert NetworkConfig().sharing == "fair"
    assert NetworkConfig(switching="store_and_forward").sharing == "fifo"
    assert simulate(on_a_ring()).contention == "fair (max-min)"


def test_fair_sharing_does_not_store_transfers() -> None:
    with pytest.raises(ValidationError, match="store_and_forward, set contention: fifo"):
        NetworkConfig(contention="fair", switching="store_and_forward")


@pytest.mark.parametrize("network", SETTINGS, ids=NAMES)
def test_transfers_wait_on_shared_links_and_medium_counts_that(network: dict[str, Any]) -> None:
    high, medium = (simulate(on_a_ring(lod, **network)) for lod in ("high", "medium"))
    assert len(high.rows["iteration_s"]) == len(medium.rows["iteration_s"]) == 3
    assert list(medium.rows["iteration_s"]) == pytest.approx(list(high.rows["iteration_s"]), rel=2e-3)
    assert sum(high.links["queued_s"]) > 0.0
    assert all(0.0 < share <= 1.0 for share in high.links["utilization"])


@pytest.mark.parametrize("network", SETTINGS, ids=NAMES)
def test_the_levels_agree_where_no_link_is_shared(network: dict[str, Any]) -> None:
    """Eight GPUs around a switch, as replicas: in every step of the ring each link carries one transfer."""
    rows = []
    for lod in ("high", "medium"):
        config = config_of(1, 1, 8, lod=lod, hardware={"gpu": "H100-SXM", "num_nodes": 8, "gpus_per_node": 1})
        switch = NetworkConfig(topology_type="switch", link_bandwidth="50 GB/s", base_latency="2 us", **network)
        rows.append(simulate(config.model_copy(update={"network": switch})).rows)
    for column in ("iteration_s", "communication_s"):
        assert list(rows[1][column]) == pytest.approx(list(rows[0][column]), rel=1e-9), column


@pytest.mark.parametrize("network", SETTINGS, ids=NAMES)
def test_all_models_carry_the_same_bytes_over_the_same_links(network: dict[str, Any]) -> None:
    """Without protocols, whose choice depends on what a path takes, and which send flags beside the bytes."""
    first, other = simulate(on_a_ring(tuning="none")).links, simulate(on_a_ring(tuning="none", **network)).links
    for column in ("src", "dst", "kind"):
        assert other[column] == first[column]
    assert list(other["nbytes"]) == pytest.approx(list(first["nbytes"]), rel=1e-9)


@pytest.mark.parametrize("network", SETTINGS, ids=NAMES)
def test_run_after_run_gives_the_same_bytes(network: dict[str, Any]) -> None:
    def written() -> bytes:
        result = simulate(config)
        return json.dumps([result.as_dict(), result.rows, result.links, result.gpus], default=list).encode()

    config = on_a_ring(**network)
    first = written()
    assert all(written() == first for _ in range(99 if THOROUGH else 3))


# --- trunks that are no bottleneck, and slow transfers ahead of fast ones ---

TRUNK_S, TRUNK_B = 8e9, 1e9
DEFAULT = NETWORKS[NetworkConfig().sharing, "cut_through"]
IN_TURN = NETWORKS["fifo", "cut_through"]


def dumbbell(sources: int, trunk: float, ends: Sequence[float]) -> Topology:
    """GPUs that send to as many others over one trunk; `ends` are the bandwidths of the links to the latter."""
    links = [LinkSpec(gpu, 2 * sources, trunk, 0.0, "out") for gpu in range(sources)]
    links += [LinkSpec(2 * sources + 1, sources + gpu, rate, 0.0, "in") for gpu, rate in enumerate(ends)]
    trunks = LinkSpec(2 * sources, 2 * sources + 1, trunk, 0.0, "trunk")
    return Topology(2 * sources, 2 * sources + 2, (*links, trunks), "dumbbell")


def ends_on(network: type[Network[Any, Any]], topology: Topology) -> list[float]:
    """When transfers of S bytes from each source arrive that start together, in units of S/B."""
    found, sources = network(Environment(), topology), topology.num_gpus // 2
    ends = [0.0] * sources

    def ended(place: int, _: object) -> None:
        ends[place] = found.env.now / (TRUNK_S / TRUNK_B)

    for gpu in range(sources):
        found.transfer(gpu, sources + gpu, TRUNK_S).callbacks.append(partial(ended, gpu))
    found.env.run()
    return ends


def test_cards_on_a_trunk_of_eight_times_their_rate_do_not_wait_by_default() -> None:
    """Theory: nothing is full but the cards, so S/B. Links that serve in turn take 1 + 7/8 for the last."""
    topology = dumbbell(8, 8 * TRUNK_B, [TRUNK_B] * 8)
    assert ends_on(DEFAULT, topology) == pytest.approx([1.0] * 8)
    assert max(ends_on(IN_TURN, topology)) == pytest.approx(1.875)


def test_a_slow_transfer_does_not_hold_a_fast_link_by_default() -> None:
    """The slow one can use a quarter of the trunk, which leaves three quarters to the other: 4/3 S/B."""
    topology = dumbbell(2, TRUNK_B, [TRUNK_B / 4, 100 * TRUNK_B])
    assert ends_on(DEFAULT, topology) == pytest.approx([4.0, 4 / 3])
    assert ends_on(IN_TURN, topology) == pytest.approx([4.0, 2.0])


@pytest.mark.parametrize("topology_type", ["switch", "fat_tree", "torus_2d", "rail_optimized"])
def test_undisturbed_collectives_cost_no_more_with_fair_links(topology_type: str) -> None:
    """One iteration of data parallelism on 8 nodes of 8 at high: the same events, the time of idle links."""
    data: dict[str, Any] = {
        "hardware": {"profile": "dgx-a100", "num_nodes": 8},
        "model": {"name": "ResNet-50"},
        "parallelism": {"strategy": "DDP"},
        "training": {"batch_size_per_gpu": 32, "num_iterations": 1},
    }
    events, seconds = [], []
    for contention, lod in (("fifo", "high"), ("fair", "high"), ("fair", "medium")):
        network = {"topology_type": topology_type, "contention": contention}
        result = simulate(SimulationConfig.model_validate({**data, "network": network, "simulation": {"lod": lod}}))
        events.append(result.events)
        seconds.append(result.metrics["mean_iteration_s"])
    assert events[1] <= 1.05 * events[0]
    assert seconds[1] == pytest.approx(seconds[2], rel=1e-9)
    assert seconds[1] <= seconds[0] * (1 + 1e-9)

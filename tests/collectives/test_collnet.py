"""Reduction in the switches of the fabric (SHARP), alone and as the part across of nodes of several GPUs."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from simsys.build.cluster import build_cluster
from simsys.collectives import CollectiveKind
from simsys.collectives.choose import named
from simsys.collectives.collnet import Collnet, CollnetNvls
from simsys.collectives.nccl import NcclTuning
from simsys.config.cluster import HardwareConfig
from simsys.config.experiment import SimulationConfig
from simsys.config.network import NetworkConfig
from simsys.errors import UsageError
from simsys.fidelity.collective_run import CollectiveRun
from simsys.simulation import simulate

REDUCING = {"extends": "infiniband-hdr", "in_network_reduction": True}


def seconds(nbytes: float, *, reducing: bool, algorithm: str = "auto", **hardware: Any) -> float:
    fabric = REDUCING if reducing else "infiniband-hdr"
    given = {"profile": "dgx-a100", "num_nodes": 16, "fabric": fabric, **hardware}
    return CollectiveRun.of(given, "all_reduce", nbytes, algorithm).figures()["time_s"]


@pytest.mark.parametrize("nodes", [2, 3, 64])
def test_a_node_sends_the_buffer_once_whatever_their_number(nodes: int) -> None:
    (phase,) = Collnet(8, 16).phases(CollectiveKind.ALL_REDUCE, nodes * 8)
    across = [src for src, dst in phase.transfers if src // 8 != dst // 8]
    assert sorted(across) == list(range(nodes * 8))
    assert len(across) / nodes * phase.fraction * 16 == pytest.approx(1.0)


@pytest.mark.parametrize(("algorithm", "share"), [(Collnet, 2 * 7 / 8), (CollnetNvls, 1 + 1 / 8)])
def test_gpus_of_a_node_scatter_the_buffer_and_gather_the_sums(algorithm: type[Collnet], share: float) -> None:
    (phase,) = algorithm(8, 16).phases(CollectiveKind.ALL_REDUCE, 16)
    inside = [src for src, dst in phase.transfers if src // 8 == dst // 8]
    assert Counter(inside) == dict.fromkeys(range(16), pytest.approx(share * 8))


def test_ranks_that_do_not_fill_their_nodes_are_refused() -> None:
    with pytest.raises(UsageError, match="a group of 9 ranks does not fill nodes of 8"):
        Collnet(8).phases(CollectiveKind.ALL_REDUCE, 9)


def test_large_messages_gain_where_the_fabric_reduces_and_nothing_changes_elsewhere() -> None:
    assert seconds(1e9, reducing=True) < 0.8 * seconds(1e9, reducing=False)
    assert seconds(1e9, reducing=True) == seconds(1e9, reducing=True, algorithm="collnet")
    assert seconds(64.0, reducing=True, num_nodes=2) == seconds(64.0, reducing=False, num_nodes=2)  # trees with LL


def test_nodes_whose_switches_reduce_too_use_both() -> None:
    hopper = {"profile": "dgx-h100", "num_nodes": 16}
    assert seconds(1e9, reducing=True, **hopper) == seconds(1e9, reducing=True, algorithm="collnet_nvls", **hopper)


def test_nodes_of_one_gpu_send_to_the_switches_directly() -> None:
    cards = {"gpus_per_node": 1}
    assert seconds(1e9, reducing=True, **cards) < 0.7 * seconds(1e9, reducing=False, **cards)


def test_a_fabric_that_does_not_reduce_refuses_it() -> None:
    with pytest.raises(UsageError, match="collnet needs a fabric whose switches reduce"):
        named("collnet", NcclTuning("ampere"))
    tuning = build_cluster(HardwareConfig(profile="dgx-a100", fabric=REDUCING), NetworkConfig()).tuning
    assert isinstance(tuning, NcclTuning)
    assert tuning.in_network_reduction


def test_both_levels_agree() -> None:
    settings = {
        "hardware": {"profile": "dgx-a100", "num_nodes": 2, "gpus_per_node": 4, "fabric": REDUCING},
        "model": {"name": "GPT2-Small"},
        "parallelism": {"strategy": "DDP"},
        "training": {"batch_size_per_gpu": 1, "num_iterations": 1, "communication_pattern": "collnet"},
    }
    high, medium = (
        simulate(SimulationConfig.model_validate({**settings, "simulation": {"lod": lod}})).metrics["mean_iteration_s"]
        for lod in ("high", "medium")
    )
    assert high == pytest.approx(medium, rel=1e-9)

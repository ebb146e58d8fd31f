"""Graphs of the user's own in which GPUs are not linked alike."""

from __future__ import annotations

from typing import Any

import pytest

from simsys.build.job import build_job
from simsys.build.link_places import links_around
from simsys.check import check_config
from simsys.config.experiment import SimulationConfig
from simsys.platform.topology import LinkSpec, Topology, full_mesh, ring, single_switch
from simsys.simulation import simulate
from tests.costs.test_jitter import assert_equal_rows


@pytest.mark.parametrize("topology", [ring(6, 1e9, 1e-6), full_mesh(4, 1e9, 1e-6), single_switch(5, 1e9, 1e-6)])
def test_gpus_of_a_regular_graph_are_alike(topology: Topology) -> None:
    assert links_around(topology) == ()


def test_gpus_are_told_apart_by_their_links_and_those_beyond() -> None:
    """A line of five with equal links: its ends, those beside the ends, and the middle."""
    pairs = [(i, i + 1) for i in range(4)] + [(i + 1, i) for i in range(4)]
    line = Topology(5, 5, tuple(LinkSpec(a, b, 1e9, 1e-6, "line") for a, b in pairs), "line")
    assert links_around(line) == [0, 1, 2, 1, 0]


def config_on(lod: str, speeds: list[int], **parallelism: Any) -> SimulationConfig:
    """Four GPUs around a switch, each with a speed of its own."""
    edges = [{"from": f"gpu{gpu}", "to": "core", "bandwidth": f"{speed} GB/s"} for gpu, speed in enumerate(speeds)]
    return SimulationConfig(
        hardware={"gpu": "H100-SXM", "num_nodes": 4, "gpus_per_node": 1},
        network={"topology_type": "custom", "edges": edges},
        model={"name": "GPT2-Small"},
        parallelism=parallelism,
        training={"batch_size_per_gpu": 2, "num_iterations": 2, "communication_pattern": "ring"},
        simulation={"lod": lod},
    )


MIXES: list[dict[str, Any]] = [{"strategy": "DDP"}, {"strategy": "TP", "tp_degree": 4}, {"strategy": "FSDP"}]


@pytest.mark.parametrize("speeds", [[10, 10, 10, 10], [10, 10, 10, 1], [1, 10, 10, 10], [5, 10, 5, 10]], ids=str)
@pytest.mark.parametrize(
    "mix", [{"strategy": "DDP"}, {"strategy": "TP", "tp_degree": 4}, {"strategy": "FSDP"}], ids=str
)
def test_levels_agree_whichever_gpu_has_a_slow_link(speeds: list[int], mix: dict[str, Any]) -> None:
    configs = [config_on(lod, speeds, **mix) for lod in ("high", "medium")]
    assert check_config(configs[0]) == []
    assert_equal_rows(*map(simulate, configs))


def test_groups_over_other_links_are_not_folded_together() -> None:
    even, uneven = (
        build_job(config_on("medium", speeds, strategy="TP_DDP", tp_degree=2))
        for speeds in ([10] * 4, [10, 10, 10, 1])
    )
    assert len(even.roles()) == 1
    assert len(uneven.roles()) == 4

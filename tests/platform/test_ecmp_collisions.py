"""Transfers that hashes put on one link: found, named, and said where they cost."""

from dataclasses import replace

import pytest

from simsys import DistributedAISimulator, SimulationConfig
from simsys.platform.ecmp_collisions import collision
from simsys.platform.fat_tree import fat_tree
from simsys.platform.routing import Routing, link_loads

TREE = fat_tree(16, 50e9, 1e-6, leaf_size=4, radix=8)
SHIFT = [(src, (src + 4) % 16) for src in range(16)]


def test_evenly_used_paths_do_not_collide() -> None:
    for kind in ("adaptive", "per_packet", "shortest"):
        assert collision(replace(TREE, routing=Routing(kind)), SHIFT) is None


@pytest.mark.parametrize("seed", range(5))
def test_one_hash_per_pair_collides_as_often_as_its_loads_say(seed: int) -> None:
    hashed = replace(TREE, routing=Routing("ecmp", seed, qps=1))
    found = collision(hashed, SHIFT)
    most = max(link_loads(hashed.way(*pair) for pair in SHIFT).values())
    if most == 1.0:
        assert found is None
    else:
        assert found is not None
        assert (found.transfers, found.slower) == (most, most)  # a non-blocking tree has a link for each
        assert "leaf" in found.link
        assert "spine" in found.link


def test_more_queue_pairs_collide_less() -> None:
    factors = []
    for qps in (1, 8, 512):
        found = [collision(replace(TREE, routing=Routing("ecmp", seed, qps)), SHIFT) for seed in range(20)]
        factors.append(sum(each.slower if each is not None else 1.0 for each in found) / len(found))
    assert factors[0] > factors[1] > factors[2]
    assert factors[2] < 1.15


def test_an_oversubscribed_tree_is_slow_without_collisions() -> None:
    narrow = fat_tree(16, 50e9, 1e-6, leaf_size=4, oversubscription=4.0, radix=8)  # one spine: nothing to choose
    assert collision(replace(narrow, routing=Routing("ecmp", qps=1)), SHIFT) is None


@pytest.mark.parametrize("lod", ["medium", "high"])
def test_a_run_names_the_link_and_the_loss(lod: str) -> None:
    config = SimulationConfig.model_validate(
        {
            "hardware": {"gpu": "H100-SXM", "num_nodes": 16, "gpus_per_node": 1},
            "network": {
                "topology_type": "fat_tree",
                "leaf_size": 4,
                "radix": 8,
                "link_bandwidth": "10 GB/s",
                "routing": {"kind": "ecmp", "qps": 1},
            },
            "model": {"name": "GPT2-Small"},
            "parallelism": {"strategy": "DDP"},
            "training": {
                "batch_size_per_gpu": 1,
                "num_iterations": 1,
                "communication_pattern": "halving_doubling",
            },
            "simulation": {"lod": lod},
        }
    )
    (warning, *_) = DistributedAISimulator(config).run().warnings
    assert warning.startswith("transfers of ")
    assert "times less bandwidth than with evenly used paths (routing: adaptive)" in warning

"""Switches that add up inside nodes while trees carry other chunks across: the slower of both decides."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from simsys.collectives import CollectiveKind, Path, get_algorithm
from simsys.collectives.base import Span
from simsys.collectives.nvls_tree import NvlsTree
from simsys.config.experiment import SimulationConfig
from simsys.errors import UsageError
from simsys.simulation import simulate

ALL_REDUCE = CollectiveKind.ALL_REDUCE


def steady_step(nodes: int, each: int = 8, chunks: int = 16) -> tuple[Counter[int], Counter[int]]:
    """What every GPU sends inside its node, and every node across, in chunks for each step."""
    (phase,) = NvlsTree(each, chunks).phases(ALL_REDUCE, nodes * each)
    inside, across = Counter[int](), Counter[int]()
    for src, dst in phase.transfers:
        same = src // each == dst // each
        (inside if same else across)[src if same else src // each] += phase.fraction * chunks  # type: ignore[assignment]
    return inside, across


@pytest.mark.parametrize("nodes", [2, 3, 4, 9])
def test_every_link_to_a_switch_carries_a_chunk_up_and_its_part_of_the_sums(nodes: int) -> None:
    inside, _ = steady_step(nodes)
    assert inside == dict.fromkeys(range(8 * nodes), pytest.approx(1 + 1 / 8))


@pytest.mark.parametrize(("nodes", "most"), [(2, 1.0), (3, 1.5), (4, 2.0), (9, 2.0)])
def test_cards_carry_what_both_trees_send(nodes: int, most: float) -> None:
    _, across = steady_step(nodes)
    assert max(across.values()) == pytest.approx(most)
    assert sum(across.values()) == pytest.approx(2.0 * (nodes - 1))  # the least an all-reduce among nodes needs


def test_it_takes_as_long_as_the_slower_side_of_a_large_buffer() -> None:
    nbytes, path = 1e12, Path(1e-6, 10e9)
    taken_s = NvlsTree(8, 64).seconds(ALL_REDUCE, 16, nbytes, [path])
    assert taken_s == pytest.approx(nbytes / 16 / 10e9, rel=0.05)  # the path has half of a block for every chunk


def test_more_chunks_pay_for_large_buffers_only() -> None:
    def seconds(chunks: int, nbytes: float) -> float:
        return NvlsTree(8, chunks).seconds(ALL_REDUCE, 32, nbytes, [Path(5e-6, 10e9)])

    assert seconds(1, 1e4) < seconds(64, 1e4)
    assert seconds(64, 1e10) < seconds(16, 1e10) < seconds(1, 1e10)


def test_it_is_for_several_gpus_in_each_of_several_nodes() -> None:
    tree = get_algorithm("nvls_tree")
    assert tree.suits(Span(2, 8))
    assert not tree.suits(Span(1, 8))
    assert not tree.suits(Span(2, 1))
    with pytest.raises(UsageError, match="12 ranks does not fill nodes of 8"):
        NvlsTree(8).phases(ALL_REDUCE, 12)


@pytest.mark.parametrize("contention", ["fifo", "fair"])
@pytest.mark.parametrize("nodes", [2, 3, 4])
def test_played_out_on_the_links_it_takes_as_long_as_its_closed_form(nodes: int, contention: str) -> None:
    """Though transfers inside a node are slower, and those across have the longer way."""
    config: dict[str, Any] = {
        "hardware": {"profile": "dgx-h100", "num_nodes": nodes},
        "network": {"contention": contention},
        "model": {"name": "GPT2-Small"},
        "parallelism": {"strategy": "DDP"},
        "training": {"batch_size_per_gpu": 2, "num_iterations": 1, "communication_pattern": "nvls_tree"},
    }
    high, medium = (simulate(SimulationConfig(**config, simulation={"lod": lod})) for lod in ("high", "medium"))
    assert high.metrics["mean_iteration_s"] == pytest.approx(medium.metrics["mean_iteration_s"], rel=1e-9)

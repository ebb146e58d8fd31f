"""Whose transfers are on shared links where jobs meet, and which ranks are told apart for that."""

from __future__ import annotations

from typing import Any

import pytest

import simsys.sharing
from simsys import shared_cluster
from simsys.build.job import build
from simsys.sharing import SharedTransfers
from simsys.simulation import NONE_MET, simulate
from tests.test_shared_cluster import cluster, iterations

ONE_CARD = {"gpu": "A100-SXM-80GB", "num_nodes": 8, "gpus_per_node": 4, "nic": {"bandwidth": "25 GB/s", "count": 1}}
PAIRS = {"name": "tensor", "gpus": 16, "parallelism": {"strategy": "TP_DDP", "tp_degree": 2}}
SHARDED = {"name": "sharded", "gpus": 16, "parallelism": {"strategy": "FSDP"}}


def sharing(*jobs: dict[str, Any], **settings: Any) -> dict[int, SharedTransfers]:
    return shared_cluster._run(build(cluster(*jobs, hardware=ONE_CARD, **settings)), (), {}).sharing()


def roles(found: SharedTransfers) -> int:
    return len(set(found.rank_classes))


def test_groups_are_told_apart_by_what_they_meet() -> None:
    """Of eight pairs on random GPUs five lie inside a node: they stay alike, and off the links that others share."""
    found = sharing(PAIRS, SHARDED, scheduling={"placement": "random"})
    pairs = {user for user in found[0].carried or () if len(user) == 2}
    assert len(pairs) == 3
    alone = [found[0].rank_classes[rank] for rank in range(0, 16, 2) if (rank, rank + 1) not in pairs]
    assert len(alone) == 5
    assert len(set(alone)) == 1
    assert roles(found[0]) == 8
    assert found[1] == SharedTransfers({tuple(range(16))}, alone=False)


def test_only_what_is_alike_is_left_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """Times are those with a process for every rank and with all transfers on the links, for fewer events."""
    config = cluster(PAIRS, SHARDED, hardware=ONE_CARD, scheduling={"placement": "random"})
    found = simulate(config)
    chosen = shared_cluster.shared_by

    def all_apart(*args: Any) -> dict[int, SharedTransfers]:
        return {
            index: each._replace(carried=None, rank_classes=tuple(range(16))) for index, each in chosen(*args).items()
        }

    monkeypatch.setattr(shared_cluster, "shared_by", all_apart)
    expected = simulate(config)
    assert found.events < 0.8 * expected.events
    assert iterations(found) == pytest.approx(iterations(expected), rel=1e-3)


def test_mirrors_that_others_meet_alike_stay_alike() -> None:
    """A pair across each two nodes, and the other job's ring over all of them."""
    found = sharing(
        {**PAIRS, "parallelism": {"strategy": "TP_DDP", "tp_degree": 2, "order": "dp-tp-pp"}},
        SHARDED,
        network={"topology_type": "switch"},
        scheduling={"placement": "spread"},
    )
    assert [each.rank_classes for each in found.values()] == [(), ()]
    assert any(len(user) == 2 for user in found[0].carried or ())


def test_links_that_serve_in_turn_tell_all_ranks_apart() -> None:
    network = {"topology_type": "fat_tree", "leaf_size": 2, "oversubscription": 4, "contention": "fifo"}
    found = sharing(PAIRS, SHARDED, network=network, scheduling={"placement": "random"})
    assert (found[0].carried, found[0].rank_classes) == (None, tuple(range(16)))
    assert all("in turn (contention: fifo)" in each.doubt for each in found.values())


@pytest.mark.parametrize(("most", "warned"), [(512, False), (4, True)])
def test_too_many_to_be_told_apart_are_warned_of(most: int, warned: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(simsys.sharing, "MOST_APART", most)
    found = simulate(cluster(PAIRS, SHARDED, hardware=ONE_CARD, scheduling={"placement": "random"}))
    texts = [text for text in found.warnings if "some of its groups only" in text]
    assert bool(texts) == warned
    assert all(text.startswith("tensor: ") and "most of all" in text for text in texts)
    assert any("some of its groups" in text for text in found.jobs[0].warnings) == warned


def test_a_job_that_comes_late_meets_others_as_one_that_is_there_from_the_beginning() -> None:
    """What transfers lose is compared with the time of the job, not with the time since the cluster began."""
    context = {"name": "late", "gpus": 32, "parallelism": {"strategy": "CP_DDP", "cp_degree": 16}}
    settings: dict[str, Any] = {"hardware": {**ONE_CARD, "num_nodes": 4, "gpus_per_node": 8}, "network": {}}
    early, late = ({**context, "arrival": arrival} for arrival in ("0 s", "1000 s"))
    found = [simulate(cluster(job, scheduling={"placement": "packed"}, **settings)) for job in (early, late)]
    assert iterations(found[1]) == pytest.approx(iterations(found[0]), rel=1e-9)
    assert not found[0].contention.endswith(NONE_MET)
    assert found[0].contention == found[1].contention

"""Clusters of scenarios that are checked: that of what is tried beside an error is built once."""

from __future__ import annotations

from typing import Any

import pytest

from simsys import SimulationConfig
from simsys.build.cluster import Cluster
from simsys.build.job import cluster_of
from simsys.check import clusters
from simsys.check.clusters import Clusters
from simsys.check.scenario import check_config

Built = list[int]


@pytest.fixture
def built(monkeypatch: pytest.MonkeyPatch) -> Built:
    """The GPUs of each cluster that is built."""
    found: Built = []

    def count(config: SimulationConfig) -> Cluster:
        cluster = cluster_of(config)
        found.append(cluster.num_gpus)
        return cluster

    monkeypatch.setattr(clusters, "cluster_of", count)
    return found


def scenario(num_nodes: int = 2, **parallelism: Any) -> SimulationConfig:
    return SimulationConfig(
        hardware={"profile": "dgx-h100", "num_nodes": num_nodes},
        model={"name": "GPT2-Small"},
        parallelism=parallelism,
        training={"batch_size_per_gpu": 1},
    )


def test_another_cluster_is_built_and_the_same_is_not(built: Built) -> None:
    of = Clusters().of
    assert of(scenario()) is of(scenario(strategy="FSDP"))
    assert of(scenario(3)).num_gpus == 24
    assert built == [16, 24]


def test_suggestions_are_tried_on_the_cluster_that_is_there(built: Built) -> None:
    (problem,) = check_config(scenario(tp_degree=3))
    assert problem.fixes
    assert built == [16]

"""The check of a sweep: some points are checked with all rules, and only the problems that are reported in full."""

from __future__ import annotations

from pathlib import Path

import pytest

import simsys.check.clusters
from simsys.build.cluster import Cluster
from simsys.build.job import cluster_of
from simsys.config.experiment import SimulationConfig
from simsys.errors import ConfigError
from simsys.sweeps.check import check_with_sweeps

SWEEP = """\
name: sweep
hardware: {profile: dgx-h100, num_nodes: 8}
model: {name: Llama-2-13B}
parallelism: {cp_degree: 3, ep_degree: 16}
training: {batch_size_per_gpu: 1, num_iterations: 3}
sweep: {over: {parallelism.tp_degree: 1..8 x2, training.gradient_accumulation_steps: 1..8}}
"""


def test_points_of_one_cluster_are_refused_without_a_cluster_for_each(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each took a second and more for 64,000 GPUs."""
    built: list[str] = []

    def counted(config: SimulationConfig) -> Cluster:
        built.append(config.name)
        return cluster_of(config)

    monkeypatch.setattr(simsys.check.clusters, "cluster_of", counted)
    file = tmp_path / "sweep.yaml"
    file.write_text(SWEEP)
    with pytest.raises(ConfigError) as caught:
        check_with_sweeps(file)
    assert all(problem.line for problem in caught.value.problems)
    assert "no tested point of the sweep can be simulated" in str(caught.value)
    assert len(built) <= 6


def test_a_sweep_of_which_one_point_works_has_all_its_points(tmp_path: Path) -> None:
    file = tmp_path / "sweep.yaml"
    file.write_text(SWEEP.replace("cp_degree: 3, ep_degree: 16", "cp_degree: 1").replace("1..8 x2", "[3, 5, 7, 8]"))
    assert check_with_sweeps(file).sweeps == {"sweep": 32}

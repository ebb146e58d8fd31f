"""Rules of failures, and that their warnings reach the results of a run."""

from __future__ import annotations

from typing import Any

import pytest

from simsys.check import judged
from simsys.config.experiment import SimulationConfig
from simsys.simulation import simulate

CHECKPOINT = {"interval": 2, "storage_bandwidth": "10 GB/s"}


def config(**training: Any) -> SimulationConfig:
    failures = {"duration": "30 d", "gpu_mtbf": "50000 h"}
    return SimulationConfig(
        hardware={"gpu": "H100-SXM", "gpus_per_node": 8},
        model={"name": "GPT2-Small"},
        training={"batch_size_per_gpu": 8, "num_iterations": 2, "failures": failures, **training},
    )


@pytest.mark.parametrize(("training", "warned"), [({}, True), ({"checkpoint": CHECKPOINT}, False)])
def test_failures_without_checkpoints_are_a_warning_of_check_and_run(training: dict[str, Any], warned: bool) -> None:
    text = "training.failures: without training.checkpoint, every failure loses all work since the beginning"
    expected = [text] * warned
    assert [str(problem) for problem in judged(config(**training)).warnings] == expected
    assert list(simulate(config(**training)).warnings) == expected


def test_links_of_a_single_node_cannot_fail() -> None:
    failures = {"duration": "30 d", "link_mtbf": "50000 h"}
    (problem,) = judged(config(failures=failures)).errors
    assert problem.path == "training.failures.link_mtbf"

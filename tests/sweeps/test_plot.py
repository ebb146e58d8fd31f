from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from simsys.sweeps.plot import frontier, plot_sweep
from simsys.sweeps.run import run_sweep
from simsys.sweeps.store import Store
from tests.helpers.sweeps import BASE, SERVING, InThisProcess, plan

THREE = ("parallelism.tp_degree", "training.batch_size_per_gpu", "hardware.num_nodes")


@pytest.mark.parametrize(
    ("base", "over", "drawn"),
    [
        (SERVING, {"workload.arrivals.rate": "2..8 x2 req/s"}, True),
        (SERVING, {"workload.arrivals.rate": "2..4 x2 req/s", "hardware.gpu": ["H100-SXM", "A100-SXM-80GB"]}, True),
        (BASE, {"training.batch_size_per_gpu": "1..4 x2"}, True),
        (BASE, {"parallelism.tp_degree": [7]}, False),
        (
            BASE,
            {"parallelism.tp_degree": [1, 2], "training.batch_size_per_gpu": [1, 2], "hardware.num_nodes": [1, 2]},
            False,
        ),
    ],
)
def test_one_or_two_varying_settings_are_drawn(tmp_path: Path, base: Any, over: dict[str, Any], drawn: bool) -> None:
    run_sweep(plan(tmp_path, {"over": over}, base), tmp_path / "out", InThisProcess)
    with Store(tmp_path / "out") as store:
        path = plot_sweep(store, tmp_path / "picture.svg")
        assert (path is not None) == drawn
        if path is not None:
            first = path.read_bytes()
            assert plot_sweep(store, path) == path
            assert path.read_bytes() == first
            assert b"<svg" in first


def test_the_frontier_has_no_point_that_another_one_beats() -> None:
    points = [(1.0, 1.0), (2.0, 3.0), (3.0, 2.0), (4.0, 9.0), (4.0, 8.0), (0.5, 1.0)]
    assert frontier(points) == [(1.0, 1.0), (3.0, 2.0), (4.0, 8.0)]

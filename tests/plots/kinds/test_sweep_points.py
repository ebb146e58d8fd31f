"""Pictures of the points of sweeps."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from simsys.plots.kinds.sweep_points import number, series_of
from simsys.plots.picture import draw
from simsys.sweeps.export import write_all
from simsys.sweeps.run import run_sweep
from simsys.sweeps.store import Store
from tests.helpers.plot_toys import load_sweep
from tests.helpers.sweeps import BASE, SERVING, InThisProcess, plan


@pytest.mark.parametrize(
    ("base", "over", "drawn"),
    [
        (SERVING, {"workload.arrivals.rate": "2..8 x2 req/s"}, True),
        (SERVING, {"workload.arrivals.rate": "2..4 x2 req/s", "hardware.gpu": ["H100-SXM", "A100-SXM-80GB"]}, True),
        (BASE, {"training.batch_size_per_gpu": "1..4 x2"}, True),
        (BASE, {"parallelism.tp_degree": [7]}, False),
    ],
)
def test_a_sweep_writes_its_picture(tmp_path: Path, base: Any, over: dict[str, Any], drawn: bool) -> None:
    run_sweep(plan(tmp_path, {"over": over}, base), tmp_path / "out", InThisProcess)
    with Store(tmp_path / "out") as store:
        files = write_all(store, "it")
    assert [file.name for file in files] == ["it_sweep.csv", *(["it_sweep.png"] if drawn else [])]


def test_the_curves_are_ordered_by_the_numbers_of_the_first_setting() -> None:
    sweep = load_sweep()
    series = series_of(sweep, range(10))
    rates = {
        label: [number(sweep.columns["workload.arrivals.rate"][row]) for row in rows] for label, rows in series.items()
    }
    assert rates == {"gpu H100": [2.0, 4.0, 8.0, 16.0, 32.0], "gpu A100": [2.0, 4.0, 8.0, 16.0, 32.0]}


def test_the_knee_has_the_most_throughput_for_its_latency() -> None:
    figure = draw(load_sweep(), "throughput_latency")
    knee = next(line for line in figure.axes[0].lines if str(line.get_label()).startswith("knee"))
    columns = load_sweep().columns
    powers = {t / ms: (t, ms) for t, ms in zip(columns["output_throughput"], columns["p99_ttft_ms"], strict=True)}
    assert (knee.get_xdata()[0], knee.get_ydata()[0]) == powers[max(powers)]

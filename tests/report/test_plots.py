"""Pictures: valid files, the same each time, without a display."""

from __future__ import annotations

import struct
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from simsys.analysis.scaling_result import ScalingPoint, ScalingResult
from simsys.errors import OutputError, UsageError
from simsys.metrics.result import RunResult
from simsys.metrics.serving_log import ServingLog
from simsys.report.plots import (
    plot_iteration_breakdown,
    plot_resource_utilization,
    plot_run,
    plot_scaling,
)
from simsys.report.serving_plots import plot_latencies, plot_timeline
from simsys.serving.requests import RequestTable
from tests.helpers.places import ROOT

GIB = 2.0**30


def training(iterations: int = 3, scale_s: float = 0.1) -> RunResult:
    metrics = {
        "gpu_utilization": 0.8,
        "memory_capacity_bytes": 80 * GIB,
        "mean_iteration_s": 1.75 * scale_s,
        "communication_s": scale_s,
        "exposed_communication_ratio": 0.33,
    }
    parts_s = {"iteration_s": 1.75, "compute_s": 1.0, "exposed_communication_s": 0.5, "idle_s": 0.0625}
    parts_s |= {"bubble_s": 0.0625, "data_s": 0.125, "checkpoint_s": 0.0}
    rows = {name: [share * scale_s] * iterations for name, share in parts_s.items()}
    return RunResult("train", "training", "medium", "fifo", metrics, rows, {"weights": 40 * GIB, "buckets": 0.0})


def serving(requests: int = 5, output_tokens: int = 4, *, completed: bool = True) -> RunResult:
    rows: dict[str, list[Any]] = {
        "arrival_s": [float(index) for index in range(requests)],
        "first_token_s": [index + 0.1 if completed else None for index in range(requests)],
        "finished_s": [index + 0.5 if completed else None for index in range(requests)],
        "output_tokens": [output_tokens] * requests,
    }
    metrics = {"gpu_utilization": 0.99, "memory_capacity_bytes": 80 * GIB}
    columns = ("waiting", "running", "batch_size", "output_tokens_per_s", "kv_cache_usage")
    timeline = {"time_s": [0.0, 0.1, 0.2]} | {name: [0.1, 0.5, 0.2] for name in columns}
    log = ServingLog(RequestTable([0.0], [1], [output_tokens]))
    log.steps.add(0, [0.0, 3, int(output_tokens > 1), 0, 0.05, 0.05])
    return RunResult(
        "serve",
        "serving",
        "medium",
        "fifo",
        metrics,
        rows,
        {"kv_cache": 70 * GIB},
        timeline=timeline,
        requests=log,
        simulated_s=0.25,
    )


def scaling() -> ScalingResult:
    points = [
        ScalingPoint(1, 8, 4, problem="no"),
        ScalingPoint(2, 16, 4, 1.0, 64.0),
        ScalingPoint(4, 32, 4, 2.0, 64.0),
    ]
    return ScalingResult("study", "weak", points)


Draw = Callable[[Path], Path]
PICTURES: dict[str, Draw] = {
    "iterations": lambda path: plot_iteration_breakdown(training(), path),
    "one-iteration": lambda path: plot_iteration_breakdown(training(1, 1e-5), path),
    "long-iterations": lambda path: plot_iteration_breakdown(training(2, 100.0), path),
    "utilization-training": lambda path: plot_resource_utilization(training(), path),
    "utilization-serving": lambda path: plot_resource_utilization(serving(), path),
    "latencies": lambda path: plot_latencies(serving(), path),
    "latencies-of-one": lambda path: plot_latencies(serving(1), path),
    "latencies-without-decode": lambda path: plot_latencies(serving(output_tokens=1), path),
    "latencies-of-none": lambda path: plot_latencies(serving(completed=False), path),
    "timeline": lambda path: plot_timeline(serving(), path),
    "scaling": lambda path: plot_scaling(scaling(), path),
}


@pytest.fixture(scope="module")
def svgs(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Path]:
    """Each picture as an SVG, drawn once."""
    folder = tmp_path_factory.mktemp("svgs")
    return {name: draw(folder / f"{name}.svg") for name, draw in PICTURES.items()}


def png_size(path: Path) -> tuple[int, int]:
    """Width and height from the header of a PNG file, which must also have its end."""
    data = path.read_bytes()
    assert data.startswith(b"\x89PNG\r\n\x1a\n")
    assert data.endswith(b"IEND\xaeB`\x82")
    width, height = struct.unpack(">II", data[16:24])
    return width, height


@pytest.mark.parametrize("name", ["iterations", "utilization-training", "latencies", "scaling"])
def test_a_png_is_whole_and_large_enough_to_read(name: str, tmp_path: Path) -> None:
    path = PICTURES[name](tmp_path / "new" / "folder" / "picture.png")
    width, height = png_size(path)
    assert width >= 1000
    assert height >= 500
    assert [file.name for file in path.parent.iterdir()] == ["picture.png"], "nothing is left beside it"


@pytest.mark.parametrize("name", PICTURES)
def test_an_svg_is_parseable(name: str, svgs: Mapping[str, Path]) -> None:
    root = ElementTree.fromstring(svgs[name].read_bytes())
    assert root.tag.endswith("svg")
    assert len(list(root.iter())) > 50


@pytest.mark.parametrize("name", ["iterations", "utilization-training", "latencies", "timeline"])
def test_an_svg_is_the_same_each_time(name: str, svgs: Mapping[str, Path], tmp_path: Path) -> None:
    assert PICTURES[name](tmp_path / "again.SVG").read_bytes() == svgs[name].read_bytes()


def test_a_png_is_the_same_each_time(tmp_path: Path) -> None:
    first, second = (plot_scaling(scaling(), tmp_path / name).read_bytes() for name in ("a.png", "b.png"))
    assert first == second


def labels(path: Path) -> str:
    """The text of an SVG: matplotlib draws it as shapes and keeps it as comments."""
    return "\n".join(line for line in path.read_text(encoding="utf-8").splitlines() if "<!--" in line)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("iterations", ["computation", "exposed communication", "time (ms)"]),
        ("one-iteration", ["time (µs)"]),
        ("long-iterations", ["time (s)"]),
        ("utilization-training", ["GPUs computing", "collectives running", "weights", "GiB of 80"]),
        ("utilization-serving", ["GPUs computing", "kv cache"]),
        ("latencies", ["TTFT", "TPOT", "end to end", "ITL"]),
        ("timeline", ["output tokens/s", "waiting", "running", "KV cache in use", "means over 100 ms"]),
        ("latencies-without-decode", ["no such request"]),
        ("scaling", ["ideal", "70 %", "study: weak scaling"]),
    ],
)
def test_pictures_say_what_they_show(name: str, expected: list[str], svgs: Mapping[str, Path]) -> None:
    text = labels(svgs[name])
    assert [words for words in expected if words not in text] == []


def test_a_component_of_no_size_and_a_limit_without_meaning_are_not_drawn(svgs: Mapping[str, Path]) -> None:
    assert "buckets" not in labels(svgs["utilization-training"])
    assert "dashed" not in labels(svgs["utilization-serving"])


def test_the_size_of_a_picture_does_not_grow_with_the_requests(tmp_path: Path) -> None:
    few, many = (plot_latencies(serving(count), tmp_path / f"{count}.svg").stat().st_size for count in (2000, 20000))
    assert many < 1.1 * few


@pytest.mark.parametrize(
    ("result", "names"),
    [
        (training(), ["iteration_breakdown.png", "resource_utilization.png"]),
        (serving(), ["latencies.png", "resource_utilization.png", "timeline.png"]),
    ],
    ids=["training", "serving"],
)
def test_a_run_has_its_pictures(result: RunResult, names: list[str], tmp_path: Path) -> None:
    files = plot_run(result, tmp_path)
    assert files == [tmp_path / name for name in names]
    assert all(png_size(file) for file in files)


@pytest.mark.parametrize(
    ("draw", "message"),
    [
        (lambda path: plot_iteration_breakdown(serving(), path), "of training, but serve is serving"),
        (lambda path: plot_latencies(training(), path), "of serving, but train is training"),
        (lambda path: plot_timeline(training(), path), "of serving, but train is training"),
        (lambda path: plot_timeline(replace(serving(), timeline={}), path), "serve has no timeline"),
        (lambda path: plot_scaling(scaling(), path.with_suffix(".jpg")), "ends with .png or .svg, not .jpg"),
        (lambda path: plot_scaling(scaling(), path.with_suffix("")), "not nothing"),
    ],
)
def test_what_cannot_be_drawn_is_refused(draw: Draw, message: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=message):
        draw(tmp_path / "a.png")
    assert list(tmp_path.iterdir()) == []


def test_a_file_in_place_of_the_folder_is_an_output_error(tmp_path: Path) -> None:
    (tmp_path / "results").write_text("", encoding="utf-8")
    with pytest.raises(OutputError, match="results is a file, a folder is needed"):
        plot_run(replace(training(), name="x"), tmp_path / "results")


def test_drawing_needs_neither_pyplot_nor_a_display(tmp_path: Path) -> None:
    program = (
        "import sys; from pathlib import Path; from tests.report import test_plots; "
        "test_plots.plot_run(test_plots.training(), Path(sys.argv[1])); "
        "assert 'matplotlib.figure' in sys.modules; assert 'matplotlib.pyplot' not in sys.modules"
    )
    environment = {"PATH": "", "HOME": str(tmp_path), "MPLCONFIGDIR": str(tmp_path)}
    subprocess.run(
        [sys.executable, "-c", program, str(tmp_path / "out")], cwd=ROOT, env=environment, check=True, timeout=60
    )
    assert len(list((tmp_path / "out").iterdir())) == 2

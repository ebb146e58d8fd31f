"""Pictures: valid files, the same each time, without a display, and legible whatever the size of the run."""

from __future__ import annotations

import struct
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from simsys.contents.read import Content
from simsys.errors import OutputError, UnknownNameError, UsageError
from simsys.plots.drawing import write_figure
from simsys.plots.picture import draw, known_kinds, listed, one_content, possible, write_pictures
from tests.helpers.legible import overlaps
from tests.helpers.places import ROOT
from tests.helpers.plot_toys import LONG, found, links, load_sweep, serving, size_sweep, training

OF_TRAINING = ["iteration_breakdown", "memory", "pipeline", "queues", "resource_utilization", "roofline"]
OF_TRAINING += ["topology", "traffic"]
OF_SERVING = ["latencies", "memory", "requests", "resource_utilization", "roofline", "timeline"]


def labels(content: Content, name: str, path: Path) -> str:
    """The texts of a picture; an SVG has them as comments beside the shapes of their letters."""
    write_figure(draw(content, name), path)
    return "\n".join(line for line in path.read_text(encoding="utf-8").splitlines() if "<!--" in line)


@pytest.mark.parametrize("stages", [128, *(pytest.param(count, marks=pytest.mark.slow) for count in (1, 8, 64))])
@pytest.mark.parametrize("name", OF_TRAINING)
def test_no_texts_of_training_cover_each_other(name: str, stages: int) -> None:
    assert overlaps(draw(training(stages, name=LONG), name)) == []


@pytest.mark.parametrize("requests", [1000, *(pytest.param(count, marks=pytest.mark.slow) for count in (1, 8))])
@pytest.mark.parametrize("name", OF_SERVING)
def test_no_texts_of_serving_cover_each_other(name: str, requests: int) -> None:
    assert overlaps(draw(serving(requests, name=LONG), name)) == []


@pytest.mark.parametrize(
    ("content", "names"),
    [
        (training(), OF_TRAINING),
        (serving(), OF_SERVING),
        (load_sweep(), ["by_setting", "pareto", "sensitivity", "throughput_latency"]),
        (size_sweep(), ["by_setting", "pareto", "scaling_efficiency", "sensitivity"]),
        (found(), ["pareto", "sensitivity"]),
    ],
    ids=["training", "serving", "rates", "sizes", "search"],
)
def test_what_can_be_drawn(content: Content, names: list[str]) -> None:
    assert sorted(each.name for each in possible(content)) == names
    assert sorted(each["kind"] for each in listed(content)) == names


@pytest.mark.slow
@pytest.mark.parametrize("content", [load_sweep(), size_sweep(), found()], ids=["rates", "sizes", "search"])
def test_no_texts_of_sweeps_and_searches_cover_each_other(content: Content) -> None:
    names = [each.name for each in possible(content)]
    assert [overlaps(draw(content, name)) for name in names] == [[]] * len(names)


@pytest.mark.parametrize("name", ["topology", "pipeline"])
def test_an_svg_is_parseable_and_the_same_each_time(name: str, tmp_path: Path) -> None:
    first, second = (write_figure(draw(training(), name), tmp_path / file) for file in ("a.svg", "b.SVG"))
    assert first.read_bytes() == second.read_bytes()
    root = ElementTree.fromstring(first.read_bytes())
    assert root.tag.endswith("svg")
    assert len(list(root.iter())) > 50


def test_a_png_is_whole_and_large_enough_to_read(tmp_path: Path) -> None:
    path = write_figure(draw(training(), "resource_utilization"), tmp_path / "new" / "folder" / "picture.png")
    data = path.read_bytes()
    assert data.startswith(b"\x89PNG\r\n\x1a\n")
    assert data.endswith(b"IEND\xaeB`\x82")
    width, height = struct.unpack(">II", data[16:24])
    assert width >= 1000
    assert height >= 500
    assert [file.name for file in path.parent.iterdir()] == ["picture.png"], "nothing is left beside it"


@pytest.mark.parametrize(
    ("content", "name", "expected"),
    [
        (training(), "iteration_breakdown", ["forward", "exposed data", "bubble", "stage 3, rank 24", "time (ms)"]),
        (training(), "memory", ["activations (30 GiB)", "capacity", "rank 0, the fullest GPU"]),
        (training(128), "traffic", ["each cell is of 8 × 8 GPUs"]),
        (training(128), "topology", ["up to 16 neighbours are one dot", "nvswitch"]),
        (serving(), "latencies", ["TTFT", "TPOT", "end to end", "ITL", "p99 160 ms", "SLO 150 ms"]),
        (serving(1000), "requests", ["around the one with the longest TTFT", "prefill"]),
        *(
            pytest.param(*each, marks=pytest.mark.slow)
            for each in (
                (training(iterations=1, scale_s=1e-5), "iteration_breakdown", ["time (µs)", "one iteration"]),
                (training(), "resource_utilization", ["GPUs computing", "weights 40 GiB", "GiB of 80"]),
                (serving(), "resource_utilization", ["GPUs computing", "kv cache"]),
                (training(), "pipeline", ["stage 0", "forward", "backward", "data", "bubbles"]),
                (training(1), "pipeline", ["GPU", "pale: waiting"]),
                (training(), "roofline", ["989 TFLOP/s bf16", "forward", "ridge"]),
                (training(), "traffic", ["sending GPU", "144 GB in all"]),
                (training(), "queues", ["gpu 0 of node 0 → nvswitch of node 0", "40 more not shown"]),
                (serving(output_tokens=1), "latencies", ["no such request"]),
                (serving(), "timeline", ["output tokens/s", "waiting", "running", "KV cache", "means over 100 ms"]),
                (serving(3, completed=False), "requests", ["not completed"]),
                (load_sweep(), "throughput_latency", ["knee", "gpu H100", "TTFT p99 (ms)"]),
                (size_sweep(), "scaling_efficiency", ["ideal", "70 %", "128", "name slow"]),
                (found(), "sensitivity", ["tp_degree", "star: the value of the best one"]),
            )
        ),
    ],
)  # fmt: skip
def test_pictures_say_what_they_show(content: Content, name: str, expected: list[str], tmp_path: Path) -> None:
    text = labels(content, name, tmp_path / "picture.svg")
    assert [words for words in expected if words not in text] == []


def test_a_component_of_no_size_and_a_limit_without_meaning_are_not_drawn(tmp_path: Path) -> None:
    assert "buckets" not in labels(training(), "resource_utilization", tmp_path / "a.svg")
    assert "dashed" not in labels(serving(), "resource_utilization", tmp_path / "b.svg")


def test_names_may_have_any_letters(tmp_path: Path) -> None:
    text = labels(training(name="$\\frac$ <b>\x07 日本 é"), "topology", tmp_path / "a.svg")
    assert "$\\frac$" in text


@pytest.mark.slow
def test_the_size_of_a_picture_does_not_grow_with_the_requests(tmp_path: Path) -> None:
    few, many = (
        write_figure(draw(serving(count), "latencies"), tmp_path / f"{count}.svg").stat().st_size
        for count in (2000, 20000)
    )
    assert many < 1.1 * few


def test_a_run_has_its_pictures(tmp_path: Path) -> None:
    files = write_pictures(serving(), tmp_path, "serve_")
    assert sorted(file.name for file in files) == [f"serve_{name}.png" for name in OF_SERVING]


def test_each_job_of_a_cluster_has_its_pictures(tmp_path: Path) -> None:
    one = training(1, name="one")
    jobs = {"name": "both", "kind": "jobs", "metrics": {}, "jobs": [one.result], "simulated_s": 1.0}
    tables = {f"one_{name}": table for name, table in one.tables.items() if name in ("ranks", "iterations")}
    run = replace(one, result=jobs, tables=tables)
    names = [file.name for file in write_pictures(run, tmp_path)]
    assert sorted(names) == ["one_iteration_breakdown.png", "one_resource_utilization.png"]


Draw = Callable[[Path], object]


@pytest.mark.parametrize(
    ("content", "name", "message"),
    [
        (serving(), "iteration_breakdown", "iteration_breakdown is of training, but serve is serving"),
        (training(), "latencies", "is of serving, but train is training"),
        (load_sweep(), "timeline", "is not drawn from a sweep"),
        (found(), "level_of_detail", "is not drawn from the output of simsys search"),
        (replace(training(), tables={}), "pipeline", "table 'activity', which train does not have; run it with --"),
        (replace(training(), tables={"links": {**links(8), "queued_s": [0.0] * 16}}), "queues", "no transfer"),
        (load_sweep(), "scaling_efficiency", "needs a sweep of training over numbers of GPUs"),
    ],
)  # fmt: skip
def test_what_cannot_be_drawn_is_refused(content: Content, name: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        draw(content, name)


def test_unknown_kinds_and_endings_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UnknownNameError, match="did you mean 'traffic'"):
        draw(training(), "trafic")
    for name, message in (("a.jpg", "ends with .png or .svg, not .jpg"), ("a", "not nothing")):
        with pytest.raises(UsageError, match=message):
            write_figure(draw(training(), "traffic"), tmp_path / name)
    assert list(tmp_path.iterdir()) == []


def test_a_file_in_place_of_the_folder_is_an_output_error(tmp_path: Path) -> None:
    (tmp_path / "results").write_text("", encoding="utf-8")
    with pytest.raises(OutputError, match="results is a file, a folder is needed"):
        write_figure(draw(training(), "traffic"), tmp_path / "results" / "a.png")


def test_each_kind_is_in_the_file_of_its_family() -> None:
    kinds: Mapping[str, object] = known_kinds()
    files = {file.stem for file in (ROOT / "simsys" / "plots" / "kinds").glob("*.py")} - {"__init__"}
    assert {each.draw.__module__.rpartition(".")[2] for each in known_kinds().values()} == files
    assert all(name == name.lower().strip("_") for name in kinds)


def test_the_folder_of_several_runs_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no results of simsys run"):
        one_content(tmp_path)


@pytest.mark.slow
def test_drawing_needs_neither_pyplot_nor_a_display(tmp_path: Path) -> None:
    program = (
        "import sys; from pathlib import Path; from simsys.plots.picture import draw, write_figure; "
        "from tests.helpers.plot_toys import training; "
        "write_figure(draw(training(), 'roofline'), Path(sys.argv[1])); "
        "assert 'matplotlib.figure' in sys.modules; assert 'matplotlib.pyplot' not in sys.modules"
    )
    environment = {"PATH": "", "HOME": str(tmp_path), "MPLCONFIGDIR": str(tmp_path)}
    subprocess.run(
        [sys.executable, "-c", program, str(tmp_path / "out.png")], cwd=ROOT, env=environment, check=True, timeout=60
    )
    assert (tmp_path / "out.png").stat().st_size > 1000

"""Traces of PyTorch's profiler: steps on the GPU, and what is no such trace."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from simsys.errors import TraceError
from simsys.report.files import write_files
from simsys.simulation import simulate
from simsys.traces.kineto_file import is_kineto, read_kineto
from simsys.traces.scenario_trace import ScenarioTrace
from simsys.traces.step_times import mean_times
from tests.helpers.kineto_like import document, two_steps, write
from tests.helpers.traced_scenarios import training


@pytest.mark.parametrize("name", ["trace.json", "trace.json.gz"])
def test_steps_begin_with_their_first_kernel_on_the_gpu(tmp_path: Path, name: str) -> None:
    path = write(tmp_path / name, two_steps())
    assert is_kineto(path)
    trace = read_kineto(path)
    (gpu,) = trace.gpus
    assert (gpu.rank, trace.world_size, trace.skipped) == (0, 4, 0)
    assert [(step.number, round(1e6 * step.started_s), round(1e6 * step.ended_s)) for step in gpu.steps] == [
        (0, 0, 100),
        (1, 100, 200),
        (2, 200, 260),
    ]
    pieces = [(each.started_s, each.ended_s, each.kind) for each in gpu.activities]
    found = mean_times(gpu.steps[:2], pieces)
    assert found.compute_s == pytest.approx(60e-6)
    assert {kind: round(1e6 * seconds, 6) for kind, seconds in found.exposed_s.items()} == {
        "all_reduce": 30.0,
        "copy": 5.0,
    }
    assert found.idle_s == pytest.approx(5e-6)
    assert found.overlap == pytest.approx(0.25)


def test_without_launches_steps_are_those_of_the_annotations(tmp_path: Path) -> None:
    content = two_steps()
    content["traceEvents"] = [each for each in content["traceEvents"] if each["cat"] != "cuda_runtime"]
    (gpu,) = read_kineto(write(tmp_path / "a.json", content)).gpus
    assert [round(1e6 * step.started_s) for step in gpu.steps] == [-60, 40, 140]


def test_annotations_of_the_gpu_serve_where_launches_are_missing(tmp_path: Path) -> None:
    content = two_steps()
    events = [each for each in content["traceEvents"] if each["cat"] != "cuda_runtime"]
    for number, start in enumerate((1000.0, 1100.0, 1200.0)):
        about = {"ph": "X", "cat": "gpu_user_annotation", "name": f"ProfilerStep#{number}", "pid": 0, "tid": 7}
        events.append({**about, "ts": start, "dur": 90.0})
    (gpu,) = read_kineto(write(tmp_path / "a.json", {**content, "traceEvents": events})).gpus
    assert [round(1e6 * step.started_s) for step in gpu.steps] == [0, 100, 200]


def test_the_rank_is_that_of_the_file_or_of_each_device(tmp_path: Path) -> None:
    (gpu,) = read_kineto(write(tmp_path / "a.json", two_steps(rank=3))).gpus
    assert gpu.rank == 3
    content = two_steps()
    moved = [{**each, "pid": 1} for each in content["traceEvents"] if each["pid"] == 0]
    trace = read_kineto(write(tmp_path / "b.json", {**content, "traceEvents": content["traceEvents"] + moved}))
    assert [each.rank for each in trace.gpus] == [0, 1]


@pytest.mark.parametrize("lod", ["medium", "high"])
def test_a_trace_of_simsys_has_the_figures_of_its_run(tmp_path: Path, lod: str) -> None:
    config = training(lod, 3, strategy="FSDP", dp_degree=4)
    made = ScenarioTrace(config)
    result = simulate(config, [made.probe])
    (path,) = write_files(tmp_path, {"x_trace.json.gz": lambda file: made.write(result, file)})
    trace = read_kineto(path)
    assert [gpu.rank for gpu in trace.gpus] == ([0] if lod == "medium" else [0, 1, 2, 3])
    gpu = trace.gpus[0]
    found = mean_times(gpu.steps, [(each.started_s, each.ended_s, each.kind) for each in gpu.activities])
    assert found.step_s == pytest.approx(result.metrics["mean_iteration_s"], abs=2e-9)
    assert found.compute_s == pytest.approx(result.rows["compute_s"][0], abs=1e-6)
    exposed_s = sum(found.exposed_s.values())
    assert exposed_s == pytest.approx(result.rows["exposed_communication_s"][0], abs=1e-6)


def test_a_list_of_events_and_odd_activities(tmp_path: Path) -> None:
    events = two_steps()["traceEvents"]
    odd: list[Any] = [
        {**events[-1], "dur": -1.0},
        {**events[-1], "ts": None},
        {**events[-1], "dur": 1e400},
        {"ph": "X", "cat": "kernel"},
        {"ph": "M", "name": "process_name"},
        "text",
        None,
        {**events[-1], "args": "none", "name": 5, "pid": "0"},
    ]
    path = tmp_path / "a.json"
    path.write_text(json.dumps(events + odd).replace("Infinity", "1e400"))
    assert is_kineto(path)
    trace = read_kineto(path)
    assert (trace.skipped, len(trace.gpus), len(trace.gpus[0].activities)) == (4, 1, 8)
    assert trace.world_size == 0


def test_a_kernel_has_the_collective_of_the_call_that_launched_it(tmp_path: Path) -> None:
    content = document([("Kernel", "ncclKernel_SendRecv(ncclWorkElem)", 0.0, 10.0, 5.0)], [(1, 0.0, 50.0)])
    content["traceEvents"][-1]["args"]["external id"] = 7
    call = {"ph": "X", "cat": "cpu_op", "name": "record_param_comms", "pid": 4711, "tid": 1, "ts": 0.0, "dur": 1.0}
    content["traceEvents"].append({**call, "args": {"External id": 7, "Collective name": "all_to_allv"}})
    assert [each.kind for each in read_kineto(write(tmp_path / "a.json", content)).gpus[0].activities] == [
        "all_to_all"
    ]


WHOLE = json.dumps(two_steps())


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"", ":1: the file is empty"),
        (WHOLE[:-30].encode(), "not valid JSON: cut off"),
        (WHOLE[: len(WHOLE) // 2].encode(), "not valid JSON"),
        (WHOLE.replace("}, {", "} {").encode(), "not valid JSON"),
        (gzip.compress(WHOLE.encode())[:-10], "the compressed file is cut off"),
        (b"\x1f\x8b\x08\x00rubbish that is no gzip", "the compressed file is damaged"),
        (b"\xff\xfe{", "not UTF-8"),
        (b'{"traceEvents": 5}', "no list of events"),
        (b'{"a": []}', "no list of events"),
        (b'"text"', "neither a document nor a list"),
        (b'{"traceEvents": []}', "no kernel of a GPU among its 0 events"),
        (b"[" * 200_000, "nested too deeply"),
        (json.dumps({"traceEvents": [{"ph": "X", "cat": "cpu_op", "ts": 1, "dur": 2}]}).encode(), "events of cpu_op"),
    ],
)
def test_what_is_no_trace_is_refused(tmp_path: Path, content: bytes, expected: str) -> None:
    path = tmp_path / "a 'quoted' ü.json"
    path.write_bytes(content)
    with pytest.raises(TraceError) as raised:
        read_kineto(path)
    assert expected in str(raised.value)
    assert str(path) in str(raised.value)


@pytest.mark.parametrize(
    "text",
    ["", "TIMESTAMP,ContextTokens\n", '{"timestamp": 0, "input_length": 11}\n', '[{"conversations": []}]', "[1, 2]"],
)
def test_traces_of_requests_are_not_taken_for_one(tmp_path: Path, text: str) -> None:
    (tmp_path / "a").write_text(text)
    assert not is_kineto(tmp_path / "a")
    assert not is_kineto(tmp_path / "none")


def test_no_steps(tmp_path: Path) -> None:
    path = write(tmp_path / "a.json", document([("kernel", "gemm", 0.0, 10.0, 5.0)], []))
    assert read_kineto(path).gpus[0].steps == []

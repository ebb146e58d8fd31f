"""`simsys lab train`: a training scenario of an experiment file, carried out."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from simsys.build.training import TrainingJob
from simsys.config.lab import LabConfig
from simsys.errors import OutputError, TrainingError
from simsys.lab.launch import Launch
from simsys.lab.run_files import read_metrics
from simsys.lab.scenario import check_machine, lab_job, threads_of
from simsys.lab.settings import settings_of
from simsys.lab.torch_needed import require_torch


@dataclass(frozen=True)
class LabRun:
    """A finished run.

    Args:
        name: Name of the scenario.
        folder: Its folder, with metrics, logs and checkpoints.
        ranks: Number of ranks.
        threads: Threads of each.
        rows: Metrics of each iteration, by rank.
        checkpoint: The last checkpoint.
        restarts: How often it started again.
    """

    name: str
    folder: Path
    ranks: int
    threads: int
    rows: Sequence[Sequence[dict[str, Any]]]
    checkpoint: Path | None
    restarts: int = 0

    @property
    def losses(self) -> list[float]:
        """The mean loss of all ranks in each iteration."""
        return [sum(row["loss"] for row in rows) / self.ranks for rows in zip(*self.rows, strict=False)]


def train(
    file: Path,
    scenario: str | None = None,
    assignments: Sequence[str] = (),
    *,
    out: Path = Path("results"),
    resume: bool = False,
    profile: bool = False,
    say: Callable[[str], None] = lambda _: None,
) -> LabRun:
    """Train the model of a scenario on this machine.

    Args:
        file: The experiment file.
        scenario: Which of its scenarios; may be left out if there is only one.
        assignments: Changed settings, such as ``training.num_iterations=5``.
        out: Folder of results.
        resume: Continue from the last checkpoint in the scenario's folder.
        profile: Profile a further iteration at the end.
        say: Called with notes.

    Raises:
        UsageError: PyTorch is not installed, or the scenario cannot be carried out.
        InfeasibleError: It does not fit this machine.
        TrainingError: It failed on the way; checkpoints stay.
        OutputError: Results cannot be written.
    """
    require_torch()
    job = lab_job(file, scenario, assignments)
    settings_of(job)
    check_machine(job)
    options = ["--scenario", job.config.name, *(text for each in assignments for text in ("--set", each))]
    return run_job(job, [str(file), *options], out / job.config.name, resume=resume, profile=profile, say=say)


def run_job(
    job: TrainingJob,
    arguments: Sequence[str],
    folder: Path,
    *,
    resume: bool,
    profile: bool,
    say: Callable[[str], None],
) -> LabRun:
    """Start the ranks of a checked scenario, again after losses as often as allowed."""
    from simsys.lab.checkpoints import checkpoints_in

    lab = job.config.lab or LabConfig()
    ranks, threads = job.layout.world_size, threads_of(lab, job.layout.world_size)
    _prepare(folder, resume=resume)
    restarts = 0
    while True:
        again = ["--resume"] if resume or restarts else []
        profiled = ["--profile", str(folder / "profile")] if profile else []
        launch = Launch([*arguments, "--folder", str(folder), *again, *profiled], ranks, threads, folder, lab.port)
        try:
            launch.run()
            break
        except TrainingError as error:
            for partial in (folder / "checkpoints").glob(".*.partial"):
                shutil.rmtree(partial, ignore_errors=True)
            found = checkpoints_in(folder / "checkpoints")
            done = read_metrics(folder)
            where = f"after iteration {done[-1]['iteration']}" if done else "before the first iteration"
            kept = f"the last checkpoint is {found[-1]}" if found else "there is no checkpoint"
            text = f"{error} ({where}; {kept})"
            if restarts == lab.max_restarts:
                raise TrainingError(text) from error
            restarts += 1
            say(f"{text}; restart {restarts} of {lab.max_restarts}")
    found = checkpoints_in(folder / "checkpoints")
    rows = [read_metrics(folder, rank) for rank in range(ranks)]
    return LabRun(job.config.name, folder, ranks, threads, rows, found[-1] if found else None, restarts)


def _prepare(folder: Path, *, resume: bool) -> None:
    """Make the folder of a run; a run from the beginning removes what an earlier one left."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if not resume:
            for file in (*folder.glob("metrics-of-rank-*.jsonl"), *folder.glob("rank-*.log")):
                file.unlink()
            shutil.rmtree(folder / "checkpoints", ignore_errors=True)
    except OSError as error:
        raise OutputError(f"cannot write {folder}: {error.strerror}") from error

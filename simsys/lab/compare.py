"""`simsys lab compare`: scenarios carried out and simulated, and the difference by cause."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from statistics import median
from typing import Any

from simsys.build.training import TrainingJob
from simsys.config.lab import LabConfig
from simsys.lab.prediction import Predicted, predict
from simsys.lab.report import run_is_disturbed, timed_rows
from simsys.lab.scenario import check_machine, lab_jobs
from simsys.lab.settings import settings_of
from simsys.lab.torch_needed import require_torch
from simsys.lab.train import LabRun, run_job
from simsys.sums import ordered_sum

CAUSES = ("forward", "backward", "optimizer", "exposed communication", "data", "idle")
"""Causes of the time of an iteration."""
STATES = ("parameters", "gradients", "optimizer")
BUCKETED = ("ddp", "zero1")
"""Strategies whose gradients lie in buckets, which stay allocated."""
NO_CHANGE = frozenset({*STATES, "context", "fragmentation", "buffers"})
"""Components of predicted memory that do not change during an iteration, or that PyTorch does not count as tensors."""


@dataclass(frozen=True)
class Comparison:
    """A scenario, carried out and predicted.

    Args:
        job: The scenario.
        run: The real run.
        profile: What the profile of its first rank says.
        predicted: The prediction.
    """

    job: TrainingJob
    run: LabRun
    profile: Mapping[str, Any]
    predicted: Predicted

    @property
    def name(self) -> str:
        """Name of the scenario."""
        return self.job.config.name

    @cached_property
    def rows(self) -> list[dict[str, Any]]:
        """The iterations of the first rank that count for times."""
        return timed_rows(self.run)

    @property
    def disturbed(self) -> bool:
        """Whether other programs took the processor, so that the wall time says nothing."""
        return run_is_disturbed(self.run)

    @property
    def measured_s(self) -> float:
        """Median time of an iteration."""
        return median([row["wall_s"] for row in self.rows])

    @property
    def cpu_s(self) -> float:
        """Median processor time of an iteration on a rank, over its threads."""
        return median([row["cpu_s"] for row in self.rows]) / self.run.threads

    @property
    def error(self) -> float | None:
        """Error of the predicted time of an iteration; None if the run was disturbed."""
        return None if self.disturbed else self.predicted.iteration_s / self.measured_s - 1.0

    @property
    def cpu_error(self) -> float:
        """Difference of the predicted time to the processor time, over the latter.

        On a CPU, where collectives run on the computing cores, both are nearly equal if nothing disturbs.
        """
        return self.predicted.iteration_s / self.cpu_s - 1.0

    @cached_property
    def causes_s(self) -> dict[str, float]:
        """Measured time of an iteration by cause.

        Exchange of DDP is exposed for the difference to iterations without exchange; that of FSDP, which waits for
        every collective, for its duration.
        """
        phases = {name: median([row[f"{name}_s"] for row in self.rows]) for name in (*CAUSES[:3], "data")}
        exchange_s = dict.fromkeys(phases, 0.0)
        quiet = self.profile["quiet"]
        if quiet is not None:
            exchange_s |= {name: max(0.0, phases[name] - quiet[f"{name}_s"]) for name in ("backward", "optimizer")}
        elif self.run.ranks > 1:
            exchange_s |= {name: min(phases[name], self.profile["exchange_s"].get(name, 0.0)) for name in CAUSES[:2]}
        found = {name: phases[name] - exchange_s[name] for name in phases}
        found["exposed communication"] = ordered_sum(exchange_s.values())
        found["idle"] = max(0.0, self.measured_s - ordered_sum(found.values()))
        return {name: found[name] for name in CAUSES}

    @property
    def memory(self) -> dict[str, tuple[float, float]]:
        """Memory of the first rank: measured and predicted bytes, by component and at the peak."""
        measured, predicted = self.profile["memory_bytes"], self.predicted.memory_bytes
        both = {name: (float(measured[name]), float(predicted[name])) for name in STATES}
        states = self._states_of_first_rank()
        both["optimizer"] = (both["optimizer"][0], states)
        changing = self._changing_bytes()
        both["activations and buffers"] = (float(measured["activations and buffers"]), changing)
        kept = predicted["gradients"] if settings_of(self.job).strategy in BUCKETED else 0.0
        standing = predicted["parameters"] + states + kept
        both["peak"] = (float(measured["peak"]), standing + changing)
        return both

    def _states_of_first_rank(self) -> float:
        """Predicted bytes of optimizer states; of ZeRO-1, of the weights that the rank broadcasts."""
        whole = float(self.predicted.memory_bytes["optimizer"])
        sent = [nbytes for kind, nbytes in self.predicted.collectives if kind == "broadcast"]
        return whole if not sent else whole * len(sent) * sent[0] / ordered_sum(sent)

    def _changing_bytes(self) -> float:
        """Predicted memory that changes during an iteration, where it is largest.

        PyTorch frees gradients after the update, unless they lie in buckets; without accumulation they are complete
        only when the activations are freed again.
        """
        predicted, settings = self.predicted.memory_bytes, settings_of(self.job)
        changing = ordered_sum(nbytes for name, nbytes in predicted.items() if name not in NO_CHANGE)
        if settings.strategy in BUCKETED:
            return changing
        if settings.micro_batches > 1:
            return predicted["gradients"] + changing
        return max(predicted["gradients"], changing)

    @property
    def collectives(self) -> tuple[list[tuple[str, float]], list[tuple[str, float]]]:
        """Measured and predicted collectives of an iteration, in order: kinds and full buffers in bytes."""
        measured = [(str(each["kind"]), float(each["nbytes"])) for each in self.profile["collectives"]]
        return measured, list(self.predicted.collectives)

    @property
    def bytes_by_kind(self) -> dict[str, tuple[float, float]]:
        """Measured and predicted bytes of each kind of collective."""
        both = self.collectives
        kinds = dict.fromkeys(kind for side in both for kind, _ in side)
        sums = [
            {kind: ordered_sum(nbytes for each, nbytes in side if each == kind) for kind in kinds} for side in both
        ]
        return {kind: (sums[0][kind], sums[1][kind]) for kind in kinds}

    def figures(self) -> dict[str, float | None]:
        """Figures that a condition of ``--fail-on`` may name, as shares."""
        peak = self.memory["peak"]
        states = [abs(predicted / measured - 1.0) for measured, predicted in map(self.memory.__getitem__, STATES)]
        moved = [abs(theirs - ours) for ours, theirs in self.bytes_by_kind.values()]
        return {
            "iteration_error": None if self.error is None else abs(self.error),
            "cpu_error": abs(self.cpu_error),
            "peak_memory_error": abs(peak[1] / peak[0] - 1.0),
            "states_error": max(states),
            "collective_bytes_error": ordered_sum(moved),
        }


FIGURES = ("iteration_error", "cpu_error", "peak_memory_error", "states_error", "collective_bytes_error")
"""Names of `Comparison.figures`."""


def compare(
    file: Path,
    names: Sequence[str] = (),
    assignments: Sequence[str] = (),
    *,
    out: Path = Path("results"),
    say: Callable[[str], None] = lambda _: None,
) -> Iterator[Comparison]:
    """Carry scenarios out and predict them.

    Args:
        file: The experiment file.
        names: Which scenarios; all if empty.
        assignments: Changed settings.
        out: Folder of results.
        say: Called with notes.

    Raises:
        SimsysError: As `simsys.lab.train.train`.
    """
    require_torch()
    jobs = lab_jobs(file, names, assignments)
    for job in jobs:
        settings_of(job)
        check_machine(job)
    for job in jobs:
        yield compared(job, file, assignments, out / job.config.name, say)


def compared(
    job: TrainingJob, file: Path, assignments: Sequence[str], folder: Path, say: Callable[[str], None]
) -> Comparison:
    """Carry out and predict one scenario that this machine can carry out."""
    from simsys.lab.processes import device_of

    on_cpu = device_of(job.config.lab or LabConfig()).type == "cpu"
    predicted = predict(job, on_cpu=on_cpu)
    options = ["--scenario", job.config.name, *(text for each in assignments for text in ("--set", each))]
    say(f"{job.config.name}: training")
    run = run_job(job, [str(file), *options], folder, resume=False, profile=True, say=say)
    found = json.loads((folder / "profile" / "profile-of-rank-0.json").read_text(encoding="utf-8"))
    return Comparison(job, run, found, predicted)


def pairs_in_order(comparisons: Sequence[Comparison], differ: float = 0.1) -> tuple[int, int]:
    """Pairs of scenarios that differ by more than a share in measured time, and those of them predicted in order.

    Processor times are compared where runs were disturbed.
    """

    def measured(each: Comparison) -> float:
        return each.cpu_s if any(other.disturbed for other in comparisons) else each.measured_s

    right = pairs = 0
    for index, one in enumerate(comparisons):
        for other in comparisons[index + 1 :]:
            ratio = measured(one) / measured(other)
            if max(ratio, 1.0 / ratio) > 1.0 + differ:
                pairs += 1
                right += (ratio > 1.0) == (one.predicted.iteration_s > other.predicted.iteration_s)
    return pairs, right

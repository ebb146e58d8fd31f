"""Figures of a training run, from its iterations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass
class IterationLog:
    """Start, end and parts of every iteration of one rank, in seconds."""

    started_s: list[float] = field(default_factory=list)
    ended_s: list[float] = field(default_factory=list)
    compute: list[float] = field(default_factory=list)
    communication: list[float] = field(default_factory=list)
    compute_s: float = 0.0
    communication_s: float = 0.0

    def mark(self, name: str, now_s: float) -> None:
        """Begin an iteration, or end it and book what was added up."""
        if name == "iteration_start":
            self.started_s.append(now_s)
            self.compute_s = self.communication_s = 0.0
        elif name == "iteration_end":
            self.ended_s.append(now_s)
            self.compute.append(self.compute_s)
            self.communication.append(self.communication_s)

    def rows(self) -> Mapping[str, Sequence[Any]]:
        """One row per iteration."""
        durations = [end - start for start, end in zip(self.started_s, self.ended_s, strict=True)]
        return {
            "iteration": list(range(len(durations))),
            "started_s": self.started_s,
            "iteration_s": durations,
            "compute_s": self.compute,
            "communication_s": self.communication,
            "exposed_communication_s": [
                max(0.0, total - busy) for total, busy in zip(durations, self.compute, strict=True)
            ],
        }


def training_metrics(
    log: IterationLog,
    *,
    samples_per_iteration: float,
    tokens_per_sample: float,
    model_flop_per_iteration: float,
    num_gpus: float,
    peak_flop_per_s: float,
) -> dict[str, Any]:
    """Figures of a run.

    MFU is the model's FLOP over what the GPUs could have done at their dense peak in that time (Chowdhery et
    al. 2022, appendix B). The communication ratio is the exposed share: what the iteration takes longer than
    its computation.
    """
    rows = log.rows()
    durations = rows["iteration_s"]
    count = len(durations)
    mean_s = sum(durations) / count
    compute_s = sum(log.compute) / count
    exposed_s = sum(rows["exposed_communication_s"]) / count
    flop_per_gpu = model_flop_per_iteration / num_gpus
    return {
        "iterations": count,
        "mean_iteration_s": mean_s,
        "first_iteration_s": durations[0],
        "last_iteration_s": durations[-1],
        "compute_s": compute_s,
        "communication_s": sum(log.communication) / count,
        "exposed_communication_s": exposed_s,
        "communication_ratio": exposed_s / mean_s,
        "samples_per_s": samples_per_iteration / mean_s,
        "tokens_per_s": samples_per_iteration * tokens_per_sample / mean_s,
        "tokens_per_s_per_gpu": samples_per_iteration * tokens_per_sample / mean_s / num_gpus,
        "model_flop_per_s_per_gpu": flop_per_gpu / mean_s,
        "mfu": flop_per_gpu / mean_s / peak_flop_per_s,
        "num_gpus": int(num_gpus),
    }

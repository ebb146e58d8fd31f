"""Cost, energy and CO2 of training, and the course of a long training after its simulated run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from simsys.build.economics import rates_of
from simsys.build.training import TrainingJob
from simsys.metrics.economics import Course, training_economics


def economics_of_training(job: TrainingJob, metrics: Mapping[str, Any], busy: float) -> dict[str, Any]:
    """Cost, energy and CO2 of a training run, and of the whole training if it has a target.

    Args:
        job: The training.
        metrics: Metrics of the run, with those of failures if there are any.
        busy: Share of the time that GPUs compute.
    """
    rates, target = rates_of(job.cluster, job.config.economics, job.layout.world_size), job.settings.target
    tokens, epoch_tokens = (None, None) if target is None else (target.all_tokens, target.dataset_tokens)
    return training_economics(metrics, rates, busy, _course(job, metrics, busy), tokens, epoch_tokens)


def _course(job: TrainingJob, metrics: Mapping[str, Any], busy: float) -> Course:
    """The course after the run; batches that change in the run keep their shares of the iterations."""
    checkpoints, mean_s = job.checkpoints(), metrics["mean_iteration_s"]
    iteration_s = metrics["steady_iteration_s"] if len(job.phases) == 1 else mean_s - metrics["checkpoint_s"]
    interval, stop_s, goodput, repeated = 0, 0.0, None, 0.0
    if checkpoints is not None:
        interval = checkpoints.interval
        stop_s = checkpoints.stop_s + max(0.0, checkpoints.background_s - interval * iteration_s)
    if "goodput" in metrics:
        goodput, kept_s = metrics["goodput"], metrics["goodput"] * metrics["campaign_s"]
        repeated = metrics["lost_s"] / kept_s if kept_s else 0.0
    tokens = metrics["tokens_per_s"] * mean_s
    return Course(iteration_s, busy * mean_s, tokens, interval, stop_s, goodput, repeated)

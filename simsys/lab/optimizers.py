"""Optimizers and the course of the learning rate."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import torch
from torch import nn
from torch.distributed.optim import ZeroRedundancyOptimizer

from simsys.config.lab import LabConfig
from simsys.lab.settings import LabSettings

LEAST_SHARE = 0.1
"""Learning rate at the end of a run over the largest one."""


def optimizer_of(settings: LabSettings, parameters: Iterable[nn.Parameter]) -> torch.optim.Optimizer:
    """AdamW or SGD; with ZeRO-1, of a share of the parameters on each rank."""
    kind, arguments = _kind(settings)
    if settings.strategy != "zero1":
        return kind(parameters, **arguments)
    return ZeroRedundancyOptimizer(parameters, kind, parameters_as_bucket_view=True, **arguments)


def _kind(settings: LabSettings) -> tuple[type[torch.optim.Optimizer], dict[str, Any]]:
    lab = settings.lab
    common = {"lr": lab.learning_rate, "weight_decay": lab.weight_decay, "fused": settings.fused_optimizer}
    if settings.optimizer == "sgd":
        return torch.optim.SGD, {**common, "momentum": lab.momentum}
    return torch.optim.AdamW, common


def learning_rate_share(lab: LabConfig, iterations: int, iteration: int) -> float:
    """Learning rate of an iteration, counted from 0, over the largest one.

    Args:
        lab: Warm-up and schedule.
        iterations: Iterations of the run.
        iteration: Which one.
    """
    if iteration < lab.warmup_iterations:
        return (iteration + 1) / (lab.warmup_iterations + 1)
    if lab.schedule == "constant":
        return 1.0
    passed = (iteration - lab.warmup_iterations) / max(1, iterations - 1 - lab.warmup_iterations)
    falling = 1.0 - min(1.0, passed)
    if lab.schedule == "cosine":
        falling = 0.5 * (1.0 + math.cos(math.pi * min(1.0, passed)))
    return LEAST_SHARE + (1.0 - LEAST_SHARE) * falling

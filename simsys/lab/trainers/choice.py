"""The trainer of a scenario."""

from __future__ import annotations

import torch

from simsys.errors import UsageError
from simsys.lab.models.build import build_module
from simsys.lab.settings import LabSettings
from simsys.lab.trainers.base import BaseTrainer
from simsys.lab.trainers.ddp import DDPTrainer, ZeroTrainer
from simsys.lab.trainers.fsdp import FirstFSDPTrainer, FSDPTrainer
from simsys.model.model import Model

TRAINERS: dict[str, type[BaseTrainer]] = {
    "none": BaseTrainer,
    "ddp": DDPTrainer,
    "zero1": ZeroTrainer,
    "fsdp": FSDPTrainer,
}


def make_trainer(description: Model, settings: LabSettings, device: torch.device | None = None) -> BaseTrainer:
    """The trainer of a model; all ranks begin with equal weights.

    Args:
        description: The model as the simulator knows it.
        settings: Strategy, batch, precision and the like.
        device: Where to compute; by default the CPU.

    Raises:
        UsageError: If the lab cannot build the model.
    """
    torch.manual_seed(settings.seed)
    module = build_module(description, settings.recompute)
    kind = TRAINERS[settings.strategy]
    if settings.strategy == "fsdp" and settings.lab.fsdp == "fsdp1":
        if settings.precision == "fp16":
            raise UsageError("lab.fsdp: fsdp1 trains in fp32 and bf16 here; use fully_shard for fp16")
        kind = FirstFSDPTrainer
    return kind(module, settings, device=device)

"""Overheads of eager training: of a layer in either pass, and of a step, from models too small to compute."""

from __future__ import annotations

import resource
from typing import Any

import torch

from simsys.lab.models.transformer import SimpleModel
from simsys.lab.settings import LabSettings
from simsys.lab.trainers.base import BACKWARD, FORWARD, BaseTrainer

FEW, MANY, ITERATIONS, WARM_UP = 2, 8, 60, 10
KIB = 1024


def overheads(device: torch.device) -> dict[str, Any]:
    """Seconds of a layer and of a step, and bytes of a process that has trained almost nothing."""
    few, many = _shortest(FEW, device), _shortest(MANY, device)
    forward_s = max(1e-7, (many[FORWARD] - few[FORWARD]) / (MANY - FEW))
    backward_s = max(1e-7, (many[BACKWARD] - few[BACKWARD]) / (MANY - FEW))
    outer = FEW + 2  # embedding and head count as layers
    return {
        "per_layer_s": forward_s,
        "backward_factor": backward_s / forward_s,
        "per_step_s": max(0.0, few["wall"] - outer * (forward_s + backward_s)),
        "context_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * KIB,
    }


def _shortest(layers: int, device: torch.device) -> dict[str, float]:
    """The lower quartile of the time of each phase and of the step."""
    torch.manual_seed(1)
    settings = LabSettings(batch_size=1, sequence_length=8)
    module = SimpleModel.of_sizes(vocab_size=32, hidden_size=16, num_layers=layers, num_heads=1, length=8)
    trainer = BaseTrainer(module, settings, device=device)
    rows = trainer.train(ITERATIONS)[WARM_UP:]
    quarter = len(rows) // 4
    names = {FORWARD: "forward_s", BACKWARD: "backward_s", "wall": "wall_s"}
    return {name: sorted(row[key] for row in rows)[quarter] for name, key in names.items()}

"""The Training Lab: real PyTorch training of the scenarios that are simulated, and measurements of this machine.

PyTorch is an extra (`simsys[lab]`) and imported only when something here is used; nothing else imports this package.
Start with `train.py` and `trainers/base.py`; `launch.py` starts the ranks, each of which runs `worker.py`.

May import: build, check, collectives, config, errors, fidelity, input_files, interrupts, metrics, model, ops,
parallel, plots, probes, report, simulation, sums, traces, units.
"""

from __future__ import annotations

from importlib import import_module

_LAZY = {
    "BaseTrainer": "simsys.lab.trainers.base",
    "DDPTrainer": "simsys.lab.trainers.ddp",
    "FSDPTrainer": "simsys.lab.trainers.fsdp",
    "LabRun": "simsys.lab.train",
    "LabSettings": "simsys.lab.settings",
    "SimpleModel": "simsys.lab.models.transformer",
    "ZeroTrainer": "simsys.lab.trainers.ddp",
}

__all__ = ["BaseTrainer", "DDPTrainer", "FSDPTrainer", "LabRun", "LabSettings", "SimpleModel", "ZeroTrainer"]


def __getattr__(name: str) -> object:
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from simsys.lab.torch_needed import require_torch

    require_torch()
    return getattr(import_module(_LAZY[name]), name)

"""Distributed data parallel, and ZeRO-1 on top of it."""

from __future__ import annotations

import inspect
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from simsys.lab.trainers.base import BaseTrainer
from simsys.units import MIB


class DDPTrainer(BaseTrainer):
    """Every rank holds the whole model; gradients are averaged in buckets during the backward pass."""

    def wrap(self, module: nn.Module) -> nn.Module:
        """The module with hooks on its gradients."""
        options = self.settings.options
        return DistributedDataParallel(
            module,
            gradient_as_bucket_view=options.get("gradient_as_bucket_view", True),
            **bucket_sizes(options),
            **own_buffers(),
        )

    @property
    def frees_gradients(self) -> bool:
        """Not with accumulation: gradients would come back beside the buckets, as a second copy."""
        return self.settings.micro_batches == 1

    def exchanging(self, last_micro_batch: bool) -> AbstractContextManager[None]:
        """Only the last micro-batch exchanges gradients."""
        return nullcontext() if last_micro_batch else self.model.no_sync()


class ZeroTrainer(DDPTrainer):
    """DDP whose optimizer states are divided among the ranks (``ZeroRedundancyOptimizer``)."""

    def state(self) -> dict[str, Any]:
        """Whole weights; the optimizer states are in files of each rank."""
        return {"model": self.model.module.state_dict()}

    def set_state(self, state: dict[str, Any]) -> None:
        """Continue with what `state` returned."""
        self.model.module.load_state_dict(state["model"])

    def save_own(self, folder: Path) -> None:
        """Save the optimizer states of this rank."""
        torch.save(self.optimizer.optim.state_dict(), self._own_file(folder))

    def load_own(self, folder: Path) -> None:
        """Load the optimizer states of this rank."""
        self.optimizer.optim.load_state_dict(torch.load(self._own_file(folder), weights_only=True))

    def _own_file(self, folder: Path) -> Path:
        return folder / f"optimizer-of-rank-{self.rank}.pt"


def bucket_sizes(options: dict[str, Any]) -> dict[str, Any]:
    """Arguments of ``DistributedDataParallel`` for the sizes of buckets; none for its defaults.

    Without overlap, all gradients are one bucket. Older versions of PyTorch have one size for all buckets.
    """
    if not options.get("overlap", True):
        return {"bucket_cap_mb": 1 << 20}
    later, first = options.get("bucket_size", 25 * MIB), options.get("first_bucket_size", MIB)
    if (later, first) == (25 * MIB, MIB):
        return {}
    if "bucket_cap_mb_list" in inspect.signature(DistributedDataParallel).parameters:
        return {"bucket_cap_mb_list": [first / MIB, later / MIB]}
    return {"bucket_cap_mb": later / MIB}


def own_buffers() -> dict[str, bool]:
    """The argument of ``DistributedDataParallel`` that keeps each rank's buffers; its name depends on the version."""
    new = "forward_sync_buffers"
    return {new if new in inspect.signature(DistributedDataParallel).parameters else "broadcast_buffers": False}

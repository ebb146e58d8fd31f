"""Sharded checkpoints by `torch.distributed.checkpoint`: whole ones only, recognisable, with sums of their files."""

from __future__ import annotations

import json
import os
import shutil
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch import nn
from torch.distributed.tensor import DTensor

from simsys.errors import OutputError, UsageError
from simsys.lab.settings import LabSettings

VERSION = 1
MANIFEST = "lab.json"
"""The file that makes a folder a checkpoint; it is written last."""
PREFIX = "iteration-"
MARGIN_BYTES = 1 << 20
"""Space for what a checkpoint holds beside tensors."""


class Saved(Protocol):
    """What a trainer lets a checkpoint save and load; `simsys.lab.trainers.base.BaseTrainer` is one."""

    settings: LabSettings
    rank: int
    world_size: int
    iteration: int
    weights: str
    optimizer: Any
    scheduler: Any
    scaler: Any

    def state(self) -> dict[str, Any]:
        """Weights and optimizer states, each rank's share."""

    def set_state(self, state: dict[str, Any]) -> None:
        """Continue with what `state` returned."""

    def save_own(self, folder: Path) -> None:
        """Save what only this rank has."""

    def load_own(self, folder: Path) -> None:
        """Load what `save_own` saved."""


def checkpoints_in(folder: Path) -> list[Path]:
    """The whole checkpoints below a folder, oldest first."""
    found = folder.glob(f"{PREFIX}*/{MANIFEST}") if folder.is_dir() else ()
    return sorted((file.parent for file in found), key=lambda each: int(each.name.removeprefix(PREFIX)))


def save_checkpoint(trainer: Saved, folder: Path) -> Path:
    """Save what a trainer needs to continue; it appears under its name only when it is whole.

    Args:
        trainer: The trainer.
        folder: Folder of all checkpoints of the run.

    Raises:
        OutputError: If it cannot be written.
    """
    target = folder / f"{PREFIX}{trainer.iteration:06d}"
    partial = folder / f".{target.name}.partial"
    try:
        if trainer.rank == 0:
            shutil.rmtree(partial, ignore_errors=True)
            partial.mkdir(parents=True)
        _together()
        state = {**trainer.state(), "progress": _progress(trainer)}
        _check_space(partial / f"space-of-rank-{trainer.rank}", state)
        dcp.save(state, checkpoint_id=partial, no_dist=not dist.is_initialized())
        trainer.save_own(partial)
        _together()
        if trainer.rank == 0:
            _finish(trainer, partial, target)
        _together()
    except Exception as error:
        if trainer.rank == 0:
            shutil.rmtree(partial, ignore_errors=True)
        reason = _reason(error)
        if reason is None:
            raise
        raise OutputError(f"cannot write the checkpoint {target}: {reason}") from error
    return target


def load_checkpoint(trainer: Saved, checkpoint: Path) -> None:
    """Continue a trainer from a checkpoint.

    Raises:
        UsageError: If it is damaged or does not fit.
    """
    manifest = read_manifest(checkpoint)
    for key, value in _identity(trainer).items():
        if manifest.get(key) != value:
            raise UsageError(f"the checkpoint {checkpoint} has {key} {manifest.get(key)!r}, the run has {value!r}")
    state = {**trainer.state(), "progress": _progress(trainer)}
    try:
        dcp.load(state, checkpoint_id=checkpoint, no_dist=not dist.is_initialized())
        trainer.load_own(checkpoint)
    except Exception as error:
        text = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise UsageError(f"the checkpoint {checkpoint} cannot be loaded: {text}") from error
    trainer.set_state(state)
    progress = state["progress"]
    trainer.scheduler.load_state_dict(progress["scheduler"])
    for group, rate in zip(trainer.optimizer.param_groups, trainer.scheduler.get_last_lr(), strict=True):
        group["lr"] = rate
    trainer.scaler.load_state_dict(progress["scaler"])
    trainer.iteration = progress["iteration"]


def fingerprint(module: nn.Module) -> str:
    """Digits that change with the name or shape of any weight of an undivided model."""
    shapes = [[name, list(value.shape)] for name, value in module.named_parameters()]
    return f"{zlib.crc32(json.dumps(shapes).encode()):08x}"


def read_manifest(checkpoint: Path) -> Mapping[str, Any]:
    """What a checkpoint says about itself, after a check that its files are as they were written.

    Raises:
        UsageError: If it is no checkpoint of the lab, of another version, or damaged.
    """
    file = checkpoint / MANIFEST
    try:
        manifest = json.loads(file.read_text(encoding="utf-8"))
        version, files = manifest["version"], manifest["files"]
    except FileNotFoundError:
        raise UsageError(f"{checkpoint} is no checkpoint of the lab: it has no {MANIFEST}") from None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UsageError(f"the checkpoint {checkpoint} is damaged: {MANIFEST} cannot be read") from error
    if version != VERSION:
        raise UsageError(f"the checkpoint {checkpoint} is of version {version}; this simsys reads {VERSION}")
    for name, expected in files.items():
        if _sum_of(checkpoint / name) != expected:
            raise UsageError(f"the checkpoint {checkpoint} is damaged: {name} is not as it was written")
    return dict(manifest)


def remove_old(folder: Path, keep: int) -> None:
    """Remove all but the newest checkpoints."""
    for checkpoint in checkpoints_in(folder)[:-keep]:
        shutil.rmtree(checkpoint, ignore_errors=True)


def _progress(trainer: Saved) -> dict[str, Any]:
    return {
        "scheduler": trainer.scheduler.state_dict(),
        "scaler": trainer.scaler.state_dict(),
        "iteration": trainer.iteration,
    }


def _identity(trainer: Saved) -> dict[str, Any]:
    """What must be equal for a checkpoint to fit; only ZeRO-1 needs the same number of ranks."""
    settings = trainer.settings
    own = {"strategy": settings.strategy, "optimizer": settings.optimizer, "precision": settings.precision}
    ranks = {"ranks": trainer.world_size} if settings.strategy == "zero1" else {}
    return {**own, **ranks, "weights": trainer.weights}


def _finish(trainer: Saved, partial: Path, target: Path) -> None:
    """Write the manifest and give the checkpoint its name."""
    sums = {file.name: _sum_of(file) for file in sorted(partial.iterdir())}
    manifest = {"version": VERSION, "iteration": trainer.iteration, **_identity(trainer), "files": sums}
    (partial / MANIFEST).write_text(json.dumps(manifest, indent=1), encoding="utf-8")
    shutil.rmtree(target, ignore_errors=True)
    os.replace(partial, target)


def _check_space(file: Path, state: Any) -> None:
    """Reserve the space of a state for a moment: PyTorch ends the process if the disk is full while it writes.

    Raises:
        OSError: There is not enough.
    """
    nbytes = _nbytes(state) + MARGIN_BYTES
    with file.open("wb") as opened:
        if hasattr(os, "posix_fallocate"):
            os.posix_fallocate(opened.fileno(), 0, nbytes)
        _together()
    file.unlink()


def _nbytes(state: Any) -> int:
    """Bytes of this rank's tensors in nested mappings and lists."""
    if hasattr(state, "local_shards"):  # of PyTorch's first implementation of FSDP
        return sum(_nbytes(shard.tensor) for shard in state.local_shards())
    if isinstance(state, torch.Tensor):
        local = state.to_local() if isinstance(state, DTensor) else state
        return int(local.numel() * local.element_size())
    values = state.values() if isinstance(state, Mapping) else state if isinstance(state, list | tuple) else ()
    return sum(map(_nbytes, values))


def _sum_of(file: Path) -> list[int]:
    """Size and CRC-32 of a file; of a missing one, none."""
    total, size = 0, 0
    try:
        with file.open("rb") as opened:
            while piece := opened.read(1 << 24):
                total, size = zlib.crc32(piece, total), size + len(piece)
    except OSError:
        return []
    return [size, total]


def _together() -> None:
    if dist.is_initialized():
        dist.barrier()


def _reason(error: BaseException) -> str | None:
    """Why the file system refused a checkpoint, if it did; PyTorch collects the errors of all ranks."""
    failures = getattr(error, "failures", {})
    for each in (error, *(first for first, *_ in failures.values())):
        cause: BaseException | None = each
        while cause is not None:
            if isinstance(cause, OSError) and cause.strerror:
                return cause.strerror
            cause = cause.__cause__ or cause.__context__
        if "PytorchStreamWriter failed" in str(each) or "unexpected pos" in str(each):
            return "the disk may be full"
    return None

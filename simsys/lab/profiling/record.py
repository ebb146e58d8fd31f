"""Profiles an iteration of a trainer: the trace is kept, and what it says is written as JSON."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from statistics import median
from typing import Any
from unittest import mock

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.tensor import DTensor
from torch.profiler import ProfilerActivity, profile

from simsys.lab.profiling.trace import Trace
from simsys.lab.trainers.base import BaseTrainer

QUIET_ITERATIONS = 5
"""Iterations without exchange, whose difference is the exposed communication of DDP."""
KEPT_BUCKETS = ("ddp", "zero1")
"""Strategies whose gradients stay allocated, in buckets."""


def profile_file(folder: Path, rank: int) -> Path:
    """What was found of a rank."""
    return folder / f"profile-of-rank-{rank}.json"


def trace_file(folder: Path, rank: int) -> Path:
    """The Kineto trace of a rank, which Perfetto and Chrome show."""
    return folder / f"trace-of-rank-{rank}.json"


def record_profile(trainer: BaseTrainer, folder: Path) -> dict[str, Any]:
    """Profile a further iteration.

    Args:
        trainer: The trainer, after some iterations.
        folder: Folder for the trace and for what was found.
    """
    folder.mkdir(parents=True, exist_ok=True)
    rank = trainer.rank
    memory = {"parameters": _nbytes(trainer.model.parameters())}
    seen: dict[str, int] = {}
    hook = _inner(trainer.optimizer).register_step_pre_hook(lambda *_: seen.update(gradients=_gradient_bytes(trainer)))
    activities = [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if trainer.device.type == "cuda" else [])]
    _together(trainer)
    with profile(activities=activities, profile_memory=True, record_shapes=True) as profiled:
        row = trainer.train_step()
    hook.remove()
    profiled.export_chrome_trace(str(trace_file(folder, rank)))
    trace = Trace.read(trace_file(folder, rank))
    memory |= {"gradients": seen.get("gradients", 0), "optimizer": _state_bytes(trainer)}
    kept = memory["gradients"] if trainer.settings.strategy in KEPT_BUCKETS else 0
    standing = memory["parameters"] + memory["optimizer"] + kept
    memory["peak"] = standing + trace.peak_growth_bytes()
    if trainer.device.type == "cuda":
        memory["peak"] = torch.cuda.max_memory_allocated()
    memory["activations and buffers"] = memory["peak"] - standing
    found = {
        "iteration_s": row["wall_s"],
        "phases_s": trace.phase_s(),
        "exchange_s": {phase: trace.exchange_s(phase) for phase in trace.phase_s()},
        "quiet": _quiet(trainer),
        "collectives": [each.as_dict() for each in trace.collectives()],
        "memory_bytes": memory,
    }
    profile_file(folder, rank).write_text(json.dumps(found, indent=1), encoding="utf-8")
    return found


def _quiet(trainer: BaseTrainer) -> dict[str, float] | None:
    """Phases of an iteration of DDP without exchange; None where the difference would not be the exchange alone."""
    if trainer.settings.strategy not in KEPT_BUCKETS:
        return None
    rows = []
    with mock.patch.object(trainer, "exchanging", side_effect=lambda last: trainer.model.no_sync()):
        for _ in range(QUIET_ITERATIONS):
            rows.append(trainer.train_step())
    names = ("wall_s", "cpu_s", "forward_s", "backward_s", "optimizer_s", "data_s")
    return {name: median([row[name] for row in rows[1:]]) for name in names}


def _inner(optimizer: Any) -> Any:
    return getattr(optimizer, "optim", optimizer)


def _local(tensor: Tensor) -> Tensor:
    return tensor.to_local() if isinstance(tensor, DTensor) else tensor


def _nbytes(tensors: Iterable[Tensor]) -> int:
    return sum(_local(each).numel() * each.element_size() for each in tensors)


def _gradient_bytes(trainer: BaseTrainer) -> int:
    return _nbytes(each.grad for each in trainer.model.parameters() if each.grad is not None)


def _state_bytes(trainer: BaseTrainer) -> int:
    """Bytes of optimizer states of the size of weights; counters of steps are left out."""
    return _nbytes(
        value
        for state in _inner(trainer.optimizer).state.values()
        for value in state.values()
        if isinstance(value, Tensor) and value.dim()
    )


def _together(trainer: BaseTrainer) -> None:
    if trainer.world_size > 1:
        dist.barrier()

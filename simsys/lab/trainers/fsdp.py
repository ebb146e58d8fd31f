"""Fully sharded data parallel: PyTorch's `fully_shard` (FSDP2), or its first implementation."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from itertools import pairwise

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import (
    FullyShardedDataParallel,
    MixedPrecision,
    MixedPrecisionPolicy,
    ShardingStrategy,
    fully_shard,
)
from torch.distributed.fsdp.wrap import CustomPolicy
from torch.distributed.tensor import DTensor

from simsys.lab.trainers.base import DTYPES, BaseTrainer


class FSDPTrainer(BaseTrainer):
    """Every rank holds a shard of each unit and gathers the rest when it is needed (``fully_shard``)."""

    def wrap(self, module: nn.Module) -> nn.Module:
        """The module with sharded weights; the last unit stays gathered, as the backward pass begins with it."""
        mesh = init_device_mesh(self.device.type, (self.world_size,))
        precision, options = self.settings.precision, self.settings.options
        policy = MixedPrecisionPolicy(param_dtype=DTYPES[precision], reduce_dtype=torch.float32)
        if precision in ("fp32", "tf32"):
            policy = MixedPrecisionPolicy()
        reshard = options.get("reshard_after_forward", True)
        for unit in self.units:
            fully_shard(unit, mesh=mesh, mp_policy=policy, reshard_after_forward=reshard and unit != self.units[-1])
        whole = fully_shard(module, mesh=mesh, mp_policy=policy, reshard_after_forward=False)
        if options.get("forward_prefetch", True):
            for unit, following in pairwise(self.units):
                unit[0].set_modules_to_forward_prefetch([following[0]])
        if not options.get("backward_prefetch", True):
            for unit in self.units:
                unit[0].set_modules_to_backward_prefetch([])
        return whole

    def exchanging(self, last_micro_batch: bool) -> AbstractContextManager[None]:
        """Every micro-batch reduces its gradients, unless ``no_sync`` keeps whole ones until the last."""
        self.model.set_requires_gradient_sync(last_micro_batch or not self.settings.options.get("no_sync", False))
        return nullcontext()

    def casting(self) -> AbstractContextManager[None]:
        """Weights are gathered in the right precision; inputs follow them."""
        return nullcontext()

    def clip_gradients(self, norm: float) -> float:
        """Clip by the norm of all shards together."""
        total = torch.nn.utils.clip_grad_norm_(self.model.parameters(), norm)
        return float(total.full_tensor() if isinstance(total, DTensor) else total)


class FirstFSDPTrainer(BaseTrainer):
    """``FullyShardedDataParallel``, PyTorch's first implementation of FSDP."""

    def wrap(self, module: nn.Module) -> nn.Module:
        """The module with flat, sharded weights."""
        dtype, mixed = DTYPES[self.settings.precision], self.settings.precision in ("bf16", "fp16")
        reshard = self.settings.options.get("reshard_after_forward", True)
        whole = set(_alone(self.units))
        return FullyShardedDataParallel(
            module,
            sharding_strategy=ShardingStrategy.FULL_SHARD if reshard else ShardingStrategy.SHARD_GRAD_OP,
            auto_wrap_policy=CustomPolicy(lambda each: each in whole),
            mixed_precision=MixedPrecision(param_dtype=dtype, reduce_dtype=torch.float32) if mixed else None,
            device_id=self.device if self.device.type == "cuda" else torch.device("cpu"),
            use_orig_params=True,
        )

    def exchanging(self, last_micro_batch: bool) -> AbstractContextManager[None]:
        """As `FSDPTrainer.exchanging`."""
        quiet = self.settings.options.get("no_sync", False) and not last_micro_batch
        return self.model.no_sync() if quiet else nullcontext()

    def casting(self) -> AbstractContextManager[None]:
        """As `FSDPTrainer.casting`."""
        return nullcontext()

    def clip_gradients(self, norm: float) -> float:
        """Clip by the norm of all shards together."""
        return float(self.model.clip_grad_norm_(norm))


def _alone(units: Sequence[Sequence[nn.Module]]) -> list[nn.Module]:
    """Modules that are a unit of their own; what shares weights with another one stays with the root."""
    return [unit[0] for unit in units if len(unit) == 1 and dist.is_initialized()]

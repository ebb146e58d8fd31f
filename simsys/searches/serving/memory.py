"""The room for the KV cache with many limits of a step at once, exactly as `simsys.build.serving_memory` finds it."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from simsys.build.serving_memory import ServingMemory
from simsys.model.work import FP32_BYTES
from simsys.parallel.serving_memory import head_columns

Floats = NDArray[np.float64]


def cached_tokens(pool: ServingMemory, sequences: Floats, tokens: Floats) -> Floats:
    """Tokens for which the KV cache of an engine has room; negative if the replica does not fit.

    Args:
        pool: Replicas with any limits of a step.
        sequences: Most sequences of a step, an entry for each combination of limits.
        tokens: Most tokens of a step, an entry for each combination of limits.
    """
    blocks = np.min([_blocks(pool, stage, sequences, tokens) for stage in pool.stage_numbers], axis=0)
    stages = pool.layout.pipeline
    found: Floats = np.where(blocks < stages, -1.0, blocks // stages * pool.settings.block_size)
    return found


def _blocks(pool: ServingMemory, stage: int, sequences: Floats, tokens: Floats) -> Floats:
    """KV blocks that fit into a stage; negative if the other components do not fit."""
    plan, settings = pool.stages[stage], pool.settings
    activations = plan.widest_elements_per_token * tokens * pool.precision.activation_bytes
    activations = activations + head_columns(plan) * sequences * FP32_BYTES
    held: dict[str, Any] = {**pool.fixed_by_stage[stage], "activations": activations}
    free: Floats = pool.free_bytes(held)
    _, wanted = pool.written_cache(stage)
    if wanted is None:
        room: Floats = free * settings.free_gpu_memory_fraction // pool.block_bytes(stage)
        return room
    blocks = settings.num_gpu_blocks_override or int(wanted // pool.block_bytes(stage))
    return np.where(wanted > free, -1.0, float(blocks))

"""Device memory of a rank of a training job, by component."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil
from typing import Literal, TypeAlias

from simsys.model.work import FP32_BYTES, Precision
from simsys.parallel.activations import ChunkMemory
from simsys.parallel.passes import ForwardPass
from simsys.sums import ordered_sum

State: TypeAlias = Literal["parameters", "gradients", "optimizer"]
"""A model state, as `training_memory` calls its components."""

OPTIMIZER_STATES = {"adam": 2, "sgd": 1}
"""Momentum and, for Adam, variance, kept in fp32 (Kingma & Ba 2015)."""


@dataclass(frozen=True, kw_only=True)
class Shards:
    """Number of data-parallel ranks that divide each model state (Rajbhandari et al. 2020, §5).

    Args:
        weights: All-gathered when needed if more than 1.
        gradients: Reduced to shards as soon as they are complete.
        optimizer: Each rank updates its shard of the weights.
        gathered: Gathered part of sharded weights at the peak: ``"units"`` for two blocks (one computes while the next
            is gathered), or ``"all"``.
        on_host: States in host memory instead. The fp32 weights follow the optimizer.
    """

    weights: int = 1
    gradients: int = 1
    optimizer: int = 1
    gathered: Literal["units", "all"] = "units"
    on_host: tuple[State, ...] = ()


UNSHARDED = Shards()


def training_memory(
    chunks: Sequence[ForwardPass],
    activations: Sequence[ChunkMemory],
    precision: Precision,
    *,
    in_flight: Sequence[int] = (1,),
    optimizer: str = "adam",
    tied_parameters: float = 0.0,
    context_bytes: float = 0.0,
    buffer_bytes: float = 0.0,
    shards: Shards = UNSHARDED,
    expert_shards: Shards = UNSHARDED,
    usable: float = 1.0,
) -> dict[str, int]:
    """Peak memory of one rank in bytes, by component, each rounded up.

    Model states are as in mixed-precision Adam (Rajbhandari et al. 2020, §3.1, without the transient 16-bit copies).

    Args:
        chunks: The rank's share of each chunk of layers that its pipeline stage holds.
        activations: Memory of a micro-batch in each of them.
        precision: Precision of the passes.
        in_flight: For each chunk, micro-batches with kept activations at the peak.
        optimizer: A key of `OPTIMIZER_STATES`.
        tied_parameters: Weights of two blocks of the stage that are stored once.
        context_bytes: Memory of the runtime and its libraries.
        buffer_bytes: Communication buffers of gradients.
        shards: Division of model states among the ranks with equal weights.
        expert_shards: Division of model states of divided experts.
        usable: Share of the changing memory that the allocator can fill; the rest is lost between its blocks.
    """
    states = model_states(
        chunks,
        precision,
        optimizer=optimizer,
        tied_parameters=tied_parameters,
        shards=shards,
        expert_shards=expert_shards,
    )
    held = {name: 0.0 if name in shards.on_host else nbytes for name, nbytes in states.items()}
    staying = [chunk.gathered if count else 0 for count, chunk in zip(in_flight, activations, strict=True)]
    place, busiest = max(enumerate(activations), key=lambda each: each[1].passing - staying[each[0]])
    kept = sum(count * chunk.kept for count, chunk in zip(in_flight, activations, strict=True))
    changing: dict[str, float] = dict(busiest.peak)
    changing["activations"] += kept - busiest.kept
    if others := sum(staying) - staying[place]:
        changing["gathered"] += others
    lost = ordered_sum(changing.values()) * (1.0 / usable - 1.0)
    parts = {**held, "buffers": buffer_bytes, **changing, "fragmentation": lost, "context": context_bytes}
    return {name: ceil(nbytes) for name, nbytes in parts.items()}


def whole_bytes(shards: Shards, precision: Precision) -> tuple[float, float]:
    """Bytes per gathered weight of a block, and per unreduced gradient; 0 without shards.

    Shards in flight from or to the host, in fp32, are added.
    """
    weights = gradients = 0.0
    if shards.weights > 1 or "parameters" in shards.on_host:
        weights = precision.weight_bytes
    if "parameters" in shards.on_host:
        weights += FP32_BYTES / shards.weights
    if (shards.weights > 1 and shards.gradients > 1) or "gradients" in shards.on_host:
        gradients = FP32_BYTES
    if "gradients" in shards.on_host:
        gradients += FP32_BYTES / shards.gradients
    return weights, gradients


def model_states(
    chunks: Sequence[ForwardPass],
    precision: Precision,
    *,
    optimizer: str = "adam",
    tied_parameters: float = 0.0,
    shards: Shards = UNSHARDED,
    expert_shards: Shards = UNSHARDED,
) -> dict[str, float]:
    """Weights, gradients and optimizer states of one rank in bytes, on its GPU or its host; as `training_memory`.

    Weights that are not trained are stored once, as they are, and have no gradients and no optimizer states.
    """
    count = OPTIMIZER_STATES[optimizer]
    experts = ordered_sum(chunk.expert_parameters for chunk in chunks)
    rest = ordered_sum(chunk.parameters for chunk in chunks) - tied_parameters - experts
    held = _model_states(rest, precision, count, shards)
    for name, nbytes in _model_states(experts, precision, count, expert_shards).items():
        held[name] += nbytes
    frozen_experts = ordered_sum(chunk.expert_frozen_bytes for chunk in chunks)
    if frozen := ordered_sum(chunk.frozen_bytes for chunk in chunks):
        held["parameters"] += (frozen - frozen_experts) / shards.weights + frozen_experts / expert_shards.weights
    return held


def checkpoint_bytes(parameters: float, precision: Precision, optimizer: str, shards: Shards = UNSHARDED) -> float:
    """Bytes of weights and optimizer states of all ranks of a job, each counted once.

    Args:
        parameters: Of the whole model or of a part.
        precision: What the passes compute in.
        optimizer: A key of `OPTIMIZER_STATES`.
        shards: Division of model states; decides whether 16-bit weights are stored in addition to fp32 weights.
    """
    states = _model_states(parameters, precision, OPTIMIZER_STATES[optimizer], shards)
    return states["parameters"] * shards.weights + states["optimizer"] * shards.optimizer


def _model_states(parameters: float, precision: Precision, states: int, shards: Shards) -> dict[str, float]:
    """Weights, gradients and optimizer states of one rank, in bytes.

    The optimizer may be divided further than the weights (ZeRO-1 and -2), or be in host memory. Then every rank has
    the weights in its compute precision, and the fp32 weights are an optimizer state.
    """
    weight_bytes = FP32_BYTES
    apart = shards.optimizer > shards.weights or ("optimizer" in shards.on_host and "parameters" not in shards.on_host)
    if apart and precision.weight_bytes < FP32_BYTES:
        weight_bytes, states = precision.weight_bytes, states + 1
    return {
        "parameters": parameters * weight_bytes / shards.weights,
        "gradients": parameters * FP32_BYTES / shards.gradients,
        "optimizer": parameters * states * FP32_BYTES / shards.optimizer,
    }

"""What a rank of a training job holds in device memory, by component."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from simsys.model.batch import Batch
from simsys.model.work import FP32_BYTES, Precision
from simsys.parallel.passes import ForwardPass, Stretch
from simsys.parallel.plan import Recompute

State: TypeAlias = Literal["parameters", "gradients", "optimizer"]
"""A model state, as `training_memory` calls its components."""

OPTIMIZER_STATES = {"adam": 2, "sgd": 1}
"""Momentum and, for Adam, variance, kept in fp32 (Kingma & Ba 2015)."""
LOGIT_COPIES = 2
"""The loss keeps the logits and their gradient."""


@dataclass(frozen=True, kw_only=True)
class Shards:
    """Among how many data-parallel ranks each model state is divided (Rajbhandari et al. 2020, §5).

    Args:
        weights: All-gathered when needed if more than 1.
        gradients: Reduced to shards as soon as they are there.
        optimizer: Each rank updates its shard of the weights.
        gathered: Of sharded weights, what is whole at the peak: ``"units"`` for two blocks, one that computes and
            one that is gathered meanwhile, or ``"all"``.
        on_host: What lives in the memory of the host instead. With the optimizer, the weights in fp32 do.
    """

    weights: int = 1
    gradients: int = 1
    optimizer: int = 1
    gathered: Literal["units", "all"] = "units"
    on_host: tuple[State, ...] = ()


UNSHARDED = Shards()


@dataclass(frozen=True, slots=True)
class ChunkMemory:
    """What one micro-batch holds on its way through a chunk of layers, in bytes.

    Args:
        kept: From its forward until its backward pass.
        recomputed: More, while the chunk's backward pass computes again what was not kept.
        logits: More, while the loss and the gradient of the logits are computed.
    """

    kept: float
    recomputed: float
    logits: float

    @property
    def passing(self) -> float:
        """What a pass needs for a while beyond what is kept."""
        return max(self.recomputed, self.logits)


def chunk_memory(
    chunk: ForwardPass,
    batch: Batch,
    precision: Precision,
    *,
    vocab_size: float = 0.0,
    recompute: Recompute = Recompute.NONE,
) -> ChunkMemory:
    """Activations as in Korthikanti et al. 2022, table 2.

    The backward pass goes through the blocks in reverse and gives back what each has kept, so a block that is made
    again finds less of the rest.

    Args:
        chunk: The rank's share of the layers.
        batch: One micro-batch; attention scores are kept if its attention is not fused.
        precision: What activations are kept in.
        vocab_size: The rank's share of the vocabulary; counted if the chunk has the head.
        recompute: What is computed again in the backward pass, and so not kept.
    """
    kept = given_back = recomputed = 0.0
    for stretch in reversed(chunk.stretches):
        held = activation_elements(stretch, batch, recompute)
        made_again = activation_elements(stretch, batch) - held
        recomputed = max(recomputed, made_again - given_back)
        given_back += stretch.repeat * held
        kept += stretch.repeat * held
    kept += chunk.shared_elements_per_token * batch.tokens
    logits = vocab_size * batch.logits if chunk.has_head else 0.0
    nbytes = precision.activation_bytes
    return ChunkMemory(kept * nbytes, recomputed * nbytes, logits * FP32_BYTES * LOGIT_COPIES)


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
) -> dict[str, float]:
    """Bytes that one rank needs at the peak, by component.

    Model states are those of mixed-precision Adam, 16 bytes per parameter with fp32 gradients (Rajbhandari et
    al. 2020, §3.1, without the transient 16-bit copies).

    Args:
        chunks: The rank's share of each chunk of layers that its pipeline stage holds.
        activations: What a micro-batch holds in each of them.
        precision: What the passes compute in.
        in_flight: For each chunk, micro-batches whose activations are kept at the peak.
        optimizer: A key of `OPTIMIZER_STATES`.
        tied_parameters: Weights that stand in two blocks of the stage but are stored once.
        context_bytes: What the runtime and its libraries take.
        buffer_bytes: What gradients are collected in for communication.
        shards: How model states are divided among the ranks that hold the same weights.
        expert_shards: The same for divided experts.
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
    if max(shards.weights, expert_shards.weights) > 1 or (shards.on_host and not buffer_bytes):
        parameters = sum(chunk.parameters for chunk in chunks) - tied_parameters
        held["gathered"] = _gathered(chunks, parameters, precision, shards)
    passing = max(activations, key=lambda chunk: chunk.passing)
    held["buffers"] = buffer_bytes
    gathered = {"gathered": held.pop("gathered")} if "gathered" in held else {}
    changing = {
        **gathered,
        "activations": sum(count * chunk.kept for count, chunk in zip(in_flight, activations, strict=True)),
        "recomputed": passing.recomputed if passing.recomputed > passing.logits else 0.0,
        "logits": passing.logits if passing.logits >= passing.recomputed else 0.0,
    }
    lost = sum(changing.values()) * (1.0 / usable - 1.0)
    return {**held, **changing, "fragmentation": lost, "context": context_bytes}


def model_states(
    chunks: Sequence[ForwardPass],
    precision: Precision,
    *,
    optimizer: str = "adam",
    tied_parameters: float = 0.0,
    shards: Shards = UNSHARDED,
    expert_shards: Shards = UNSHARDED,
) -> dict[str, float]:
    """Weights, gradients and optimizer states of one rank in bytes, on its GPU or its host; as `training_memory`."""
    count = OPTIMIZER_STATES[optimizer]
    experts = sum(chunk.expert_parameters for chunk in chunks)
    rest = sum(chunk.parameters for chunk in chunks) - tied_parameters - experts
    held = _model_states(rest, precision, count, shards)
    for name, nbytes in _model_states(experts, precision, count, expert_shards).items():
        held[name] += nbytes
    return held


def checkpoint_bytes(parameters: float, precision: Precision, optimizer: str, shards: Shards = UNSHARDED) -> float:
    """Bytes of weights and optimizer states as the ranks of a job hold them, each counted once.

    Args:
        parameters: Of the whole model or of a part.
        precision: What the passes compute in.
        optimizer: A key of `OPTIMIZER_STATES`.
        shards: How model states are divided; decides whether 16-bit weights are kept beside those in fp32.
    """
    states = _model_states(parameters, precision, OPTIMIZER_STATES[optimizer], shards)
    return states["parameters"] * shards.weights + states["optimizer"] * shards.optimizer


def activation_elements(stretch: Stretch, batch: Batch, recompute: Recompute = Recompute.NONE) -> float:
    """Elements that a rank keeps of one block and one micro-batch until its backward pass."""
    if recompute is Recompute.FULL and stretch.checkpointed:
        return stretch.input_elements_per_token * batch.tokens + stretch.input_elements_per_logit * batch.logits
    elements = stretch.activation_elements_per_token * batch.tokens
    elements += stretch.activation_elements_per_logit * batch.logits
    if batch.unfused_attention and recompute is Recompute.NONE:
        elements += sum(
            operator.kept_elements_per_pair * batch.pairs(operator.pairs) for operator in stretch.operators
        )
    return elements


def _model_states(parameters: float, precision: Precision, states: int, shards: Shards) -> dict[str, float]:
    """Weights, gradients and optimizer states of one rank, in bytes.

    If the optimizer is divided further than the weights, as in ZeRO-1 and -2, or lives elsewhere, every rank holds the
    weights in the precision it computes in, and the fp32 weights are one more state of the optimizer.
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


def _gathered(chunks: Sequence[ForwardPass], parameters: float, precision: Precision, shards: Shards) -> float:
    """Bytes of weights that are whole for a while, and of one block's gradients before they are scattered.

    What is on its way from or to the host comes on top: two blocks' shards in fp32, and one block's gradients' shards.
    """
    stretches = (stretch for chunk in chunks for stretch in chunk.stretches)
    largest = max(sum(operator.parameters for operator in stretch.operators) for stretch in stretches)
    units = min(2 * largest, parameters)
    nbytes = 0.0
    if shards.weights > 1 or "parameters" in shards.on_host:
        nbytes += (parameters if shards.gathered == "all" else units) * precision.weight_bytes
    if shards.gradients > 1 or "gradients" in shards.on_host:
        nbytes += largest * FP32_BYTES
    if "parameters" in shards.on_host:
        nbytes += units * FP32_BYTES / shards.weights
    if "gradients" in shards.on_host:
        nbytes += largest * FP32_BYTES / shards.gradients
    return nbytes

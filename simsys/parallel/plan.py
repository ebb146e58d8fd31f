"""The work of one training step on one rank, as data: blocks with their forward and backward work."""

from __future__ import annotations

from dataclasses import dataclass

from simsys.collectives.base import CollectiveKind
from simsys.model.work import Precision, Work
from simsys.parallel.activations import NOTHING, BlockMemory, ChunkMemory, Recompute, Recomputed
from simsys.parallel.compression import Matrix
from simsys.sums import ordered_sum


@dataclass(frozen=True, slots=True, eq=False)
class Part:
    """An optional computation, then an optional collective.

    Args:
        work: The computation.
        kind: The kind of collective.
        nbytes: Its full buffer.
        over: The kind of group, a name in `simsys.parallel.layout.GROUPS`.
        overlapped: The collective runs during the computation instead of after it.
    """

    work: Work
    kind: CollectiveKind | None = None
    nbytes: float = 0.0
    over: str = "tensor"
    overlapped: bool = False

    @property
    def computes(self) -> bool:
        """Whether there is any computation."""
        return bool(self.work.kernels or self.work.layers)


@dataclass(frozen=True, slots=True, eq=False)
class Block:
    """One block of the model in a training step; equal layers are the same object.

    If experts are divided among ranks, a layer is two blocks: the part replicated on all ranks of ``data``, and its
    experts.

    Args:
        name: Such as ``layer``.
        forward: Parts of the forward pass of a micro-batch.
        backward: Parts of its backward pass.
        gradient_bytes: Bytes of this rank's gradients of the block.
        weight: Delayed parts of the backward pass: the gradients of the weights, in schedules that split it.
        parameter_bytes: Bytes of this rank's weights of the block, in its compute precision; weights in two blocks
            count with the first.
        frozen_bytes: Bytes of its weights that are not trained, as they are stored.
        over: The kind of group with equal weights: ``data`` or, for divided experts, ``expert_data``.
        memory: Memory of a micro-batch in it.
        matrices: This rank's weight matrices; the others are vectors (biases, norms).
        tensor_bytes: Bytes of its gradients, tensor by tensor, in the order in which they are complete.
    """

    name: str
    forward: tuple[Part, ...]
    backward: tuple[Part, ...]
    gradient_bytes: float
    weight: tuple[Part, ...] = ()
    parameter_bytes: float = 0.0
    frozen_bytes: float = 0.0
    over: str = "data"
    memory: BlockMemory = NOTHING
    matrices: tuple[Matrix, ...] = ()
    tensor_bytes: tuple[float, ...] = ()

    @property
    def whole_bytes(self) -> float:
        """Bytes of this rank's weights of the block, trained or not."""
        return self.parameter_bytes + self.frozen_bytes


@dataclass(frozen=True, slots=True, eq=False)
class TrainingPlan:
    """One rank's training step.

    Args:
        chunks: The blocks of each chunk of layers that the rank's pipeline stage holds, in forward order; a stage
            has one chunk unless it has virtual stages.
        micro_batches: Forward-backward passes per step.
        optimizer: Work of the weight update.
        handed_bytes: For each chunk, bytes that a micro-batch sends to the next chunk of the model.
        returned_bytes: For each chunk, bytes of the gradient sent to the previous chunk.
        shared_gradient_bytes: Gradients of weights on both the first and the last stage (tied embeddings).
        memory: For each chunk, memory of a micro-batch; empty by default.
        host_update_bytes: Bytes read and written by a weight update on the host, in one pass.
        waits_for_sends: True if a stage waits for its sends before it computes.
        directions: 2 if half of the micro-batches pass each of the two chunks, which belong to opposite stages.
    """

    chunks: tuple[tuple[Block, ...], ...]
    micro_batches: int
    optimizer: Work
    handed_bytes: tuple[float, ...] = ()
    returned_bytes: tuple[float, ...] = ()
    shared_gradient_bytes: float = 0.0
    memory: tuple[ChunkMemory, ...] = ()
    host_update_bytes: float = 0.0
    waits_for_sends: bool = False
    directions: int = 1

    def __post_init__(self) -> None:
        if not self.memory:
            object.__setattr__(self, "memory", (ChunkMemory(),) * len(self.chunks))

    @property
    def blocks(self) -> tuple[Block, ...]:
        """All blocks of the stage."""
        return tuple(block for chunk in self.chunks for block in chunk)

    @property
    def flop(self) -> float:
        """FLOP of a whole step on this rank, without the optimizer."""
        parts = (part for block in self.blocks for part in (*block.forward, *block.backward, *block.weight))
        return self.micro_batches * ordered_sum(part.work.flop for part in parts) / self.directions

    @property
    def gradient_bytes(self) -> float:
        """Bytes of all gradients of this rank."""
        return ordered_sum(block.gradient_bytes for block in self.blocks)

    @property
    def gradient_bytes_of_directions(self) -> float:
        """The same, added up so that opposite stages of a bidirectional pipeline have the same sum."""
        chunks = [ordered_sum(block.gradient_bytes for block in chunk) for chunk in self.chunks]
        return ordered_sum(sorted(chunks))

    @property
    def parameter_bytes(self) -> float:
        """Bytes of all weights of this rank, in the precision it computes in."""
        return ordered_sum(self.parameter_bytes_by_group.values())

    @property
    def parameter_bytes_by_group(self) -> dict[str, float]:
        """Gradient bytes by the kind of group with equal weights."""
        by_group: dict[str, float] = {}
        for block in self.blocks:
            by_group[block.over] = by_group.get(block.over, 0.0) + block.parameter_bytes
        return by_group


@dataclass(frozen=True, kw_only=True)
class StepSettings:
    """Settings of the computation and memory of a training step.

    Args:
        precision: Precision of computation and storage.
        micro_batches: Number of micro-batches of a step.
        gradient_bytes_per_parameter: 4 for fp32 gradients, as PyTorch's AMP keeps them.
        optimizer: ``adam`` or ``sgd`` (with momentum).
        fused_optimizer: True if the update is one kernel instead of one per operation (`update_work`).
        optimizer_shards: Ranks among which the weight update is divided (ZeRO, FSDP).
        expert_optimizer_shards: Ranks that divide the update of divided experts.
        scatter_gather: Divide messages between stages among the tensor-parallel ranks (Narayanan et al. 2021, §4.1).
        sequence_parallel: Each of these ranks has its part of the tokens, so nothing is gathered.
        backward_layers_ratio: Host overhead of a layer's backward pass over that of its forward pass.
        split_backward: Keep the gradients of weights apart from those of inputs.
        recompute: Parts that the backward pass recomputes.
        loss_bytes_per_logit: Bytes that the loss reads and writes per logit in both passes.
        per_step_s: Host time per step.
        attention_effort: Time of attention kernels over the best kernels of the GPU.
        elementwise: Bytes of element-wise kernels over fused ones.
        expert_elementwise: The same for those of routed experts.
        eager_scores: True if scores and softmax go through memory for each operation.
        eager_norms: True if norms go through memory for each operation.
        p2p_overlap: True if stages compute while their sends are in flight.
        cast_bytes_per_weight: Bytes moved for each weight in either pass to cast it or its gradient.
        copied_bytes_per_weight: Bytes moved for each weight to copy it from, or its gradient to, communication
            buffers: in the forward and in the backward pass.
    """

    precision: Precision
    micro_batches: int = 1
    gradient_bytes_per_parameter: float = 4.0
    optimizer: str = "adam"
    fused_optimizer: bool = True
    optimizer_shards: int = 1
    expert_optimizer_shards: int = 1
    scatter_gather: bool = True
    sequence_parallel: bool = False
    backward_layers_ratio: float = 2.0
    split_backward: bool = False
    recompute: Recomputed = Recompute.NONE
    loss_bytes_per_logit: float = 0.0
    per_step_s: float = 0.0
    attention_effort: float = 1.0
    elementwise: float = 1.0
    expert_elementwise: float = 1.0
    eager_scores: bool = False
    eager_norms: bool = False
    p2p_overlap: bool = True
    cast_bytes_per_weight: float = 0.0
    copied_bytes_per_weight: tuple[float, float] = (0.0, 0.0)

"""The work of one training step on one rank, as data: blocks with their forward and backward work."""

from __future__ import annotations

from dataclasses import dataclass

from simsys.collectives.base import CollectiveKind
from simsys.model.work import Precision, Work
from simsys.parallel.activations import NOTHING, BlockMemory, ChunkMemory, Recompute
from simsys.parallel.compression import Matrix
from simsys.sums import ordered_sum


@dataclass(frozen=True, slots=True, eq=False)
class Part:
    """Computation (possibly none), then possibly a collective.

    Args:
        work: The computation.
        kind: Which collective.
        nbytes: Its full buffer.
        over: The kind of group, a name in `simsys.parallel.layout.GROUPS`.
        beside: The collective runs beside the computation instead of after it.
    """

    work: Work
    kind: CollectiveKind | None = None
    nbytes: float = 0.0
    over: str = "tensor"
    beside: bool = False

    @property
    def computes(self) -> bool:
        """Whether there is any computation."""
        return bool(self.work.kernels or self.work.layers)


@dataclass(frozen=True, slots=True, eq=False)
class Block:
    """One block of the model in a training step; equal layers are the same object.

    If experts are divided among ranks, a layer is two blocks: what all ranks of ``data`` hold alike, and its experts.

    Args:
        name: Such as ``layer``.
        forward: What the forward pass of a micro-batch runs.
        backward: What its backward pass runs.
        gradient_bytes: Bytes of this rank's gradients of the block.
        weight: What of the backward pass is put off: the gradients of the weights, in schedules that split it.
        parameter_bytes: Bytes of this rank's weights of the block, in the precision it computes in; weights that
            stand in two blocks count with the first.
        over: The kind of group that holds the same weights: ``data`` or, for divided experts, ``expert_data``.
        memory: What a micro-batch holds in it.
        matrices: This rank's weights that are matrices; the others are vectors (biases, norms).
    """

    name: str
    forward: tuple[Part, ...]
    backward: tuple[Part, ...]
    gradient_bytes: float
    weight: tuple[Part, ...] = ()
    parameter_bytes: float = 0.0
    over: str = "data"
    memory: BlockMemory = NOTHING
    matrices: tuple[Matrix, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class TrainingPlan:
    """One rank's training step.

    Args:
        chunks: The blocks of each chunk of layers that the rank's pipeline stage holds, in forward order; a stage
            has one chunk unless it has virtual stages.
        micro_batches: Forward-backward passes per step.
        optimizer: Work of the weight update.
        handed_bytes: For each chunk, what a micro-batch hands to the next one in the model.
        returned_bytes: For each chunk, the gradient that a micro-batch hands back to the one before.
        shared_gradient_bytes: Gradients of weights that the first and the last stage both hold (tied embeddings).
        memory: For each chunk, what a micro-batch holds in it; nothing if left out.
        host_update_bytes: What the host reads and writes if the weight update is done there, in one pass.
        waits_for_sends: Whether a stage computes nothing while what it sends is on its way.
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
        return self.micro_batches * ordered_sum(part.work.flop for part in parts)

    @property
    def gradient_bytes(self) -> float:
        """Bytes of all gradients of this rank."""
        return ordered_sum(block.gradient_bytes for block in self.blocks)

    @property
    def parameter_bytes(self) -> float:
        """Bytes of all weights of this rank, in the precision it computes in."""
        return ordered_sum(self.parameter_bytes_by_group.values())

    @property
    def parameter_bytes_by_group(self) -> dict[str, float]:
        """The same by the kind of group that holds the same weights."""
        by_group: dict[str, float] = {}
        for block in self.blocks:
            by_group[block.over] = by_group.get(block.over, 0.0) + block.parameter_bytes
        return by_group


@dataclass(frozen=True, kw_only=True)
class StepSettings:
    """How a training step computes and stores.

    Args:
        precision: What the passes compute and store in.
        micro_batches: How many make a step.
        gradient_bytes_per_parameter: 4 for fp32 gradients, as PyTorch's AMP keeps them.
        optimizer: ``adam`` or ``sgd`` (with momentum).
        fused_optimizer: Whether the update is one kernel, or one for each operation (`update_work`).
        optimizer_shards: Ranks among which the weight update is divided (ZeRO, FSDP).
        expert_optimizer_shards: The same for the weights of divided experts.
        scatter_gather: Divide what stages hand on among the tensor-parallel ranks (Narayanan et al. 2021, §4.1).
        sequence_parallel: Each of these ranks has its part of the tokens only, so that nothing is gathered again.
        backward_layers_ratio: Host overhead of a layer's backward pass over that of its forward pass.
        split_backward: Keep the gradients of weights apart from those of inputs.
        recompute: What the backward pass computes again.
        loss_bytes_per_logit: What the loss reads and writes for each logit, both passes together.
        per_step_s: Time of the host for each step.
        attention_effort: Time of attention kernels over that of the best for the GPU.
        elementwise: Bytes that element-wise kernels move over those of fused ones.
        eager_scores: Whether scores, softmax and what lies between go through memory operation by operation.
        eager_norms: The same of norms.
        p2p_overlap: Whether stages compute while what they have sent is on its way.
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
    recompute: Recompute = Recompute.NONE
    loss_bytes_per_logit: float = 0.0
    per_step_s: float = 0.0
    attention_effort: float = 1.0
    elementwise: float = 1.0
    eager_scores: bool = False
    eager_norms: bool = False
    p2p_overlap: bool = True

"""Training of low-rank adapters beside frozen weights: LoRA (Hu et al. 2022) and QLoRA (Dettmers et al. 2023).

A linear layer y = W·x gets y = W·x + (α/r)·B·A·x, with A of r × inputs and B of outputs × r features. Only A and B are
trained. The backward pass of W is one product, the gradients of its inputs, instead of two. With QLoRA, W is stored in
4 bit, and is written in 16 bit before each product.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from simsys.errors import UnknownNameError
from simsys.model.model import Block, Model
from simsys.model.operators import Operator, OperatorKind, Split
from simsys.model.precision import is_linear
from simsys.model.transformer_operators import gemm, memory
from simsys.model.work import Kernel, Work
from simsys.sums import ordered_sum

HALF_BYTES = 2.0
NF4_BYTES = 0.5 + 1.0 / 64 + 4.0 / (64 * 256)
"""Bytes of a weight in 4-bit NormalFloat with double quantisation: an 8-bit constant for each 64 weights, and one of
32 bit for each 256 of these (Dettmers et al. 2023, §3: 0.127 bit for each weight)."""

ALL_LINEAR = "all-linear"
MODULES: Mapping[str, tuple[str, ...]] = {
    "q_proj": ("qkv",),
    "k_proj": ("qkv",),
    "v_proj": ("qkv",),
    "o_proj": ("attention_output",),
    "gate_proj": ("gate_up", "shared_gate_up"),
    "up_proj": ("gate_up", "shared_gate_up", "up", "shared_up"),
    "down_proj": ("down", "shared_down"),
    "q_a_proj": ("qkv_down",),
    "q_b_proj": ("q_up",),
    "kv_b_proj": ("kv_up",),
    "in_proj": ("mamba_in",),
    "out_proj": ("mamba_out",),
    "linear_qkv": ("qkv",),
    "linear_proj": ("attention_output",),
    "linear_fc1": ("gate_up", "up", "shared_gate_up", "shared_up"),
    "linear_fc2": ("down", "shared_down"),
}
"""Operators by module: names of PEFT for models of transformers, and of NeMo for Megatron Core, which fuses some."""
INPUTS = ("qkv", "qkv_down", "gate_up", "up", "down", "mamba_in", "shared_gate_up", "shared_up", "shared_down")
"""Linear layers whose inputs are kept for the gradients of their weights alone, and not needed if these are frozen."""


@dataclass(frozen=True, slots=True)
class Adapters:
    """Adapters of a model.

    Args:
        rank: Features between the two matrices.
        modules: Names in `MODULES`, or `ALL_LINEAR` for every linear layer except routed experts, routers and head.
        quantized: Whether frozen linear layers are stored in 4 bit.
        dropout: Whether training drops a part of the adapters' inputs.
    """

    rank: int
    modules: tuple[str, ...]
    quantized: bool = False
    dropout: bool = False


def with_trained_adapters(model: Model, adapters: Adapters, *, tied: bool = True) -> Model:
    """Return the model with frozen weights and trained adapters.

    Args:
        model: The model.
        adapters: Its adapters.
        tied: Whether embedding and head are on one device, so that tied weights are stored once.

    Raises:
        UnknownNameError: The model has no such module.
    """
    found = {id(block): _adapted(block, model, adapters) for block in model.kinds_of_blocks}
    known = modules_of(model)
    for module in adapters.modules:
        if module not in known:
            raise UnknownNameError(f"module of {model.name}", module, known)
    blocks = [found[id(block)] for block in model.blocks]
    if model.tied_parameters and tied:
        share = model.tied_parameters * HALF_BYTES
        blocks[0] = replace(blocks[0], operators=tuple(_untied(op, share) for op in blocks[0].operators))
    return replace(model, blocks=tuple(blocks), tied_parameters=0.0)


def modules_of(model: Model) -> list[str]:
    """The names of modules that a model has, all-linear first."""
    names = {operator.name for block in model.kinds_of_blocks for operator in block.operators if _is_linear(operator)}
    found = [module for module, operators in MODULES.items() if names.intersection(operators)]
    return [ALL_LINEAR, *found] if names else []


def dequantized(work: Work, operators: Iterable[Operator]) -> Work:
    """The work with the conversion of its 4-bit weights to 16 bit, in the forward and again in the backward pass."""
    nbytes = ordered_sum(op.frozen_bytes + HALF_BYTES * op.frozen for op in operators if is_quantized(op))
    if not nbytes:
        return work
    kernel = Kernel(OperatorKind.MEMORY, flop=0.0, nbytes=nbytes, backward_share=0.5)
    return replace(work, kernels=(kernel, *work.kernels))


def is_quantized(operator: Operator) -> bool:
    """Whether the frozen weights of an operator are stored in less than 16 bit."""
    return operator.frozen_bytes < HALF_BYTES * operator.frozen


def _untied(operator: Operator, nbytes: float) -> Operator:
    return replace(operator, frozen_bytes=operator.frozen_bytes - nbytes) if operator.lookup else operator


def _adapted(block: Block, model: Model, adapters: Adapters) -> Block:
    """A block with frozen operators, each beside its adapters, and with the activations that it then keeps."""
    operators: list[Operator] = []
    split = replicated = 0.0
    for operator in block.operators:
        outputs = _outputs(operator, model, adapters)
        beside = [kernel for columns in outputs for kernel in _adapter(operator, columns, adapters)]
        frozen = _frozen(operator, adapters)
        # Results of a row-split layer and of its adapter are summed over the ranks together, after both.
        operators += [*beside, frozen] if operator.split is Split.ROW else [frozen, *beside]
        kept = adapters.rank * len(outputs) + (1.5 * operator.inner if outputs and adapters.dropout else 0.0)
        if operator.name in INPUTS and not outputs:
            kept -= operator.inner
        if operator.split is Split.ROW:
            split += kept
        else:
            replicated += kept
    return replace(
        block,
        operators=tuple(operators),
        activation_elements_per_token=block.activation_elements_per_token + split + replicated,
        replicated_activation_elements_per_token=block.replicated_activation_elements_per_token + replicated,
    )


def _frozen(operator: Operator, adapters: Adapters) -> Operator:
    each = NF4_BYTES if adapters.quantized and is_linear(operator) else HALF_BYTES
    return replace(operator, parameters=0.0, frozen=operator.parameters, frozen_bytes=operator.parameters * each)


def _outputs(operator: Operator, model: Model, adapters: Adapters) -> Sequence[int]:
    """Output features of each adapter of an operator; none if it has none."""
    if not _is_linear(operator):
        return ()
    if ALL_LINEAR in adapters.modules or any(
        name.startswith("linear_") and operator.name in MODULES[name] for name in _known(adapters.modules)
    ):
        return (operator.columns,)
    parts = [_part(name, operator, model) for name in _known(adapters.modules) if operator.name in MODULES[name]]
    return tuple(parts)


def _is_linear(operator: Operator) -> bool:
    """Whether an operator may have adapters: linear layers may, except routed experts, routers and the head."""
    return operator.experts == 1 and operator.columns > 0 and is_linear(operator) and operator.name != "router"


def _known(modules: Iterable[str]) -> list[str]:
    return [name for name in modules if name in MODULES]


def _part(module: str, operator: Operator, model: Model) -> int:
    """Output features of a module of transformers, of which an operator may hold several."""
    if operator.name.endswith("gate_up"):
        return operator.columns // 2
    if operator.name != "qkv":
        return operator.columns
    grouped = model.num_attention_heads // model.num_key_value_heads
    head = operator.columns // (model.num_key_value_heads * (grouped + 2))
    return head * (model.num_attention_heads if module == "q_proj" else model.num_key_value_heads)


def _adapter(operator: Operator, columns: int, adapters: Adapters) -> list[Operator]:
    """The kernels of an adapter: dropout of its input, two products, and a scaled sum with the layer's result.

    Tensor parallelism divides the one of its matrices that has the divided side of the layer. The partial sums of a
    row-split layer and of its adapter are added up together.
    """
    row = operator.split is Split.ROW
    name = f"{operator.name}_{columns}_lora"
    wide = Split.REPLICATED if operator.split is Split.REPLICATED else Split.COLUMN
    dropped = [memory(f"{name}_dropout", 2.5 * operator.inner, Split.HEADS if row else Split.REPLICATED)]
    return [
        *(dropped if adapters.dropout else ()),
        gemm(f"{name}_a", operator.inner, adapters.rank, Split.ROW if row else Split.REPLICATED),
        gemm(f"{name}_b", adapters.rank, columns, Split.REPLICATED if row else wide),
        memory(f"{name}_sum", 3 * columns, Split.REPLICATED if row else wide),
    ]

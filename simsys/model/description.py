"""One-line descriptions of models."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from decimal import Decimal

from simsys.model.model import Model
from simsys.model.operators import OperatorKind
from simsys.model.windows import in_serving, whole
from simsys.sums import ordered_sum


def parameter_count(value: float) -> str:
    """Write a number of parameters with three digits and a unit.

    Example:
        >>> parameter_count(8030261248), parameter_count(124439808)
        ('8.03 B', '124 M')
    """
    scale, unit = (1e9, "B") if value >= 1e9 else (1e6, "M")
    return f"{Decimal(f'{value / scale:.3g}'):f} {unit}"


def described(model: Model) -> str:
    """Describe a model: class, parameters, layers, heads, experts, and what was left out of a published model."""
    kind = f"{model.class_name} ({model.name})" if model.class_name else model.name
    parts = [f"{kind}, {parameter_count(model.parameters)} parameters{_active(model)}", *_sizes(model)]
    text = f"model: {', '.join(parts)}"
    if model.quantization is not None:
        text += f"; published in {model.quantization.text}"
    return f"{text}; {'; '.join(model.notes)}" if model.notes else text


def _active(model: Model) -> str:
    active = parameter_count(model.active_parameters)
    return f" ({active} active)" if model.experts > 1 else ""


def _sizes(model: Model) -> Iterator[str]:
    if model.num_layers:
        yield f"{model.num_layers} {'layers' if model.hidden_size else 'blocks'}{_kinds(model)}"
    if model.hidden_size:
        yield f"hidden {model.hidden_size}"
    if model.num_attention_heads:
        yield _heads(model)
    if model.experts > 1:
        yield f"{model.experts} experts, {experts_per_token(model)} a token"
    if model.vocab_size:
        yield f"vocabulary {model.vocab_size:,}"


def experts_per_token(model: Model) -> int:
    """Routed experts of each token; 1 for a dense model."""
    return max(
        (operator.experts_per_token for block in model.kinds_of_blocks for operator in block.operators), default=1
    )


def layers_with_windows(model: Model) -> dict[int, int]:
    """Return the number of layers with sliding windows, by window size in tokens."""
    windows = model.of_blocks(lambda block: max((operator.window for operator in block.operators), default=0))
    return dict(Counter(window for window in windows if window))


def layers_with_states(model: Model) -> int:
    """Return the number of layers with linear attention."""
    return sum(model.of_blocks(lambda block: any(op.elements_per_sequence for op in block.operators)))


def elements_per_sequence(model: Model) -> float:
    """Return the 16-bit elements of windows and states that a sequence keeps at any length."""
    operators = [operator for block in in_serving(model, whole).blocks for operator in block.operators]
    return ordered_sum(operator.elements_per_sequence for operator in operators)


def head_size(model: Model) -> int:
    """Width of a head; 0 if it is not known."""
    kernels = (op for block in model.kinds_of_blocks for op in block.operators if op.kind is OperatorKind.ATTENTION)
    return max((op.inner for op in kernels), default=0)


def is_latent(model: Model) -> bool:
    """Whether keys and values are compressed to latent vectors."""
    return any(op.name == "kv_up" for block in model.kinds_of_blocks for op in block.operators)


def is_sparse(model: Model) -> bool:
    """Whether queries attend to keys that an indexer has chosen."""
    return any(op.chosen for block in model.kinds_of_blocks for op in block.operators)


def _kinds(model: Model) -> str:
    kinds = [f"{count} with a window of {size:,}" for size, count in layers_with_windows(model).items()]
    if states := layers_with_states(model):
        kinds.append(f"{states} with linear attention")
    return f" ({', '.join(kinds)})" if kinds else ""


def _heads(model: Model) -> str:
    width = head_size(model)
    size = f" of {width}" if width else ""
    if is_latent(model):
        return f"{model.num_attention_heads} heads{size} with latent attention"
    grouped = f"/{model.num_key_value_heads}" if model.num_key_value_heads != model.num_attention_heads else ""
    return f"{model.num_attention_heads}{grouped} heads{size}"

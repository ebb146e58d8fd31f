"""Models that users write layer by layer, each layer with counts per sample."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from simsys.errors import UsageError
from simsys.model.fields import Fields
from simsys.model.model import Block, Model
from simsys.model.operators import Operator, OperatorKind

MEGABYTE = 1e6
ALIASES = {"num_parameters": "parameters", "forward_flops": "forward_flop", "backward_flops": "backward_flop"}
MEGABYTE_ALIASES = {"activation_memory_mb": "activation_bytes", "gradient_memory_mb": "gradient_bytes"}
KINDS = {"conv2d": OperatorKind.CONV, "linear": OperatorKind.GEMM, "dense": OperatorKind.GEMM} | {
    kind.value: kind for kind in (OperatorKind.GEMM, OperatorKind.CONV, OperatorKind.MEMORY)
}
DESCRIPTIVE_KEYS = ("name", "layer_id", "kind", "layer_type", "input_shape", "output_shape", "bytes_per_element")


@dataclass(frozen=True, slots=True, kw_only=True)
class Layer:
    """One layer; all amounts are per sample.

    Args:
        name: Short name.
        parameters: Weights.
        forward_flop: FLOP of the forward pass.
        backward_flop: FLOP of the backward pass (None: twice the forward pass).
        activation_bytes: Bytes kept for the backward pass.
        kind: ``gemm``, ``conv`` or ``memory``: which efficiency curve of a device applies.
        input_elements: Elements read; 0 if unknown.
        output_elements: Elements written and handed to the next layer; 0 if unknown.
        rows: GEMM rows a sample makes, such as the output pixels of a convolution.
        bytes_per_element: Bytes of an element in `activation_bytes` (4: fp32).

    Raises:
        UsageError: An amount is negative or not finite.
    """

    name: str
    parameters: float = 0.0
    forward_flop: float = 0.0
    backward_flop: float | None = None
    activation_bytes: float = 0.0
    kind: OperatorKind = OperatorKind.GEMM
    input_elements: float = 0.0
    output_elements: float = 0.0
    rows: float = 1.0
    bytes_per_element: float = 4.0

    def __post_init__(self) -> None:
        """Check the amounts of the layer."""
        amounts = ("parameters", "forward_flop", "activation_bytes", "input_elements", "output_elements")
        for name in amounts:
            value = getattr(self, name)
            if not math.isfinite(value) or value < 0:
                raise UsageError(f"layer {self.name}: {name} must be finite and not negative, got {value}")
        if not math.isfinite(self.backward_ratio) or self.backward_ratio < 0:
            raise UsageError(f"layer {self.name}: backward_flop must be finite and not negative")
        for name in ("bytes_per_element", "rows"):
            if not 0 < getattr(self, name) < math.inf:
                raise UsageError(f"layer {self.name}: {name} must be positive, got {getattr(self, name)}")

    @property
    def backward_ratio(self) -> float:
        """Backward over forward FLOP."""
        if self.backward_flop is None or not self.forward_flop:
            return 2.0
        return self.backward_flop / self.forward_flop


def layer_from_mapping(values: Mapping[str, Any], *, index: int = 0, file: str = "") -> Layer:
    """Return the layer that a mapping describes.

    Keys are those of `Layer` and, as other names for them, ``num_parameters``, ``forward_flops``, ``backward_flops``,
    ``activation_memory_mb`` and ``gradient_memory_mb`` (1 MB = 10^6 bytes), ``layer_id`` (the name if there is no
    ``name``), ``layer_type`` (the kind), ``input_shape`` and ``output_shape`` (channels first). The gradient's size
    only replaces a missing parameter count, with one number per weight.

    Raises:
        ConfigError: A key or value is wrong; the message says which.
    """
    fields = Fields(values, f"layers[{index}]", file)
    plain = ("parameters", "forward_flop", "backward_flop", "activation_bytes", "gradient_bytes")
    fields.reject_unknown([*plain, *ALIASES, *MEGABYTE_ALIASES, *DESCRIPTIVE_KEYS])
    nbytes_per_element = fields.number("bytes_per_element", 4.0, minimum=0.5)
    inputs, outputs = _shape(fields, "input_shape"), _shape(fields, "output_shape")
    kind = _kind(fields)
    return Layer(
        name=_name(fields, index),
        parameters=_parameters(fields, nbytes_per_element),
        forward_flop=_amount(fields, "forward_flop") or 0.0,
        backward_flop=_amount(fields, "backward_flop"),
        activation_bytes=_amount(fields, "activation_bytes") or 0.0,
        kind=kind,
        input_elements=float(math.prod(inputs)) if inputs else 0.0,
        output_elements=float(math.prod(outputs)) if outputs else 0.0,
        rows=float(math.prod(outputs[1:])) if kind is OperatorKind.CONV and outputs else 1.0,
        bytes_per_element=nbytes_per_element,
    )


def build_custom(name: str, layers: Iterable[Layer | Mapping[str, Any]]) -> Model:
    """Return a model of these layers, in order; a token of its batches is a sample.

    A layer with unknown shapes moves the bytes that it keeps for the backward pass.

    Raises:
        UsageError: There is no layer, or a layer is wrong.
    """
    built = [
        layer if isinstance(layer, Layer) else layer_from_mapping(layer, index=index)
        for index, layer in enumerate(layers)
    ]
    if not built:
        raise UsageError(f"model {name}: a custom model needs at least one layer")
    blocks = tuple(_block(layer) for layer in built)
    return Model(name=name, family="cnn", blocks=blocks, num_layers=len(blocks), source="written layer by layer")


def _block(layer: Layer) -> Block:
    kept = layer.activation_bytes / layer.bytes_per_element
    operator = Operator(
        layer.name,
        layer.kind,
        parameters=layer.parameters,
        rows_per_token=layer.rows,
        flop_per_token=layer.forward_flop,
        elements_per_token=(layer.input_elements + layer.output_elements) or kept,
    )
    return Block(
        layer.name,
        (operator,),
        output_elements_per_token=layer.output_elements or kept,
        activation_elements_per_token=kept,
        backward_flop_ratio=layer.backward_ratio,
    )


def _amount(fields: Fields, name: str) -> float | None:
    """The value under `name` or one of its aliases, None if there is none; giving two is an error."""
    names = [name, *(alias for alias, target in {**ALIASES, **MEGABYTE_ALIASES}.items() if target == name)]
    given = [key for key in names if key in fields]
    if len(given) > 1:
        fields.fail(given[1], f"equal to {given[0]}; give one of them")
    if not given:
        return None
    return fields.number(given[0]) * (MEGABYTE if given[0] in MEGABYTE_ALIASES else 1.0)


def _parameters(fields: Fields, nbytes_per_element: float) -> float:
    parameters, gradient = _amount(fields, "parameters"), _amount(fields, "gradient_bytes")
    if parameters is None:
        return (gradient or 0.0) / nbytes_per_element
    # A gradient element has 1 to 8 bytes; the figure may be rounded to 0.01 MB.
    if gradient is not None and not parameters - 0.01 * MEGABYTE <= gradient <= 8 * parameters + 0.01 * MEGABYTE:
        message = f"a gradient of {gradient:g} bytes does not fit {parameters:g} parameters (1 to 8 bytes each)"
        fields.fail("gradient_memory_mb" if "gradient_memory_mb" in fields else "gradient_bytes", message)
    return parameters


def _shape(fields: Fields, key: str) -> tuple[int, ...]:
    value = fields.values.get(key)
    if value is None:
        return ()
    sizes = tuple(value) if isinstance(value, Sequence) and not isinstance(value, str) else ()
    if not sizes or not all(type(size) is int and size > 0 for size in sizes):
        fields.fail(key, f"expected a list of positive integers, got {value!r}")
    return sizes


def _kind(fields: Fields) -> OperatorKind:
    key = "kind" if "kind" in fields else "layer_type"
    word = fields.text(key, "gemm").lower()
    if word not in KINDS:
        fields.fail(key, f"unknown kind {word!r}; known: {', '.join(sorted(KINDS))}")
    return KINDS[word]


def _name(fields: Fields, index: int) -> str:
    if "name" in fields:
        return fields.text("name")
    return f"layer{fields.integer('layer_id', index)}"

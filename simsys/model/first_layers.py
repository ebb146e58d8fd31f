"""A model with only its first layers: a proxy for measurements on few devices."""

from __future__ import annotations

from dataclasses import replace

from simsys.errors import UsageError
from simsys.model.model import Model


def first_layers(model: Model, layers: int) -> Model:
    """Return a model with only its first layers, its embedding and its head.

    Args:
        model: The whole model.
        layers: Number of layers.

    Raises:
        UsageError: It has fewer layers, or layers whose order is not known.
    """
    if layers == model.num_layers:
        return model
    inner = [block for block in model.blocks if not any(each.is_head or each.lookup for each in block.operators)]
    alternate = any(block.spread for block in inner)
    known = model.family in ("decoder", "encoder") and model.layered and not alternate
    if not known or len(inner) != model.num_layers:
        raise UsageError(f"num_layers needs layers that are equal or stand in a known order, unlike {model.name}'s")
    if layers > model.num_layers:
        raise UsageError(f"num_layers {layers} exceeds the {model.num_layers} layers of {model.name}")
    first = model.blocks.index(inner[0])
    last = first + len(inner)
    blocks = (*model.blocks[:first], *inner[:layers], *model.blocks[last:])
    return replace(
        model,
        blocks=blocks,
        num_layers=layers,
        kv_elements_per_token=model.kv_elements_per_token * layers / model.num_layers,
        notes=(*model.notes, f"the first {layers} of {model.num_layers} layers"),
        scales=None,
    )

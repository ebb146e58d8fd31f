"""The vision encoder beside a language model, as data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from simsys.model.image_grids import ImageGrid
from simsys.model.operators import Split


class Product(NamedTuple):
    """A matrix product of a projector, for each token of the language model.

    Args:
        inner: Input features.
        columns: Output features.
        split: How tensor parallelism divides it.
    """

    inner: int
    columns: int
    split: Split = Split.REPLICATED


@dataclass(frozen=True, kw_only=True)
class VisionEncoder:
    """A vision transformer and its projector; sizes are in elements.

    Args:
        kind: Its type, such as ``siglip_vision_model``.
        layers: Layers that are computed.
        full_layers: How many of them attend to the whole image; the others attend in windows.
        hidden_size: Width.
        heads: Attention heads.
        intermediate_size: Width of the MLP.
        gated: Whether the MLP has three matrices.
        patch_elements: Elements of a patch: channels × frames × side².
        projector: Its products in order.
        output_size: Width of the language model.
        grid: How images become patches and tokens.
    """

    kind: str
    layers: int
    full_layers: int
    hidden_size: int
    heads: int
    intermediate_size: int
    gated: bool
    patch_elements: int
    projector: tuple[Product, ...]
    output_size: int
    grid: ImageGrid

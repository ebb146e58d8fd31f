"""The sizes of a vision tower, as its configuration states them."""

from __future__ import annotations

from typing import NamedTuple

from simsys.model.fields import Fields
from simsys.model.huggingface.reading import MAX_SIZE, size

CHANNELS = ("num_channels", "in_channels", "in_chans")
GATED = ("glm4v", "glm4v_moe", "mistral3", "pixtral", "qwen2_5_vl")
"""Types of towers with gated MLPs."""


class Shape(NamedTuple):
    """Sizes of a tower, and of what surrounds it.

    Args:
        vision: Its part of the configuration.
        root: The whole configuration.
        layers: Its layers.
        width: Width of its layers.
        mlp: Width of their MLPs.
        text_hidden: Width of the language model.
    """

    vision: Fields
    root: Fields
    layers: int
    width: int
    mlp: int
    text_hidden: int

    @property
    def outer(self) -> str:
        """The type of the whole model."""
        return self.root.text("model_type")

    @property
    def kind(self) -> str:
        """The type of the tower."""
        return self.vision.text("model_type", self.outer)

    @property
    def gated(self) -> bool:
        """Whether its MLPs are gated."""
        return self.outer in GATED or self.kind in GATED

    @property
    def merge(self) -> int:
        """Patches along the side of the square that becomes one token."""
        at = self.vision if "spatial_merge_size" in self.vision else self.root
        return at.integer("spatial_merge_size", 2, minimum=1, maximum=100)

    @property
    def patch(self) -> int:
        """Side of a patch in pixels."""
        return side(self.vision, "patch_size", 14)

    @property
    def patch_elements(self) -> int:
        """Elements of a patch."""
        frames = self.vision.integer("temporal_patch_size", 1, minimum=1, maximum=100)
        return size(self.vision, CHANNELS, 3) * frames * self.patch**2

    @property
    def merged(self) -> int:
        """Width of the patches that become one token of the language model."""
        sides = self.vision.values.get("merge_kernel_size")
        if isinstance(sides, list) and len(sides) == 2 and all(type(side) is int for side in sides):
            return self.width * int(sides[0] * sides[1])
        return self.width * self.merge**2


def side(vision: Fields, key: str, default: int) -> int:
    """The side of a square, which may be written twice."""
    if isinstance(vision.values.get(key), list):
        sides = vision.integers(key)
        return sides[0] if sides else default
    return vision.integer(key, default, maximum=MAX_SIZE)

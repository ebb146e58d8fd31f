"""Vision towers: number of weights, which use memory in addition to the language model.

The counts equal the models built by Hugging Face's transformers 5.23 within 2 %: patch embedding, positions, layers of
four attention projections and an MLP, and the projection to the language model.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from simsys.model.fields import Fields
from simsys.model.huggingface.reading import MAX_SIZE, size

LAYERS = ("num_hidden_layers", "depth", "vt_num_hidden_layers")
WIDTH = ("embed_dim", "vt_hidden_size", "hidden_size")
MLP = ("intermediate_size", "vt_intermediate_size")
CHANNELS = ("num_channels", "in_channels", "in_chans")
GATED = ("glm4v", "glm4v_moe", "mistral3", "pixtral", "qwen2_5_vl")
"""Types of towers with gated MLPs."""


class Tower(NamedTuple):
    """The vision tower of a language model.

    Args:
        kind: Its type.
        parameters: Weights, including the projection to the language model.
    """

    kind: str
    parameters: float


class _Shape(NamedTuple):
    """Sizes of a tower, and of what surrounds it."""

    vision: Fields
    root: Fields
    layers: int
    width: int
    mlp: int
    text_hidden: int

    @property
    def merged(self) -> int:
        """Width of the patches that become one token of the language model."""
        sides = self.vision.values.get("merge_kernel_size")
        if isinstance(sides, list) and len(sides) == 2 and all(type(side) is int for side in sides):
            return self.width * int(sides[0] * sides[1])
        at = self.vision if "spatial_merge_size" in self.vision else self.root
        return self.width * at.integer("spatial_merge_size", 2, minimum=1, maximum=100) ** 2


def tower_of(root: Fields, text_hidden: int) -> Tower | None:
    """The vision tower of a multimodal configuration; None if it has none.

    Args:
        root: The whole configuration.
        text_hidden: Width of the language model.

    Raises:
        ConfigError: A size is missing or wrong.
    """
    if "vision_config" not in root:
        return None
    outer, vision = root.text("model_type"), root.child("vision_config")
    width = size(vision, WIDTH)
    ratio = vision.number("mlp_ratio", 4.0, minimum=0.1)
    mlp = size(vision, MLP, int(width * ratio))
    if outer.startswith("glm4v"):  # which calls the width of its projection intermediate_size
        mlp = size(vision, ("out_hidden_size",), text_hidden)
    shape = _Shape(vision, root, size(vision, LAYERS), width, mlp, text_hidden)
    gated = outer in GATED or vision.text("model_type", "") in GATED
    layer = 4 * width * width + (3 if gated else 2) * width * mlp
    project = _PROJECTIONS.get(outer, _two_layers)
    kind = vision.text("model_type", outer)
    return Tower(kind, float(shape.layers * layer + _embedding(shape) + project(shape)))


def _embedding(shape: _Shape) -> int:
    """Patches to vectors, and a table of positions where there is one."""
    vision = shape.vision
    patch = _side(vision, "patch_size", 14)
    frames = vision.integer("temporal_patch_size", 1, minimum=1, maximum=100)
    embedding = size(vision, CHANNELS, 3) * frames * patch * patch * shape.width
    positions = size(vision, ("num_position_embeddings",), 1) if "num_position_embeddings" in vision else 0
    if "init_pos_emb_height" in vision:
        positions = size(vision, ("init_pos_emb_height",)) * size(vision, ("init_pos_emb_width",))
    elif not positions and "image_size" in vision and not vision.text("model_type", "").startswith("pixtral"):
        positions = (_side(vision, "image_size", 0) // max(1, patch)) ** 2
    return embedding + positions * shape.width


def _side(vision: Fields, key: str, default: int) -> int:
    """The side of a square, which may be written twice."""
    if isinstance(vision.values.get(key), list):
        sides = vision.integers(key)
        return sides[0] if sides else default
    return vision.integer(key, default, maximum=MAX_SIZE)


def _one_layer(shape: _Shape) -> int:
    return shape.width * shape.text_hidden


def _two_layers(shape: _Shape) -> int:
    return shape.width * shape.text_hidden + shape.text_hidden**2


def _merging(shape: _Shape) -> int:
    """Neighbouring patches through two layers to one token; further ones from inner layers (DeepStack)."""
    further = len(shape.vision.integers("deepstack_visual_indexes"))
    return (1 + further) * (shape.merged**2 + shape.merged * shape.text_hidden)


def _merging_first(shape: _Shape) -> int:
    return shape.merged * shape.width + _two_layers(shape)


def _pixel_shuffle(shape: _Shape) -> int:
    return shape.merged * shape.text_hidden + shape.text_hidden**2


def _llama4(shape: _Shape) -> int:
    inputs, outputs = (size(shape.vision, (f"projector_{side}_dim",), 4096) for side in ("input", "output"))
    adapter = shape.mlp * inputs + inputs * outputs
    return adapter + size(shape.vision, ("vision_output_dim",), outputs) * shape.text_hidden


def _glm4v(shape: _Shape) -> int:
    out = size(shape.vision, ("out_hidden_size",), shape.text_hidden)
    return shape.merged * out + out * out + 3 * out * size(shape.vision, MLP, shape.mlp)


_PROJECTIONS: Mapping[str, Callable[[_Shape], int]] = {
    "gemma3": _one_layer,
    "glm4v": _glm4v,
    "glm4v_moe": _glm4v,
    "internvl": _pixel_shuffle,
    "kimi_k25": _merging,
    "llama4": _llama4,
    "mistral3": _merging_first,
    "paligemma": _one_layer,
    "qwen2_5_vl": _merging,
    "qwen2_vl": _merging,
    "qwen3_5": _merging,
    "qwen3_5_moe": _merging,
    "qwen3_vl": _merging,
    "qwen3_vl_moe": _merging,
}

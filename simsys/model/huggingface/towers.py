"""Vision towers: number of weights, which use memory in addition to the language model, and the encoder of images.

The counts equal the models built by Hugging Face's transformers 5.23 within 2 %: patch embedding, positions, layers of
four attention projections and an MLP, and the projection to the language model.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from simsys.model.fields import Fields
from simsys.model.huggingface.image_grids import grid_of
from simsys.model.huggingface.reading import size
from simsys.model.huggingface.tower_shape import Shape, side
from simsys.model.operators import Split
from simsys.model.vision_encoder import Product, VisionEncoder

LAYERS = ("num_hidden_layers", "depth", "vt_num_hidden_layers")
WIDTH = ("embed_dim", "vt_hidden_size", "hidden_size")
MLP = ("intermediate_size", "vt_intermediate_size")
HEADS = ("num_heads", "num_attention_heads", "vt_num_attention_heads")
HEAD_SIZE = 64
"""Of a tower that does not state its heads."""
COLUMN, ROW = Split.COLUMN, Split.ROW


class Tower(NamedTuple):
    """The vision tower of a language model.

    Args:
        kind: Its type.
        parameters: Weights, including the projection to the language model.
        encoder: The work of an image; None if the processor of its images is not modelled.
    """

    kind: str
    parameters: float
    encoder: VisionEncoder | None = None


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
    shape = Shape(vision, root, size(vision, LAYERS), width, mlp, text_hidden)
    layer = 4 * width * width + (3 if shape.gated else 2) * width * mlp
    projector = _PROJECTORS.get(outer, _two_layers)(shape)
    weights = sum(each.inner * each.columns for each in projector)
    parameters = shape.layers * layer + _embedding(shape) + weights
    return Tower(shape.kind, float(parameters), _encoder(shape, projector))


def _encoder(shape: Shape, projector: tuple[Product, ...]) -> VisionEncoder | None:
    """The work of an image, if the processor of the model is known."""
    grid = grid_of(shape)
    if grid is None:
        return None
    vision = shape.vision
    layers = _layers_run(shape)
    full = vision.integers("fullatt_block_indexes")
    return VisionEncoder(
        kind=shape.kind,
        layers=layers,
        full_layers=len(full) if full else layers,
        hidden_size=shape.width,
        heads=size(vision, HEADS, max(1, shape.width // HEAD_SIZE)),
        intermediate_size=shape.mlp,
        gated=shape.gated,
        patch_elements=shape.patch_elements,
        projector=projector,
        output_size=shape.text_hidden,
        grid=grid,
    )


def _layers_run(shape: Shape) -> int:
    """Layers up to the one whose output is used; vLLM builds no others (`init_vision_tower_for_llava`)."""
    if "vision_feature_layer" not in shape.root:
        return shape.layers
    used = shape.root.integer("vision_feature_layer", -1, minimum=-shape.layers, maximum=shape.layers)
    return used if used > 0 else shape.layers + used + 1


def _embedding(shape: Shape) -> int:
    """Patches to vectors, and a table of positions where there is one."""
    vision, patch = shape.vision, shape.patch
    embedding = shape.patch_elements * shape.width
    positions = size(vision, ("num_position_embeddings",), 1) if "num_position_embeddings" in vision else 0
    if "init_pos_emb_height" in vision:
        positions = size(vision, ("init_pos_emb_height",)) * size(vision, ("init_pos_emb_width",))
    elif not positions and "image_size" in vision and not vision.text("model_type", "").startswith("pixtral"):
        positions = (side(vision, "image_size", 0) // max(1, patch)) ** 2
    return embedding + positions * shape.width


def _one_layer(shape: Shape) -> tuple[Product, ...]:
    return (Product(shape.width, shape.text_hidden),)


def _two_layers(shape: Shape) -> tuple[Product, ...]:
    return Product(shape.width, shape.text_hidden, COLUMN), Product(shape.text_hidden, shape.text_hidden, ROW)


def _merging(shape: Shape) -> tuple[Product, ...]:
    """Neighbouring patches through two layers to one token; further ones from inner layers (DeepStack)."""
    further = len(shape.vision.integers("deepstack_visual_indexes"))
    merger = Product(shape.merged, shape.merged, COLUMN), Product(shape.merged, shape.text_hidden, ROW)
    return merger * (1 + further)


def _merging_first(shape: Shape) -> tuple[Product, ...]:
    return (Product(shape.merged, shape.width), *_two_layers(shape))


def _pixel_shuffle(shape: Shape) -> tuple[Product, ...]:
    return Product(shape.merged, shape.text_hidden, COLUMN), Product(shape.text_hidden, shape.text_hidden, ROW)


def _llama4(shape: Shape) -> tuple[Product, ...]:
    inputs, outputs = (size(shape.vision, (f"projector_{side}_dim",), 4096) for side in ("input", "output"))
    last = Product(size(shape.vision, ("vision_output_dim",), outputs), shape.text_hidden)
    return Product(shape.mlp, inputs, COLUMN), Product(inputs, outputs, ROW), last


def _glm4v(shape: Shape) -> tuple[Product, ...]:
    out = size(shape.vision, ("out_hidden_size",), shape.text_hidden)
    wide = size(shape.vision, MLP, shape.mlp)
    return Product(shape.merged, out), Product(out, out), Product(out, 2 * wide, COLUMN), Product(wide, out, ROW)


_PROJECTORS: Mapping[str, Callable[[Shape], tuple[Product, ...]]] = {
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

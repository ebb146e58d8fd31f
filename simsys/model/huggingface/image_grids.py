"""How the processor of a published model cuts images, from its configuration.

What ``config.json`` leaves out is in the repository's ``preprocessor_config.json``; here are the published values.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from simsys.model.huggingface.reading import size
from simsys.model.huggingface.tower_shape import Shape, side
from simsys.model.image_grids import FixedGrid, ImageGrid, LeastUpscaled, NativeGrid, NearestAspect, RowsGrid

QWEN2_PIXELS = (3_136, 12_845_056)
"""Smallest and largest area (preprocessor_config.json of Qwen/Qwen2-VL-7B-Instruct, Qwen/Qwen2.5-VL-7B-Instruct)."""
QWEN3_PIXELS = (65_536, 16_777_216)
"""The same of Qwen/Qwen3-VL-8B-Instruct and Qwen/Qwen3.5-9B, where they are called edges."""
LLAMA4_TILES = 16
"""``max_patches`` of meta-llama/Llama-4-Scout-17B-16E-Instruct."""
INTERN_TILES = 12
"""``max_patches`` of OpenGVLab/InternVL3-8B-hf."""
GEMMA3_SEPARATORS = 4
"""Start and end of an image, and a token of two line breaks around each (transformers, processing_gemma3.py)."""


def grid_of(shape: Shape) -> ImageGrid | None:
    """How the images of a model are cut; None if that is not modelled."""
    make = _GRIDS.get(shape.outer)
    return None if make is None else make(shape)


def _patches(shape: Shape, image_side: int) -> int:
    """Patches of a square image."""
    across = image_side // max(1, shape.patch)
    if across < 1:
        shape.vision.fail("image_size", f"must be at least the patch_size {shape.patch}, not {image_side}")
    return across**2


def _clip(shape: Shape) -> ImageGrid | None:
    """LLaVA 1.5: all patches of CLIP, with its class token only if the strategy is ``full``."""
    if isinstance(shape.root.values.get("vision_feature_layer"), list):
        return None
    patches = _patches(shape, side(shape.vision, "image_size", 336))
    own = 1 if shape.kind.startswith("clip") else 0
    kept = own if shape.root.text("vision_feature_select_strategy", "default") == "full" else 0
    return FixedGrid(patches, patches + kept, class_tokens=own)


def _paligemma(shape: Shape) -> ImageGrid:
    patches = _patches(shape, side(shape.vision, "image_size", 224))
    return FixedGrid(patches, patches)


def _gemma3(shape: Shape) -> ImageGrid:
    """Patches are pooled to a fixed number of tokens; pan and scan is off, as by default."""
    patches = _patches(shape, side(shape.vision, "image_size", 896))
    return FixedGrid(patches, size(shape.root, ("mm_tokens_per_image",), 256), separators=GEMMA3_SEPARATORS)


def _qwen2(shape: Shape) -> ImageGrid:
    window = size(shape.vision, ("window_size",), 112) if shape.outer == "qwen2_5_vl" else 0
    if window and window < shape.patch * shape.merge:
        shape.vision.fail("window_size", f"must be at least patch_size x spatial_merge_size, not {window}")
    return NativeGrid(shape.patch, shape.merge, *QWEN2_PIXELS, window=window)


def _qwen3(shape: Shape) -> ImageGrid:
    return NativeGrid(shape.patch, shape.merge, *QWEN3_PIXELS)


def _pixtral(shape: Shape) -> ImageGrid:
    return RowsGrid(shape.patch, shape.merge, side(shape.vision, "image_size", 1540))


def _llama4(shape: Shape) -> ImageGrid:
    return _tiles(shape, LeastUpscaled, "pixel_shuffle_ratio", 336, LLAMA4_TILES)


def _intern(shape: Shape) -> ImageGrid:
    return _tiles(shape, NearestAspect, "downsample_ratio", 448, INTERN_TILES)


def _tiles(
    shape: Shape, kind: type[LeastUpscaled | NearestAspect], ratio: str, default_side: int, most: int
) -> ImageGrid:
    """Tiles with a class token; pixel shuffle leaves a share of the patches along each side."""
    tile = side(shape.vision, "image_size", default_side)
    patches = _patches(shape, tile)
    fields = shape.vision if ratio in shape.vision else shape.root
    share = fields.number(ratio, 0.5)
    tokens = round(patches * share**2)
    if not 1 <= tokens <= patches:
        fields.fail(ratio, f"must leave 1 to {patches} tokens of a tile, not {tokens}")
    return kind(tile, patches + 1, tokens, most)


_GRIDS: Mapping[str, Callable[[Shape], ImageGrid | None]] = {
    "gemma3": _gemma3,
    "internvl": _intern,
    "llama4": _llama4,
    "llava": _clip,
    "mistral3": _pixtral,
    "paligemma": _paligemma,
    "qwen2_5_vl": _qwen2,
    "qwen2_vl": _qwen2,
    "qwen3_5": _qwen3,
    "qwen3_5_moe": _qwen3,
    "qwen3_vl": _qwen3,
    "qwen3_vl_moe": _qwen3,
}
"""By the type of the whole model."""

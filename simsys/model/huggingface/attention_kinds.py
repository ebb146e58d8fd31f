"""Kinds of attention by layer: full, window or linear."""

from __future__ import annotations

from collections import Counter
from typing import Any

from simsys.errors import did_you_mean
from simsys.model.fields import Fields
from simsys.model.huggingface.families import ALL_LAYERS, Family
from simsys.model.huggingface.reading import HEADS, LAYERS, MAX_SIZE, Reader, check_length, given, size

FULL, WINDOW, LINEAR = "full", "window", "linear"
KINDS = {
    "full_attention": FULL,
    "attention": FULL,
    "sliding_attention": WINDOW,
    "chunked_attention": WINDOW,
    "linear_attention": LINEAR,
    "deepseek_sparse_attention": FULL,
    "indexed_attention": FULL,
}
"""What ``layer_types`` calls them."""

WINDOWS = ("sliding_window", "attention_chunk_size")
PERIODS = ("sliding_window_pattern", "_sliding_window_pattern", "layer_switch")
LINEAR_PERIODS = ("full_attention_interval",)


def attention_kinds(reader: Reader, family: Family, context: int) -> dict[str, Any]:
    """The arguments of an architecture that say how many layers have windows or linear attention.

    Args:
        reader: The configuration.
        family: What its type implies.
        context: The longest context; a window as long limits nothing.

    Raises:
        ConfigError: The configuration contradicts itself or has a kind of layer that is not modelled.
    """
    fields, layers = reader.fields, size(reader.fields, LAYERS)
    found = Counter(_listed(fields, layers) or _implied(fields, family, layers))
    window = _window(fields) if found[WINDOW] else None
    if window is None or window >= context:
        found[FULL] += found.pop(WINDOW, 0)
    kinds: dict[str, Any] = _sparse_attention(reader, context)
    if found[WINDOW]:
        kinds |= {"window_layers": found[WINDOW], "sliding_window": window}
    if found[LINEAR]:
        kinds |= {"linear_layers": found[LINEAR], **_linear_heads(fields)}
    if found[WINDOW] and found[LINEAR]:
        fields.fail("layer_types", "windows and linear attention in one model are not modelled")
    return kinds


def _listed(fields: Fields, layers: int) -> list[str]:
    """The kind of each layer as the file lists them; an empty list if it does not."""
    if "attn_type_list" in fields:  # MiniMax: 0 for linear attention
        return [FULL if kind else LINEAR for kind in _one_for_each(fields, "attn_type_list", layers)]
    names = fields.texts("layer_types")
    if not names:
        return []
    fields.used.update((*PERIODS, *LINEAR_PERIODS, *WINDOWS, "max_window_layers"))
    check_length(fields, "layer_types", len(names), layers)
    unknown = next((name for name in names if name not in KINDS), None)
    if unknown is not None:
        fields.fail("layer_types", f"layers of kind {unknown!r} are not modelled{did_you_mean(unknown, KINDS)}")
    return [KINDS[name] for name in names]


def _implied(fields: Fields, family: Family, layers: int) -> list[str]:
    """The kind of each layer as the family arranges them."""
    if family.linear_period:
        period = fields.integer(given(fields, LINEAR_PERIODS) or LINEAR_PERIODS[0], family.linear_period, minimum=1)
        return _periodic(LINEAR, period, layers)
    if "no_rope_layers" in fields and fields.integers("no_rope_layers") and family.window_period:  # Llama 4
        return [WINDOW if rotary else FULL for rotary in _one_for_each(fields, "no_rope_layers", layers)]
    if "use_sliding_window" in fields:  # Qwen: the layers from `max_window_layers` on
        if not fields.flag("use_sliding_window", False):
            fields.used |= {*WINDOWS, "max_window_layers"}
            return [FULL] * layers
        first = fields.integer("max_window_layers", 0, maximum=MAX_SIZE)
        return [FULL if layer < first else WINDOW for layer in range(layers)]
    if not family.window_period:
        return [FULL] * layers
    return _periodic(WINDOW, _window_period(fields, family), layers)


def _window_period(fields: Fields, family: Family) -> int:
    """After how many layers one attends to everything; Exaone 4 writes it as ``LLLG``."""
    key = given(fields, PERIODS)
    if key is None:
        return fields.integer("no_rope_layer_interval", family.window_period, minimum=1, maximum=MAX_SIZE)
    if isinstance(fields.values[key], str):
        return max(1, len(fields.text(key)))
    return fields.integer(key, minimum=1, maximum=MAX_SIZE)


def _periodic(other: str, period: int, layers: int) -> list[str]:
    """The last layer of each period attends to everything; with a period of 1, none does."""
    if period == ALL_LAYERS:
        return [other] * layers
    return [FULL if (layer + 1) % period == 0 else other for layer in range(layers)]


def _window(fields: Fields) -> int | None:
    key = given(fields, WINDOWS)
    return None if key is None else fields.integer(key, maximum=MAX_SIZE) or None


def _linear_heads(fields: Fields) -> dict[str, int]:
    """Heads of linear attention; for lightning attention (MiniMax), the heads of attention."""
    heads = size(fields, HEADS)
    width = fields.integer("head_dim", 0, maximum=MAX_SIZE) or fields.integer("hidden_size", minimum=1) // heads
    found = {
        "linear_key_heads": fields.integer("linear_num_key_heads", heads, minimum=1, maximum=MAX_SIZE),
        "linear_value_heads": fields.integer("linear_num_value_heads", heads, minimum=1, maximum=MAX_SIZE),
        "linear_head_size": fields.integer("linear_key_head_dim", width, minimum=1, maximum=MAX_SIZE),
    }
    values = fields.integer("linear_value_head_dim", found["linear_head_size"], minimum=1, maximum=MAX_SIZE)
    if values != found["linear_head_size"]:
        message = f"{values} differs from linear_key_head_dim {found['linear_head_size']}, which is not modelled"
        fields.fail("linear_value_head_dim", message)
    return found


def _sparse_attention(reader: Reader, context: int) -> dict[str, int]:
    """DeepSeek sparse attention: an indexer chooses the tokens that a query attends to."""
    fields = reader.fields
    tokens = fields.integer("index_topk", 0, maximum=MAX_SIZE)
    if not tokens or tokens >= context:
        return {}
    if "kv_lora_rank" not in fields:
        reader.warnings.append(
            f"sparse attention to {tokens:,} tokens (index_topk) without latent attention is simulated as attention "
            "to all: passes over longer contexts are predicted too slow; the weights of the indexer are not counted"
        )
        return {}
    return {
        "index_tokens": tokens,
        "index_heads": fields.integer("index_n_heads", minimum=1, maximum=MAX_SIZE),
        "index_head_size": fields.integer("index_head_dim", minimum=1, maximum=MAX_SIZE),
    }


def _one_for_each(fields: Fields, key: str, layers: int) -> list[int]:
    values = fields.integers(key)
    check_length(fields, key, len(values), layers)
    return values

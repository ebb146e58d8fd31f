"""Sizes out of a configuration, whatever they are called in the model's family."""

from __future__ import annotations

from typing import NamedTuple

from simsys.model.fields import MAX_LAYERS, Fields

# Names of the same number in different families, the first that is present counts.
LAYERS = ("num_hidden_layers", "n_layer", "n_layers", "num_layers", "encoder_layers")
DECODER_LAYERS = ("num_decoder_layers", "decoder_layers")
HIDDEN = ("hidden_size", "n_embd", "n_embed", "d_model")
HEADS = ("num_attention_heads", "n_head", "num_heads", "encoder_attention_heads")
KEY_VALUE_HEADS = ("num_key_value_heads", "num_kv_heads")
INTERMEDIATE = (
    "intermediate_size_mlp",
    "intermediate_size",
    "n_inner",
    "ffn_dim",
    "ffn_hidden_size",
    "d_ff",
    "encoder_ffn_dim",
)
CONTEXT = (
    "max_position_embeddings",
    "n_positions",
    "seq_length",
    "max_sequence_length",
    "model_max_length",
    "n_ctx",
)
VOCABULARY = ("vocab_size",)

MAX_SIZE = 100_000_000
"""Of widths, heads, experts, vocabularies and contexts."""


class Reader(NamedTuple):
    """A configuration with notes and warnings of its reading.

    Args:
        fields: The language model's part of it.
        notes: Parts without cost in a text workload that were left out, as phrases.
        warnings: Reasons to doubt the figures, as phrases.
    """

    fields: Fields
    notes: list[str]
    warnings: list[str]


def given(fields: Fields, names: tuple[str, ...]) -> str | None:
    """The value of the first name that is present; equal values under other names count as used, too."""
    used = set(fields.used)
    found = [name for name in names if name in fields]
    fields.used = used | {name for name in found if fields.values[name] == fields.values[found[0]]}
    return found[0] if found else None


def size(fields: Fields, names: tuple[str, ...], default: int | None = None) -> int:
    """A positive size under the first of the names that is present."""
    key = given(fields, names) or names[0]
    return fields.integer(key, default, minimum=1, maximum=MAX_LAYERS if names == LAYERS else MAX_SIZE)


def count(fields: Fields, names: tuple[str, ...]) -> int:
    """A size that may be missing or 0."""
    return fields.integer(given(fields, names) or names[0], 0, maximum=MAX_SIZE)


def check_length(fields: Fields, key: str, length: int, layers: int) -> None:
    """Check that a list says something of every layer."""
    if length != layers:
        fields.fail(key, f"lists {length} layers, but the model has {layers}")

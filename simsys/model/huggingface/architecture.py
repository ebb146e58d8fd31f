"""The architecture of a language model from its part of a configuration."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from simsys.errors import UsageError
from simsys.model.fields import Fields
from simsys.model.huggingface.attention_kinds import attention_kinds
from simsys.model.huggingface.families import Family
from simsys.model.huggingface.mixtures import mixture
from simsys.model.huggingface.reading import (
    CONTEXT,
    DECODER_LAYERS,
    HEADS,
    HIDDEN,
    INTERMEDIATE,
    KEY_VALUE_HEADS,
    LAYERS,
    MAX_SIZE,
    VOCABULARY,
    Reader,
    given,
    size,
)
from simsys.model.transformer_architecture import TransformerArchitecture

DROPOUT = ("resid_pdrop", "hidden_dropout_prob", "dropout", "hidden_dropout", "dropout_rate", "residual_dropout")
"""Probabilities."""
ACTIVATIONS = ("hidden_act", "hidden_activation", "activation_function", "activation")
GATED_ACTIVATIONS = {"silu", "swish", "swiglu", "geglu"}
QKV_BIASES = ("attention_bias", "qkv_bias", "use_qkv_bias", "bias", "use_bias")
QK_NORMS = ("use_qk_norm", "qk_layernorm")
KEEPS_CONTEXT = ("su", "longrope", "llama3", "mrope", "default")
"""Scalings of rotary positions with a factor included in the file's longest context."""
DEFAULT_CONTEXT = 2048


def architecture_of(reader: Reader, family: Family, name: str, root: Fields) -> TransformerArchitecture:
    """The architecture that a configuration describes.

    Args:
        reader: The language model's part of the configuration.
        family: What its type implies.
        name: Of the model.
        root: The whole configuration; where both say whether embeddings are tied, its word counts.

    Raises:
        ConfigError: Keys are missing (all are named) or values are wrong.
    """
    fields = reader.fields
    _check_present(fields, family)
    hidden, heads, context = size(fields, HIDDEN), size(fields, HEADS), longest_context(fields)
    arguments: dict[str, Any] = {
        "num_layers": size(fields, LAYERS),
        "hidden_size": hidden,
        "num_attention_heads": heads,
        "num_key_value_heads": _key_value_heads(fields, heads),
        "head_size": _head_size(fields, hidden, heads),
        "intermediate_size": size(fields, INTERMEDIATE, 4 * hidden),
        "vocab_size": size(fields, VOCABULARY),
        "max_context_tokens": context,
        "token_types": 0 if family.causal else fields.integer("type_vocab_size", 0, maximum=MAX_SIZE),
        **_flags(fields, family, root),
        **_latent(fields),
        **_decoder(fields, family),
        **mixture(fields, family),
        **attention_kinds(reader, family, context),
    }
    try:
        return TransformerArchitecture(name=name, source=f"config.json of {name}", **arguments)
    except UsageError as error:
        fields.fail("", str(error))


def longest_context(fields: Fields) -> int:
    """The longest context in tokens, with the factor of scaled rotary positions.

    As in vLLM (config/model.py, ``_get_and_verify_max_len``): the factor multiplies the longest context, or for YaRN
    the original one, unless the file's longest context contains it already.
    """
    longest = size(fields, CONTEXT, DEFAULT_CONTEXT)
    key = given(fields, ("rope_scaling", "rope_parameters"))
    if key is None or fields.text("model_type", "").startswith("gemma3"):
        return longest
    rope = fields.child(key)
    if isinstance(rope.values.get("full_attention"), Mapping):
        rope = rope.child("full_attention")
    kind = rope.text("rope_type", rope.text("type", "default"))
    if kind in KEEPS_CONTEXT:
        return longest
    if kind == "yarn":
        longest = rope.integer("original_max_position_embeddings", longest, minimum=1, maximum=MAX_SIZE)
    factor = rope.number("factor", 1.0, minimum=1.0)
    if factor * longest > MAX_SIZE:
        rope.fail("factor", f"{factor:g} times {longest:,} tokens are too long a context; at most {MAX_SIZE:,}")
    return int(longest * factor)


def _check_present(fields: Fields, family: Family) -> None:
    needed = [LAYERS, HIDDEN, HEADS, VOCABULARY]
    if not family.implied_intermediate:
        needed.append(
            INTERMEDIATE if given(fields, ("moe_intermediate_size",)) is None else ("moe_intermediate_size",)
        )
    if missing := [names[0] for names in needed if given(fields, names) is None]:
        fields.fail("", f"missing {', '.join(missing)}")


def _flags(fields: Fields, family: Family, root: Fields) -> dict[str, bool]:
    nested = "tie_word_embeddings" in fields
    tied_at = fields if nested and "tie_word_embeddings" not in root else root
    qkv_biases = given(fields, QKV_BIASES)
    qk_norms = given(fields, QK_NORMS)
    return {
        "gated_mlp": _gated(fields, family),
        "tied_embeddings": tied_at.flag("tie_word_embeddings", family.tied),
        "learned_positions": family.learned_positions,
        "biases": family.biases,
        "qkv_biases": family.qkv_biases if qkv_biases is None else fields.flag(qkv_biases, False),
        "qk_norms": family.qk_norms if qk_norms is None else fields.flag(qk_norms, False),
        "dropout": _dropout(fields, family),
        "causal": family.causal,
        "post_norm": family.post_norm,
        "gated_attention": family.gated_attention and fields.flag("attn_output_gate", True),
        "sandwich_norms": family.sandwich_norms,
    }


def _latent(fields: Fields) -> dict[str, int]:
    """Sizes of multi-head latent attention."""
    if "kv_lora_rank" not in fields:
        return {}
    fields.require("qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim")
    return {
        "q_lora_rank": fields.integer("q_lora_rank", 0, maximum=MAX_SIZE),
        "kv_lora_rank": fields.integer("kv_lora_rank", minimum=1, maximum=MAX_SIZE),
        "qk_nope_head_size": fields.integer("qk_nope_head_dim", minimum=1, maximum=MAX_SIZE),
        "qk_rope_head_size": fields.integer("qk_rope_head_dim", maximum=MAX_SIZE),
        "v_head_size": fields.integer("v_head_dim", minimum=1, maximum=MAX_SIZE),
    }


def _decoder(fields: Fields, family: Family) -> dict[str, int]:
    """The decoder of an encoder-decoder; its layers must be as wide as the encoder's."""
    if not family.decoder:
        return {}
    fields.used.add("is_encoder_decoder")
    for key in ("attention_heads", "ffn_dim"):
        sides = [fields.integer(f"{side}_{key}", 0) for side in ("encoder", "decoder")]
        if sides[0] != sides[1]:
            fields.fail(f"decoder_{key}", f"{sides[1]} differs from encoder_{key} {sides[0]}, which is not supported")
    return {
        "decoder_layers": size(fields, DECODER_LAYERS, size(fields, LAYERS)),
        "decoder_sequence_length": family.decoder_sequence_length,
    }


def _key_value_heads(fields: Fields, heads: int) -> int:
    """With `multi_query` one (GPT-BigCode, Falcon), unless Falcon's newer decoder (with `num_kv_heads`) is used."""
    if fields.flag("multi_query", False) and not fields.flag("new_decoder_architecture", False):
        fields.used.update(KEY_VALUE_HEADS)
        return 1
    return size(fields, KEY_VALUE_HEADS, heads)


def _head_size(fields: Fields, hidden: int, heads: int) -> int:
    """The explicit size if there is one: it need not be hidden / heads (Qwen3, Gemma 2, T5)."""
    explicit = given(fields, ("head_dim", "d_kv"))
    if "kv_lora_rank" in fields:  # whose file may give the rotary part alone as `head_dim`
        fields.require("qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim")
        return fields.integer("qk_nope_head_dim") + fields.integer("qk_rope_head_dim")
    if explicit:
        return size(fields, (explicit,))
    if hidden % heads:
        fields.fail("", f"hidden size {hidden} is not a multiple of {heads} heads, and there is no head_dim")
    return hidden // heads


def _dropout(fields: Fields, family: Family) -> bool:
    """Whether a probability is above 0; the older families have it unless their file says otherwise."""
    found = [fields.number(key) for key in DROPOUT if key in fields]
    return any(found) if found else family.learned_positions


def _gated(fields: Fields, family: Family) -> bool:
    activation = fields.text(given(fields, ACTIVATIONS) or ACTIVATIONS[0], "silu")
    fields.used.update(ACTIVATIONS)  # Gemma has two that differ
    if family.gated is not None:
        return family.gated
    if "feed_forward_proj" in fields or family.decoder:
        return fields.text("feed_forward_proj", "relu").startswith("gated")
    return activation in GATED_ACTIVATIONS

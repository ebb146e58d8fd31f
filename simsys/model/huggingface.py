"""A transformer's architecture from the ``config.json`` that Hugging Face models carry; nothing is downloaded.

Not modelled: sliding windows (attention is taken over the whole context), multi-token-prediction layers, vision
towers, and quantisation (the precision is chosen in the experiment).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from simsys.errors import UsageError
from simsys.model.fields import Fields
from simsys.model.transformer_architecture import TransformerArchitecture

# Names of the same number in different families, the first that is present counts.
LAYERS = ("num_hidden_layers", "n_layer", "num_layers", "encoder_layers")
DECODER_LAYERS = ("num_decoder_layers", "decoder_layers")
HIDDEN = ("hidden_size", "n_embd", "d_model")
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
CONTEXT = ("max_position_embeddings", "n_positions")
EXPERTS = ("num_local_experts", "n_routed_experts", "num_experts")
EXPERTS_PER_TOKEN = ("num_experts_per_tok", "num_experts_per_token")
DROPOUT = ("resid_pdrop", "hidden_dropout_prob", "dropout", "hidden_dropout", "dropout_rate")  # probabilities
GATED_ACTIVATIONS = {"silu", "swish", "swiglu", "geglu"}


@dataclass(frozen=True)
class Family:
    """What a model type implies without saying so in its file.

    Args:
        gated: Whether the MLP is gated; None: it is if the activation says so.
        tied: Default of ``tie_word_embeddings``.
        biases: Whether linear layers and norms have biases.
        learned_positions: Whether positions are a table.
        qkv_biases: Whether queries, keys and values have biases.
        qk_norms: Whether queries and keys are normalised.
        causal: False for an encoder, with or without a decoder beside it.
        post_norm: True if norms follow the sums.
        decoder: True for an encoder-decoder, whose decoder has as many layers unless the file says otherwise.
        decoder_sequence_length: Default length of its training sequences (0: as long as the encoder's).
        implied_intermediate: True if the MLP width is 4 × hidden when the file does not give it.
    """

    gated: bool | None = None
    tied: bool = False
    biases: bool = False
    learned_positions: bool = False
    qkv_biases: bool = False
    qk_norms: bool = False
    causal: bool = True
    post_norm: bool = False
    decoder: bool = False
    decoder_sequence_length: int = 0
    implied_intermediate: bool = False


_GEMMA = Family(gated=True, tied=True)
_OPT = Family(gated=False, tied=True, biases=True, learned_positions=True)
_T5 = Family(tied=True, causal=False, decoder=True, decoder_sequence_length=128)
_BART = Family(gated=False, tied=True, biases=True, learned_positions=True, causal=False, post_norm=True, decoder=True)
FAMILIES: dict[str, Family] = {
    "llama": Family(gated=True),
    "mistral": Family(gated=True),
    "mixtral": Family(gated=True),
    "qwen2": Family(gated=True, qkv_biases=True),
    "qwen2_moe": Family(gated=True, qkv_biases=True),
    "qwen3": Family(gated=True, qk_norms=True),
    "qwen3_moe": Family(gated=True, qk_norms=True),
    "deepseek_v2": Family(gated=True),
    "deepseek_v3": Family(gated=True),
    "kimi_k2": Family(gated=True),
    "phi3": Family(gated=True),
    "gemma": _GEMMA,
    "gemma2": _GEMMA,
    "gpt2": Family(gated=False, tied=True, biases=True, learned_positions=True, implied_intermediate=True),
    "bert": Family(gated=False, tied=True, biases=True, learned_positions=True, causal=False, post_norm=True),
    "t5": _T5,
    "mt5": _T5,
    "bart": _BART,
    "opt": _OPT,
    "falcon": Family(gated=False, tied=True, implied_intermediate=True),
}


def architecture_from_config(config: Mapping[str, Any] | Path | str) -> TransformerArchitecture:
    """Return the architecture that a Hugging Face configuration describes.

    Args:
        config: The configuration as a mapping, its file, or the folder that holds its ``config.json``. A multimodal
            configuration is read below ``text_config``. An unknown ``model_type`` is accepted if it has the usual
            keys, and `source` then says so.

    Raises:
        UsageError: The file cannot be read, keys are missing (all are named), or the model is of a kind that
            cannot be represented.
    """
    values, file = (config, "") if isinstance(config, Mapping) else _read(Path(config))
    fields = Fields(values, file=file)
    name = _name(fields, file)
    if "text_config" in fields:
        fields = fields.child("text_config")
    model_type = fields.text("model_type", "")
    source = f"config.json of {name}"
    if model_type not in FAMILIES:
        source += f"; model_type {model_type!r} is unknown and was read by its keys"
    return _architecture(fields, FAMILIES.get(model_type, Family()), name, source)


def _read(path: Path) -> tuple[object, str]:
    path = path / "config.json" if path.is_dir() else path
    try:
        return json.loads(path.read_text(encoding="utf-8")), str(path)
    except OSError as error:
        raise UsageError(f"cannot read model configuration {path}: {error.strerror}") from error
    except ValueError as error:
        raise UsageError(f"{path}: not valid JSON: {error}") from error


def _name(fields: Fields, file: str) -> str:
    if "_name_or_path" in fields and fields.text("_name_or_path"):
        return fields.text("_name_or_path").rstrip("/").rsplit("/", 1)[-1]
    if file:
        path = Path(file).resolve()
        return path.parent.name if path.name == "config.json" else path.stem
    return fields.text("model_type", "transformer")


def _architecture(fields: Fields, family: Family, name: str, source: str) -> TransformerArchitecture:
    _check_present(fields, family)
    hidden, heads = _integer(fields, HIDDEN), _integer(fields, HEADS)
    experts = _experts(fields)
    return TransformerArchitecture(
        name=name,
        num_layers=_integer(fields, LAYERS),
        hidden_size=hidden,
        num_attention_heads=heads,
        num_key_value_heads=_key_value_heads(fields, heads),
        head_size=_head_size(fields, hidden, heads),
        intermediate_size=_integer(fields, INTERMEDIATE, 4 * hidden),
        gated_mlp=_gated(fields, family),
        vocab_size=_integer(fields, ("vocab_size",)),
        tied_embeddings=fields.flag("tie_word_embeddings", family.tied),
        max_context_tokens=_integer(fields, CONTEXT, 2048),
        learned_positions=family.learned_positions,
        biases=family.biases,
        qkv_biases=family.qkv_biases or fields.flag("attention_bias", False),
        qk_norms=family.qk_norms,
        dropout=_dropout(fields, family),
        causal=family.causal,
        post_norm=family.post_norm,
        token_types=fields.integer("type_vocab_size", 0) if not family.causal else 0,
        q_lora_rank=fields.integer("q_lora_rank", 0) if "kv_lora_rank" in fields else 0,
        kv_lora_rank=fields.integer("kv_lora_rank", 0),
        qk_nope_head_size=fields.integer("qk_nope_head_dim", 0),
        qk_rope_head_size=fields.integer("qk_rope_head_dim", 0),
        v_head_size=fields.integer("v_head_dim", 0),
        gated_attention=False,
        source=source,
        **_decoder(fields, family),
        **experts,
    )


def _decoder(fields: Fields, family: Family) -> dict[str, Any]:
    """The decoder beside an encoder; its layers must be as wide as the encoder's."""
    if not family.decoder:
        return {}
    for key in ("attention_heads", "ffn_dim"):
        sides = [fields.integer(f"{side}_{key}", 0) for side in ("encoder", "decoder")]
        if sides[0] != sides[1]:
            fields.fail(f"decoder_{key}", f"{sides[1]} differs from encoder_{key} {sides[0]}, which is not supported")
    return {
        "decoder_layers": _integer(fields, DECODER_LAYERS, _integer(fields, LAYERS)),
        "decoder_sequence_length": family.decoder_sequence_length,
    }


def _check_present(fields: Fields, family: Family) -> None:
    needed = [LAYERS, HIDDEN, HEADS, ("vocab_size",)]
    if not family.implied_intermediate:
        needed.append(INTERMEDIATE)
    if family == Family():
        needed.append(CONTEXT)
    if missing := [names[0] for names in needed if _given(fields, names) is None]:
        fields.fail("", f"missing {', '.join(missing)}")


def _given(fields: Fields, names: tuple[str, ...]) -> str | None:
    return next((name for name in names if name in fields), None)


def _integer(fields: Fields, names: tuple[str, ...], default: int | None = None) -> int:
    return fields.integer(_given(fields, names) or names[0], default, minimum=1)


def _key_value_heads(fields: Fields, heads: int) -> int:
    """Falcon: one with `multi_query`, unless the newer decoder (with `num_kv_heads`) is used."""
    if fields.flag("multi_query", False) and not fields.flag("new_decoder_architecture", False):
        return 1
    return _integer(fields, KEY_VALUE_HEADS, heads)


def _head_size(fields: Fields, hidden: int, heads: int) -> int:
    """The explicit size if there is one: it need not be hidden / heads (Qwen3, Gemma 2, T5)."""
    if explicit := _given(fields, ("head_dim", "d_kv")):
        return fields.integer(explicit, minimum=1)
    if "kv_lora_rank" in fields:
        fields.require("qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim")
        return fields.integer("qk_nope_head_dim") + fields.integer("qk_rope_head_dim")
    if hidden % heads:
        fields.fail("", f"hidden size {hidden} is not a multiple of {heads} heads, and there is no head_dim")
    return hidden // heads


def _dropout(fields: Fields, family: Family) -> bool:
    """Whether a probability is above 0; the older families have it unless their file says otherwise."""
    given = [fields.number(key) for key in DROPOUT if key in fields]
    return any(given) if given else family.learned_positions


def _gated(fields: Fields, family: Family) -> bool:
    if family.gated is not None:
        return family.gated
    if "feed_forward_proj" in fields or family.decoder:
        return fields.text("feed_forward_proj", "relu").startswith("gated")
    return fields.text("hidden_act", fields.text("hidden_activation", "silu")) in GATED_ACTIVATIONS


def _experts(fields: Fields) -> dict[str, Any]:
    key = _given(fields, EXPERTS)
    count = fields.integer(key) if key else 0
    if count <= 1:
        return {}
    per_token = _given(fields, EXPERTS_PER_TOKEN)
    if per_token is None:
        fields.fail("", f"missing {EXPERTS_PER_TOKEN[0]}")
    if fields.integer("decoder_sparse_step", 1) != 1 or fields.integer("interleave_moe_layer_step", 1) != 1:
        fields.fail("", "dense layers interleaved with mixture-of-experts layers are not supported")
    # Mixtral and gpt-oss name the expert's width `intermediate_size`.
    width_names = ("moe_intermediate_size", "intermediate_size")
    width = fields.integer(_given(fields, width_names) or width_names[0], minimum=1)
    return {
        "experts": count,
        "experts_per_token": fields.integer(per_token, minimum=1),
        "expert_intermediate_size": width,
        "shared_experts": _shared_experts(fields, width),
        "dense_layers_first": _dense_layers_first(fields),
    }


def _shared_experts(fields: Fields, width: int) -> int:
    """Their number, or (Qwen2-MoE) the width of one shared expert as a multiple of a routed one."""
    if "shared_expert_intermediate_size" not in fields:
        return fields.integer("n_shared_experts", 0)
    shared = fields.integer("shared_expert_intermediate_size")
    if shared % width:
        fields.fail("shared_expert_intermediate_size", f"{shared} is not a multiple of the experts' width {width}")
    return shared // width


def _dense_layers_first(fields: Fields) -> int:
    listed = fields.values.get("mlp_only_layers") or []
    if listed != list(range(len(listed))):
        fields.fail("mlp_only_layers", "only leading dense layers are supported")
    return fields.integer("first_k_dense_replace", len(listed))

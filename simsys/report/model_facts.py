"""Facts about a model, for `simsys list models` and `simsys show model`."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path
from typing import Any, TypeAlias

from simsys.build.model import read_huggingface
from simsys.errors import UnknownNameError
from simsys.input_files import path_from
from simsys.model.aggregates import BYTES_PER_ELEMENT, stated_ops
from simsys.model.description import (
    elements_per_sequence,
    experts_per_token,
    head_size,
    is_latent,
    layers_with_states,
    layers_with_windows,
)
from simsys.model.huggingface import CONFIG_NAME
from simsys.model.model import Model
from simsys.model.model_db import load_model

Facts: TypeAlias = dict[str, Any]


def model_row(name: str) -> Facts:
    """Sizes of a model of the model DB, for a table."""
    model = load_model(name)
    return {
        "family": model.family,
        "parameters": int(model.parameters),
        "active_parameters": int(model.active_parameters),
        "layers": model.num_layers or None,
        "hidden": model.hidden_size or None,
        "context": model.max_context_tokens or None,
    }


def model_facts(name: str) -> Facts:
    """All facts about a model of the model DB, or of a Hugging Face configuration at a path."""
    model = _named_model(name)
    sizes = ("num_layers", "hidden_size", "num_attention_heads", "num_key_value_heads", "vocab_size")
    limits = ("max_context_tokens", "sequence_length", "decoder_sequence_length")
    given = {key: getattr(model, key) for key in (*sizes, *limits) if getattr(model, key)}
    of_sequence = elements_per_sequence(model)
    return {
        "name": model.name,
        **({"class": model.class_name} if model.class_name else {}),
        "family": model.family,
        "parameters": int(model.parameters),
        "active_parameters": int(model.active_parameters),
        **given,
        **_parts(model),
        **_published(model),
        "bf16_weight_bytes": model.parameters * BYTES_PER_ELEMENT,
        "bf16_kv_cache_per_token_bytes": model.kv_elements_per_token * BYTES_PER_ELEMENT,
        **({"bf16_cache_per_sequence_bytes": of_sequence * BYTES_PER_ELEMENT} if of_sequence else {}),
        "aggregated_ops": stated_ops(model),
        "blocks": dict(Counter(block.name for block in model.blocks)),
        "source": model.source,
    }


def _named_model(name: str) -> Model:
    """A model of the model DB by its name or repository, or of a Hugging Face configuration if the name is a path."""
    path = path_from(Path(), name)
    is_path = name.endswith(".json") or name.startswith((os.curdir, os.sep, "~"))
    if is_path or (os.sep in name and os.path.exists(path)):
        return read_huggingface(path)
    try:
        return load_model(name)
    except UnknownNameError:
        if os.path.isfile(path / CONFIG_NAME):
            return read_huggingface(path)
        raise


def _parts(model: Model) -> Facts:
    """Heads, experts and kinds of layers, if the model has them."""
    windows = layers_with_windows(model)
    found = {
        "head_size": head_size(model),
        "latent_attention": is_latent(model),
        "experts": model.experts if model.experts > 1 else 0,
        "experts_per_token": experts_per_token(model) if model.experts > 1 else 0,
        "layers_with_windows": {f"{size} tokens": count for size, count in windows.items()},
        "layers_with_linear_attention": layers_with_states(model),
    }
    return {key: value for key, value in found.items() if value}


def _published(model: Model) -> Facts:
    """Quantisation of a published model, and the parts of its configuration that are not simulated."""
    found: Facts = {}
    published = model.quantization
    if published is not None:
        found["quantization"] = {
            "published_in": published.text,
            "precision": published.weights or f"not modelled: {published.problem}",
            "bytes_per_weight": published.weight_bytes,
            "kv_precision": published.kv or "16 bit",
            "in_16_bit": sorted(published.unquantized),
        }
    if model.notes:
        found["notes"] = list(model.notes)
    if model.warnings:
        found["warnings"] = list(model.warnings)
    return found

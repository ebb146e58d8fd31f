"""From the description of a model to a `Model`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from simsys.config.model import ModelConfig
from simsys.config.places import located
from simsys.errors import ConfigError, Problem, UsageError
from simsys.input_files import path_from
from simsys.model.custom import build_custom
from simsys.model.first_layers import first_layers
from simsys.model.huggingface import model_of, read_checkpoint
from simsys.model.model import Model
from simsys.model.model_db import load_model, model_names
from simsys.model.transformer import build_transformer
from simsys.model.transformer_architecture import gpt_architecture
from simsys.model.transformer_xl import with_segment_memory

GPT2_VOCABULARY = 50257
GPT_HEAD_SIZE = 64
"""GPT-2's sizes, used if an architecture is given by sizes alone (Radford et al. 2019)."""
DEFAULT_SEQUENCE_LENGTH = 1024
_LLAMA = {"gated_mlp": True, "tied_embeddings": False, "learned_positions": False, "biases": False, "dropout": False}
_BERT = {"causal": False, "post_norm": True, "token_types": 2}
STYLES: dict[str, dict[str, Any]] = {"transformer": {}, "gpt": {}, "gpt2": {}, "llama": _LLAMA, "bert": _BERT}
STYLES["transformer_xl"] = {"learned_positions": False}
"""Differences from GPT-2 of a transformer that is given by its sizes."""

OPTIONAL_SIZES = ("num_key_value_heads", "intermediate_size", "tied_embeddings", "dropout")
"""Settings of a transformer that replace those of its style."""


def build_model(config: ModelConfig, folder: Path) -> Model:
    """Return the model that a scenario describes.

    Args:
        config: One of: a name of the model DB, a Hugging Face config, sizes, or layers.
        folder: Folder from which relative paths start.

    Raises:
        UnknownNameError: If the model DB has no such entry.
        UsageError: If the description is incomplete.
    """
    if config.name is not None and config.layers is None:
        return _shortened(load_model(config.name), config)
    if config.huggingface is not None:
        return _shortened(read_huggingface(path_from(folder, config.huggingface), config.assume), config)
    if config.layers is not None:
        return build_custom(config.name or config.model_type or "custom", config.layers)
    assert config.model_type is not None
    if config.num_layers is None and config.hidden_size is None:
        return load_model(config.model_type)
    return _transformer(config)


def _shortened(model: Model, config: ModelConfig) -> Model:
    return model if config.num_layers is None else first_layers(model, config.num_layers)


def read_huggingface(path: Path, assume: str | None = None) -> Model:
    """Return the model that a Hugging Face configuration describes.

    Args:
        path: Its file, or the folder that holds its ``config.json``.
        assume: A known model type that replaces the type in the file.

    Raises:
        ConfigError: A key or value is wrong, with its line in the file.
        UsageError: The file cannot be read.
    """
    try:
        return model_of(read_checkpoint(path, assume=assume))
    except ConfigError as error:
        raise located(error) from None


def model_warnings(config: ModelConfig, model: Model) -> list[Problem]:
    """Warnings about features of a published model, each at the setting that names the model."""
    return [
        Problem(text, "model.huggingface" if config.huggingface is not None else "model") for text in model.warnings
    ]


def _transformer(config: ModelConfig) -> Model:
    """A transformer from its sizes, by default like GPT, as with the older ``model_type: transformer``."""
    if config.model_type not in STYLES:
        names = ", ".join(model_names())
        raise UsageError(
            f"model_type {config.model_type!r} cannot be given by sizes; use {', '.join(STYLES)}, or a name: {names}"
        )
    if config.num_layers is None or config.hidden_size is None:
        raise UsageError("a transformer needs num_layers and hidden_size")
    architecture = gpt_architecture(
        f"transformer-{config.num_layers}x{config.hidden_size}",
        num_layers=config.num_layers,
        hidden_size=config.hidden_size,
        num_attention_heads=config.num_attention_heads or max(1, config.hidden_size // GPT_HEAD_SIZE),
        vocab_size=config.vocab_size or GPT2_VOCABULARY,
        max_context_tokens=config.sequence_length or DEFAULT_SEQUENCE_LENGTH,
        source="sizes in the experiment file",
    )
    changes = {name: getattr(config, name) for name in OPTIONAL_SIZES}
    given: dict[str, Any] = {key: value for key, value in changes.items() if value is not None}
    model = build_transformer(replace(architecture, **{**STYLES[config.model_type], **given}))
    return with_segment_memory(model) if config.model_type == "transformer_xl" else model

"""Whether the model can be built, and used for what the scenario does with it."""

from __future__ import annotations

from functools import partial

from simsys.build.model import build_model
from simsys.build.training import not_trainable
from simsys.check.findings import Findings, Suggestion
from simsys.config.document import KeyPath
from simsys.config.experiment import ModelConfig, SimulationConfig
from simsys.errors import ConfigError, UsageError
from simsys.executors import costed_model
from simsys.model.custom import build_custom, layer_from_mapping
from simsys.model.model import Model

SOURCES = ("layers", "huggingface", "name", "model_type")
SIZES = (
    "num_layers",
    "hidden_size",
    "intermediate_size",
    "vocab_size",
    "num_attention_heads",
    "num_key_value_heads",
)

WITHOUT_CACHE = {"encoder": "is an encoder", "encoder_decoder": "is an encoder-decoder, which simsys can only train"}
"""Why a model of a family has no KV cache."""


def check_model(config: SimulationConfig, found: Findings) -> Model | None:
    """Build the model and check its use; None if it cannot be built."""
    _check_unused_sizes(config.model, found)
    model = _build(config, found)
    if model is None:
        return None
    try:
        costed_model(model, config.simulation.lod)
    except UsageError as error:
        suggestion = Suggestion([[{"simulation.lod": "medium"}]], "write {}")
        found.error(("simulation", "lod"), str(error), suggestion=suggestion)
    if config.serving is not None:
        _check_serving(config, model, found)
    else:
        problem = not_trainable(model)
        if problem:
            found.error(source_path(config.model), problem)
        _check_sequence_length(config, model, found)
        _check_decoder_sequence_length(config, model, found)
    return model


def source_path(config: ModelConfig) -> KeyPath:
    """The setting that says which model it is."""
    return ("model", next(key for key in SOURCES if getattr(config, key) is not None))


def _build(config: SimulationConfig, found: Findings) -> Model | None:
    settings = config.model
    if settings.layers is not None:
        return _build_layers(settings, found)
    try:
        return build_model(settings, config.folder)
    except ConfigError:
        return found.attempt(("model",), lambda: build_model(settings, config.folder))
    except UsageError as error:
        found.error(_named_in(str(error), settings), str(error))
        return None


def _build_layers(settings: ModelConfig, found: Findings) -> Model | None:
    """Try every layer alone, so that the problems of all of them are found."""
    before, layers = len(found.errors), settings.layers or []
    name = settings.name or settings.model_type or "custom"
    for index, layer in enumerate(layers):
        read = partial(layer_from_mapping, layer, index=index)
        found.attempt(("model",), read, error_at=("model", "layers", index))
    return build_custom(name, layers) if len(found.errors) == before else None


def _named_in(message: str, settings: ModelConfig) -> KeyPath:
    """The given size that a message names last, else the setting that says which model it is."""
    given = [key for key in SIZES if getattr(settings, key) is not None and key in message]
    return ("model", max(given, key=message.rfind)) if given else source_path(settings)


def _check_unused_sizes(settings: ModelConfig, found: Findings) -> None:
    """Sizes describe a model by themselves; beside a name they would be ignored in silence."""
    _, source = source_path(settings)
    if source == "model_type" and (settings.num_layers is not None or settings.hidden_size is not None):
        return
    for key in SIZES:
        if getattr(settings, key) is not None:
            message = f"{key} has no effect beside {source}, which says what the model is; remove one of them"
            found.error(("model", key), message, key=True)


def _check_serving(config: SimulationConfig, model: Model, found: Findings) -> None:
    settings, place = config.serving, source_path(config.model)
    assert settings is not None
    if not model.caches and not model.layered and model.family == "decoder":
        message = f"the model DB says nothing about the KV cache of {model.name}"
        found.error(place, f"{message}; add decode.kv_bytes_per_context_token to its aggregated_ops")
        return
    if not model.caches:
        what = WITHOUT_CACHE.get(model.family, "is no language model")
        found.error(
            place, f"{model.name} has no KV cache ({what}) and cannot be served; use a decoder such as Llama3-8B"
        )
        return
    longest = model.max_context_tokens
    if longest and settings.max_model_len is not None and settings.max_model_len > longest:
        message = f"{model.name} has a context of {longest} tokens, so max_model_len must be at most {longest}"
        found.error(("serving", "max_model_len"), f"{message}, not {settings.max_model_len}")


def _check_sequence_length(config: SimulationConfig, model: Model, found: Findings) -> None:
    given = config.model.sequence_length
    if given is None:
        return
    path = ("model", "sequence_length")
    if model.family == "cnn":
        if given > 1:
            found.error(path, f"{model.name} has no sequences; remove sequence_length")
    elif model.max_context_tokens and given > model.max_context_tokens:
        longest = model.max_context_tokens
        found.error(path, f"{model.name} has a context of {longest} tokens, sequence_length {given} exceeds it")


def _check_decoder_sequence_length(config: SimulationConfig, model: Model, found: Findings) -> None:
    given, longest = config.model.decoder_sequence_length, model.max_context_tokens
    if given is None:
        return
    path = ("model", "decoder_sequence_length")
    if not model.decoder_sequence_length:
        message = f"{model.name} has no decoder beside an encoder; remove decoder_sequence_length"
        found.error(path, f"{message} or use a model that has one, such as T5-Large", key=True)
    elif longest and given > longest:
        message = f"{model.name} has a context of {longest} tokens, decoder_sequence_length {given} exceeds it"
        found.error(path, message)

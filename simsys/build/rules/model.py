"""Checks whether the model can be trained or served as the scenario describes."""

from __future__ import annotations

from functools import partial

from simsys.build.model import build_model
from simsys.build.rules.findings import Findings, Suggestion
from simsys.build.rules.registry import Parts, rule
from simsys.config.document import KeyPath
from simsys.config.experiment import SimulationConfig
from simsys.config.model import ModelConfig
from simsys.errors import ConfigError, Problem, UsageError
from simsys.model.custom import build_custom, layer_from_mapping
from simsys.model.model import Model
from simsys.model.multi_token import with_predicted_tokens

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


def source_path(config: ModelConfig) -> KeyPath:
    """The setting that names the model."""
    return ("model", next(key for key in SOURCES if getattr(config, key) is not None))


def found_model(config: SimulationConfig, found: Findings) -> Model | None:
    """The model of a scenario; if it cannot be built, record the problem and return None."""
    settings = config.model
    if settings.layers is not None:
        return _built_of_layers(settings, found)
    try:
        return build_model(settings, config.folder)
    except ConfigError:
        return found.attempt(("model",), lambda: build_model(settings, config.folder))
    except UsageError as error:
        found.error(_named_in(str(error), settings), str(error))
        return None


def _built_of_layers(settings: ModelConfig, found: Findings) -> Model | None:
    """Build every layer separately, to find the problems of all layers."""
    before, layers = len(found.errors), settings.layers or []
    name = settings.name or settings.model_type or "custom"
    for index, layer in enumerate(layers):
        read = partial(layer_from_mapping, layer, index=index)
        found.attempt(("model",), read, error_at=("model", "layers", index))
    return build_custom(name, layers) if len(found.errors) == before else None


def _named_in(message: str, settings: ModelConfig) -> KeyPath:
    """The given size that a message names last, or else the setting that names the model."""
    given = [key for key in SIZES if getattr(settings, key) is not None and key in message]
    return ("model", max(given, key=message.rfind)) if given else source_path(settings)


@rule("model.num_layers")
def sizes_count(parts: Parts, found: Findings) -> None:
    """Refuse sizes together with a name of a model, since they would have no effect."""
    settings = parts.config.model
    _, source = source_path(settings)
    if source == "model_type" and (settings.num_layers is not None or settings.hidden_size is not None):
        return
    keeps = source in ("name", "huggingface")  # of whose layers only the first are used
    for key in SIZES[1:] if keeps else SIZES:
        if getattr(settings, key) is not None:
            message = f"{key} has no effect with {source}, which already defines the model; remove one of them"
            found.error(("model", key), message, key=True)


@rule("serving.max_model_len")
def can_be_served(parts: Parts, found: Findings) -> None:
    """A served model needs a KV cache."""
    model, place = parts.model, source_path(parts.config.model)
    if model is None:
        return
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


@rule("serving.max_model_len")
def within_context(parts: Parts, found: Findings) -> None:
    """Requests are no longer than the context of the model, unless the engine is to allow it."""
    settings, model, path = parts.config.serving, parts.model, ("serving", "max_model_len")
    longest = model.max_context_tokens if model is not None else 0
    if settings is None or model is None or not longest or (settings.max_model_len or 0) <= longest:
        return
    message = f"{model.name} has a context of {longest} tokens"
    if settings.allow_long_max_model_len:
        found.warn(Problem(f"{message}; answers beyond it may be wrong, but take as long", ".".join(path)))
        return
    suggestion = Suggestion([[{"serving.allow_long_max_model_len": True}]], "or write {}")
    message = f"{message}, so max_model_len must be at most {longest}, not {settings.max_model_len}"
    found.error(path, message, suggestion=suggestion)


@rule("training.mtp_layers")
def predicts_further_tokens(parts: Parts, found: Findings) -> None:
    """Multi-token prediction needs a decoder."""
    training, model = parts.config.training, parts.model
    if training is not None and training.mtp_layers and model is not None:
        found.attempt(("training", "mtp_layers"), partial(with_predicted_tokens, model, 1))


@rule("training")
def can_be_trained(parts: Parts, found: Findings) -> None:
    """Training starts from weights in floating point; those of a named model are published or converted so."""
    model, from_file = parts.model, parts.config.model.huggingface is not None
    published = model.quantization if model is not None and from_file else None
    if published is not None and not published.trainable:
        message = f"weights quantised by {published.method} cannot be trained; use the config.json of the model"
        found.error(source_path(parts.config.model), f"{message} before that, or remove its quantization_config")


@rule("training")
def sequences_fit_the_context(parts: Parts, found: Findings) -> None:
    """Sequences are at most as long as the context of the model; a model without sequences has no length."""
    given, model = parts.config.model.sequence_length, parts.model
    if given is None or model is None:
        return
    path = ("model", "sequence_length")
    if model.family == "cnn":
        if given > 1:
            found.error(path, f"{model.name} has no sequences; remove sequence_length")
    elif model.max_context_tokens and given > model.max_context_tokens:
        longest = model.max_context_tokens
        found.error(path, f"{model.name} has a context of {longest} tokens, sequence_length {given} exceeds it")


@rule("training")
def answers_fit_the_context(parts: Parts, found: Findings) -> None:
    """The sequences of the decoder of an encoder-decoder are at most as long as its context."""
    given, model = parts.config.model.decoder_sequence_length, parts.model
    if given is None or model is None:
        return
    path, longest = ("model", "decoder_sequence_length"), model.max_context_tokens
    if not model.decoder_sequence_length:
        message = f"{model.name} is not an encoder-decoder; remove decoder_sequence_length"
        found.error(path, f"{message} or use one, such as T5-Large", key=True)
    elif longest and given > longest:
        message = f"{model.name} has a context of {longest} tokens, decoder_sequence_length {given} exceeds it"
        found.error(path, message)

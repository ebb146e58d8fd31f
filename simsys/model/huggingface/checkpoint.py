"""A published model as its configuration describes it, and the model that is simulated."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from simsys.errors import did_you_mean
from simsys.model.fields import Fields
from simsys.model.huggingface.architecture import architecture_of
from simsys.model.huggingface.config_file import read_config
from simsys.model.huggingface.config_keys import unknown_keys
from simsys.model.huggingface.families import FAMILIES, MULTIMODAL, NOT_MODELLED, Family, language_type
from simsys.model.huggingface.ignored_modules import Patterns
from simsys.model.huggingface.quantization_config import quantization_of, quantized
from simsys.model.huggingface.reading import Reader, count, given
from simsys.model.huggingface.towers import Tower, tower_of
from simsys.model.model import Model
from simsys.model.operators import Operator, OperatorKind, Split
from simsys.model.quantization import Quantization
from simsys.model.transformer import build_transformer
from simsys.model.transformer_architecture import TransformerArchitecture
from simsys.model.vision import TOWER

TEXT_KEYS = ("text_config", "llm_config", "language_config")
NEXT_TOKEN_LAYERS = ("num_nextn_predict_layers", "mtp_num_hidden_layers", "num_mtp_modules")
HEADLESS = re.compile(r".*(?<!LMHead)Model|.*For(SequenceClassification|TokenClassification|RewardModel)")
"""Classes without a language-model head."""


@dataclass(frozen=True)
class Checkpoint:
    """A published model as described by its configuration.

    Args:
        architecture: The language model.
        class_name: The class that the file names, such as ``Qwen3ForCausalLM``; its model type if there is none.
        tower: Its vision tower.
        quantization: Storage of its weights, and the excluded ones; None for 16 bit.
        next_token_layers: Layers that predict further tokens.
        notes: Parts without cost in a text workload that were left out, as phrases.
        warnings: Reasons to doubt the figures, as phrases.
    """

    architecture: TransformerArchitecture
    class_name: str
    tower: Tower | None = None
    quantization: tuple[Quantization, Patterns] | None = None
    next_token_layers: int = 0
    notes: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


def read_checkpoint(config: Mapping[str, Any] | Path | str, *, assume: str | None = None) -> Checkpoint:
    """Read a Hugging Face configuration.

    Args:
        config: The configuration as a mapping, its file, or the folder that holds its ``config.json``.
        assume: A known model type to read it as, whatever type it says.

    Raises:
        UsageError: The file cannot be read, its model type is not known or not modelled, keys are missing (all are
            named), or values are wrong.
    """
    root, quantization = read_config(config)
    if assume is not None and assume not in FAMILIES:
        root.fail("model_type", f"assume: unknown model type {assume!r}{did_you_mean(assume, FAMILIES)}")
    outer = language_type(root, assume)
    fields, family, left_out = _language_model(root, outer, assume)
    reader = Reader(fields, notes=[], warnings=[])
    if left_out:
        reader.notes.append(f"from the defaults of its type, as the file leaves them out: {', '.join(left_out)}")
    architecture = architecture_of(reader, family, _name(root), root)
    tower = None if assume is not None else tower_of(root, architecture.hidden_size)
    if assume is not None:
        _warn_of_assumption(reader, root, assume)
    found = None if quantization is None else quantization_of(quantization)
    class_name = (root.texts("architectures") or [root.text("model_type", outer)])[0]
    if HEADLESS.fullmatch(class_name):
        reader.warnings.append(f"{class_name} has no language-model head, but is simulated with one")
    next_token_layers = 0 if fields.values.get("use_mtp") is False else count(fields, NEXT_TOKEN_LAYERS)
    _warn_of_unknown_keys(reader, root)
    notes, warnings = tuple(reader.notes), tuple(reader.warnings)
    return Checkpoint(architecture, class_name, tower, found, next_token_layers, notes, warnings)


def _language_model(root: Fields, outer: str, assume: str | None) -> tuple[Fields, Family, list[str]]:
    """The language model's part of a configuration, its family, and the keys that it leaves to defaults."""
    key = given(root, TEXT_KEYS)
    if key is None:
        return root, FAMILIES[MULTIMODAL.get(outer, outer)], []
    nested = root.child(key)
    inner = assume or nested.text("model_type", MULTIMODAL.get(outer, outer))
    if inner in NOT_MODELLED or inner not in FAMILIES:
        reason = NOT_MODELLED.get(inner, f"it is not known{did_you_mean(inner, FAMILIES)}")
        nested.fail("model_type", f"{inner!r} cannot be simulated: {reason}")
    family = FAMILIES[inner]
    missing = [name for name in family.defaults if name not in nested.values and not _renamed(nested, name)]
    values = {**{name: family.defaults[name] for name in missing}, **nested.values}
    return Fields(values, nested.path, nested.file), family, missing


def _renamed(fields: Fields, name: str) -> bool:
    """Whether a default stands in the file under another name."""
    return name == "num_local_experts" and "num_experts" in fields.values


def _name(root: Fields) -> str:
    """The model's name: the name of its repository, folder or file."""
    if "_name_or_path" in root and root.text("_name_or_path"):
        return root.text("_name_or_path").rstrip("/").rsplit("/", 1)[-1]
    if root.file:
        path = Path(root.file).resolve()
        return path.parent.name if path.name == "config.json" else path.stem
    return root.text("model_type", "transformer")


def _warn_of_assumption(reader: Reader, root: Fields, assume: str) -> None:
    if root.values.get("model_type") != assume:
        given_type = root.values.get("model_type") or "none"
        reader.warnings.append(f"model_type {given_type} is simulated as if it were {assume} (assume)")
    if "vision_config" in root:
        reader.warnings.append("what vision_config describes is left out, its weights too (assume)")


def _warn_of_unknown_keys(reader: Reader, root: Fields) -> None:
    names = unknown_keys(reader.fields)
    if reader.fields is not root:
        names += [name for name in unknown_keys(root, reader.fields.values) if name not in names]
    if names:
        keys = "keys" if len(names) > 1 else "a key"
        reader.warnings.append(f"ignored {keys} that simsys does not know: {', '.join(names)}")


def model_of(checkpoint: Checkpoint) -> Model:
    """The model that is simulated."""
    model = build_transformer(checkpoint.architecture)
    notes, warnings = list(checkpoint.notes), list(checkpoint.warnings)
    if checkpoint.next_token_layers:
        notes.append(_next_token_note(checkpoint, model))
    if checkpoint.tower is not None:
        model = _with_tower(model, checkpoint.tower)
        size = f"the vision tower {checkpoint.tower.kind} ({checkpoint.tower.parameters / 1e9:.3g} B parameters)"
        if checkpoint.tower.encoder is None:
            warnings.append(f"{size} uses memory, but images for it are not modelled")
        else:
            notes.append(f"{size} uses memory, and time for images (workload.images) alone")
    model = replace(model, class_name=checkpoint.class_name, notes=tuple(notes), warnings=tuple(warnings))
    return model if checkpoint.quantization is None else quantized(model, *checkpoint.quantization)


def _next_token_note(checkpoint: Checkpoint, model: Model) -> str:
    """What layers that predict further tokens hold: a layer each, with what joins its inputs (DeepSeek-V3, §2.2)."""
    count, hidden = checkpoint.next_token_layers, checkpoint.architecture.hidden_size
    parameters = count * (model.blocks[-2].parameters + 2 * hidden * hidden)
    layers = "layer" if count == 1 else "layers"
    return (
        f"left out: {count} multi-token-prediction {layers} ({parameters / 1e9:.3g} B parameters), which engines load "
        "for speculative decoding alone"
    )


def _with_tower(model: Model, tower: Tower) -> Model:
    """The model with weights that no pass over text reads."""
    weights = Operator(TOWER, OperatorKind.MEMORY, Split.COLUMN, parameters=tower.parameters, lookup=True)
    first = model.blocks[0]
    blocks = (replace(first, operators=(weights, *first.operators)), *model.blocks[1:])
    return replace(model, blocks=blocks, vision=tower.encoder)

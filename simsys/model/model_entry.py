"""Conversion between an entry of the model DB and its model."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import MISSING, fields, replace
from enum import StrEnum
from itertools import groupby
from typing import Any, TypeVar

from simsys.model.aggregates import BYTES_PER_ELEMENT, aggregated_ops, differences, read_aggregates, scales_of
from simsys.model.fields import MAX_LAYERS, Fields
from simsys.model.huggingface.quantization_config import quantization_of, quantized
from simsys.model.macro_blocks import macro_blocks, macro_of
from simsys.model.model import Block, Model
from simsys.model.operators import Operator, OperatorKind, Pairs, Split
from simsys.sums import ordered_sum

FAMILIES = ("decoder", "encoder", "encoder_decoder", "cnn")
DTYPE = "bf16"
INTEGER_KEYS = (
    "num_layers",
    "hidden_size",
    "num_attention_heads",
    "num_key_value_heads",
    "vocab_size",
    "max_context_tokens",
)
LENGTH_KEYS = ("sequence_length", "decoder_sequence_length")
AMOUNT_KEYS = ("kv_elements_per_token", "tied_parameters")
DERIVED_KEYS = ("parameters", "active_parameters")
ENTRY_KEYS = (
    *("family", "source", "aliases", "dtype", "quantization_config"),
    *(*INTEGER_KEYS, *LENGTH_KEYS, *AMOUNT_KEYS, *DERIVED_KEYS),
    *("aggregated_ops", "layers"),
)
SET_BY_SCENARIOS = ("scales", "frozen", "frozen_bytes", "by_deep_gemm", "decoded_by", "padding_tokens", "alike")
"""Fields of an operator that no entry has."""
OPERATOR_KEYS = tuple(spec.name for spec in fields(Operator) if spec.name not in SET_BY_SCENARIOS)
FEW_EXPERTS = (
    "without layers, a decode step of {} reads the same weights whatever its batch; a mixture of experts reads more "
    "of them for a larger batch"
)
_Name = TypeVar("_Name", bound=StrEnum)


def entry_from_model(
    model: Model, *, aliases: tuple[str, ...] = (), quantization_config: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Return the entry for a model: its scalars, macro operations and layers (each once, with `repeat`).

    Args:
        model: The model.
        aliases: Its other names.
        quantization_config: How its checkpoint stores weights, as in its ``config.json``; None for 16 bit.
    """
    scalars = {key: getattr(model, key) for key in (*INTEGER_KEYS, *LENGTH_KEYS, *AMOUNT_KEYS, *DERIVED_KEYS)}
    if not model.decoder_sequence_length:
        del scalars["decoder_sequence_length"]
    runs = [(block, len(list(run))) for block, run in groupby(model.blocks)]
    return {
        "family": model.family,
        "source": model.source,
        "aliases": sorted(aliases),
        "dtype": DTYPE,
        **({} if quantization_config is None else {"quantization_config": dict(quantization_config)}),
        **{key: _plain(value) for key, value in scalars.items()},
        "aggregated_ops": {
            step: {key: _plain(value) for key, value in costs.items()} for step, costs in aggregated_ops(model).items()
        },
        "layers": [_layer_entry(block, repeat) for block, repeat in runs],
    }


def model_from_entry(name: str, entry: Fields) -> Model:
    """Return the model described by an entry.

    Its blocks are from ``layers``, and its scales are ``aggregated_ops`` over their sums. Without layers, its blocks
    add up to ``aggregated_ops``.

    Raises:
        ConfigError: A key or value is wrong, there are neither layers nor aggregates, or the layers do not have the
            number of parameters that the entry states.
    """
    entry.reject_unknown(ENTRY_KEYS)
    family = entry.text("family", "decoder")
    if family not in FAMILIES:
        entry.fail("family", f"unknown family {family!r}; known: {', '.join(FAMILIES)}")
    if entry.text("dtype", DTYPE) != DTYPE:
        entry.fail("dtype", f"bytes in the model DB are for {DTYPE}; choose the precision in the experiment")
    if not entry.values.get("layers") and "aggregated_ops" in entry:  # an empty list says nothing
        if family == "encoder_decoder":
            entry.fail("", "an encoder-decoder has tokens on two sides, so it needs `layers`")
        return _as_stored(_macro_model(name, family, entry), entry)
    if "layers" not in entry:
        entry.fail("", "needs `layers` or `aggregated_ops`")
    blocks = tuple(block for layer in entry.children("layers") for block in _read_layer(layer))
    model = _as_stored(_model(name, family, blocks, entry), entry)
    stated = entry.number("parameters", model.parameters)
    if not math.isclose(stated, model.parameters, rel_tol=1e-6):
        entry.fail("parameters", f"states {stated:,.0f}, but the layers have {model.parameters:,.0f}")
    if "aggregated_ops" not in entry:
        return model
    aggregates = entry.child("aggregated_ops")
    return _warned(replace(model, scales=scales_of(model, read_aggregates(aggregates), aggregates)))


def _as_stored(model: Model, entry: Fields) -> Model:
    """The model with the storage of its published weights, if the entry has one."""
    if "quantization_config" not in entry:
        return model
    return quantized(model, *quantization_of(entry.child("quantization_config")))


def _warned(model: Model) -> Model:
    """Return the model, with a warning if its costs differ between the levels of detail."""
    found = list(differences(model))
    if not found:
        return model
    text = f"aggregated_ops of {model.name}, used at medium, differ from its layers, used at high: "
    return replace(model, warnings=(*model.warnings, text + ", ".join(found)))


def _model(name: str, family: str, blocks: tuple[Block, ...], entry: Fields) -> Model:
    scalars: dict[str, Any] = {key: entry.integer(key, 0) for key in INTEGER_KEYS}
    scalars |= {key: entry.number(key, 0.0) for key in AMOUNT_KEYS}
    scalars["sequence_length"] = entry.integer("sequence_length", 1, minimum=1)
    if family == "encoder_decoder":
        scalars["decoder_sequence_length"] = entry.integer("decoder_sequence_length", minimum=1)
    elif "decoder_sequence_length" in entry:
        entry.fail("decoder_sequence_length", f"is for the family encoder_decoder, not for {family}")
    model = Model(name, family, blocks, source=entry.text("source", ""), **scalars)
    if model.active_parameters < 0:
        entry.fail("tied_parameters", f"{model.tied_parameters:,.0f} exceeds the parameters of the layers")
    return model


def _macro_model(name: str, family: str, entry: Fields) -> Model:
    """A model with blocks that reproduce the macro operations.

    `parameters` are the stored weights (default: the weights read by a step); the difference to weights read becomes
    an unread table, or tied weights.
    """
    aggregates = entry.child("aggregated_ops")
    stated = read_aggregates(aggregates)
    macro = macro_of(stated)
    kind = OperatorKind.CONV if family == "cnn" else OperatorKind.GEMM
    layers, hidden = entry.integer("num_layers", 1, minimum=1, maximum=MAX_LAYERS), entry.integer("hidden_size", 0)
    blocks = macro_blocks(macro, kind=kind, layers=layers, hidden_size=0 if family == "cnn" else hidden)
    read = ordered_sum(block.parameters for block in blocks)
    stored = entry.number("parameters", read)
    if stored > read:
        rest = Operator("stored", OperatorKind.MEMORY, Split.ROW, parameters=(stored - read) / layers, lookup=True)
        blocks = (replace(blocks[0], operators=(*blocks[0].operators, rest)),) * layers
    model = _model(name, family, blocks, entry)
    cached = entry.number("kv_elements_per_token", macro.kv_nbytes_per_context_token / BYTES_PER_ELEMENT)
    model = replace(model, kv_elements_per_token=cached, tied_parameters=max(0.0, read - stored), layered=False)
    model = replace(model, scales=scales_of(model, stated, aggregates))
    if model.scales is not None and model.scales.decode.weights < 1.0:
        model = replace(model, warnings=(*model.warnings, FEW_EXPERTS.format(model.name)))
    return model


def _layer_entry(block: Block, repeat: int) -> dict[str, Any]:
    return (
        {"name": block.name, "repeat": repeat}
        | _changed(block, skip=("name", "operators"))
        | {
            "operators": [
                {"name": o.name, "kind": o.kind.value, "split": o.split.value}
                | _changed(o, skip=("name", "kind", "split", *SET_BY_SCENARIOS))
                for o in block.operators
            ]
        }
    )


def _changed(item: Block | Operator, *, skip: tuple[str, ...]) -> dict[str, Any]:
    """Return the fields whose value is not the default."""
    values = {spec.name: getattr(item, spec.name) for spec in fields(item) if spec.name not in skip}
    defaults = {spec.name: spec.default for spec in fields(item) if spec.default is not MISSING}
    return {key: _plain(value) for key, value in values.items() if value != defaults[key]}


def _plain(value: float | bool) -> float | bool:
    """A whole number as an integer, which reads better in JSON."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _read_layer(entry: Fields) -> tuple[Block, ...]:
    """Return the block, `repeat` times the same object."""
    entry.reject_unknown(["repeat", *(spec.name for spec in fields(Block))])
    operators = tuple(_read_operator(operator) for operator in entry.children("operators"))
    amounts = {
        spec.name: entry.number(spec.name, spec.default) for spec in fields(Block) if isinstance(spec.default, float)
    }
    block = Block(entry.text("name"), operators, spread=entry.flag("spread", False), **amounts)
    return (block,) * entry.integer("repeat", 1, minimum=1, maximum=MAX_LAYERS)


def _read_operator(entry: Fields) -> Operator:
    entry.reject_unknown(OPERATOR_KEYS)
    values: dict[str, Any] = {}
    for spec in fields(Operator):
        if spec.name in SET_BY_SCENARIOS:
            continue
        if isinstance(spec.default, bool):
            values[spec.name] = entry.flag(spec.name, spec.default)
        elif isinstance(spec.default, int):
            values[spec.name] = entry.integer(spec.name, spec.default)
        elif isinstance(spec.default, float):
            values[spec.name] = entry.number(spec.name, spec.default)
    kind = _choice(entry, "kind", OperatorKind)
    split = _choice(entry, "split", Split, Split.REPLICATED)
    pairs = _choice(entry, "pairs", Pairs, Pairs.OWN)
    operator = Operator(entry.text("name"), kind, split, pairs=pairs, **values)
    if not 1 <= operator.experts_per_token <= operator.experts:
        entry.fail(
            "experts_per_token", f"expected 1 to experts ({operator.experts}), got {operator.experts_per_token}"
        )
    return operator


def _choice(entry: Fields, key: str, kind: type[_Name], default: _Name | None = None) -> _Name:
    word = entry.text(key) if default is None else entry.text(key, default.value)
    known = [member.value for member in kind]
    if word not in known:
        entry.fail(key, f"unknown {key} {word!r}; known: {', '.join(known)}")
    return kind(word)

"""Reading of a ``config.json``, with the optional file next to it about quantisation."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from simsys.errors import UsageError
from simsys.input_files import parse_json, read_bytes, text_of, unreadable
from simsys.model.fields import Fields

CONFIG_NAME = "config.json"
QUANTIZATION_NAME = "hf_quant_config.json"
"""File of NVIDIA's ModelOpt about quantisation, the only place in older releases."""
MAX_BYTES = 16 * 2**20


class ConfigFile(NamedTuple):
    """The contents of a configuration.

    Args:
        fields: Its keys.
        quantization: How weights are quantised, in the form of ``quantization_config``; None if they are not.
    """

    fields: Fields
    quantization: Fields | None


def read_config(config: Mapping[str, Any] | Path | str) -> ConfigFile:
    """Read a configuration.

    Args:
        config: The configuration as a mapping, its file, or the folder that holds its ``config.json``.

    Raises:
        UsageError: A file cannot be read, or does not hold a mapping in JSON.
    """
    if isinstance(config, Mapping):
        fields = Fields(config)
        return ConfigFile(fields, _own_quantization(fields))
    path = Path(config)
    path = path / CONFIG_NAME if os.path.isdir(path) else path
    fields = Fields(_parsed(path), file=str(path))
    beside = path.parent / QUANTIZATION_NAME
    own = _own_quantization(fields)
    if own is not None or path.name != CONFIG_NAME or not os.path.isfile(beside):
        return ConfigFile(fields, own)
    written = Fields(_parsed(beside), file=str(beside))
    found = written.child("quantization")
    producer = written.child("producer").text("name", "modelopt") if "producer" in written else "modelopt"
    return ConfigFile(fields, Fields({"quant_method": producer, **found.values}, found.path, found.file))


def _own_quantization(fields: Fields) -> Fields | None:
    """A value of the configuration: at its root, or in the part of the language model."""
    key = next((key for key in ("quantization_config", "compression_config") if key in fields), None)
    if key is not None:
        return fields.child(key)
    text = fields.values.get("text_config")
    if isinstance(text, Mapping) and text.get("quantization_config") is not None:
        return fields.child("text_config").child("quantization_config")
    return None


def _parsed(path: Path) -> object:
    try:
        content = read_bytes(path, MAX_BYTES)
    except OSError as error:
        reason = error.strerror or str(error)
        hint = (
            "; nothing is downloaded, so give the path of a config.json"
            if isinstance(error, FileNotFoundError)
            else ""
        )
        raise UsageError(f"cannot read model configuration {str(path)!r}: {reason}{hint}") from error
    except ValueError as error:
        if "\0" in str(path):
            raise UsageError(f"cannot read model configuration {str(path)!r}: {error}") from error
        raise UsageError(f"{path}: {error}") from error
    try:
        return parse_json(text_of(content))
    except ValueError as error:
        raise UsageError(unreadable(path, error)) from error

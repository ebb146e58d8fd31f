"""The model DB: ``model_characteristics_db.json`` files, shipped or given by the user.

Simulations read the entry of the file, so an edited number counts.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from simsys.data import data_folders
from simsys.errors import UnknownNameError, UsageError
from simsys.input_files import parse_json, read_text, unreadable, without_comments
from simsys.json_places import JsonPlaces
from simsys.model.fields import Fields
from simsys.model.huggingface.quantization_config import quantization_of, quantized
from simsys.model.model import Model
from simsys.model.model_entry import model_from_entry
from simsys.model.repository_names import quantised_name, spellings

KIND = "model_db"
FILENAME = "model_characteristics_db.json"


def load_model(name: str, paths: Sequence[str | Path] = ()) -> Model:
    """Return a model of the DB.

    Args:
        name: Its name or one of its aliases; case, spaces, dots and the signs ``-``, ``_`` and ``/`` do not matter. A
            repository of Hugging Face counts without its owner and without the name of a tuning, such as Instruct. The
            name of a quantisation, such as FP8 or AWQ, says how its weights are stored (`repository_names`).
        paths: Model DB files, or folders that hold one, to look in before ``$SIMSYS_PATH`` and the shipped DB.

    Raises:
        UnknownNameError: No DB has it.
        UsageError: A file or the entry is wrong; the message says where.
    """
    versions = _versions(paths)
    if (found := _found(name, versions)) is not None:
        return _model(*found)
    quantised = quantised_name(name)
    if quantised is not None and (found := _found(quantised[0], versions)) is not None:
        return _quantised_model(*found, name)
    known = {known for version in versions for known in _entries(*version)}
    remedy = "any other model is read from its Hugging Face config: model: {huggingface: config.json}"
    raise UnknownNameError("model", name, known, remedy)


def _found(name: str, versions: Sequence[tuple[Path, int, int]]) -> tuple[Path, int, int, str] | None:
    """Return the file with its version, and the name of the entry in it."""
    for wanted in map(_key, spellings(name)):
        for names in (_own_names, _known_aliases):
            for version in versions:
                own_name = names(*version).get(wanted)
                if own_name is not None:
                    return (*version, own_name)
    return None


def model_names(paths: Sequence[str | Path] = ()) -> list[str]:
    """Return the names in all model DBs, sorted, without aliases."""
    return sorted({name for version in _versions(paths) for name in _entries(*version)})


def database_files(paths: Iterable[str | Path] = ()) -> list[Path]:
    """Return the model DB files there are, best first.

    Raises:
        UsageError: One of `paths` is neither a file nor a folder that holds a model DB.
    """
    given = [Path(path) for path in paths]
    for path in given:
        if not os.path.isfile(path) and not os.path.isfile(path / FILENAME):
            raise UsageError(f"no model DB at {path}: expected a JSON file or a folder with {FILENAME}")
    candidates = [path if os.path.isfile(path) else path / FILENAME for path in data_folders(KIND, given)]
    return [path for path in candidates if os.path.isfile(path)]


def _versions(paths: Sequence[str | Path]) -> list[tuple[Path, int, int]]:
    """Return the files with modification time and size, which are the keys of the caches."""
    return [(file, status.st_mtime_ns, status.st_size) for file in database_files(paths) for status in [file.stat()]]


@lru_cache(maxsize=64)
def _model(file: Path, changed_ns: int, nbytes: int, name: str) -> Model:
    return model_from_entry(name, _entry(file, changed_ns, nbytes, name))


@lru_cache(maxsize=64)
def _quantised_model(file: Path, changed_ns: int, nbytes: int, own_name: str, name: str) -> Model:
    """Return a model with its weights stored as the name of its repository says."""
    quantised = quantised_name(name)
    assert quantised is not None  # it was found without the end of its name
    model = _model(file, changed_ns, nbytes, own_name)
    stored = quantized(model, *quantization_of(Fields(dict(quantised[1]))))
    return replace(stored, notes=(*stored.notes, f"precision as the name {name} says"))


@lru_cache(maxsize=8)
def _own_names(file: Path, changed_ns: int, nbytes: int) -> dict[str, str]:
    """Return the names of entries by search key; the first entry counts."""
    return {_key(name): name for name in reversed(_entries(file, changed_ns, nbytes))}


@lru_cache(maxsize=8)
def _known_aliases(file: Path, changed_ns: int, nbytes: int) -> dict[str, str]:
    version = file, changed_ns, nbytes
    return {
        _key(alias): name for name in reversed(_entries(*version)) for alias in _entry(*version, name).texts("aliases")
    }


def _entries(file: Path, changed_ns: int, nbytes: int) -> dict[str, Any]:
    """Return the entries of a file by name of the model."""
    values = _content(file, changed_ns, nbytes).values
    return {name: entry for name, entry in values.items() if not name.startswith("$")}


@lru_cache(maxsize=8)
def _content(file: Path, changed_ns: int, nbytes: int) -> Fields:
    """Return the content of a file, without comments."""
    try:
        text = without_comments(read_text(file))
        parsed = parse_json(text)
    except OSError as error:
        raise UsageError(f"cannot read model DB {file}: {error.strerror}") from error
    except ValueError as error:
        raise UsageError(unreadable(file, error)) from error
    return Fields(parsed, file=str(file), places=JsonPlaces(text))


def _entry(file: Path, changed_ns: int, nbytes: int, name: str) -> Fields:
    content = _content(file, changed_ns, nbytes)
    return Fields(content.values[name], name, str(file), places=content.places, keys=(name,))


def _key(name: str) -> str:
    return re.sub(r"[-_\s./]", "", name.casefold())

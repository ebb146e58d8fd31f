"""Loads hardware profiles, by name or inline, with the profiles they extend and their fitted values.

Profiles of a user lie in folders ``gpus/``, ``nodes/``, ``fabrics/`` and ``engines/``. These are in
``hardware_profiles/`` in the folder of the experiment, in the folder of the experiment itself, or in
``hardware_profiles/`` in a folder that ``$SIMSYS_PATH`` names. The first profile found is used; shipped profiles come
last.

A profile holds published figures, and defaults for figures that have to be measured. Fitted values replace the
defaults. `simsys calibrate` writes them to files in ``fits/gpus/`` and so on, next to the profile or in a folder that
is searched before it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from typing import Any, TypeVar

from simsys.config.document import Document
from simsys.config.engine_schema import EngineProfile
from simsys.config.hardware_schema import GpuProfile, Profile
from simsys.config.node_schema import FabricProfile, NodeProfile
from simsys.config.profile_layers import Layer, Layers, fit_layer, merged, profile_layer, taken_over
from simsys.config.profile_library import (
    NONE_LEFT_OUT,
    FitsLeftOut,
    Given,
    Kind,
    Named,
    ProfileLibrary,
    no_profiles,
    overlaid,
    own_folders,
    profiles_read,
    without_fits,
)
from simsys.config.validation import validate
from simsys.errors import ConfigError, Problem, UnknownNameError

P = TypeVar("P", bound=Profile)

__all__ = [
    "NONE_LEFT_OUT",
    "EngineProfile",
    "FabricProfile",
    "FitsLeftOut",
    "Given",
    "GpuProfile",
    "Kind",
    "Named",
    "NodeProfile",
    "inherited",
    "load_engine",
    "load_fabric",
    "load_gpu",
    "load_node",
    "missing_settings",
    "no_profiles",
    "overlaid",
    "own_folders",
    "profile_digest",
    "profile_files",
    "profile_names",
    "profiles_read",
    "without_fits",
]


def load_gpu(given: Given, paths: Iterable[str | Path] = ()) -> GpuProfile:
    """Load a GPU profile.

    Args:
        given: Its name, in upper or lower case, or its content, which may extend a profile by name.
        paths: Folders to look in first.

    Raises:
        UnknownNameError: No folder has a profile of that name; the message names the nearest.
        ConfigError: A profile that does not fit the schema, or profiles that extend each other in a circle.
    """
    return _load("gpu", GpuProfile, given, paths)


def load_node(given: Given, paths: Iterable[str | Path] = ()) -> NodeProfile:
    """Load a node profile; arguments and errors as `load_gpu`."""
    return _load("node", NodeProfile, given, paths)


def load_fabric(given: Given, paths: Iterable[str | Path] = ()) -> FabricProfile:
    """Load a fabric profile; arguments and errors as `load_gpu`."""
    return _load("fabric", FabricProfile, given, paths)


def load_engine(given: Given, paths: Iterable[str | Path] = ()) -> EngineProfile:
    """Load an engine profile; arguments and errors as `load_gpu`."""
    return _load("engine", EngineProfile, given, paths)


def profile_digest(layers: Sequence[Layer]) -> str:
    """Twelve hexadecimal digits that change with any content of a profile's files, including parents and fits."""
    parts = [_json(layer.data) if layer.document is None else _document_json(layer.document) for layer in layers]
    return sha256("\n".join(parts).encode()).hexdigest()[:12]


@lru_cache(maxsize=256)
def _document_json(document: Document) -> str:
    return _json(document.data)


def _json(data: Mapping[str, Any]) -> str:
    return json.dumps(data, sort_keys=True, default=str)


def profile_names(kind: Kind, paths: Iterable[str | Path] = ()) -> list[str]:
    """Return the names of all profiles of a kind, sorted, without short names."""
    return sorted(ProfileLibrary.of(kind, paths).names, key=str.lower)


def is_known(kind: Kind, name: str, paths: Iterable[str | Path] = ()) -> bool:
    """Whether a profile has this name or alias."""
    try:
        ProfileLibrary.of(kind, paths).find(name)
    except UnknownNameError:
        return False
    return True


def inherited(kind: Kind, given: Given, paths: Iterable[str | Path] = ()) -> tuple[str, frozenset[str]]:
    """The inherited fields of a profile and the profile that it extends; arguments and errors as `load_gpu`.

    Returns:
        The name of the profile that it extends, empty if there is none, and the fields with inherited values.
    """
    layers = _layers(kind, given, paths)
    written = tuple((layer.document, layer.fit) for layer in layers)
    return taken_over(layers) if any(document is None for document, _ in written) else _inherited(written)


def profile_files(kind: Kind, given: Given, paths: Iterable[str | Path] = ()) -> list[Path]:
    """The files that a profile is read from, its fits included; arguments and errors as `load_gpu`."""
    return [Path(layer.document.name) for layer in _layers(kind, given, paths) if layer.document is not None]


def _load(kind: Kind, model_class: type[P], given: Given, paths: Iterable[str | Path]) -> P:
    """Collect a profile's layers and validate them together; unchanged files are validated only once."""
    layers = _layers(kind, given, paths)
    written = tuple((layer.document, layer.fit) for layer in layers)
    if any(document is None for document, _ in written):
        whole = merged(layers)
        _check_complete(kind, whole, model_class)
        return validate(whole, model_class)
    found: P = _valid(model_class, written)
    return found


def _check_complete(kind: Kind, whole: Layers, model_class: type[Profile]) -> None:
    """Refuse settings that are neither a complete profile nor changes of one, with one message for all keys."""
    missing = missing_settings(whole.data, model_class)
    if len(missing) > 1:
        message = f"a {kind} profile without 'extends' lacks {', '.join(missing)}"
        raise ConfigError([Problem(f"{message}; to change a profile, write extends: and its name")])


def missing_settings(data: Mapping[str, Any], model_class: type[Profile]) -> list[str]:
    """The required settings of a kind of profile that `data` lacks, apart from the name and the sources."""
    needed = (name for name, field in model_class.model_fields.items() if field.is_required())
    return [name for name in needed if name not in (*data, "name", "sources")]


def _layers(kind: Kind, given: Given, paths: Iterable[str | Path]) -> tuple[Layer, ...]:
    """The layers of a profile, nearest first."""
    library = ProfileLibrary.of(kind, paths)
    return library.named(given) if isinstance(given, str) else library.with_parents(Layer(given, None), ())


@lru_cache(maxsize=256)
def _inherited(written: tuple[tuple[Document, bool], ...]) -> tuple[str, frozenset[str]]:
    return taken_over(_from_documents(written))


@lru_cache(maxsize=256)
def _valid(model_class: type[P], written: tuple[tuple[Document, bool], ...]) -> P:
    return validate(merged(_from_documents(written)), model_class)


def _from_documents(written: Iterable[tuple[Document, bool]]) -> list[Layer]:
    return [fit_layer(document) if fit else profile_layer(document) for document, fit in written]

"""Hardware profiles by name or written inline, what they extend, and what was fitted to measurements.

Profiles of a user lie in ``gpus/``, ``nodes/``, ``fabrics/`` and ``engines/`` of a folder that is given or named in
``$SIMSYS_PATH``, as the shipped ones do in ``hardware_profiles/``; the user's are found first.

A profile holds what is known of a thing, and defaults for what has to be measured. Fitted values replace these: they
lie in ``fits/gpus/`` and so on, in files that `simsys calibrate` writes, beside the profile or in a folder before it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from typing import Any, Literal, TypeAlias, TypeVar

from simsys.config.document import Document, KeyPath, Mark, unchanged_document
from simsys.config.engine_schema import EngineProfile
from simsys.config.hardware_schema import (
    UNSOURCED,
    FabricProfile,
    GpuProfile,
    NodeProfile,
    Profile,
    leaves,
    speaks_for,
)
from simsys.config.loader import deep_merge
from simsys.config.validation import problem_at, validate
from simsys.data import data_folders
from simsys.errors import ConfigError, UnknownNameError, UsageError

Kind: TypeAlias = Literal["gpu", "node", "fabric", "engine"]
Given: TypeAlias = str | Mapping[str, Any]
"""A profile's name, or its content as written in an experiment."""

Named: TypeAlias = tuple[Kind, str]
"""A profile's kind and name."""

P = TypeVar("P", bound=Profile)

_OVERLAYS: ContextVar[Mapping[Named, Mapping[str, Any]] | None] = ContextVar("_OVERLAYS", default=None)
_KEPT_FROM: ContextVar[Sequence[str]] = ContextVar("_KEPT_FROM", default=())
_READ: ContextVar[set[Named] | None] = ContextVar("_READ", default=None)

__all__ = [
    "ALIASES",
    "EngineProfile",
    "FabricProfile",
    "Given",
    "GpuProfile",
    "Kind",
    "Named",
    "NodeProfile",
    "load_engine",
    "load_fabric",
    "load_gpu",
    "load_node",
    "overlaid",
    "profile_digest",
    "profile_names",
    "profiles_read",
    "without_fits_to",
]

ALIASES = {
    "gpu": {
        "V100": "V100-SXM-32GB",
        "A100": "A100-SXM-80GB",
        "H100": "H100-SXM",
        "H200": "H200-SXM",
        "B200": "B200-SXM",
        "A6000": "RTX-A6000",
    }
}
"""Short names, used where no profile has that name itself."""


def load_gpu(given: Given, paths: Iterable[str | Path] = ()) -> GpuProfile:
    """Load a GPU profile.

    Args:
        given: Its name, whatever the case, or its content; content may extend a profile by name.
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


@contextmanager
def overlaid(settings: Mapping[Named, Mapping[str, Any]]) -> Iterator[None]:
    """Within this context, profiles of these names have these settings, whatever their files say.

    Args:
        settings: Settings by kind and name of profile, nested and with units as in a file.
    """
    token = _OVERLAYS.set(settings)
    try:
        yield
    finally:
        _OVERLAYS.reset(token)


@contextmanager
def without_fits_to(tables: Sequence[str]) -> Iterator[None]:
    """Within this context, profiles are as before anything was fitted for them to tables of these names.

    Args:
        tables: The names of their files.
    """
    token = _KEPT_FROM.set(tables)
    try:
        yield
    finally:
        _KEPT_FROM.reset(token)


@contextmanager
def profiles_read() -> Iterator[set[Named]]:
    """Within this context, and those around it, note which profiles are read by name."""
    found: set[Named] = set()
    token = _READ.set(found)
    try:
        yield found
    finally:
        _READ.reset(token)
        around = _READ.get()
        if around is not None:
            around |= found


def profile_digest(named: Named) -> str:
    """Twelve hexadecimal digits that change with anything that a profile's files say, parents and fits included."""
    kind, name = named
    layers = _named(kind, name, _files(kind, ()), ())
    parts = [_json(layer.data) if layer.document is None else _document_json(layer.document) for layer in layers]
    return sha256("\n".join(parts).encode()).hexdigest()[:12]


@lru_cache(maxsize=256)
def _document_json(document: Document) -> str:
    return _json(document.data)


def _json(data: Mapping[str, Any]) -> str:
    return json.dumps(data, sort_keys=True, default=str)


def profile_names(kind: Kind, paths: Iterable[str | Path] = ()) -> list[str]:
    """Return the names of all profiles of a kind, sorted, without short names."""
    return sorted((path.stem for path in _files(kind, paths).values()), key=str.lower)


@dataclass(frozen=True, slots=True)
class _Layer:
    """Settings written in one place: a file, or an experiment (no document)."""

    data: Mapping[str, Any]
    document: Document | None
    fit: bool = False
    """Whether they were fitted for the profile of the next layer."""


@dataclass(frozen=True, slots=True)
class _Layers:
    """A profile's settings with all it extends merged in, and the layers they come from, nearest first."""

    data: dict[str, Any]
    layers: tuple[_Layer, ...]

    def locate(self, path: KeyPath, *, key: bool = False) -> Mark | None:
        """Return where a setting was written, or what surrounds it; None if that is not in a file."""
        for layer in self.layers:
            if _has(layer.data, path):
                document = layer.document
                return None if document is None else document.mark(path, key=key) or Mark(document.name)
        return self.locate(path[:-1], key=True)


def _has(data: Any, path: KeyPath) -> bool:
    """Whether nested mappings and lists have something at a path."""
    for part in path:
        try:
            data = data[part]
        except (KeyError, IndexError, TypeError):
            return False
    return True


def _load(kind: Kind, model_class: type[P], given: Given, paths: Iterable[str | Path]) -> P:
    """Collect a profile's layers and validate the whole, files that have been validated before only once."""
    files = _files(kind, paths)
    layers = _named(kind, given, files, ()) if isinstance(given, str) else _given(kind, _Layer(given, None), files, ())
    written = tuple((layer.document, layer.fit) for layer in layers)
    if any(document is None for document, _ in written):
        return validate(_merged(layers), model_class)
    found: P = _valid(model_class, written)
    return found


@lru_cache(maxsize=256)
def _valid(model_class: type[P], written: tuple[tuple[Document, bool], ...]) -> P:
    layers = [_fit(document) if fit else _profile(document) for document, fit in written]
    return validate(_merged(layers), model_class)


def _profile(document: Document) -> _Layer:
    return _Layer({"name": Path(document.name).stem, **document.data}, document)


def _fit(document: Document) -> _Layer:
    return _Layer(document.data, document, fit=True)


def _files(kind: Kind, paths: Iterable[str | Path]) -> dict[str, Path]:
    """Profile files by name in lower case; the first folder that has one wins."""
    found: dict[str, Path] = {}
    for folder in data_folders("hardware_profiles", paths):
        below = folder / f"{kind}s"
        for name in sorted(os.listdir(below)) if below.is_dir() else ():
            if name.endswith(".yaml"):
                found.setdefault(name[: -len(".yaml")].lower(), below / name)
    return found


def _find(kind: Kind, name: str, files: Mapping[str, Path]) -> Path:
    """The file of a profile's name or short name."""
    aliases = ALIASES.get(kind, {})
    full_name = {alias.lower(): full for alias, full in aliases.items()}.get(name.lower(), name)
    path = files.get(name.lower()) or files.get(full_name.lower())
    if path is None:
        raise UnknownNameError(f"{kind} profile", name, [*(path.stem for path in files.values()), *aliases])
    return path


def _named(kind: Kind, name: str, files: Mapping[str, Path], chain: Sequence[Path]) -> tuple[_Layer, ...]:
    """A profile's layers, nearest first, what was fitted for it before its own; `chain` holds the files that led here.

    A fit is in the profile's own folder or in one before it, or for now.
    """
    path = _find(kind, name, files)
    if path in chain:
        circle = " extends ".join(file.stem for file in (*chain[chain.index(path) :], path))
        raise UsageError(f"profiles extend each other in a circle: {circle}")
    layers = _given(kind, _profile(unchanged_document(path)), files, (*chain, path))
    named = kind, path.stem
    read = _READ.get()
    if read is not None:
        read.add(named)
    fit = _fit_of(kind, path)
    if fit is not None:
        layers = _fit(fit), *layers
    overlay = (_OVERLAYS.get() or {}).get(named)
    return layers if overlay is None else (_Layer(overlay, None, fit=True), *layers)


def _fit_of(kind: Kind, path: Path) -> Document | None:
    """The fit of a profile, which does not apply to another one of that name in a folder before."""
    own, folders = path.parents[1], data_folders("hardware_profiles")
    before = folders[: folders.index(own)] if own in folders else []
    for folder in (*before, own):
        file = folder / "fits" / f"{kind}s" / path.name
        if file.is_file():
            fit = unchanged_document(file)
            if not _is_fitted_to(fit, _KEPT_FROM.get()):
                return fit
    return None


def _is_fitted_to(fit: Document, tables: Sequence[str]) -> bool:
    """Whether any of its numbers was fitted to rows of one of these tables."""
    if not tables:
        return False
    said = fit.data.get("fits", {})
    names = [str(each.get("fitted_on", "")).partition(" rows of ")[2].split(", ") for each in said.values()]
    return any(table in own for own in names for table in tables)


def _given(kind: Kind, layer: _Layer, files: Mapping[str, Path], chain: Sequence[Path]) -> tuple[_Layer, ...]:
    """A layer and those of the profile that it extends, if any."""
    if "extends" not in layer.data:
        return (layer,)
    here, parent = _Layers(dict(layer.data), (layer,)), layer.data["extends"]
    if not isinstance(parent, str):
        raise ConfigError([problem_at(here, ("extends",), f"'extends' is the name of a {kind} profile")])
    try:
        return layer, *_named(kind, parent, files, chain)
    except ConfigError:
        raise
    except UsageError as error:
        if layer.document is None:
            raise
        raise ConfigError([problem_at(here, ("extends",), str(error))]) from None


def _merged(layers: Sequence[_Layer]) -> _Layers:
    """Each layer over those it extends or was fitted for."""
    data: dict[str, Any] = {}
    for layer in reversed(layers):
        own = dict(layer.data)
        if not layer.fit and own.pop("extends", None) is not None:
            own.setdefault("name", f"{data['name']} (changed)")
        data = _override(data, own) if data else own
    return _Layers(data, tuple(layers))


def _override(base: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
    """Merge settings over a profile's; a number that is changed loses its source and fit, and a price goes whole.

    A memory that is given is what programs see of it, unless what the driver keeps is given too.
    """
    gone = [key for key, by in (("price", "price"), ("memory_reserved", "memory")) if by in own]
    merged = deep_merge({key: value for key, value in base.items() if key not in gone}, own)
    changed = [path for path, _ in leaves({key: value for key, value in own.items() if key not in UNSOURCED})]
    own_sources, own_fits = own.get("sources", {}), own.get("fits", {})
    base_sources, base_fits = base.get("sources", {}), base.get("fits", {})
    if not all(isinstance(part, Mapping) for part in (own_sources, own_fits, base_sources, base_fits)):
        return merged  # validation says what is wrong
    replaced = [*changed, *own_sources, *gone]
    merged["sources"] = _without(base_sources, replaced) | _unsaid(changed, own_sources) | dict(own_sources)
    merged["fits"] = _without(base_fits, replaced) | dict(own_fits)
    return merged


def _without(said: Mapping[str, Any], replaced: Iterable[str]) -> dict[str, Any]:
    """What is said of fields, without the fields at or below those replaced."""
    paths = tuple(replaced)
    return {key: value for key, value in said.items() if not any(speaks_for(path, key) for path in paths)}


def _unsaid(changed: Iterable[str], sources: Mapping[str, Any]) -> dict[str, str]:
    """A source for each changed field that has none."""
    return {path: "user" for path in changed if not any(speaks_for(key, path) for key in sources)}

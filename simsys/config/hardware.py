"""Hardware profiles by name or written inline, what they extend, and what was fitted to measurements.

Profiles of a user lie in ``gpus/``, ``nodes/``, ``fabrics/`` and ``engines/`` of a folder that is given or named in
``$SIMSYS_PATH``, as the shipped ones do in ``hardware_profiles/``; the user's are found first.

A profile holds what is known of a thing, and defaults for what has to be measured. Fitted values replace these: they
lie in ``fits/gpus/`` and so on, in files that `simsys calibrate` writes, beside the profile or in a folder before it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal, TypeAlias, TypeVar

from simsys.config.document import Document, KeyPath, Mark, read_document
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
    "profile_names",
    "profiles_read",
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
def profiles_read() -> Iterator[set[Named]]:
    """Within this context, note which profiles are read by name."""
    found: set[Named] = set()
    token = _READ.set(found)
    try:
        yield found
    finally:
        _READ.reset(token)


def profile_names(kind: Kind, paths: Iterable[str | Path] = ()) -> list[str]:
    """Return the names of all profiles of a kind, sorted, without short names."""
    return sorted((path.stem for path in _files(kind, paths).values()), key=str.lower)


@dataclass(frozen=True, slots=True)
class _Layer:
    """Settings written in one place: a file, or an experiment (no document)."""

    data: Mapping[str, Any]
    document: Document | None


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
    """Collect a profile's layers and validate the whole."""
    files = _files(kind, paths)
    if isinstance(given, str):
        return validate(_read(kind, given, files, ()), model_class)
    return validate(_extended(kind, _Layer(given, None), files, ()), model_class)


def _files(kind: Kind, paths: Iterable[str | Path]) -> dict[str, Path]:
    """Profile files by name in lower case; the first folder that has one wins."""
    found: dict[str, Path] = {}
    for folder in data_folders("hardware_profiles", paths):
        for path in sorted((folder / f"{kind}s").glob("*.yaml")):
            found.setdefault(path.stem.lower(), path)
    return found


def _find(kind: Kind, name: str, files: Mapping[str, Path]) -> Path:
    """The file of a profile's name or short name."""
    aliases = ALIASES.get(kind, {})
    full_name = {alias.lower(): full for alias, full in aliases.items()}.get(name.lower(), name)
    path = files.get(name.lower()) or files.get(full_name.lower())
    if path is None:
        raise UnknownNameError(f"{kind} profile", name, [*(path.stem for path in files.values()), *aliases])
    return path


def _read(kind: Kind, name: str, files: Mapping[str, Path], chain: Sequence[Path]) -> _Layers:
    """Read a named profile; `chain` holds the files that led here."""
    path = _find(kind, name, files)
    if path in chain:
        circle = " extends ".join(file.stem for file in (*chain[chain.index(path) :], path))
        raise UsageError(f"profiles extend each other in a circle: {circle}")
    document = _document(path)
    layers = _extended(kind, _Layer({"name": path.stem, **document.data}, document), files, (*chain, path))
    return _fitted(kind, path, layers)


def _document(path: Path) -> Document:
    """A file, read again only once it has changed."""
    status = path.stat()
    return _read_version(path, status.st_mtime_ns, status.st_size)


@lru_cache(maxsize=256)
def _read_version(path: Path, mtime_ns: int, nbytes: int) -> Document:
    return read_document(path)


def _fitted(kind: Kind, path: Path, layers: _Layers) -> _Layers:
    """A profile with what was fitted for it: in its own folder or one before it, or for now."""
    named = kind, path.stem
    read = _READ.get()
    if read is not None:
        read.add(named)
    fit = _fit_file(kind, path)
    if fit is not None:
        document = _document(fit)
        layers = _over(_Layer(document.data, document), layers)
    overlay = (_OVERLAYS.get() or {}).get(named)
    return layers if overlay is None else _over(_Layer(overlay, None), layers)


def _over(layer: _Layer, below: _Layers) -> _Layers:
    return _Layers(_override(below.data, layer.data), (layer, *below.layers))


def _fit_file(kind: Kind, path: Path) -> Path | None:
    """The fit of a profile, which does not apply to another one of that name in a folder before."""
    own, folders = path.parents[1], data_folders("hardware_profiles")
    before = folders[: folders.index(own)] if own in folders else []
    for folder in (*before, own):
        fit = folder / "fits" / f"{kind}s" / path.name
        if fit.is_file():
            return fit
    return None


def _extended(kind: Kind, layer: _Layer, files: Mapping[str, Path], chain: Sequence[Path]) -> _Layers:
    """Merge settings over the profile they extend, if any."""
    own = {key: value for key, value in layer.data.items() if key != "extends"}
    here = _Layers(own, (layer,))
    if "extends" not in layer.data:
        return here
    parent = layer.data["extends"]
    if not isinstance(parent, str):
        raise ConfigError([problem_at(here, ("extends",), f"'extends' is the name of a {kind} profile")])
    try:
        base = _read(kind, parent, files, chain)
    except ConfigError:
        raise
    except UsageError as error:
        if layer.document is None:
            raise
        raise ConfigError([problem_at(here, ("extends",), str(error))]) from None
    own.setdefault("name", f"{base.data['name']} (changed)")
    return _Layers(_override(base.data, own), (layer, *base.layers))


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

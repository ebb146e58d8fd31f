"""Hardware profiles by name or written inline, what they extend, and what was fitted to measurements.

Profiles of a user lie in ``gpus/``, ``nodes/``, ``fabrics/`` and ``engines/``, below ``hardware_profiles/`` beside the
experiment, beside the experiment itself, or below ``hardware_profiles/`` in a folder that ``$SIMSYS_PATH`` names. The
first that is found counts, before the shipped ones.

A profile holds what is known of a thing, and defaults for what has to be measured. Fitted values replace these: they
lie in ``fits/gpus/`` and so on, in files that `simsys calibrate` writes, beside the profile or in a folder before it.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal, TypeAlias, TypeVar, get_args

from simsys.config.document import Document, unchanged_document
from simsys.config.engine_schema import EngineProfile
from simsys.config.hardware_schema import FabricProfile, GpuProfile, NodeProfile, Profile
from simsys.config.profile_layers import Layer, Layers, fit_layer, merged, profile_layer, taken_over
from simsys.config.validation import problem_at, validate
from simsys.data import data_folders
from simsys.errors import ConfigError, Problem, UnknownNameError, UsageError

SHIPPED = "hardware_profiles"
"""Name of the folder of profiles, below the shipped data and below a folder of the user's."""

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
    "inherited",
    "load_engine",
    "load_fabric",
    "load_gpu",
    "load_node",
    "missing_settings",
    "no_profiles",
    "overlaid",
    "own_folders",
    "profile_files",
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
    """Within this context, note which profiles are read by name."""
    found: set[Named] = set()
    token = _READ.set(found)
    try:
        yield found
    finally:
        _READ.reset(token)


def profile_names(kind: Kind, paths: Iterable[str | Path] = ()) -> list[str]:
    """Return the names of all profiles of a kind, sorted, without short names."""
    return sorted((path.stem for path in _Library.of(kind, paths).files.values()), key=str.lower)


def inherited(kind: Kind, given: Given, paths: Iterable[str | Path] = ()) -> tuple[str, frozenset[str]]:
    """What a profile takes over from the one that it extends; arguments and errors as `load_gpu`.

    Returns:
        The name of the profile that it extends, empty if there is none, and the fields of which something was taken.
    """
    layers = _layers(kind, given, paths)
    written = tuple((layer.document, layer.fit) for layer in layers)
    return taken_over(layers) if any(document is None for document, _ in written) else _inherited(written)


def profile_files(kind: Kind, given: Given, paths: Iterable[str | Path] = ()) -> list[Path]:
    """The files that a profile is read from, its fits included; arguments and errors as `load_gpu`."""
    return [Path(layer.document.name) for layer in _layers(kind, given, paths) if layer.document is not None]


def own_folders(folder: Path, profile_folder: str | None = None) -> tuple[Path, ...]:
    """Where the user's own profiles are, best first: in ``hardware_profiles/`` of a folder, or in the folder itself.

    Args:
        folder: The folder of the experiment.
        profile_folder: Another folder, as a path that starts from there.
    """
    root = folder if profile_folder is None else folder / Path(profile_folder).expanduser()
    shipped = data_folders(SHIPPED)[-1]
    places = (root.resolve() / SHIPPED, root.resolve())
    return tuple(place for place in places if place != shipped and _holds_profiles(place))


def no_profiles(profile_folder: str) -> str:
    """What is wrong with a folder in which there are no profiles."""
    return f"{profile_folder!r} is no folder that has gpus, nodes, fabrics, engines or fits in it"


def _holds_profiles(folder: Path) -> bool:
    return any((folder / name).is_dir() for name in (*(f"{kind}s" for kind in get_args(Kind)), "fits"))


def _load(kind: Kind, model_class: type[P], given: Given, paths: Iterable[str | Path]) -> P:
    """Collect a profile's layers and validate the whole, files that have been validated before only once."""
    layers = _layers(kind, given, paths)
    written = tuple((layer.document, layer.fit) for layer in layers)
    if any(document is None for document, _ in written):
        whole = merged(layers)
        _check_complete(kind, whole, model_class)
        return validate(whole, model_class)
    found: P = _valid(model_class, written)
    return found


def _check_complete(kind: Kind, whole: Layers, model_class: type[Profile]) -> None:
    """Refuse settings that are neither a whole profile nor change one, with one message for all keys."""
    missing = missing_settings(whole.data, model_class)
    if len(missing) > 1:
        message = f"a {kind} profile without 'extends' lacks {', '.join(missing)}"
        raise ConfigError([Problem(f"{message}; to change a profile, write extends: and its name")])


def missing_settings(data: Mapping[str, Any], model_class: type[Profile]) -> list[str]:
    """The settings that every profile of a kind has and `data` has not, apart from its name and sources."""
    needed = (name for name, field in model_class.model_fields.items() if field.is_required())
    return [name for name in needed if name not in (*data, "name", "sources")]


def _layers(kind: Kind, given: Given, paths: Iterable[str | Path]) -> tuple[Layer, ...]:
    """The layers of a profile, nearest first."""
    library = _Library.of(kind, paths)
    return library.named(given) if isinstance(given, str) else library.with_parents(Layer(given, None), ())


@lru_cache(maxsize=256)
def _inherited(written: tuple[tuple[Document, bool], ...]) -> tuple[str, frozenset[str]]:
    return taken_over(_from_documents(written))


@lru_cache(maxsize=256)
def _valid(model_class: type[P], written: tuple[tuple[Document, bool], ...]) -> P:
    return validate(merged(_from_documents(written)), model_class)


def _from_documents(written: Iterable[tuple[Document, bool]]) -> list[Layer]:
    return [fit_layer(document) if fit else profile_layer(document) for document, fit in written]


@dataclass(frozen=True, slots=True)
class _Library:
    """The profiles of one kind.

    Args:
        kind: Which.
        folders: Folders that may hold them, best first.
        files: Their files, by name in lower case; the first folder that has one wins.
    """

    kind: Kind
    folders: Sequence[Path]
    files: Mapping[str, Path]

    @classmethod
    def of(cls, kind: Kind, paths: Iterable[str | Path]) -> _Library:
        """The shipped profiles, and those of the user in some folders."""
        folders = data_folders(SHIPPED, paths)
        found: dict[str, Path] = {}
        for folder in folders:
            below = folder / f"{kind}s"
            for name in sorted(os.listdir(below)) if below.is_dir() else ():
                if name.endswith(".yaml"):
                    found.setdefault(name[: -len(".yaml")].lower(), below / name)
        return cls(kind, folders, found)

    def find(self, name: str) -> Path:
        """The file of a profile's name or short name."""
        aliases = ALIASES.get(self.kind, {})
        full_name = {alias.lower(): full for alias, full in aliases.items()}.get(name.lower(), name)
        path = self.files.get(name.lower()) or self.files.get(full_name.lower())
        if path is None:
            known = [*(path.stem for path in self.files.values()), *aliases]
            raise UnknownNameError(f"{self.kind} profile", name, known)
        return path

    def named(self, name: str, chain: Sequence[Path] = ()) -> tuple[Layer, ...]:
        """A profile's layers, nearest first, what was fitted for it before its own.

        A fit is in the profile's own folder or in one before it, or for now.

        Args:
            name: The profile's name.
            chain: The files that led here, each of which extends the next.
        """
        path = self.find(name)
        if path in chain:
            circle = " extends ".join(file.stem for file in (*chain[chain.index(path) :], path))
            raise UsageError(f"profiles extend each other in a circle: {circle}")
        layers = self.with_parents(profile_layer(unchanged_document(path)), (*chain, path))
        named = self.kind, path.stem
        read = _READ.get()
        if read is not None:
            read.add(named)
        fit = self._fit_of(path)
        if fit is not None:
            layers = fit_layer(fit), *layers
        overlay = (_OVERLAYS.get() or {}).get(named)
        return layers if overlay is None else (Layer(overlay, None, fit=True), *layers)

    def with_parents(self, layer: Layer, chain: Sequence[Path]) -> tuple[Layer, ...]:
        """A layer and those of the profile that it extends, if any."""
        if "extends" not in layer.data:
            return (layer,)
        here, parent = Layers(dict(layer.data), (layer,)), layer.data["extends"]
        if not isinstance(parent, str):
            message = f"'extends' is the name of a {self.kind} profile"
            raise ConfigError([problem_at(here, ("extends",), message)])
        try:
            return layer, *self.named(parent, chain)
        except ConfigError:
            raise
        except UsageError as error:
            if layer.document is None:
                raise
            raise ConfigError([problem_at(here, ("extends",), str(error))]) from None

    def _fit_of(self, path: Path) -> Document | None:
        """The fit of a profile, which does not apply to another one of that name in a folder before."""
        own = path.parents[1]
        before = self.folders[: self.folders.index(own)] if own in self.folders else []
        for folder in (*before, own):
            file = folder / "fits" / f"{self.kind}s" / path.name
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

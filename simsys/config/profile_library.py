"""Finds the files of hardware and engine profiles by name, with their parents and fitted values."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias, get_args

from simsys.config.document import Document, unchanged_document
from simsys.config.profile_layers import Layer, Layers, fit_layer, profile_layer
from simsys.config.validation import problem_at
from simsys.data import data_folders, shipped_folder
from simsys.errors import ConfigError, UnknownNameError, UsageError
from simsys.input_files import path_from, read_text

SHIPPED = "hardware_profiles"
"""Name of the folder of profiles, below the shipped data and below a folder of the user's."""

Kind: TypeAlias = Literal["gpu", "node", "fabric", "engine"]
Given: TypeAlias = str | Mapping[str, Any]
"""A profile: its name, or its content as written in an experiment."""

Named: TypeAlias = tuple[Kind, str]
"""A profile's kind and name."""

BELOW = (*(f"{kind}s" for kind in get_args(Kind)), "fits")
"""Folders that a folder of profiles may have."""


class FitsLeftOut(NamedTuple):
    """Fits that profiles are used without.

    Args:
        tables: The names of the tables' files to which they were fitted.
        only: Names of the profiles; all if empty.
    """

    tables: Sequence[str] = ()
    only: Collection[str] = ()


NONE_LEFT_OUT = FitsLeftOut()
_OVERLAYS: ContextVar[Mapping[Named, Mapping[str, Any]] | None] = ContextVar("_OVERLAYS", default=None)
_LEFT_OUT: ContextVar[FitsLeftOut] = ContextVar("_LEFT_OUT", default=NONE_LEFT_OUT)
_READ: ContextVar[dict[Named, Sequence[Layer]] | None] = ContextVar("_READ", default=None)


@contextmanager
def overlaid(settings: Mapping[Named, Mapping[str, Any]]) -> Iterator[None]:
    """Within this context, these settings replace the settings in the files of profiles of these names.

    Args:
        settings: Settings by kind and name of profile, nested and with units as in a file.
    """
    token = _OVERLAYS.set(settings)
    try:
        yield
    finally:
        _OVERLAYS.reset(token)


@contextmanager
def without_fits(left_out: FitsLeftOut) -> Iterator[None]:
    """Within this context, profiles are used without some of their fitted values."""
    token = _LEFT_OUT.set(left_out)
    try:
        yield
    finally:
        _LEFT_OUT.reset(token)


@contextmanager
def profiles_read() -> Iterator[dict[Named, Sequence[Layer]]]:
    """Within this context and all outer ones, record the profiles that are read by name, with their layers."""
    found: dict[Named, Sequence[Layer]] = {}
    token = _READ.set(found)
    try:
        yield found
    finally:
        _READ.reset(token)
        around = _READ.get()
        if around is not None:
            around |= found


def own_folders(folder: Path, profile_folder: str | None = None) -> tuple[Path, ...]:
    """Folders with the user's own profiles, best first: ``hardware_profiles/`` of a folder, or the folder itself.

    Args:
        folder: The folder of the experiment.
        profile_folder: Another folder, as a path that starts from there.
    """
    try:
        root = os.path.realpath(folder if profile_folder is None else path_from(folder, profile_folder))
    except (OSError, RuntimeError, ValueError):  # no such user, a circle of links, no path at all
        return ()
    return _with_profiles(root)


def _with_profiles(root: str) -> tuple[Path, ...]:
    """The folders with profiles, of a folder without links in its path and its ``hardware_profiles/``."""
    places, shipped = (os.path.join(root, SHIPPED), root), str(shipped_folder(SHIPPED))  # texts, as paths are slow
    return tuple(Path(place) for place in places if place != shipped and _holds_profiles(place))


def no_profiles(profile_folder: str) -> str:
    """The message for a folder without profiles."""
    return f"{profile_folder!r} is no folder that has gpus, nodes, fabrics, engines or fits in it"


def _holds_profiles(folder: str) -> bool:
    return any(os.path.isdir(os.path.join(folder, name)) for name in BELOW)


@dataclass(frozen=True, slots=True)
class ProfileLibrary:
    """The profiles of one kind.

    Args:
        kind: The kind of profile.
        folders: Folders that may hold them, best first.
        files: Their files, by name in lower case; the first folder that has one wins.
        every: All files, those too whose name an earlier folder has.
    """

    kind: Kind
    folders: Sequence[Path]
    files: Mapping[str, str]
    every: Sequence[str]

    @classmethod
    def of(cls, kind: Kind, paths: Iterable[str | Path]) -> ProfileLibrary:
        """The shipped profiles of a kind, and the user's profiles in `folders`."""
        folders = tuple(data_folders(SHIPPED, paths))
        below = [os.path.join(folder, f"{kind}s") for folder in folders]
        names = [tuple(os.listdir(each)) if os.path.isdir(each) else () for each in below]
        return _library(kind, folders, tuple(names))

    def find(self, name: str) -> Path:
        """The file of a profile's name or alias.

        Raises:
            UnknownNameError: There is none; the message names the nearest.
        """
        file = self.files.get(name.lower()) or self._of_alias(name)
        if file is None:
            raise UnknownNameError(f"{self.kind} profile", name, [*self.names, *self.aliases])
        return Path(file)

    def _of_alias(self, name: str) -> str | None:
        """The file of the name of a profile with an alias; only files whose text has it are parsed."""
        wanted = name.lower()
        for file in self.every:
            text = _text(file)
            if "aliases:" in text and wanted in text and wanted in map(str.lower, _aliases_in(file)):
                return self.files[Path(file).stem.lower()]
        return None

    @property
    def aliases(self) -> list[str]:
        """The aliases of all profiles."""
        return [alias for file in self.every if "aliases:" in _text(file) for alias in _aliases_in(file)]

    @property
    def names(self) -> list[str]:
        """The names of all profiles, as their files spell them."""
        return [Path(file).stem for file in self.files.values()]

    def named(self, name: str, chain: Sequence[Path] = ()) -> tuple[Layer, ...]:
        """A profile's layers, nearest first, with its fitted values before its own settings.

        A fit lies in the profile's own folder or in a folder searched before it, or is set by `overlaid`.

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
        fit = self._fit_of(path)
        if fit is not None:
            layers = fit_layer(fit), *layers
        overlay = (_OVERLAYS.get() or {}).get(named)
        if overlay is not None:
            layers = Layer(overlay, None, fit=True), *layers
        read = _READ.get()
        if read is not None:
            read[named] = layers
        return layers

    def with_parents(self, layer: Layer, chain: Sequence[Path]) -> tuple[Layer, ...]:
        """A layer, followed by the layers of the profile that it extends, if any."""
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
        """The fit of a profile. It does not apply to a profile of equal name in a folder searched earlier."""
        own = path.parents[1]
        before = self.folders[: self.folders.index(own)] if own in self.folders else ()
        for folder in (*before, own):
            file = os.path.join(folder, "fits", f"{self.kind}s", path.name)  # a text, as paths are slow
            if os.path.isfile(file):
                fit, (tables, only) = unchanged_document(Path(file)), _LEFT_OUT.get()
                if (only and path.stem not in only) or not _is_fitted_to(fit, tables):
                    return fit
        return None


@lru_cache(maxsize=256)
def _library(kind: Kind, folders: tuple[Path, ...], names: tuple[tuple[str, ...], ...]) -> ProfileLibrary:
    """The profiles of a kind in folders with files of these names."""
    found: dict[str, str] = {}
    every: list[str] = []
    for folder, inside in zip(folders, names, strict=True):
        for name in sorted(inside):
            if name.endswith(".yaml"):
                file = os.path.join(folder, f"{kind}s", name)
                found.setdefault(name.removesuffix(".yaml").lower(), file)
                every.append(file)
    return ProfileLibrary(kind, folders, found, every)


def _text(file: str) -> str:
    """The text of a file in lower case; empty if it cannot be read."""
    try:
        return read_text(Path(file)).lower()
    except (OSError, ValueError):
        return ""


def _aliases_in(file: str) -> list[str]:
    """The aliases of a profile; none of a file that is no profile, which an error reports when it is used."""
    try:
        found = unchanged_document(Path(file)).data.get("aliases")
    except UsageError:
        return []
    return [alias for alias in found if isinstance(alias, str)] if isinstance(found, list | tuple) else []


def _is_fitted_to(fit: Document, tables: Sequence[str]) -> bool:
    """Whether any number of a fit was fitted to rows of one of these tables."""
    if not tables:
        return False
    said = fit.data.get("fits", {})
    names = [str(each.get("fitted_on", "")).partition(" rows of ")[2].split(", ") for each in said.values()]
    return any(table in own for own in names for table in tables)

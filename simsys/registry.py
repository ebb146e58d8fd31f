"""Plug-ins by name: a shipped file, a registered class, an installed entry point, or ``package.module:Class``.

Adding one touches one file: the name is the file's name, and nothing is imported before it is asked for.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import inspect
import pkgutil
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import TypeVar

from simsys.errors import SimsysError, UnknownNameError, UsageError, described
from simsys.user_modules import import_user_module, place_in_user_module, with_place

Class = TypeVar("Class", bound=type)
Base = TypeVar("Base")


class Registry:
    """Classes of one sort, looked up by name.

    Args:
        noun: Their name in messages, such as ``framework module``.
        package: The package whose files are the shipped ones, such as ``frameworks``; empty if none is shipped.
        entry_points: Entry-point group through which other distributions add theirs.
        helpers: Files of the package that are not plug-ins.
        aliases: Other names of plug-ins.
    """

    def __init__(
        self,
        noun: str,
        package: str,
        entry_points: str,
        *,
        helpers: Iterable[str] = (),
        aliases: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        self.noun, self.package, self.entry_points = noun, package, entry_points
        self.helpers, self.aliases = frozenset(helpers), aliases
        self._classes: dict[str, type] = {}

    def register(self, name: str) -> Callable[[Class], Class]:
        """Class decorator that makes a class known under `name`.

        Raises:
            UsageError: If another class has that name.
        """

        def decorate(cls: Class) -> Class:
            known = self._classes.get(name)
            if known is not None and (known.__module__, known.__qualname__) != (cls.__module__, cls.__qualname__):
                raise UsageError(f"{self.noun} {name!r} is registered twice: by {_place(known)} and {_place(cls)}")
            self._classes[name] = cls
            return cls

        return decorate

    def forget(self, name: str) -> None:
        """Undo a registration; for tests and interactive work."""
        self._classes.pop(name, None)

    def names(self) -> list[str]:
        """All names that `get` knows, without importing anything."""
        return sorted(self._files() | set(self._classes) | set(self._entry_points()) | set(self.aliases))

    def imported(self) -> list[str]:
        """The names whose classes are known already."""
        return sorted(self._classes)

    def __contains__(self, name: str) -> bool:
        """Whether it is one of `names`; other distributions come last, since all of their files have to be read."""
        here = name in self._classes or name in self.aliases or name in self._files()
        return here or name in self._entry_points()

    def get(self, name: str, base: type[Base]) -> type[Base]:
        """The class called `name`.

        Args:
            name: A shipped file, a registered name, an entry point, or ``package.module:Class``.
            base: Required base class.

        Raises:
            UnknownNameError: If nothing has that name.
            UsageError: If it cannot be imported or is no subclass of `base`.
        """
        cls = self._find(name)
        if not issubclass(cls, base) or inspect.isabstract(cls):
            raise UsageError(f"{self.noun} {name!r} is not a complete subclass of {base.__name__}")
        return cls

    def _find(self, name: str) -> type:
        name = self.aliases.get(name, name)
        if ":" in name:
            return self._import_class(name)
        if name not in self._classes and name in self._files():
            importlib.import_module(f"{self.package}.{name}")
            if name not in self._classes:
                raise UsageError(f"{self.package}.{name} registers no {self.noun} called {name!r}")
        if name not in self._classes and name in self._entry_points():
            self._classes[name] = self._import_class(self._entry_points()[name].value)
        if name not in self._classes:
            raise UnknownNameError(self.noun, name, self.names())
        return self._classes[name]

    def _import_class(self, place: str) -> type:
        module_name, _, class_name = place.partition(":")
        try:
            found = getattr(import_user_module(module_name), class_name)
        except SimsysError:
            raise
        except (Exception, SystemExit) as error:  # whatever a module of the user's may raise
            raise UsageError(f"no {self.noun} at {place!r}: {_why(error)}") from error
        if not isinstance(found, type):
            raise UsageError(f"{place!r} is not a class")
        return found

    def _files(self) -> set[str]:
        """Shipped modules. A folder of the same name elsewhere on the path must not shadow them."""
        if not self.package:
            return set()
        package = importlib.import_module(self.package)
        shipped = Path(__file__).resolve().parents[1] / self.package.replace(".", "/")
        if shipped not in [Path(path).resolve() for path in package.__path__]:
            found = ", ".join(package.__path__)
            raise UsageError(f"the package {self.package!r} in {found} hides the one of simsys in {shipped}")
        return {module.name for module in pkgutil.iter_modules(package.__path__)} - self.helpers

    def _entry_points(self) -> dict[str, importlib.metadata.EntryPoint]:
        return {point.name: point for point in importlib.metadata.entry_points(group=self.entry_points)}


def _why(error: BaseException) -> str:
    """Why a class was not found, with the line if that is one of a module of the user's."""
    if place_in_user_module(error):
        return with_place(error)
    if isinstance(error, ModuleNotFoundError):
        return f"{error}; searched in the folder of the experiment file, the current folder and $PYTHONPATH"
    if isinstance(error, ImportError | AttributeError | ValueError):
        return str(error)
    return described(error)


def _place(cls: type) -> str:
    return f"{cls.__module__}.{cls.__qualname__}"

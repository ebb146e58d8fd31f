"""Modules of the user's own, by the names that an experiment gives them: installed ones, and files of some folders.

A file is loaded by its path and its folder is never added to ``sys.path``, so that nothing else that lies there is
imported by accident.
"""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import sys
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.machinery import PathFinder
from pathlib import Path
from types import ModuleType

from simsys.errors import UsageError, causes, described


@dataclass
class UserModules:
    """Search folders of modules, and the imported modules.

    Args:
        folders: Folders searched after installed modules; the first with the file counts.
        allowed: True if user modules may be imported.
        imported: The file of each imported module, by name.
        loaded: Names of the modules and packages that were loaded from the folders.
    """

    folders: Sequence[Path] = ()
    allowed: bool = True
    imported: dict[str, str] = field(default_factory=dict)
    loaded: set[str] = field(default_factory=set)


_current = UserModules()
_files: set[str] = set()
"""Of all modules that were imported here."""


def current() -> UserModules:
    """The current settings."""
    return _current


@contextmanager
def looked_for(modules: UserModules) -> Iterator[None]:
    """Context manager that sets the search folders; modules loaded from them are unloaded at its end."""
    global _current
    before, _current = _current, modules
    try:
        yield
    finally:
        _current = before
        forgotten = modules.loaded if modules is not before else ()
        for name in [name for name in sys.modules if name.partition(".")[0] in forgotten] if forgotten else ():
            del sys.modules[name]


def import_user_module(name: str) -> ModuleType:
    """Import a module by its dotted name.

    Raises:
        UsageError: If modules of the user's own are not to be imported.
        ImportError: If there is none, or it cannot be imported.
    """
    if not _current.allowed:
        raise UsageError(f"{name!r} is not imported, because of --no-modules")
    top = name.partition(".")[0]
    if top not in sys.modules and importlib.util.find_spec(top) is None:
        _load(top)
    try:
        module = importlib.import_module(name)
    except (Exception, SystemExit) as error:  # whatever a module of the user's may raise
        _files.update(_own_frames(top, error))
        raise
    _imported(name, module)
    return module


def _own_frames(top: str, error: BaseException) -> set[str]:
    """The files of an installed module or package that an error went through, while it was imported."""
    spec = importlib.util.find_spec(top)
    if spec is None or spec.origin is None:
        return set()
    folder = str(Path(spec.origin).parent) if spec.submodule_search_locations else None
    passed = {frame.filename for frame in traceback.extract_tb(error.__traceback__)}
    return {file for file in passed if file == spec.origin or (folder and file.startswith(f"{folder}/"))}


def place_in_user_module(error: BaseException) -> str:
    """The innermost file and line of a user's module that an error went through; empty if there is none."""
    if isinstance(error, SyntaxError) and error.filename:
        return f"{error.filename}:{error.lineno}"
    frames = [frame for each in causes(error) for frame in traceback.extract_tb(each.__traceback__)]
    own = [frame for frame in frames if frame.filename in _files]
    return f"{own[-1].filename}:{own[-1].lineno}" if own else ""


def with_place(error: BaseException) -> str:
    """An unexpected error with its type and place: the line of a user's module, or else where it was raised."""
    where = place_in_user_module(error)
    text = f"{error} ({where})" if where else described(error)
    return f"{type(error).__name__}: {text}"


def text_with_place(error: BaseException) -> str:
    """The text of an expected error, with the line of a user's module that it went through."""
    text, where = str(error), place_in_user_module(error)
    return f"{text} ({where})" if where and where not in text else text


def name_with_place(cls: type) -> str:
    """The name of a class, with its file and line if that is a user's module."""
    try:
        file, (_, line) = inspect.getsourcefile(cls), inspect.getsourcelines(cls)
    except (OSError, TypeError):  # typed into an interpreter
        return cls.__name__
    return f"{cls.__name__} ({file}:{line})" if file in _files else cls.__name__


def _load(top: str) -> None:
    """Load a file, or a package's, from the folders; if none has it, the import that follows says so."""
    spec = PathFinder.find_spec(top, [str(folder) for folder in _current.folders])
    if spec is None:
        return
    module = importlib.util.module_from_spec(spec)
    sys.modules[top] = module
    _imported(top, module)
    try:
        if spec.loader is not None:
            spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[top]
        raise
    _current.loaded.add(top)


def _imported(name: str, module: ModuleType) -> None:
    file = getattr(module, "__file__", None)
    if file is not None:  # a folder without __init__.py runs nothing
        _current.imported[name] = file
        _files.add(file)

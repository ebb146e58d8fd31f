"""Collective algorithms, one file each: their steps and the closed form of their time.

A file `<name>.py` in this folder that registers an `Algorithm` called `<name>` is found by that name; an
algorithm elsewhere is registered with `register_algorithm` or named as ``package.module:Class``.

Example:
    >>> from simsys.collectives import CollectiveKind, Path, get_algorithm
    >>> path = Path(latency_s=500e-9, bytes_per_s=50e9)
    >>> round(get_algorithm("ring").seconds(CollectiveKind.ALL_REDUCE, 8, 400e6, [path]), 9)
    0.014007
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from functools import cache

from simsys.collectives.base import (
    ALGORITHMS,
    Algorithm,
    CollectiveKind,
    Path,
    Phase,
    bytes_sent,
    register_algorithm,
)
from simsys.errors import UnknownNameError, UsageError

__all__ = [
    "ALGORITHMS",
    "Algorithm",
    "CollectiveKind",
    "Path",
    "Phase",
    "algorithm_names",
    "bytes_sent",
    "get_algorithm",
    "register_algorithm",
]

_ALIASES = {
    "ring_allreduce": "ring",
    "tree_allreduce": "tree",
    "reduce_scatter_allgather": "ring",  # the ring all-reduce is exactly these two, one after the other
}
_NOT_ALGORITHMS = {"base", "choose"}


def algorithm_names() -> list[str]:
    """Names that `get_algorithm` knows: the shipped files, what has been registered, and aliases."""
    return sorted(_shipped() | ALGORITHMS.keys() | _ALIASES.keys())


def get_algorithm(name: str) -> Algorithm:
    """The algorithm called `name`.

    Args:
        name: A shipped file's name (``ring``), an alias (``ring_allreduce``), a registered name, or
            ``package.module:Class``.

    Raises:
        UnknownNameError: Nothing has that name.
        UsageError: ``package.module:Class`` is not an `Algorithm`.
    """
    name = _ALIASES.get(name, name)
    if name in _shipped():
        importlib.import_module(f"{__name__}.{name}")
    if name in ALGORITHMS:
        return ALGORITHMS[name]()
    if ":" in name:
        return _import_algorithm(name)
    raise UnknownNameError("collective algorithm", name, algorithm_names())


@cache
def _shipped() -> frozenset[str]:
    return frozenset(module.name for module in pkgutil.iter_modules(__path__)) - _NOT_ALGORITHMS


def _import_algorithm(place: str) -> Algorithm:
    module_name, _, class_name = place.partition(":")
    try:
        cls = getattr(importlib.import_module(module_name), class_name)
    except (ImportError, AttributeError, ValueError) as error:
        raise UsageError(f"no collective algorithm at {place!r}: {error}") from error
    if not (isinstance(cls, type) and issubclass(cls, Algorithm)) or inspect.isabstract(cls):
        raise UsageError(f"{place!r} is not a complete subclass of simsys.collectives.Algorithm")
    return cls()

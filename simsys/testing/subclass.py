"""The first rule of all modules: a complete class derived from the base of its sort."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


def check_class(module: Any, base: type, noun: str, home: str) -> None:
    """Check that a module is a complete class of a sort.

    Args:
        module: What is to be a class.
        base: The base of its sort.
        noun: The name of the sort in messages.
        home: The module that offers the base to authors.

    Raises:
        AssertionError: If it is not.
    """
    name = getattr(module, "__name__", repr(module))
    if not isinstance(module, type):
        raise AssertionError(f"{name} is no class; give the {noun} itself, a subclass of {base.__name__}")
    if not issubclass(module, base):
        raise AssertionError(f"{name} is no {noun}: derive it from {base.__name__} of {home}")
    if missing := sorted(getattr(module, "__abstractmethods__", ())):
        raise AssertionError(f"{name} is not complete: it has no {', '.join(missing)}")


def sort_of(module: Any, bases: Sequence[type], otherwise: type) -> type:
    """The first of some bases that a module is derived from; `otherwise` if there is none."""
    found = (base for base in bases if isinstance(module, type) and issubclass(module, base))
    return next(found, otherwise)

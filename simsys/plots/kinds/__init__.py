"""Kinds of pictures, one file for each family; all files are imported automatically. Start with `timeline.py`."""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules

for _module in sorted(found.name for found in iter_modules(__path__)):
    import_module(f"{__name__}.{_module}")

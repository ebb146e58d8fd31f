"""Variants of engines: one file for each, with its rules, its assumptions and the parts it builds.

Each file registers a `Variant`; all files are imported automatically. Start with `variant.py`, then `polling.py`, the
smallest; docs/how-to/extending.md walks through a new engine setting. May import the rules, the resolved settings,
`simsys.serving` and the framework modules; not the jobs that use variants.
"""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules

for _module in sorted(found.name for found in iter_modules(__path__)):
    import_module(f"{__name__}.{_module}")

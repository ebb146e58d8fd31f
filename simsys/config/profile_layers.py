"""The settings of a hardware profile, layer over layer: its own, what was fitted for it, and what it extends."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from simsys.config.document import Document, KeyPath, Mark
from simsys.config.hardware_schema import UNSOURCED, leaves, speaks_for
from simsys.config.loader import deep_merge


@dataclass(frozen=True, slots=True)
class Layer:
    """Settings written in one place.

    Args:
        data: The settings.
        document: Their file; None if they stand in an experiment or come from Python.
        fit: Whether they were fitted for the profile of the next layer.
    """

    data: Mapping[str, Any]
    document: Document | None
    fit: bool = False


@dataclass(frozen=True, slots=True)
class Layers:
    """A profile's settings with all it extends merged in, and the layers they come from, nearest first."""

    data: dict[str, Any]
    layers: tuple[Layer, ...]

    def locate(self, path: KeyPath, *, key: bool = False) -> Mark | None:
        """Return where a setting was written, or what surrounds it; None if that is not in a file."""
        for layer in self.layers:
            if _has(layer.data, path):
                document = layer.document
                return None if document is None else document.mark(path, key=key) or Mark(document.name)
        return self.locate(path[:-1], key=True)


def profile_layer(document: Document) -> Layer:
    """The settings of a profile's file, whose name is that of the file."""
    return Layer({"name": Path(document.name).stem, **document.data}, document)


def fit_layer(document: Document) -> Layer:
    """Fitted settings."""
    return Layer(document.data, document, fit=True)


def merged(layers: Sequence[Layer]) -> Layers:
    """Each layer over those it extends or was fitted for, the nearest first."""
    data: dict[str, Any] = {}
    for layer in reversed(layers):
        own = dict(layer.data)
        if not layer.fit and own.pop("extends", None) is not None:
            own.setdefault("name", f"{data['name']} (changed)")
        data = _override(data, own) if data else _with_sources(own, layer)
    return Layers(data, tuple(layers))


def taken_over(layers: Sequence[Layer]) -> tuple[str, frozenset[str]]:
    """What a profile takes over from the one that it extends.

    A fit for the profile itself counts as its own.

    Args:
        layers: Those of the profile, nearest first.

    Returns:
        The name of the profile that it extends, empty if there is none, and the fields of which something was taken.
    """
    own = next(place for place, layer in enumerate(layers) if not layer.fit)
    inherited = [layer for layer in layers[own + 1 :] if not layer.fit]
    if not inherited:
        return "", frozenset()
    written = [path for layer in layers[: own + 1] for path, _ in leaves(layer.data)]
    gone = ["price"] if any("price" in layer.data for layer in layers[: own + 1]) else []
    base = merged(layers[own + 1 :]).data
    left = (path for path, value in leaves(base) if value is not None and not _covered(path, [*written, *gone]))
    return base["name"], frozenset(path.partition(".")[0] for path in left)


def _covered(path: str, written: Iterable[str]) -> bool:
    """Whether a setting was written again, or a whole that it belongs to."""
    return any(speaks_for(own, path) or speaks_for(path, own) for own in written)


def _has(data: Any, path: KeyPath) -> bool:
    """Whether nested mappings and lists have something at a path."""
    for part in path:
        try:
            data = data[part]
        except (KeyError, IndexError, TypeError):
            return False
    return True


def _with_sources(own: dict[str, Any], layer: Layer) -> dict[str, Any]:
    """Numbers of an experiment without a word on their sources are the user's; files state their sources."""
    if layer.document is not None or layer.fit or "sources" in own:
        return own
    changed = [path for path, _ in leaves({key: value for key, value in own.items() if key not in UNSOURCED})]
    return {**own, "sources": _unsaid(changed, {})}


def _override(base: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
    """Merge settings over a profile's; a number that is changed loses its source and fit, and a price goes whole.

    A memory that is given is what programs see of it, unless what the driver keeps is given too.
    """
    gone = [key for key, by in (("price", "price"), ("memory_reserved", "memory")) if by in own]
    merged_data = deep_merge({key: value for key, value in base.items() if key not in gone}, own)
    changed = [path for path, _ in leaves({key: value for key, value in own.items() if key not in UNSOURCED})]
    own_sources, own_fits = own.get("sources", {}), own.get("fits", {})
    base_sources, base_fits = base.get("sources", {}), base.get("fits", {})
    if not all(isinstance(part, Mapping) for part in (own_sources, own_fits, base_sources, base_fits)):
        return merged_data  # validation says what is wrong
    replaced = [*changed, *own_sources, *gone]
    merged_data["sources"] = _without(base_sources, replaced) | _unsaid(changed, own_sources) | dict(own_sources)
    merged_data["fits"] = _without(base_fits, replaced) | dict(own_fits)
    return merged_data


def _without(said: Mapping[str, Any], replaced: Iterable[str]) -> dict[str, Any]:
    """What is said of fields, without the fields at or below those replaced."""
    paths = tuple(replaced)
    return {key: value for key, value in said.items() if not any(speaks_for(path, key) for path in paths)}


def _unsaid(changed: Iterable[str], sources: Mapping[str, Any]) -> dict[str, str]:
    """A source for each changed field that has none."""
    return {path: "user" for path in changed if not any(speaks_for(key, path) for key in sources)}

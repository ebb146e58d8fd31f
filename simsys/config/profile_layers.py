"""The settings of a hardware profile in layers: its own, its fitted values, and the profile that it extends."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from simsys.config.document import Document, KeyPath, Mark
from simsys.config.hardware_schema import UNSOURCED, heads, is_covered, leaves
from simsys.config.loader import deep_merge
from simsys.config.setting import has_setting


@dataclass(frozen=True, slots=True)
class Layer:
    """The settings of one file or of one part of an experiment.

    Args:
        data: The settings.
        document: Their file; None if they stand in an experiment or come from Python.
        fit: Whether they are the fitted values of the profile in the next layer.
    """

    data: Mapping[str, Any]
    document: Document | None
    fit: bool = False


@dataclass(frozen=True, slots=True)
class Layers:
    """A profile's settings merged with all profiles that it extends, and the separate layers, nearest first."""

    data: dict[str, Any]
    layers: tuple[Layer, ...]

    def locate(self, path: KeyPath, *, key: bool = False) -> Mark | None:
        """Return the place of a setting, or of the nearest mapping around it; None if it is not in a file."""
        for layer in self.layers:
            if has_setting(layer.data, path):
                document = layer.document
                return None if document is None else document.mark(path, key=key) or Mark(document.name)
        return self.locate(path[:-1], key=True)


def profile_layer(document: Document) -> Layer:
    """The settings of a profile's file; the profile has the name of the file."""
    return Layer({"name": Path(document.name).stem, **document.data}, document)


def fit_layer(document: Document) -> Layer:
    """The layer of fitted values from a file."""
    return Layer(document.data, document, fit=True)


def merged(layers: Sequence[Layer]) -> Layers:
    """For each layer, its settings merged with all later layers, the nearest first."""
    data: dict[str, Any] = {}
    for layer in reversed(layers):
        own = dict(layer.data)
        if not layer.fit and own.pop("extends", None) is not None:
            own.setdefault("name", f"{data['name']} (changed)")
        if not layer.fit:
            data.pop("aliases", None)
        data = _override(data, own) if data else _with_sources(own, layer)
    return Layers(data, tuple(layers))


def taken_over(layers: Sequence[Layer]) -> tuple[str, frozenset[str]]:
    """The fields that a profile inherits. A fit for the profile itself counts as its own.

    Args:
        layers: The layers of the profile, nearest first.

    Returns:
        The name of the profile that it extends, empty if there is none, and the fields with inherited values.
    """
    own = next(place for place, layer in enumerate(layers) if not layer.fit)
    inherited = [layer for layer in layers[own + 1 :] if not layer.fit]
    if not inherited:
        return "", frozenset()
    written = [path for layer in layers[: own + 1] for path, _ in leaves(layer.data)]
    gone = ["price"] if any("price" in layer.data for layer in layers[: own + 1]) else []
    base = merged(layers[own + 1 :]).data
    again = {*written, *gone}
    around = {head for path in again for head in heads(path)}
    left = (path for path, value in leaves(base) if value is not None and path not in around)
    return base["name"], frozenset(path.partition(".")[0] for path in left if not is_covered(path, again))


def _with_sources(own: dict[str, Any], layer: Layer) -> dict[str, Any]:
    """Add the source "user" to numbers of an experiment that states no sources; files state their sources."""
    if layer.document is not None or layer.fit or "sources" in own:
        return own
    changed = [path for path, _ in leaves({key: value for key, value in own.items() if key not in UNSOURCED})]
    return {**own, "sources": _unsaid(changed, {})}


def _override(base: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
    """Merge settings over a profile's. A changed number loses its source and fit; a price is replaced as a whole.

    A given memory is the amount that programs can use, unless the reserved memory is given too.
    """
    gone = [key for key, by in (("price", "price"), ("memory_reserved", "memory")) if by in own]
    merged_data = deep_merge({key: value for key, value in base.items() if key not in gone}, own)
    changed = [path for path, _ in leaves({key: value for key, value in own.items() if key not in UNSOURCED})]
    own_sources, own_fits = own.get("sources", {}), own.get("fits", {})
    base_sources, base_fits = base.get("sources", {}), base.get("fits", {})
    if not all(isinstance(part, Mapping) for part in (own_sources, own_fits, base_sources, base_fits)):
        return merged_data  # validation reports the problem
    replaced = [*changed, *own_sources, *gone]
    merged_data["sources"] = _without(base_sources, replaced) | _unsaid(changed, own_sources) | dict(own_sources)
    merged_data["fits"] = _without(base_fits, replaced) | dict(own_fits)
    return merged_data


def _without(said: Mapping[str, Any], replaced: Iterable[str]) -> dict[str, Any]:
    """The entries (sources or fits) of fields, without the fields at or below replaced ones."""
    paths = set(replaced)
    return {key: value for key, value in said.items() if not is_covered(key, paths)}


def _unsaid(changed: Iterable[str], sources: Mapping[str, Any]) -> dict[str, str]:
    """The source "user" for each changed field without a source."""
    return {path: "user" for path in changed if not is_covered(path, sources)}

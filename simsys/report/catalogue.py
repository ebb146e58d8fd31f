"""Everything with a name: models, hardware, framework modules, collectives, topologies and metrics.

Quantities are SI floats with the unit at the end of their key (``memory_bytes``), or text with a unit as in a
hardware profile.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from simsys.collectives import ALGORITHMS, CollectiveKind, get_algorithm
from simsys.config.hardware import load_engine, load_fabric, load_gpu, load_node, own_folders, profile_names
from simsys.config.hardware_schema import Profile
from simsys.config.profile_library import Kind
from simsys.errors import SimsysError, UnknownNameError, UsageError, did_you_mean
from simsys.framework import FRAMEWORKS
from simsys.metrics.definitions import metrics_by_name
from simsys.model.model_db import model_names
from simsys.platform.fabrics import TOPOLOGY_TYPES
from simsys.report.examples import EXAMPLES, example_facts, example_row
from simsys.report.model_facts import Facts, model_facts, model_row
from simsys.report.setting_facts import setting_facts, setting_names, setting_row
from simsys.user_modules import import_user_module, place_in_user_module


@dataclass(frozen=True)
class Catalogue:
    """One kind of named things.

    Args:
        names: All names.
        row: The key facts of one, for a table.
        facts: All facts of one.
    """

    names: Callable[[], Sequence[str]]
    row: Callable[[str], Facts]
    facts: Callable[[str], Facts]


def catalogue(kind: str) -> Catalogue:
    """The things of a kind, such as ``gpus`` or ``gpu``.

    Raises:
        UnknownNameError: If there is no such kind.
    """
    for plural, things in CATALOGUES.items():
        if kind in (plural, SINGULAR[plural]):
            return things
    raise UnknownNameError("kind", kind, CATALOGUES)


def rows(kind: str, warn: Callable[[str], None] | None = None) -> list[Facts]:
    """The key facts of everything of a kind, in order of name.

    Args:
        kind: As for `catalogue`, which see for errors.
        warn: Called with what is left out since it cannot be imported, and why; None raises the error.
    """
    things = catalogue(kind)
    found = []
    for name in things.names():
        try:
            found.append({"name": name, **things.row(name)})
        except UsageError as error:
            if warn is None:
                raise
            warn(f"{name} is left out: {error}")
    return found


def import_own(modules: Sequence[str]) -> None:
    """Import modules of the user's own, which register what they have.

    Raises:
        UsageError: If one cannot be imported.
    """
    for name in modules:
        try:
            import_user_module(name)
        except SimsysError:
            raise
        except (Exception, SystemExit) as error:  # whatever a module of the user's may raise
            where = place_in_user_module(error)
            raise UsageError(f"--module {name}: {error}" + (f" ({where})" if where else "")) from error


def facts(kind: str, name: str) -> Facts:
    """All facts about one name.

    Raises:
        UnknownNameError: If there is no such kind or name.
    """
    return catalogue(kind).facts(name)


def kind_of(name: str) -> str:
    """The kind of a name, in the singular.

    Raises:
        UsageError: If the name is that of a kind, of nothing, or of things of several kinds.
    """
    if name in CATALOGUES or name in SINGULAR.values():
        raise UsageError(f"a NAME is missing; 'simsys list {name}' lists them")
    found = [SINGULAR[plural] for plural, things in CATALOGUES.items() if _has(things, name)]
    if not found:
        near = did_you_mean(name, [each for things in CATALOGUES.values() for each in things.names()])
        listed = f"; 'simsys list KIND' lists the names of a KIND: {', '.join(CATALOGUES)}"
        raise UsageError(f"unknown name {name!r}{near if near.startswith(', did') else listed}")
    if len(found) > 1:
        kinds = " and of ".join(found)
        raise UsageError(f"{name!r} is the name of {kinds}; write the KIND too: show {found[0]} {name}")
    return found[0]


def _has(things: Catalogue, name: str) -> bool:
    try:
        things.facts(name)
    except SimsysError:
        return False
    return True


def _own() -> tuple[Path, ...]:
    """Where the user's own profiles may be: in the current folder."""
    return own_folders(Path("."))


def _names(kind: Kind) -> Callable[[], Sequence[str]]:
    return lambda: profile_names(kind, _own())


def _gpu_row(name: str) -> Facts:
    gpu = load_gpu(name, _own())
    return {
        "memory_bytes": gpu.memory,
        "bandwidth_bytes_per_s": gpu.memory_bandwidth,
        "bf16_flop_per_s": gpu.peak["bf16"].dense if "bf16" in gpu.peak else None,
        "link": gpu.link.kind,
        "tdp_watts": gpu.tdp,
    }


def _node_row(name: str) -> Facts:
    node = load_node(name, _own())
    return {
        "gpu": node.gpu,
        "gpus": node.gpus_per_node,
        "per_gpu_bytes_per_s": node.interconnect.bandwidth,
        "nics": node.nics.count if node.nics is not None else None,
        "per_nic_bytes_per_s": float(f"{node.nics.bandwidth:.2g}") if node.nics is not None else None,  # shortened
    }


def _fabric_row(name: str) -> Facts:
    fabric = load_fabric(name, _own())
    return {"kind": fabric.kind, "port_bytes_per_s": fabric.bandwidth, "switch_latency_s": fabric.latency}


def _engine_row(name: str) -> Facts:
    engine = load_engine(name, _own())
    return {
        "per_layer_s": engine.per_layer,
        "per_step_s": engine.per_step,
        "per_sequence_s": engine.per_sequence,
        "memory_share": engine.gpu_memory_utilization,
        "context_bytes": engine.memory_context,
    }


def _profile_facts(load: Callable[[str, Iterable[Path]], Profile]) -> Callable[[str], Facts]:
    """The contents of a profile in the form of its file, with the sources at the end."""

    def known(name: str) -> Facts:
        data = load(name, _own()).model_dump(mode="json", exclude_none=True)
        last = {key: data.pop(key) for key in ("fits", "sources")}
        return data | {key: value for key, value in last.items() if value}

    return known


def _framework_row(name: str) -> Facts:
    module = FRAMEWORKS.get(name, object)
    return {"kind": module.__mro__[1].__name__, "what": _summary(module)}


def _framework_facts(name: str) -> Facts:
    module = FRAMEWORKS.get(name, object)
    options = getattr(module, "Options", None)
    return {
        "name": name,
        "kind": module.__mro__[1].__name__,
        "class": _place(module),
        "what": _summary(module),
        "options": options.model_construct().model_dump(mode="json") if options is not None else {},
    }


def _algorithm_names() -> list[str]:
    """Algorithms, without aliases."""
    return [name for name in ALGORITHMS.names() if name not in ALGORITHMS.aliases]


def _collective_row(name: str) -> Facts:
    algorithm = get_algorithm(name)
    missing = sorted(frozenset(CollectiveKind) - algorithm.kinds)
    few = len(missing) > len(algorithm.kinds)
    listed = ", ".join(sorted(algorithm.kinds) if few else missing)
    kinds = listed if few else f"all but {listed}" if missing else "all"
    return {"what": f"{_summary(algorithm)} Kinds: {kinds}."}


def _collective_facts(name: str) -> Facts:
    algorithm = get_algorithm(name)
    kinds = [str(kind) for kind in sorted(algorithm.kinds)]
    return {"name": algorithm.name, "class": _place(type(algorithm)), "kinds": kinds, "what": _summary(algorithm)}


def _topology_row(name: str) -> Facts:
    if name not in TOPOLOGY_TYPES:
        raise UnknownNameError("topology", name, TOPOLOGY_TYPES)
    return {"what": _summary(TOPOLOGY_TYPES[name])}


def _topology_facts(name: str) -> Facts:
    return {"name": name, **_topology_row(name)}


def _metric_row(name: str) -> Facts:
    known = metrics_by_name()
    if name not in known:
        raise UnknownNameError("metric", name, known)
    metric = known[name]
    return {
        "of": ", ".join(metric.kinds),
        "unit": metric.unit or "-",
        "meaning": metric.meaning + (f"; only {metric.only}" if metric.only else ""),
    }


def _metric_facts(name: str) -> Facts:
    return {"name": name, **_metric_row(name)}


def _summary(thing: object) -> str:
    """The first paragraph of a docstring, in one line."""
    return " ".join((inspect.getdoc(thing) or "").partition("\n\n")[0].replace("`", "").split())


def _place(cls: type) -> str:
    return f"{cls.__module__}:{cls.__qualname__}"


CATALOGUES = {
    "models": Catalogue(model_names, model_row, model_facts),
    "gpus": Catalogue(_names("gpu"), _gpu_row, _profile_facts(load_gpu)),
    "nodes": Catalogue(_names("node"), _node_row, _profile_facts(load_node)),
    "fabrics": Catalogue(_names("fabric"), _fabric_row, _profile_facts(load_fabric)),
    "engines": Catalogue(_names("engine"), _engine_row, _profile_facts(load_engine)),
    "frameworks": Catalogue(FRAMEWORKS.names, _framework_row, _framework_facts),
    "collectives": Catalogue(_algorithm_names, _collective_row, _collective_facts),
    "topologies": Catalogue(lambda: sorted(TOPOLOGY_TYPES), _topology_row, _topology_facts),
    "metrics": Catalogue(lambda: list(metrics_by_name()), _metric_row, _metric_facts),
    "settings": Catalogue(setting_names, setting_row, setting_facts),
    "examples": Catalogue(lambda: list(EXAMPLES), example_row, example_facts),
}
"""All kinds by their plural, as the command line uses it."""

SINGULAR = {kind: "topology" if kind == "topologies" else kind.removesuffix("s") for kind in CATALOGUES}

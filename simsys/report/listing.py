"""What simsys knows by name: models, hardware, framework modules, collectives and topologies; as tables and facts.

Stored quantities are SI floats with the unit in the key's end (``memory_bytes``), so the tables can format them.
"""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, TypeAlias

from simsys.collectives import ALGORITHMS, CollectiveKind, get_algorithm
from simsys.config.hardware import (
    EngineProfile,
    FabricProfile,
    GpuProfile,
    NodeProfile,
    Profile,
    load_engine,
    load_fabric,
    load_gpu,
    load_node,
    profile_names,
)
from simsys.errors import UnknownNameError
from simsys.framework import FRAMEWORKS
from simsys.model.aggregates import BYTES_PER_ELEMENT, aggregated_ops
from simsys.model.model_db import load_model, model_names
from simsys.model.work import Model
from simsys.platform.topology import TOPOLOGY_TYPES
from simsys.units import Dimension, pretty

Facts: TypeAlias = dict[str, Any]

WIDTH = 80
_UNITS = {
    "_bytes_per_s": Dimension.BYTES_PER_SECOND,
    "_flop_per_s": Dimension.FLOP_PER_SECOND,
    "_bytes": Dimension.BYTES,
    "_watts": Dimension.WATTS,
    "_s": Dimension.SECONDS,
}


@dataclass(frozen=True)
class Catalogue:
    """One kind of thing that has names.

    Args:
        noun: One of them, for messages.
        names: All names.
        row: The key facts of one, for the table.
        facts: All facts of one.
    """

    noun: str
    names: Callable[[], Sequence[str]]
    row: Callable[[str], Facts]
    facts: Callable[[str], Facts]


def catalogue(kind: str) -> Catalogue:
    """The things of a kind, such as ``gpus`` or ``gpu``.

    Raises:
        UnknownNameError: If there is no such kind.
    """
    plural = kind if kind in CATALOGUES else f"{kind}s"
    if plural not in CATALOGUES:
        raise UnknownNameError("kind", kind, CATALOGUES)
    return CATALOGUES[plural]


def rows(kind: str) -> list[Facts]:
    """The key facts of everything of a kind, in order of name; raises as `catalogue`."""
    things = catalogue(kind)
    return [{"name": name, **things.row(name)} for name in things.names()]


def facts(kind: str, name: str) -> Facts:
    """Everything known of one thing.

    Raises:
        UnknownNameError: If there is no such kind or name.
    """
    return catalogue(kind).facts(name)


def table(entries: Sequence[Mapping[str, Any]]) -> str:
    """Rows as text with a line of headings; the last column is cut at 80 columns."""
    if not entries:
        return ""
    cells = [[_heading(key) for key in entries[0]], *([_cell(key, entry[key]) for key in entry] for entry in entries)]
    widths = [max(len(row[column]) for row in cells) for column in range(len(cells[0]))]
    lines = ("  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip() for row in cells)
    return "\n".join(line if len(line) <= WIDTH else f"{line[: WIDTH - 3]}..." for line in lines)


def description(known: Mapping[str, Any]) -> str:
    """Facts as text: one line each, the path of nested ones joined by dots."""
    found = list(_flat(known))
    width = min(34, max((len(path) for path, _ in found), default=0))
    lines: list[str] = []
    for path, text in found:
        paragraphs = text.split("\n")
        label = f"{path:<{width}}  "
        for index, paragraph in enumerate(paragraphs):
            first = label if index == 0 else " " * len(label)
            rest = " " * (width + 2)
            wrapped = textwrap.wrap(paragraph, WIDTH, initial_indent=first, subsequent_indent=rest)
            lines += wrapped or [first.rstrip()]
    return "\n".join(lines)


def _heading(key: str) -> str:
    ending = next((ending for ending in _UNITS if key.endswith(ending)), "")
    return key.removesuffix(ending).replace("_", " ")


def _cell(key: str, value: Any) -> str:
    if value is None:
        return "-"
    ending = next((ending for ending in _UNITS if key.endswith(ending)), None)
    if ending is not None:
        return pretty(value, _UNITS[ending])
    if key.endswith("parameters"):
        return _count(value)
    return str(value)


def _count(value: float) -> str:
    """Parameters as people say them: millions and billions.

    Example:
        >>> _count(8030261248), _count(124439808)
        ('8.03 B', '124 M')
    """
    scale, unit = (1e9, "B") if value >= 1e9 else (1e6, "M")
    return f"{Decimal(f'{value / scale:.3g}'):f} {unit}"


def _flat(known: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    for key, value in known.items():
        path = f"{prefix}{key}"
        if isinstance(value, Mapping):
            yield from _flat(value, f"{path}.")
        elif isinstance(value, list | tuple):
            yield path, "\n".join(_item(item) for item in value) or "-"
        else:
            yield path, _cell(key, value)


def _item(item: Any) -> str:
    if isinstance(item, Mapping):
        return ", ".join(f"{key} {value}" for key, value in item.items())
    return str(item)


def _first_sentence(thing: object) -> str:
    """The first line of a docstring."""
    return (inspect.getdoc(thing) or "-").splitlines()[0]


def _model_row(name: str) -> Facts:
    model = load_model(name)
    return {
        "family": model.family,
        "parameters": int(model.parameters),
        "active_parameters": int(model.active_parameters),
        "layers": model.num_layers or None,
        "hidden": model.hidden_size or None,
        "context": model.max_context_tokens or None,
    }


def _model_facts(name: str) -> Facts:
    model = load_model(name)
    kv_bytes = model.kv_elements_per_token * BYTES_PER_ELEMENT
    return {
        "name": model.name,
        "family": model.family,
        "parameters": int(model.parameters),
        "active_parameters": int(model.active_parameters),
        "weights_bf16_bytes": model.parameters * BYTES_PER_ELEMENT,
        "num_layers": model.num_layers,
        "hidden_size": model.hidden_size,
        "num_attention_heads": model.num_attention_heads,
        "num_key_value_heads": model.num_key_value_heads,
        "vocab_size": model.vocab_size,
        "max_context_tokens": model.max_context_tokens,
        "sequence_length": model.sequence_length,
        "kv_cache_per_token_bf16_bytes": kv_bytes,
        "aggregated_ops": aggregated_ops(model),
        "blocks": _blocks(model),
        "source": model.source,
    }


def _blocks(model: Model) -> list[str]:
    counted: dict[str, int] = {}
    for block in model.blocks:
        counted[block.name] = counted.get(block.name, 0) + 1
    return [f"{count} x {name}" for name, count in counted.items()]


def _gpu_row(name: str) -> Facts:
    gpu: GpuProfile = load_gpu(name)
    return {
        "memory": gpu.model_dump(mode="json")["memory"],
        "bandwidth_bytes_per_s": gpu.memory_bandwidth,
        "bf16_flop_per_s": gpu.peak["bf16"].dense if "bf16" in gpu.peak else None,
        "fp16_flop_per_s": gpu.peak["fp16"].dense if "fp16" in gpu.peak else None,
        "link": gpu.link.kind,
        "tdp_watts": gpu.tdp,
    }


def _node_row(name: str) -> Facts:
    node: NodeProfile = load_node(name)
    return {
        "gpu": node.gpu,
        "gpus": node.gpus_per_node,
        "interconnect": node.interconnect.kind,
        "per_gpu_bytes_per_s": node.interconnect.bandwidth,
        "nics": node.nics.count,
        "per_nic_bytes_per_s": node.nics.bandwidth,
    }


def _fabric_row(name: str) -> Facts:
    fabric: FabricProfile = load_fabric(name)
    return {"kind": fabric.kind, "port_bytes_per_s": fabric.bandwidth, "switch_latency_s": fabric.latency}


def _engine_row(name: str) -> Facts:
    engine: EngineProfile = load_engine(name)
    return {
        "per_layer_s": engine.per_layer,
        "per_step_s": engine.per_step,
        "per_sequence_s": engine.per_sequence,
        "memory_share": engine.gpu_memory_utilization,
        "context_bytes": engine.memory_context,
    }


def _profile_facts(load: Callable[[str], Profile]) -> Callable[[str], Facts]:
    """All of a profile with units, where each number comes from at the end."""

    def known(name: str) -> Facts:
        data = load(name).model_dump(mode="json", exclude_none=True)
        last = {key: data.pop(key) for key in ("fits", "sources")}
        return data | {key: value for key, value in last.items() if value}

    return known


def _framework_row(name: str) -> Facts:
    module = FRAMEWORKS.get(name, object)
    return {"kind": module.__mro__[1].__name__, "what": _first_sentence(module)}


def _framework_facts(name: str) -> Facts:
    module = FRAMEWORKS.get(name, object)
    options = getattr(module, "Options", None)
    fields = options.model_construct().model_dump(mode="json") if options is not None else {}
    return {
        "name": name,
        "kind": module.__mro__[1].__name__,
        "class": f"{module.__module__}:{module.__qualname__}",
        "what": inspect.getdoc(module) or "",
        "options": fields,
    }


def _collective_row(name: str) -> Facts:
    algorithm = get_algorithm(name)
    kinds = "all" if algorithm.kinds == frozenset(CollectiveKind) else ", ".join(sorted(algorithm.kinds))
    return {"kinds": kinds, "what": _first_sentence(algorithm)}


def _collective_facts(name: str) -> Facts:
    algorithm = get_algorithm(name)
    return {
        "name": name,
        "algorithm": algorithm.name,
        "kinds": sorted(algorithm.kinds),
        "what": inspect.getdoc(algorithm) or "",
        "class": f"{type(algorithm).__module__}:{type(algorithm).__qualname__}",
        "model": inspect.getdoc(inspect.getmodule(type(algorithm))) or "",
    }


def _topology(name: str) -> Facts:
    if name not in TOPOLOGY_TYPES:
        raise UnknownNameError("topology", name, TOPOLOGY_TYPES)
    return {"what": _first_sentence(TOPOLOGY_TYPES[name]).replace("`", "")}


CATALOGUES = {
    "models": Catalogue("model", model_names, _model_row, _model_facts),
    "gpus": Catalogue("GPU", lambda: profile_names("gpu"), _gpu_row, _profile_facts(load_gpu)),
    "nodes": Catalogue("node", lambda: profile_names("node"), _node_row, _profile_facts(load_node)),
    "fabrics": Catalogue("fabric", lambda: profile_names("fabric"), _fabric_row, _profile_facts(load_fabric)),
    "engines": Catalogue("engine", lambda: profile_names("engine"), _engine_row, _profile_facts(load_engine)),
    "frameworks": Catalogue("framework module", FRAMEWORKS.names, _framework_row, _framework_facts),
    "collectives": Catalogue("collective", ALGORITHMS.names, _collective_row, _collective_facts),
    "topologies": Catalogue(
        "topology", lambda: sorted(TOPOLOGY_TYPES), _topology, lambda name: {"name": name, **_topology(name)}
    ),
}
"""Everything that has names, by the plural that the command line uses."""

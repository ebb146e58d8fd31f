"""Whether the counts of a scenario are of a size that can be built at all, before anything is built."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from simsys.check.findings import Findings
from simsys.config.document import KeyPath
from simsys.config.experiment import SimulationConfig
from simsys.model.fields import MAX_LAYERS

MAX_COUNT = 1_000_000_000
MAX_GPUS = 131_072
MAX_FULL_MESH_NODES = 1_024
MAX_COUNTS: Mapping[str, int] = {
    "num_layers": MAX_LAYERS,
    "num_iterations": 1_000_000,
    "gradient_accumulation_steps": 100_000,
}
"""Far beyond what exists; they turn a slip of the keyboard into a message instead of a machine without memory."""

SECTIONS = ("hardware", "model", "parallelism", "training", "serving")


def check_sizes(config: SimulationConfig, found: Findings) -> bool:
    """Book every count that is too large; True if there is none."""
    before = len(found.errors)
    for section in SECTIONS:
        part = getattr(config, section)
        for path, count in _counts(part.model_dump() if part is not None else {}, (section,)):
            limit = MAX_COUNTS.get(str(path[-1]), MAX_COUNT)
            if count > limit:
                found.error(path, f"must be at most {limit}, not {_shown(count)}")
    if len(found.errors) > before:
        return False
    hardware = config.hardware
    gpus = hardware.num_nodes * (hardware.gpus_per_node or 1)
    if gpus > MAX_GPUS:
        found.error(("hardware", "num_nodes"), f"{gpus} GPUs are too many to simulate; at most {MAX_GPUS}")
    elif config.network.topology_type == "full_mesh" and hardware.num_nodes > MAX_FULL_MESH_NODES:
        message = f"a full mesh joins at most {MAX_FULL_MESH_NODES} nodes, not {hardware.num_nodes}"
        found.error(("network", "topology_type"), f"{message}; use switch, tree or torus_2d")
    return len(found.errors) == before


def _counts(values: Any, path: KeyPath) -> Iterator[tuple[KeyPath, int]]:
    if isinstance(values, dict):
        for key, value in values.items():
            if key not in ("options", "layers", "gpu"):  # these have schemas of their own
                yield from _counts(value, (*path, key))
    elif isinstance(values, list):
        for index, value in enumerate(values):
            yield from _counts(value, (*path, index))
    elif isinstance(values, int) and not isinstance(values, bool):
        yield path, values


def _shown(count: int) -> str:
    digits = str(count)
    return digits if len(digits) <= 20 else f"a number of {len(digits)} digits"

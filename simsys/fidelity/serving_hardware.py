"""What GPUs are called in tables of serving runs, and the nodes that they come in."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from typing import Any

from simsys.config.hardware import load_gpu, load_node
from simsys.errors import UnknownNameError
from simsys.fidelity.case import Unsupported

NODES: tuple[tuple[str, str], ...] = (
    ("a100pcie", "pcie-a100-8"),
    ("a10040gb", "dgx-a100-40gb"),
    ("a100sxm40", "dgx-a100-40gb"),
    ("a100", "dgx-a100"),
    ("gh200", ""),
    ("gb200", "gb200-nvl72"),
    ("h200", "dgx-h200"),
    ("h100", "dgx-h100"),
    ("b200", "dgx-b200"),
    ("b300", "dgx-b300"),
    ("v100", "dgx-v100"),
    ("l40s", "pcie-p2p-l40s-8"),
    ("l4", "pcie-l4-8"),
    ("a6000", "pcie-a6000-4"),
    ("rtx6000pro", "pcie-rtx-pro-8"),
    ("rtxpro6000", "pcie-rtx-pro-8"),
    ("mi300x", "mi300x-platform"),
    ("mi250", "mi250-8"),
    ("gaudi2", "gaudi2-8"),
)
"""Beginnings of names, letters and digits alone, and the node profile; without one, there are only single GPUs."""

ALONE = {"gh200": "GH200-96GB"}
"""GPUs that no node profile has."""
LIMITED = {"h100sxm80gbpowercap": "H100-SXM-350W", "h100powercap": "H100-SXM-350W"}
"""GPUs that differ from those of their node profile."""


def hardware(name: str, gpus: int) -> Mapping[str, Any]:
    """The `hardware` of an experiment with so many GPUs in one node.

    Args:
        name: As a table has it, or that of a GPU profile.
        gpus: How many.

    Raises:
        Unsupported: There is no profile of it, or a node has fewer.
    """
    key = _key(name)
    node = next((node for beginning, node in NODES if key.startswith(beginning)), None)
    if node is None:
        return {"gpu": _profile(name), "gpus_per_node": gpus}
    if not node:
        alone = next(gpu for beginning, gpu in ALONE.items() if key.startswith(beginning))
        if gpus > 1:
            raise Unsupported(f"no node profile has several {alone}")
        return {"gpu": alone, "gpus_per_node": 1}
    if gpus > gpus_of_node(name):
        raise Unsupported("more GPUs than a node has")
    special = {"gpu": LIMITED[key]} if key in LIMITED else {}
    return {"profile": node, "gpus_per_node": gpus, **special}


@cache
def gpus_of_node(name: str) -> int:
    """How many GPUs its node profile has; 8 if it has none."""
    key = _key(name)
    node = next((node for beginning, node in NODES if key.startswith(beginning)), "")
    return load_node(node).gpus_per_node if node else 8


@cache
def _profile(name: str) -> str:
    try:
        return load_gpu(name).name
    except UnknownNameError:
        raise Unsupported(f"no profile of GPU {name}") from None


def _key(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.casefold().removeprefix("nvidia").removeprefix("amd"))

"""Columns that name the machines of a row: ``instance_type``, ``gpu`` and ``fabric``, such as ``RoCE 8x400G``.

An instance type (a node profile or an alias of one) decides the GPUs, the network cards and the fabric. What the
columns leave empty is taken from descriptions in other columns.
"""

from __future__ import annotations

import re
from typing import Any

from simsys.config.hardware import load_node
from simsys.errors import UnknownNameError
from simsys.fidelity.case import Unsupported
from simsys.fidelity.tables.hardware_names import hardware_of, hardware_of_instance, instance_in, machine_of
from simsys.fidelity.tables.table import Row

INSTANCE, GPU, FABRIC = "instance_type", "gpu", "fabric"
_SOCKETS = re.compile(r"\bsockets\b", re.IGNORECASE)
_NOT_STATED = re.compile(r"not stated", re.IGNORECASE)


def hardware_of_row(row: Row, gpus: int, nodes: int, *, system: str = "", interconnect: str = "") -> dict[str, Any]:
    """Return the ``hardware`` of an experiment for the machines of a row.

    An unknown instance type, and a GPU that it does not have, are problems of the row.

    Args:
        row: The row.
        gpus: Number of GPUs.
        nodes: Number of nodes.
        system: Description with the instance type or GPU, for rows without these columns.
        interconnect: Description of the network, for rows without a fabric.

    Raises:
        Unsupported: There is no profile, or GPUs cannot reach each other's memory between the nodes.
    """
    fabric, gpu, stated = row.text(FABRIC), row.text(GPU), row.text(INSTANCE)
    if nodes > 1 and _SOCKETS.search(fabric):
        raise Unsupported("sockets of the host, without RDMA, are not modelled")
    named = "" if _NOT_STATED.match(stated) else stated
    instance = named or instance_in(system)
    if not instance:
        return hardware_of(gpu or system, gpus, nodes, fabric or interconnect)
    try:
        found = hardware_of_instance(instance, gpus, nodes, fabric)
    except UnknownNameError as unknown:
        row.wrong(INSTANCE, str(unknown))
        raise Unsupported(str(unknown)) from None
    if named and gpu:
        _check_gpu(row, named, gpu)
    return found


def _check_gpu(row: Row, instance: str, gpu: str) -> None:
    """Record a problem of a row whose GPU is not the one of its instance type."""
    own = load_node(instance).gpu
    if machine_of(gpu).gpu != machine_of(own).gpu:
        row.wrong(GPU, f"{gpu!r} is not the GPU of {instance}, which has {own}")

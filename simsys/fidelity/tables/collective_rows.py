"""Rows of measured collectives: nccl-tests on a machine that columns or the description of the system name.

Optional columns: ``instance_type`` (a node profile or alias of one), ``gpu`` and ``fabric``, such as ``RoCE 8x400G``.
"""

from __future__ import annotations

import re
from typing import Any

from simsys.config.hardware import load_node
from simsys.fidelity.case import Case, Unsupported
from simsys.fidelity.collective_run import CollectiveRun
from simsys.fidelity.tables.hardware_names import hardware_of, hardware_of_instance, instance_in
from simsys.fidelity.tables.table import Row, Table
from simsys.units import MIB

COLUMNS = ("id", "system", "gpus", "nodes", "collective", "bytes", "time_us")
LARGE_BYTES = 2**20
"""Size from which bandwidth matters more than latency."""

_SHARP = re.compile(r"SHARP(?!.*NVLS)", re.IGNORECASE)
_SOCKETS = re.compile(r"\bsockets\b", re.IGNORECASE)
_NOT_STATED = re.compile(r"not stated", re.IGNORECASE)
_RING = re.compile(r"NVLS_ENABLE=0|\bdefault Ring\b", re.IGNORECASE)


def cases(table: Table) -> list[Case]:
    """Return the cases of a table."""
    return [_case(row) for row in table.rows]


def _case(row: Row) -> Case:
    run, reason = None, ""
    nbytes, gpus = row.whole("bytes"), row.whole("gpus")
    try:
        run = _run(row, gpus, row.whole("nodes"), nbytes)
    except Unsupported as unsupported:
        reason = str(unsupported)
    return collective_case(
        row.text("id"), row.text("system"), row.text("collective"), gpus, nbytes, row.number("time_us"), run, reason
    )


def collective_case(
    name: str,
    group: str,
    collective: str,
    gpus: int,
    nbytes: int,
    time_us: float,
    run: CollectiveRun | None,
    reason: str = "",
) -> Case:
    """Return the case of one measured time.

    Args:
        name: Its id.
        group: The system.
        collective: The collective.
        gpus: Number of GPUs that take part.
        nbytes: The full buffer.
        time_us: The measured time.
        run: The simulation that predicts it; None if it is not supported.
        reason: Why it is not supported.
    """
    return Case(
        id=name,
        family="collectives",
        group=group,
        metric="time_us" if nbytes >= LARGE_BYTES else "time_us below 1 MiB",
        unit="us",
        measured=time_us,
        tags={"collective": collective, "gpus": str(gpus), "size": "1 MiB and more" if nbytes >= MIB else "less"},
        run=run,
        figure="time_s",
        scale=1e6,
        reason=reason,
    )


def _run(row: Row, gpus: int, nodes: int, nbytes: int) -> CollectiveRun:
    """Return the simulation that predicts a row.

    Raises:
        Unsupported: The system, or a feature of it, is not modelled.
    """
    system = row.text("system")
    algorithm = "ring" if _RING.search(system) and nodes == 1 else "auto"
    hardware = _hardware(row, system, gpus, nodes)
    if _SHARP.search(system):
        fabric = hardware.get("fabric") or load_node(hardware["profile"]).fabric
        hardware["fabric"] = {"extends": fabric, "in_network_reduction": True}
    return CollectiveRun.of(hardware, row.text("collective"), nbytes, algorithm)


def _hardware(row: Row, system: str, gpus: int, nodes: int) -> dict[str, Any]:
    """Return the machines: of the instance type of the row's column or description, else of the GPU and fabric.

    Rates of the network are read in the column ``fabric`` only.

    Raises:
        Unsupported: There is no profile, or GPUs cannot reach each other's memory between the nodes.
    """
    fabric, gpu, stated = row.text("fabric"), row.text("gpu") or system, row.text("instance_type")
    if nodes > 1 and _SOCKETS.search(fabric):
        raise Unsupported("sockets of the host, without RDMA, are not modelled")
    instance = stated if stated and not _NOT_STATED.match(stated) else instance_in(system)
    return hardware_of_instance(instance, gpus, nodes) if instance else hardware_of(gpu, gpus, nodes, fabric)

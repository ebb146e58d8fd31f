"""Results of a user's own nccl-tests, as text or with ``-J`` as JSON."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from simsys.build.cluster import build_cluster
from simsys.build.sizes import MAX_GPUS
from simsys.config.cluster import HardwareConfig
from simsys.config.network import NetworkConfig
from simsys.config.places import located
from simsys.errors import ConfigError, UsageError
from simsys.fidelity.case import Case, Unsupported, measurable
from simsys.fidelity.collective_run import CollectiveRun
from simsys.fidelity.tables.collective_rows import collective_case
from simsys.fidelity.tables.hardware_names import hardware_of, machine_of
from simsys.input_files import parse_json, read_text, unreadable
from simsys.model.fields import Fields, shown

_RANK = re.compile(r"#\s+Rank\s+\d+ (?:Group\s+\d+ )?Pid\s+\d+ on\s+(\S+) device\s+\d+ \[\S+\] (.+)")
_PROGRAM = re.compile(r"# Collective test starting: (\S+)")
_MOST_OF_A_PROCESS = 1024  # threads, or GPUs of a thread
_OUT_OF_PLACE = 5
"""Columns of a line before the time: size, count, type, operation, root."""


@dataclass(frozen=True)
class Measured:
    """The content of a file of nccl-tests.

    Args:
        collective: The program's name; empty if the file does not say.
        hosts: The host of each rank.
        device: Name of the GPUs in CUDA.
        times_us: Time by size in bytes, out of place.
    """

    collective: str
    hosts: Sequence[str]
    device: str
    times_us: Sequence[tuple[int, float]]


def is_nccl_tests(text: str) -> bool:
    """Whether a file looks like nccl-tests' output."""
    return "out-of-place" in text or '"out_of_place"' in text


def nccl_tests_cases(
    path: Path, *, hardware: Mapping[str, Any] | None = None, collective: str = "", interconnect: str = ""
) -> list[Case]:
    """Return the cases of a file.

    Args:
        path: Text or JSON.
        hardware: The ``hardware`` of an experiment; by default the hosts and GPUs of the file.
        collective: The collective, such as ``all_reduce``; by default the one that the file names.
        interconnect: Description of the network, such as ``8x400G``, if there is no `hardware`.

    Raises:
        UsageError: The file cannot be read, holds no results, or does not state what the arguments leave out.
    """
    measured = _read(path)
    if not measured.times_us:
        raise UsageError(f"{path}: no results of nccl-tests")
    name = collective or measured.collective
    if not name:
        raise UsageError(f"{path}: does not say which collective it is of; name it, such as all_reduce")
    where = dict(hardware) if hardware is not None else _hardware(path, measured, interconnect)
    gpus = where.get("num_nodes", 1) * where.get("gpus_per_node", 8)
    return [
        _case(path, f"{path.name}:{place}", name, where, gpus, nbytes, time_us)
        for place, (nbytes, time_us) in enumerate(measured.times_us, start=1)
    ]


def nccl_tests_warnings(path: Path, hardware: Mapping[str, Any] | None) -> list[str]:
    """Return the differences between the GPUs of a file and the ``hardware`` of an experiment, one sentence each.

    Raises:
        UsageError: The file cannot be read.
    """
    measured = _read(path)
    if hardware is None or not measured.hosts:
        return []
    given = HardwareConfig.model_validate(hardware)
    cluster = build_cluster(given, NetworkConfig())
    found, ranks = [], len(measured.hosts)
    if ranks != cluster.num_gpus:
        found.append(f"{path}: measured on {ranks} ranks, predicted on {cluster.num_gpus} GPUs")
    with suppress(Unsupported):
        gpu = machine_of(measured.device).gpu
        if gpu != cluster.gpu.name:
            found.append(f"{path}: measured on {measured.device}, predicted on {cluster.gpu.name}")
    return found


def _read(path: Path) -> Measured:
    try:
        text = read_text(path)
    except (OSError, ValueError) as error:
        raise UsageError(unreadable(path, error)) from None
    if not text.lstrip().startswith("{"):
        return _from_text(text)
    try:
        return _from_json(path, text)
    except ConfigError as error:
        raise located(error) from None


def _case(
    path: Path, label: str, collective: str, hardware: Mapping[str, Any], gpus: int, nbytes: int, time_us: float
) -> Case:
    try:
        run, reason = CollectiveRun.of(hardware, collective, float(nbytes)), ""
    except Unsupported as unsupported:
        run, reason = None, str(unsupported)
    return collective_case(label, path.name, collective, gpus, nbytes, time_us, run, reason)


def _hardware(path: Path, measured: Measured, interconnect: str) -> dict[str, Any]:
    """Return the ``hardware`` of the ranks."""
    if not measured.hosts:
        raise UsageError(f"{path}: does not say on which GPUs it ran; name the hardware")
    try:
        return hardware_of(measured.device, len(measured.hosts), len(set(measured.hosts)), interconnect)
    except Unsupported as unsupported:
        raise UsageError(f"{path}: {unsupported}; name the hardware") from None


def _from_text(text: str) -> Measured:
    ranks = [found for line in text.splitlines() if (found := _RANK.search(line))]
    program = _PROGRAM.search(text)
    times = [time for line in text.splitlines() if (time := _time(line.split()))]
    return Measured(
        collective=program[1] if program else "",
        hosts=[rank[1] for rank in ranks],
        device=ranks[0][2].strip() if ranks else "",
        times_us=times,
    )


def _time(cells: Sequence[str]) -> tuple[int, float] | None:
    """Return size and time of a line of results; None for other lines and for in-place measurements."""
    if len(cells) < _OUT_OF_PLACE + 8 or not (cells[0].isdecimal() and cells[1].isdecimal()):
        return None
    try:
        nbytes, time_us = int(cells[0]), float(cells[_OUT_OF_PLACE])
    except ValueError:
        return None
    return (nbytes, time_us) if measurable(nbytes) and measurable(time_us) else None


def _from_json(path: Path, text: str) -> Measured:
    try:
        document = parse_json(text)
    except ValueError as error:
        raise UsageError(unreadable(path, error)) from None
    root = Fields(document, file=str(path))
    config = root.child("config") if "config" in root else Fields({})
    devices = config.children("devices") if config.values.get("devices") else []
    each_has = config.integer("nthreads", 1, maximum=_MOST_OF_A_PROCESS)
    each_has *= config.integer("ngpus", 1, maximum=_MOST_OF_A_PROCESS)
    if each_has * len(devices) > MAX_GPUS:
        config.fail("devices", f"at most {MAX_GPUS:,} GPUs are simulated, not {each_has * len(devices):,}")
    times = []
    for each in root.children("results") if root.values.get("results") else []:
        found = each.child("out_of_place") if each.values.get("out_of_place") else Fields({})
        time_us = found.number("time", 0.0) or found.number("cpu_time", 0.0)
        nbytes = each.integer("size", 0)
        if time_us and not measurable(time_us):
            found.fail("time", f"expected a time in us, got {shown(time_us)}")
        if nbytes and time_us:
            times.append((nbytes, time_us))
    # Of each process, only the first of its GPUs is listed.
    return Measured(
        collective=Path((root.texts("args") or [""])[0]).name,
        hosts=[device.text("hostname", "") for device in devices for _ in range(each_has)],
        device=devices[0].text("device_info", "") if devices else "",
        times_us=times,
    )

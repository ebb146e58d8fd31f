"""Times of collectives on the cluster of a scenario by size, as nccl-tests reports them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from simsys.build.cluster import Cluster
from simsys.check import check_file
from simsys.collectives import CollectiveKind, algbw_bytes_per_s, busbw_bytes_per_s
from simsys.collectives.choose import Choose, named
from simsys.errors import UnknownNameError, UsageError
from simsys.executors.communicator import Communicator
from simsys.parallel.layout import Group
from simsys.platform.environment import executors_clock
from simsys.report.listing import table
from simsys.report.text import wrap
from simsys.units import KIB, Dimension, parse

MAX_SIZES = 64


@dataclass(frozen=True)
class CollectiveRow:
    """Times of one buffer size.

    Args:
        nbytes: Size of the full buffer.
        algorithm: The fastest algorithm.
        protocol: NCCL protocol; ``-`` if protocols are not modelled.
        seconds: Time on idle links.
        algbw_bytes_per_s: As nccl-tests defines it.
        busbw_bytes_per_s: As nccl-tests defines it.
    """

    nbytes: float
    algorithm: str
    protocol: str
    seconds: float
    algbw_bytes_per_s: float
    busbw_bytes_per_s: float

    def text_row(self) -> dict[str, str]:
        """For people: powers of two where they fit, microseconds, GB/s."""
        return {
            "size": _size(self.nbytes),
            "algorithm": self.algorithm,
            "protocol": self.protocol,
            "time (us)": f"{self.seconds * 1e6:.1f}",
            "algbw (GB/s)": f"{self.algbw_bytes_per_s / 1e9:.2f}",
            "busbw (GB/s)": f"{self.busbw_bytes_per_s / 1e9:.2f}",
        }


@dataclass(frozen=True)
class CollectiveTable:
    """One kind of collective among the first GPUs of a scenario's cluster.

    Args:
        name: The scenario.
        op: The collective.
        gpus: Number of GPUs.
        where: The cluster.
        rows: By size; none for a single GPU.
        warnings: Causes of times above the limit of the links.
    """

    name: str
    op: str
    gpus: int
    where: str
    rows: Sequence[CollectiveRow]
    warnings: Sequence[str] = ()

    def as_dict(self) -> dict[str, Any]:
        """Ready for JSON."""
        return asdict(self)

    def text(self) -> str:
        """The table as text, with a heading line."""
        head = "\n".join(
            [
                f"{self.name}: {self.op} among {self.gpus} GPUs, {self.where}",
                *(line for text in self.warnings for line in wrap(text, "  warning: ", "    ")),
            ]
        )
        if not self.rows:
            return f"{self.name}: one GPU, no communication"
        lines = table([row.text_row() for row in self.rows]).splitlines()
        return "\n".join([head, "", *(f"  {line}" for line in lines)])


def collective_tables(
    path: Path, assignments: Sequence[str], names: Sequence[str], *, op: str, sizes: str, gpus: int | None = None
) -> list[CollectiveTable]:
    """The tables of the scenarios of a file.

    Args:
        path: The experiment file.
        assignments: Settings from the command line.
        names: Which scenarios; all if empty.
        op: A `CollectiveKind`.
        sizes: As for `sizes_between`.
        gpus: Number of GPUs, counted from the first; all by default.

    Raises:
        ConfigError: With every problem of the scenarios other than memory.
        UnknownNameError: If there is no such collective.
        UsageError: If the range of sizes is invalid, or the cluster has fewer GPUs.
    """
    if op not in list(CollectiveKind):
        raise UnknownNameError("collective", op, list(CollectiveKind))
    wanted = sizes_between(sizes)
    tables = []
    for built in check_file(path, assignments, names, memory=False):
        config, cluster = built.config, built.cluster
        settings = config.training or config.serving
        assert settings is not None
        choose = named(settings.communication_pattern, cluster.tuning)
        count = cluster.num_gpus if gpus is None else gpus
        if gpus is not None and not 2 <= gpus <= cluster.num_gpus:
            raise UsageError(f"--gpus is from 2 to the {cluster.num_gpus} GPUs of {config.name}, not {gpus}")
        rows, warnings = collective_rows(cluster, choose, CollectiveKind(op), count, wanted) if count > 1 else ([], [])
        tables.append(CollectiveTable(config.name, op, count, cluster.topology.name, rows, warnings))
    return tables


def collective_rows(
    cluster: Cluster, choose: Choose, kind: CollectiveKind, gpus: int, sizes: Sequence[float]
) -> tuple[list[CollectiveRow], list[str]]:
    """The times of a collective among the first GPUs of an idle cluster, by size.

    Args:
        cluster: The cluster.
        choose: Selects the algorithms and protocols to compare.
        kind: The collective.
        gpus: Number of GPUs.
        sizes: Full buffers in bytes.

    Returns:
        The rows, and warnings.
    """
    platform = cluster.platform()
    group = Group(tuple(range(gpus)), "all")
    communicator = Communicator(group, gpus, platform.network, choose, executors_clock(platform.env))
    rows = []
    for nbytes in sizes:
        plan, seconds = communicator.plan(kind, nbytes), communicator.seconds(kind, nbytes)
        rows.append(
            CollectiveRow(
                nbytes,
                plan.algorithm.label,
                plan.protocol or "-",
                seconds,
                algbw_bytes_per_s(nbytes, seconds),
                busbw_bytes_per_s(kind, gpus, nbytes, seconds),
            )
        )
    return rows, [f"transfers collide: {found}" for _, found in communicator.collisions()]


def sizes_between(text: str) -> list[float]:
    """Sizes from the first to the last, each twice the one before.

    Example:
        >>> sizes_between("1KiB..4KiB"), sizes_between("3 MB")
        ([1024.0, 2048.0, 4096.0], [3000000.0])

    Raises:
        UsageError: If the text is neither a size nor two sizes joined by ``..``, or there are too many sizes.
    """
    first, dots, last = text.partition("..")
    try:
        low = parse(first, Dimension.BYTES)
        high = parse(last, Dimension.BYTES) if dots else low
    except UsageError as error:
        raise UsageError(f"{text!r} is not a range of sizes such as 1KiB..1GiB: {error}") from error
    if not 0.0 < low <= high:
        raise UsageError(f"a range of sizes is positive and ascending, such as 1KiB..1GiB, not {text!r}")
    sizes = [low]
    while sizes[-1] * 2 <= high:
        sizes.append(sizes[-1] * 2)
        if len(sizes) > MAX_SIZES:
            raise UsageError(f"{text!r} are more than {MAX_SIZES} sizes")
    return sizes


def _size(nbytes: float) -> str:
    for unit, factor in (("GiB", KIB**3), ("MiB", KIB**2), ("KiB", KIB)):
        if nbytes >= factor and nbytes % factor == 0:
            return f"{nbytes / factor:g} {unit}"
    return f"{nbytes:g} B"

"""Collective algorithms, one file each: their steps and the closed form of their time.

A file `<name>.py` in this folder that registers an `Algorithm` called `<name>` is found by that name; an
algorithm elsewhere is registered with `register_algorithm` or named as ``package.module:Class``. ``inside/across``,
such as ``ring/double_tree``, is the hierarchical algorithm with these two.

Start with `base.py` and `ring.py`; `choose.py` picks the cheapest, `nccl.py` has the costs of NCCL's protocols.
May import: errors, registry, sums.

Example:
    >>> from simsys.collectives import CollectiveKind, Path, get_algorithm
    >>> path = Path(latency_s=500e-9, bytes_per_s=50e9)
    >>> round(get_algorithm("ring").seconds(CollectiveKind.ALL_REDUCE, 8, 400e6, [path]), 9)
    0.014007
"""

from __future__ import annotations

from simsys.collectives.bandwidth import algbw_bytes_per_s, busbw_bytes_per_s
from simsys.collectives.base import (
    ALGORITHMS,
    Algorithm,
    CollectiveKind,
    Path,
    Phase,
    bytes_sent,
    register_algorithm,
)

__all__ = [
    "ALGORITHMS",
    "Algorithm",
    "CollectiveKind",
    "Path",
    "Phase",
    "algbw_bytes_per_s",
    "busbw_bytes_per_s",
    "bytes_sent",
    "get_algorithm",
    "register_algorithm",
]


def get_algorithm(name: str) -> Algorithm:
    """The algorithm called `name`.

    Args:
        name: A shipped file's name (``ring``), an alias (``ring_allreduce``), a registered name,
            ``package.module:Class``, or two of them as ``inside/across``.

    Raises:
        UnknownNameError: Nothing has that name.
        UsageError: ``package.module:Class`` is not an `Algorithm`, or the two have nothing in common.
    """
    inside, slash, across = name.partition("/")
    if slash:
        from simsys.collectives.hierarchical import Hierarchical

        return Hierarchical(1, get_algorithm(inside), get_algorithm(across))
    return ALGORITHMS.get(name, Algorithm)()

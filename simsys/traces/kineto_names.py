"""How PyTorch's profiler (Kineto) names kernels of collectives and describes them, both ways.

Names and arguments as in pytorch/kineto (`libkineto/src/output_json.cpp`) and `ParamCommsUtils` of PyTorch; sizes are
numbers of elements, of which simsys knows bytes alone, so the data type is ``Byte``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from simsys.collectives import CollectiveKind
from simsys.parallel.layout import Group

MOST_RANKS = 30
"""Ranks of a group that Kineto lists; of more, the first ones and the last."""
COMPUTE, COPY, MESSAGE = "compute", "copy", "send_recv"
"""Kinds of activities beside those of `CollectiveKind`."""


class _Names(NamedTuple):
    """Names of one collective.

    Args:
        kernel: NCCL's kernel.
        collective: PyTorch's name of the operation.
        sent: Share of the full buffer that a rank passes in: ``whole`` or ``part``.
        received: Share of it that a rank has afterwards.
    """

    kernel: str
    collective: str
    sent: str = "whole"
    received: str = "whole"


_NAMES = {
    CollectiveKind.ALL_REDUCE: _Names("AllReduce_Sum", "allreduce"),
    CollectiveKind.ALL_GATHER: _Names("AllGather", "_allgather_base", "part"),
    CollectiveKind.REDUCE_SCATTER: _Names("ReduceScatter_Sum", "_reduce_scatter_base", received="part"),
    CollectiveKind.BROADCAST: _Names("Broadcast", "broadcast"),
    CollectiveKind.REDUCE: _Names("Reduce_Sum", "reduce"),
    CollectiveKind.ALL_TO_ALL: _Names("SendRecv", "all_to_allv"),
    CollectiveKind.SEND_RECV: _Names("SendRecv", "send_recv"),
    CollectiveKind.BARRIER: _Names("AllReduce_Sum", "barrier"),
}
_READ = {
    **{"send": MESSAGE, "recv": MESSAGE, "coalesced": MESSAGE, "batchisendirecv": MESSAGE},
    **{"allgather": "all_gather", "allgatherv": "all_gather", "reducescatter": "reduce_scatter"},
    **{"alltoall": "all_to_all", "alltoallbase": "all_to_all", "alltoallv": "all_to_all", "sendrecv": MESSAGE},
    **{"allreduce": "all_reduce", "allreducecoalesced": "all_reduce", "allgatherbase": "all_gather"},
    **{"reducescatterbase": "reduce_scatter", "allgatherintotensorcoalesced": "all_gather"},
    **{"reducescattertensorcoalesced": "reduce_scatter", "reducescatterv": "reduce_scatter"},
    **{"allgathersingle": "all_gather", "reducescattersingle": "reduce_scatter", "alltoallsingle": "all_to_all"},
    **{"broadcast": "broadcast", "reduce": "reduce", "barrier": "barrier", "gather": MESSAGE, "scatter": MESSAGE},
}
_KERNELS = (
    (re.compile(r"all_?reduce|cross_device_reduce|(one|two)_?shot|multimem", re.IGNORECASE), "all_reduce"),
    (re.compile(r"all_?gather", re.IGNORECASE), "all_gather"),
    (re.compile(r"reduce_?scatter", re.IGNORECASE), "reduce_scatter"),
    (re.compile(r"all_?to_?all", re.IGNORECASE), "all_to_all"),
    (re.compile(r"broadcast", re.IGNORECASE), "broadcast"),
    (re.compile(r"send_?recv", re.IGNORECASE), MESSAGE),
    (re.compile(r"reduce", re.IGNORECASE), "reduce"),
)
_COMMUNICATES = re.compile(
    r"nccl|rccl|oneccl|cross_device_reduce|(one|two)_?shot_all_?reduce|multimem_all|all_?reduce_(fusion|kernel)",
    re.IGNORECASE,
)


def kernel_name(kind: CollectiveKind) -> str:
    """The name of a collective's kernel."""
    return f"ncclDevKernel_{_NAMES[kind].kernel}"


MESSAGE_KERNEL = kernel_name(CollectiveKind.SEND_RECV)
"""The name of the kernel that sends or receives a message."""


def collective_args(kind: CollectiveKind, group: Group, nbytes: float) -> dict[str, Any]:
    """The arguments of a collective's kernel."""
    names = _NAMES[kind]
    whole, part = round(nbytes), round(nbytes / group.size)
    return {
        "Collective name": names.collective,
        "In msg nelems": part if names.sent == "part" else whole,
        "Out msg nelems": part if names.received == "part" else whole,
        "dtype": "Byte",
        **group_args(group),
    }


def message_args(name: str, src: int, dst: int, nbytes: float | None = None) -> dict[str, Any]:
    """The arguments of a kernel that sends or receives a message; the bytes may be unknown."""
    size = {} if nbytes is None else {"In msg nelems": round(nbytes), "Out msg nelems": round(nbytes)}
    return {"Collective name": name, **size, "dtype": "Byte", "Group size": 2, "Src Rank": src, "Dst Rank": dst}


def ranks_text(ranks: Sequence[int]) -> str:
    """A set of ranks in a few words.

    Example:
        >>> ranks_text([3]), ranks_text([0, 1, 2, 3]), ranks_text([1, 9, 17]), ranks_text([0, 1, 4, 5])
        ('3', '0 to 3', '1 to 17, every 8', '0, 1, 4, 5')
    """
    if len(ranks) == 1:
        return str(ranks[0])
    step = ranks[1] - ranks[0]
    if len(ranks) > 2 and step > 0 and list(ranks) == list(range(ranks[0], ranks[-1] + 1, step)):
        return f"{ranks[0]} to {ranks[-1]}" + (f", every {step}" if step > 1 else "")
    shown = [*map(str, ranks[:MOST_RANKS])]
    return ", ".join([*shown, *(["…"] if len(ranks) > len(shown) else [])])


def group_name(group: Group) -> str:
    """The name of a process group: its axis and ranks."""
    return f"{group.axis} {ranks_text(group.ranks)}"


def group_args(group: Group) -> dict[str, Any]:
    """The arguments of a kernel about its process group."""
    ranks = [*map(str, group.ranks)]
    if len(ranks) > MOST_RANKS:
        ranks = [*ranks[: MOST_RANKS - 1], "...", ranks[-1]]
    return {
        "Group size": group.size,
        "Process Group Name": group_name(group),
        "Process Group Description": group.axis,
        "Process Group Ranks": f"[{', '.join(ranks)}]",
    }


def kind_named(operation: str) -> str | None:
    """The kind of a collective by PyTorch's name of it; None if it is none.

    Example:
        >>> kind_named("_allgather_base_"), kind_named("allreduce"), kind_named("matmul")
        ('all_gather', 'all_reduce', None)
    """
    return _READ.get(operation.lower().replace("_", ""))


def kind_of(category: str, name: str, args: Mapping[str, Any]) -> str:
    """What an activity of a GPU is: computation, copy, or the kind of a collective.

    Args:
        category: Of the event, such as ``kernel``.
        name: Of the kernel.
        args: Of the event.

    Example:
        >>> kind_of("kernel", "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)", {})
        'all_reduce'
        >>> kind_of("kernel", "ncclDevKernel_SendRecv", {"Collective name": "all_to_allv"})
        'all_to_all'
        >>> kind_of("gpu_memcpy", "Memcpy HtoD (Pinned -> Device)", {})
        'copy'
    """
    if category == "gpu_memcpy":
        return COPY
    called = args.get("Collective name")
    if isinstance(called, str) and (found := kind_named(called)) is not None:
        return found
    if not _COMMUNICATES.search(name):
        return COMPUTE
    return next((kind for pattern, kind in _KERNELS if pattern.search(name)), "other")

"""Names of kernels, as PyTorch's profiler writes them, in both directions."""

from __future__ import annotations

import pytest

from simsys.collectives import CollectiveKind
from simsys.parallel.layout import Group
from simsys.traces.kineto_names import MESSAGE_KERNEL, collective_args, kernel_name, kind_of, message_args

GROUP = Group(tuple(range(8)), "data")


@pytest.mark.parametrize("kind", CollectiveKind)
def test_what_is_written_is_read_as_the_same_kind(kind: CollectiveKind) -> None:
    assert kind_of("kernel", kernel_name(kind), collective_args(kind, GROUP, 1e6)) == kind
    assert kernel_name(kind).startswith("ncclDevKernel")


def test_messages_are_read_as_such() -> None:
    for name in ("send", "recv"):
        assert kind_of("kernel", MESSAGE_KERNEL, message_args(name, 0, 1, 8.0)) == "send_recv"


@pytest.mark.parametrize(
    ("kind", "sent", "received"),
    [("all_reduce", 800, 800), ("all_gather", 100, 800), ("reduce_scatter", 800, 100), ("all_to_all", 800, 800)],
)
def test_elements_in_and_out(kind: str, sent: int, received: int) -> None:
    args = collective_args(CollectiveKind(kind), GROUP, 800.0)
    assert (args["In msg nelems"], args["Out msg nelems"], args["Group size"]) == (sent, received, 8)


def test_ranks_of_large_groups_are_shortened() -> None:
    args = collective_args(CollectiveKind.ALL_REDUCE, Group(tuple(range(1024)), "data"), 1.0)
    assert args["Process Group Ranks"].startswith("[0, 1, 2")
    assert args["Process Group Ranks"].endswith("28, ..., 1023]")
    assert collective_args(CollectiveKind.BROADCAST, GROUP, 1.0)["Process Group Ranks"] == "[0, 1, 2, 3, 4, 5, 6, 7]"


@pytest.mark.parametrize(
    ("name", "called", "kind"),
    [
        ("ncclKernel_AllReduce_RING_LL_Sum_float(ncclWorkElem)", None, "all_reduce"),
        ("ncclDevKernel_AllGather_RING_LL(ncclDevComm*, unsigned long, ncclWork*)", None, "all_gather"),
        ("ncclDevKernel_ReduceScatter_Sum_bf16_RING_LL", None, "reduce_scatter"),
        ("ncclDevKernel_Broadcast_RING_LL", None, "broadcast"),
        ("ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)", None, "send_recv"),
        ("ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)", "all_to_allv", "all_to_all"),
        ("ncclDevKernel_Generic(ncclDevComm*)", "_allgather_base", "all_gather"),
        ("ncclDevKernel_Generic(ncclDevComm*)", None, "other"),
        ("void vllm::cross_device_reduce_1stage<__nv_bfloat16, 8>", None, "all_reduce"),
        ("void at::native::reduce_kernel<512, 1>", None, "compute"),
        ("sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n", None, "compute"),
        ("void at::native::vectorized_gather_kernel", None, "compute"),
        ("triton_red_fused_all_reduce_like_sum_0", None, "compute"),
    ],
)
def test_kernels_of_real_traces(name: str, called: str | None, kind: str) -> None:
    assert kind_of("kernel", name, {} if called is None else {"Collective name": called}) == kind

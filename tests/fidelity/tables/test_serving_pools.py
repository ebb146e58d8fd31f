"""Layouts of rows of measured disaggregated serving."""

from __future__ import annotations

import pytest

from simsys.fidelity.case import Unsupported
from simsys.fidelity.tables.serving_pools import batch_of, dispatch_of, hardware_of_pools, is_disaggregated, pools_of
from simsys.fidelity.tables.table import Row

ROW = {
    **{"id": "a", "gpu": "H200-SXM-141GB", "load_kind": "concurrency", "layout_source": "source"},
    **{
        "prefill_workers": "1",
        "prefill_gpus_per_worker": "8",
        "prefill_tp": "8",
        "prefill_dp": "1",
        "prefill_ep": "1",
    },
    **{"decode_workers": "2", "decode_gpus_per_worker": "8", "decode_tp": "1", "decode_dp": "8", "decode_ep": "8"},
}


def row(**cells: str) -> Row:
    return Row({**ROW, **cells}, "t.csv", 2)


def test_a_replica_has_data_parallel_ranks_of_some_gpus() -> None:
    assert pools_of(row()) == {
        **{"prefill_replicas": 1, "prefill_tp_degree": 8, "prefill_attention_dp": 1, "prefill_ep_degree": 1},
        **{"decode_replicas": 2, "decode_tp_degree": 1, "decode_attention_dp": 8, "decode_ep_degree": 8},
    }
    hardware = hardware_of_pools(row(), pools_of(row()))
    assert (hardware["num_nodes"], hardware["gpus_per_node"]) == (3, 8)


@pytest.mark.parametrize(
    "cells", [{"prefill_workers": "2"}, {"decode_tp": "8"}, {"notes": "disaggregated; layout not found"}]
)
def test_pools_are_recognised(cells: dict[str, str]) -> None:
    assert is_disaggregated(Row({"id": "a", **cells}, "t.csv", 2))
    assert not is_disaggregated(Row({"id": "a", "tp": "8"}, "t.csv", 2))


@pytest.mark.parametrize(
    ("cells", "reason"),
    [
        ({"layout_source": "not found"}, "how pools were divided is not known"),
        ({"prefill_tp": ""}, "without their layouts"),
        ({"prefill_pp": "2"}, "pools with pipeline stages"),
        ({"decode_gpus_per_worker": "16"}, "decode_gpus_per_worker is not decode_tp x decode_dp"),
        ({"prefill_ep": "4"}, "experts divided among other ranks"),
        (
            {"prefill_gpus_per_worker": "6", "prefill_tp": "6", "decode_tp": "4", "decode_dp": "2"},
            "neither is a multi",
        ),
    ],
)
def test_what_is_not_stated_is_not_predicted(cells: dict[str, str], reason: str) -> None:
    with pytest.raises(Unsupported, match=reason):
        pools_of(row(**cells))


def test_decode_replicas_have_nodes_of_their_own_where_they_would_begin_inside_one() -> None:
    small = row(prefill_gpus_per_worker="4", prefill_tp="4")
    hardware = hardware_of_pools(small, pools_of(small))
    assert (hardware["num_nodes"], hardware["gpus_per_node"]) == (3, 8)


def test_replicas_that_share_nodes_unevenly_are_not_predicted() -> None:
    odd = row(decode_gpus_per_worker="6", decode_dp="6", decode_ep="6")
    with pytest.raises(Unsupported, match="do not fill nodes evenly"):
        hardware_of_pools(odd, pools_of(odd))


def test_tokens_are_sent_where_replicas_have_whole_experts_on_many_gpus() -> None:
    wide = row(decode_gpus_per_worker="32", decode_dp="32", decode_ep="32", gpu="GB200-192GB")
    assert dispatch_of(wide, "sglang", pools_of(wide), 256)["decode_dispatch"] == "deepep_low_latency"
    assert "redundant_experts" not in dispatch_of(wide, "sglang", pools_of(wide), 256)
    uneven = row(decode_gpus_per_worker="48", decode_dp="48", decode_ep="48", gpu="GB200-192GB")
    assert dispatch_of(uneven, "sglang", pools_of(uneven), 256)["redundant_experts"] == 32
    assert dispatch_of(wide, "tensorrt-llm", pools_of(wide), 256) == {"dispatch": "all_to_all"}
    assert dispatch_of(wide, "vllm", pools_of(wide), 256) == {}
    divided = row(decode_ep="1")
    assert dispatch_of(divided, "tensorrt-llm", pools_of(divided), 256) == {}
    assert dispatch_of(row(), "sglang", pools_of(row()), 256) == {}


def test_eight_gpus_are_many_where_nvlink_joins_nodes_of_four() -> None:
    eight = {"prefill_tp": "1", "prefill_dp": "8", "prefill_ep": "8"}
    joined, usual = row(**eight, gpu="GB200-192GB"), row(**eight)
    assert dispatch_of(joined, "sglang", pools_of(joined), 256)["dispatch"] == "deepep_high_throughput"
    assert dispatch_of(usual, "sglang", pools_of(usual), 256) == {}


def test_names_of_recipes_of_tensorrt_llm_state_the_batch_of_a_decode_rank() -> None:
    recipe = "recipes/trtllm/gb200-fp4/1k1k/ctx1_gen4_tep8_batch32_eplb0_mtp3.yaml"
    named = row(engine="TensorRT-LLM", recipe=recipe)
    assert batch_of(named, 3) == {"max_num_seqs": 32, "max_cudagraph_capture_size": 128}
    assert batch_of(row(engine="SGLang", recipe=recipe), 0) == batch_of(row(engine="TensorRT-LLM"), 0) == {}

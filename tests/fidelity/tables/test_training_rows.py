"""Tables of measured training runs: what each row becomes, and what is not supported."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest

from simsys.errors import ConfigError
from simsys.fidelity.case import Case
from simsys.fidelity.scenario_run import ScenarioRun
from simsys.fidelity.tables.table import Row, Table
from simsys.fidelity.tables.training_rows import COLUMNS, cases

ROW = {
    "id": "a-1",
    "group": "megatron",
    "source": "Megatron-LM README",
    "model": "GPT-1.3B",
    "arch": "gpt",
    "layers": "24",
    "hidden": "2048",
    "heads": "16",
    "vocab": "51200",
    "seq_len": "2048",
    "gpu": "A100-SXM-80GB",
    "gpus": "16",
    "nodes": "2",
    "interconnect": "8x200G IB",
    "strategy": "TP-PP-DP",
    "tp": "2",
    "pp": "4",
    "dp": "2",
    "virtual_stages": "1",
    "micro_batch": "2",
    "global_batch": "64",
    "activation_recompute": "full",
    "sequence_parallel": "no",
    "precision": "fp16",
    "attn_kernel": "unfused",
    "quality": "A",
    "iter_time_s_derived": "3.5",
}
ALONE = {"gpus": "8", "nodes": "1", "tp": "1", "pp": "1", "dp": "8", "strategy": "DDP"}


def table_of(*rows: dict[str, str]) -> Table:
    whole = [{**ROW, **row} for row in rows]
    return Table("t.csv", list(ROW), [Row(row, "t.csv", line) for line, row in enumerate(whole, 2)], [])


def case_of(**cells: str) -> Case:
    table = table_of(cells)
    (case,) = cases(table)
    table.check()
    return case


def scenario(**cells: str) -> dict[str, Any]:
    case = case_of(**cells)
    assert isinstance(case.run, ScenarioRun), case.reason
    assert not case.run.memory_limit  # it did run
    found: dict[str, Any] = json.loads(case.run.scenario)
    return found


def test_a_row_becomes_a_run_with_its_measured_time() -> None:
    case = case_of()
    assert (case.measured, case.unit, case.metric, case.group) == (3.5, "s", "iteration_s", "megatron")
    assert case.tags["strategy"] == "TP-PP-DP"
    assert case.tags["engine"] == "megatron"
    assert case.tags["arch"] == "dense"
    assert case.run is not None
    assert 0.5 < case.run.figures()[case.figure] < 10.0


@pytest.mark.parametrize(
    ("cells", "strategy"),
    [
        ({}, "TP_PP_DDP"),
        ({"zero_stage": "1"}, "TP_PP_ZERO1"),
        (ALONE, "DDP"),
        ({**ALONE, "strategy": "single", "gpus": "1", "dp": "1"}, "DDP"),
        ({**ALONE, "strategy": "ZeRO1-DP"}, "ZERO1"),
        ({**ALONE, "zero_stage": "2"}, "ZERO2"),
        ({**ALONE, "strategy": "ZeRO", "zero_stage": "3"}, "FSDP"),
        ({**ALONE, "strategy": "FSDP"}, "FSDP"),
        ({**ALONE, "strategy": "HSDP"}, "HSDP"),
        ({**ALONE, "strategy": "FSDP+TP", "tp": "2", "dp": "4"}, "TP_FSDP"),
        ({**ALONE, "strategy": "DDP+EP", "ep": "8"}, "EP_DDP"),
        ({**ALONE, "strategy": "TP-DP", "tp": "2", "cp": "2", "dp": "2"}, "TP_CP_DDP"),
    ],
)
def test_strategies_and_stages_of_zero_become_kinds_of_parallelism(cells: dict[str, str], strategy: str) -> None:
    assert scenario(**cells)["parallelism"]["strategy"] == strategy


def test_what_the_degrees_leave_is_data_parallel() -> None:
    assert scenario(dp="")["parallelism"]["dp_degree"] == 2


@pytest.mark.parametrize(
    ("cells", "reason"),
    [
        ({"dp": "4"}, "do not make the number of GPUs"),
        ({"dp": "0"}, "not stated"),
        ({"gpu": "TPU-v4"}, "no profile of GPU TPU-v4"),
        ({"gpu": "A100-PCIE-40GB"}, "no profile of GPU"),
        ({"arch": "rwkv"}, "no model of kind 'rwkv'"),
        ({"layers": "", "model": ""}, "neither a name nor sizes"),
        ({"strategy": "TP-XP"}, "unknown strategy 'XP'"),
        ({**ALONE, "strategy": "ZeRO"}, "stage of ZeRO"),
        ({"precision": "int2"}, "unknown precision 'int2'"),
        ({"activation_recompute": "partial"}, "activation recomputation 'partial'"),
        ({"global_batch": ""}, "global batch is not stated"),
        ({"global_batch": "63"}, "does not divide among the replicas"),
        ({"global_batch": "66"}, "does not divide into micro-batches"),
        ({"nodes": "3"}, "do not divide evenly"),
        ({"iter_time_s_derived": ""}, "no time of an iteration was measured"),
    ],
)
def test_what_is_not_supported_says_why(cells: dict[str, str], reason: str) -> None:
    case = case_of(**cells)
    assert case.run is None
    assert reason in case.reason


@pytest.mark.parametrize(
    ("column", "cell"),
    [
        ("iter_time_s_derived", "0"),
        ("iter_time_s_derived", "-1"),
        ("gpus", "0"),
        ("tp", "two"),
        ("dp", "1.5"),
    ],
)
def test_cells_that_cannot_be_read_are_named(column: str, cell: str) -> None:
    with pytest.raises(ConfigError, match=rf"t\.csv:2: {column}: '{cell}'"):
        case_of(**{column: cell})


def test_a_row_without_a_time_has_none() -> None:
    assert math.isnan(case_of(iter_time_s_derived="").measured)


def test_layouts_of_the_same_job_form_a_set() -> None:
    same = {"tp": "4", "dp": "1", "micro_batch": "1"}
    others = ({"global_batch": "128"}, {"attn_kernel": "flash"}, {"heads": "8"})
    first, second, *rest = cases(table_of({}, same, *others))
    assert first.layouts == second.layouts
    assert len({first.layouts, *(each.layouts for each in rest)}) == 1 + len(others)


@pytest.mark.parametrize(
    ("kernel", "attention"),
    [
        ("", "unfused"),
        ("torch", "eager"),
        ("flash", "fused"),
        ("flash(cudnn)", "fused"),
        ("flash_attention2", "flash2"),
        ("sdpa flash", "flash2"),
        ("flash(triton, ALiBi)", "flash1"),
        ("flash_attentionv1.0.8", "flash1"),
    ],
)
def test_attention_kernels_by_generation(kernel: str, attention: str) -> None:
    assert scenario(attn_kernel=kernel)["training"]["attention"] == attention


@pytest.mark.parametrize(
    ("text", "precision"),
    [("amp", "fp16"), ("amp_bf16/DEFAULT", "bf16"), ("mxfp8", "fp8"), ("nvfp4", "fp4"), ("tf32", "tf32")],
)
def test_precisions_by_their_many_names(text: str, precision: str) -> None:
    training = scenario(precision=text, gpu="B200")["training"]
    assert training["precision"] == precision
    assert training["mixed_precision"] == (precision != "tf32")


def test_selective_recomputation_is_what_the_engine_calls_so() -> None:
    selective = {"activation_recompute": "selective"}
    assert scenario(**selective)["training"]["activation_recompute"] == "selective"
    titan = scenario(**selective, group="torchtitan", **ALONE)["training"]
    assert (titan["engine"], titan["activation_recompute"]) == ("torchtitan", "half")


def test_a_named_engine_comes_before_the_source() -> None:
    assert scenario(engine="nemo")["training"]["engine"] == "nemo"
    assert scenario(group="x", source="a blog")["training"]["engine"] == "pytorch"


def test_virtual_stages_interleave_and_unstated_ones_are_likely() -> None:
    assert "virtual_stages" not in scenario()["parallelism"]
    stated = scenario(virtual_stages="3")["parallelism"]
    assert (stated["schedule"], stated["virtual_stages"]) == ("interleaved", 3)
    assert scenario(virtual_stages="")["parallelism"]["virtual_stages"] == 3
    assert scenario(virtual_stages="", layers="32")["parallelism"]["virtual_stages"] == 2


def test_an_unstated_micro_batch_is_small_in_a_pipeline_and_large_elsewhere() -> None:
    assert scenario(micro_batch="")["training"]["batch_size_per_gpu"] == 1
    alone = scenario(**ALONE, micro_batch="", global_batch="512")["training"]
    assert (alone["batch_size_per_gpu"], alone["gradient_accumulation_steps"]) == (16, 4)


def test_a_network_that_is_not_the_usual_one_is_shared_by_the_gpus() -> None:
    assert "network_bandwidth" not in scenario()["hardware"]
    slow = scenario(interconnect="4x100G OmniPath")["hardware"]
    assert (slow["network_bandwidth"], slow["nics_per_node"]) == ("48 GB/s", 8)


def test_nvlink_domains_of_72_gpus() -> None:
    cells = {"gpu": "GB200", "gpus": "128", "nodes": "32", "interconnect": "NVL72", "tp": "8", "dp": "4"}
    hardware = scenario(**cells)["hardware"]
    assert (hardware["profile"], hardware["gpus_per_node"], hardware["num_nodes"]) == ("gb200-nvl72", 64, 2)


def test_models_by_name_where_sizes_do_not_say_enough() -> None:
    moe = {"arch": "moe", "layers": "", "model": "Qwen3_30B_a3B (tokendrop)", "ep": "8", **ALONE}
    assert scenario(**moe)["model"]["name"] == "Qwen3_30B_a3B"
    resnet = {"arch": "cnn", "layers": "", "seq_len": "", "model": "ResNet-50v1.5", **ALONE}
    assert scenario(**resnet)["model"] == {"name": "ResNet-50"}
    padded = scenario(arch="bert", seq_len="512", attn_kernel="FMHA unpadded", **ALONE)["model"]
    assert (padded["model_type"], padded["sequence_length"]) == ("bert", 256)


def test_the_columns_that_tell_the_table_are_in_it() -> None:
    assert set(COLUMNS) <= set(ROW)


def test_memory_does_not_make_a_measured_row_infeasible() -> None:
    """53 billion parameters on one GPU."""
    huge = {**ALONE, "gpus": "1", "dp": "1", "layers": "64", "hidden": "8192", "heads": "64"}
    case = case_of(**huge)
    assert case.run is not None
    assert case.run.figures()[case.figure] > 1.0


def test_chips_of_a_torus_are_nodes_of_their_own_with_the_links_of_their_profile() -> None:
    """The six links of TPU7x have 600 GB/s together, and collectives use all of them."""
    torus = {"gpu": "TPU-v7x-Ironwood", "gpus": "128", "nodes": "32", "interconnect": "ICI 3D torus 4x4x8"}
    found = scenario(**{**ALONE, **torus, "dp": "128", "strategy": "FSDP(2D)", "global_batch": "256", "tp": "1"})
    assert found["hardware"] == {"gpu": "TPU-v7x", "num_nodes": 128, "gpus_per_node": 1}
    assert found["network"]["dims"] == [4, 4, 8]
    assert found["network"]["link_bandwidth"] == "600 GB/s"
    assert found["parallelism"]["strategy"] == "FSDP"
    case = case_of(**{**ALONE, **torus, "gpus": "64", "dp": "64", "global_batch": "128"})
    assert "torus" in case.reason


def test_replicas_of_sharded_models_are_read_from_the_mesh() -> None:
    cells = {**ALONE, "gpus": "64", "nodes": "8", "dp": "64", "strategy": "FSDP+DP", "global_batch": "128"}
    found = scenario(**cells, notes="fsdp 32 x fsdp_transpose 1 x data 4 x context 1")
    assert found["parallelism"]["strategy"] == "HSDP"
    assert found["training"]["options"]["shard_size"] == 16


def test_a_mixture_with_fewer_layers_is_a_proxy() -> None:
    cells = {**ALONE, "arch": "moe", "model": "DeepSeekV3", "layers": "4", "ep": "8", "strategy": "DDP+EP"}
    assert scenario(**cells)["model"] == {"name": "DeepSeekV3", "sequence_length": 2048, "num_layers": 4}


def test_degrees_that_are_not_stated_follow_from_accumulation_and_recipe() -> None:
    """Of 64 GPUs that accumulate once, 8 replicas have 8 each: tensor-parallel 4 on H100, and half a sequence each."""
    cells = {"group": "mlperf_llama2_70b_lora", "strategy": "LoRA (TP-CP-DP)", "gpu": "H100-SXM-80GB", "arch": "llama"}
    degrees = {"dp": "0", "gpus": "64", "nodes": "8", "global_batch": "8", "micro_batch": "1", "pp": "1", "tp": "1"}
    found = scenario(**{**cells, **degrees}, grad_accum="1")
    assert found["parallelism"]["strategy"] == "TP_CP_DDP"
    assert [found["parallelism"][key] for key in ("tp_degree", "cp_degree", "dp_degree")] == [4, 2, 8]
    assert found["training"]["adapter"]["target_modules"] == ["linear_qkv", "linear_proj"]
    assert "not stated" in case_of(**{**cells, **degrees, "group": "mine"}, grad_accum="1").reason

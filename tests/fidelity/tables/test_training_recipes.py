"""Settings of published recipes for rows that leave them out."""

from __future__ import annotations

from simsys.fidelity.tables.table import Row
from simsys.fidelity.tables.training_recipes import largest_tensor, with_recipe


def row(**cells: str) -> Row:
    return Row(cells, "t.csv", 2)


def test_mixtures_of_megatron_bridge_have_whole_experts() -> None:
    given = {"parallelism": {"tp_degree": 2, "ep_degree": 32}, "training": {"engine": "nemo"}}
    found = with_recipe(row(group="megatron_bridge_moe", tp="2", ep="32"), given)
    assert found["parallelism"] == {
        "tp_degree": 2,
        "ep_degree": 32,
        "expert_tp_degree": 1,
        "expert_dispatch": "deepep",
    }
    assert found["training"] == given["training"]


def test_other_rows_stay_as_they_are() -> None:
    given = {"parallelism": {"tp_degree": 2}}
    assert with_recipe(row(group="mine", tp="2", ep="1"), given) == given


def test_the_largest_tensor_parallel_degree_is_that_of_the_gpu() -> None:
    rows = [row(group="mlperf_llama2_70b_lora", gpu=gpu) for gpu in ("H100-SXM-80GB", "H200", "GB200")]
    assert [largest_tensor(each) for each in rows] == [4, 2, 1]
    assert largest_tensor(row(group="mine", gpu="H100")) is None


def test_stages_of_deepseek_v3_have_the_layers_of_its_recipe() -> None:
    cells = {"group": "megatron_bridge_moe", "model": "DeepSeekV3", "gpu": "GB200", "pp": "4", "virtual_stages": "4"}
    layers = with_recipe(row(**cells), {})["parallelism"]["stage_layers"]
    assert (len(layers), sum(layers), layers[-1]) == (16, 61, 1)
    hopper = {**cells, "gpu": "H100-SXM-80GB", "pp": "8"}
    layers = with_recipe(row(**hopper), {})["parallelism"]["stage_layers"]
    assert (len(layers), sum(layers), layers[0], layers[-1]) == (32, 61, 1, 0)


def test_nemotron_3_super_predicts_two_further_tokens() -> None:
    found = with_recipe(row(group="megatron_bridge_moe", model="Nemotron_3_Super", gpu="GB200"), {})
    assert found["training"]["mtp_layers"] == 2
    assert "training" not in with_recipe(row(group="megatron_bridge_moe", model="Nemotron_3_Nano", gpu="GB200"), {})


def test_modules_that_recipes_recompute() -> None:
    def recomputed(**cells: str) -> object:
        return with_recipe(row(**cells), {}).get("training", {}).get("activation_recompute")

    bridge = {"group": "megatron_bridge_moe", "precision": "mxfp8", "pp": "4"}
    assert recomputed(**bridge, model="DeepSeekV3", gpu="GB200", notes="26.06 NeMo Container") == ["mla_up_proj"]
    assert recomputed(**bridge, model="DeepSeekV3", gpu="GB300", notes="26.06 NeMo Container") == "none"
    hopper = {**bridge, "model": "DeepSeekV3", "gpu": "H100-SXM-80GB", "pp": "8", "notes": "25.09 NeMo Container"}
    assert recomputed(**hopper) == ["mla_up_proj", "mlp"]
    assert recomputed(**bridge, model="GPT OSS 120B", gpu="B200", notes="26.04") == ["layernorm", "moe_act"]
    assert recomputed(**bridge, model="Qwen3_235B_a22B", gpu="B200", notes="26.04") is None
    assert recomputed(group="tpu_ironwood", model="LLAMA3.1-70B") == ["layernorm", "mlp"]


def test_a_recipe_with_a_strategy_replaces_the_options_of_the_assumed_one() -> None:
    given = {
        "hardware": {"fabric": "infiniband-ndr", "num_nodes": 64},
        "parallelism": {"strategy": "DDP", "dp_degree": 512},
        "training": {"engine": "pytorch-graphs", "options": {"compression": "fp16"}},
    }
    bert = {"group": "mlperf_bert", "gpu": "H100-SXM-80GB", "gpus": "512"}
    found = with_recipe(row(**bert), given)
    assert found["parallelism"] == {"strategy": "ZERO1", "dp_degree": 512}
    assert "compression" not in found["training"]["options"]
    assert (found["training"]["precision"], found["training"]["options"]["shard_size"]) == ("fp16", 8)
    assert found["hardware"]["fabric"] == {"extends": "infiniband-ndr", "in_network_reduction": True}
    assert found["hardware"]["num_nodes"] == 64
    grace = with_recipe(row(group="mlperf_bert", gpu="GB200", gpus="8"), given)["training"]
    assert (grace["engine"], grace["options"]["shard_size"]) == ("pytorch-segments", 4)

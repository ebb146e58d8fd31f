"""What quantised checkpoints say of weights, arithmetic and cache."""

from __future__ import annotations

from typing import Any

import pytest

from simsys.errors import ConfigError
from simsys.model.fields import Fields
from simsys.model.huggingface.quantization_config import quantization_of
from simsys.model.quantization import Quantization
from tests.helpers.published_configs import AWQ, FP8_BLOCK, KIMI_W4A16, MXFP4, NVFP4, W4A16, Config

GPTQ = {"bits": 4, "desc_act": False, "group_size": 128, "quant_method": "gptq", "sym": True, "lm_head": False}
FP8_INPUTS = {"dynamic": True, "num_bits": 8, "strategy": "token", "symmetric": True, "type": "float"}
INT8_INPUTS = FP8_INPUTS | {"type": "int"}
FP4 = {"dynamic": False, "group_size": 16, "num_bits": 4, "strategy": "tensor_group", "type": "float"}


def compressed(weights: Config, inputs: Config | None, **more: Any) -> Config:
    group = {"input_activations": inputs, "output_activations": None, "targets": ["Linear"], "weights": weights}
    return {"config_groups": {"group_0": group}, "ignore": ["lm_head"], "quant_method": "compressed-tensors", **more}


def weights(bits: int, kind: str, strategy: str, **more: Any) -> Config:
    return {"num_bits": bits, "type": kind, "strategy": strategy, "symmetric": True, **more}


def read(config: Config) -> Quantization:
    return quantization_of(Fields(config, "quantization_config"))[0]


@pytest.mark.parametrize(
    ("config", "stored", "nbytes", "compute"),
    [
        (AWQ, "int4", 0.5 + 2 / 128, "half"),
        (AWQ | {"group_size": 64}, "int4", 0.5 + 2 / 64, "half"),
        (GPTQ, "int4", 0.5 + 2 / 128, "half"),
        (GPTQ | {"bits": 8, "group_size": -1}, "int8", 1.0, "half"),
        ({"quant_method": "auto-round", "bits": 4, "group_size": 128}, "int4", 0.5 + 2 / 128, "half"),
        (FP8_BLOCK, "fp8_block", 1 + 4 / 128**2, ""),
        ({"quant_method": "fp8", "activation_scheme": "static"}, "fp8", 1.0, ""),
        ({"quant_method": "fbgemm_fp8", "activation_scale_ub": 1200.0}, "fp8", 1.0, ""),
        (MXFP4, "mxfp4", 0.5 + 1 / 32, ""),
        (W4A16, "int4", 0.5 + 2 / 128, "half"),
        (KIMI_W4A16, "int4", 0.5 + 2 / 32, "half"),
        (compressed(weights(8, "int", "channel"), None), "int8", 1.0, "half"),
        (compressed(weights(8, "int", "channel"), INT8_INPUTS), "int8", 1.0, "int8"),
        (compressed(weights(8, "float", "channel"), FP8_INPUTS), "fp8", 1.0, ""),
        (compressed(weights(8, "float", "tensor"), None), "fp8", 1.0, "half"),
        (
            compressed(weights(8, "float", "block", block_structure=[128, 128]), FP8_INPUTS),
            *("fp8_block", 1 + 4 / 128**2, ""),
        ),
        (compressed(FP4, FP4 | {"dynamic": "local"}), "fp4", 0.5 + 1 / 16, ""),
        (compressed(FP4, None), "fp4", 0.5 + 1 / 16, "half"),
        (compressed(FP4 | {"group_size": 32, "strategy": "group"}, None), "mxfp4", 0.5 + 1 / 32, "half"),
        ({"quant_method": "modelopt", "quant_algo": "FP8"}, "fp8", 1.0, ""),
        ({"quant_method": "modelopt", **NVFP4}, "fp4", 0.5 + 1 / 16, ""),
        ({"quant_algo": "FP8_PB_WO"}, "fp8_block", 1 + 4 / 128**2, ""),
        ({"quant_method": "modelopt", "quant_algo": "W4A16_AWQ", "group_size": 128}, "int4", 0.5 + 2 / 128, "half"),
        ({"quant_method": "modelopt", "quant_algo": "INT8_SQ"}, "int8", 1.0, "int8"),
    ],
)
def test_methods_and_what_they_store(config: Config, stored: str, nbytes: float, compute: str) -> None:
    found = read(config)
    assert (found.weights, found.weight_bytes, found.compute, found.problem) == (stored, nbytes, compute, "")


@pytest.mark.parametrize(
    ("config", "problem"),
    [
        (
            {"quant_method": "bitsandbytes", "load_in_4bit": True},
            "weights quantised by bitsandbytes: the method is not",
        ),
        ({"load_in_8bit": True}, "weights quantised by bitsandbytes"),
        ({"quant_method": "hqq"}, "known: auto-round, awq, compressed-tensors, fbgemm_fp8, fp8, gptq"),
        (GPTQ | {"bits": 3}, "3 bits are not modelled; 4 and 8 are"),
        (GPTQ | {"dynamic": {"+:.*mlp.*": {"bits": 8}}}, r"its modules have several precisions \(dynamic\)"),
        (FP8_BLOCK | {"weight_block_size": [64, 64]}, "blocks of 64 x 64 are not modelled"),
        ({"quant_method": "modelopt", "quant_algo": "MIXED_PRECISION"}, "ModelOpt's MIXED_PRECISION is not modelled"),
        (compressed(weights(4, "int", "group"), INT8_INPUTS), "4-bit integers with quantised activations"),
        (compressed(weights(4, "float", "channel"), None), "4-bit floats with a scale for each channel"),
        (W4A16 | {"sparsity_config": {"format": "sparse-24-bitmask"}}, "sparse weights"),
        ({"quant_method": "compressed-tensors"}, "it has no config_groups"),
        (
            {
                "quant_method": "compressed-tensors",
                "config_groups": {"a": {"weights": FP4}, "b": {"weights": weights(8, "float", "tensor")}},
            },
            "its modules have 2 precisions",
        ),
    ],
)
def test_what_is_not_modelled_says_why(config: Config, problem: str) -> None:
    found = read(config)
    assert found.weights == ""
    with pytest.raises(AssertionError, match=problem):
        raise AssertionError(found.problem)


@pytest.mark.parametrize(
    ("config", "kv"),
    [
        (W4A16, ""),
        (W4A16 | {"kv_cache_scheme": {"num_bits": 8, "type": "float", "strategy": "tensor"}}, "fp8"),
        ({"quant_method": "modelopt", **NVFP4}, "fp8"),
        ({"quant_method": "modelopt", **NVFP4, "kv_cache_quant_algo": None}, ""),
        (
            {"quant_method": "modelopt", "quant_algo": "FP8", "kv_cache_scheme": {"num_bits": 8, "type": "float"}},
            "fp8",
        ),
        (FP8_BLOCK, ""),
    ],
)
def test_the_cache_is_as_the_checkpoint_asks(config: Config, kv: str) -> None:
    assert read(config).kv == kv


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"bits": 4}, "quantization_config.quant_method: missing: it says how weights are quantised"),
        (AWQ | {"bits": "4"}, "quantization_config.bits: expected a number, got '4'"),
        (AWQ | {"modules_to_not_convert": "lm_head"}, "modules_to_not_convert: expected a list of strings"),
        (FP8_BLOCK | {"weight_block_size": 128}, "weight_block_size: expected a list of integers, got 128"),
        (compressed(weights(4, "int", "group", group_size="x"), None), "config_groups.group_0.weights.group_size"),
        ({"quant_method": "modelopt", **NVFP4, "kv_cache_quant_algo": "NVFP4"}, "a KV cache in nvfp4 is not modelled"),
        (W4A16 | {"kv_cache_scheme": {"num_bits": 4, "type": "int"}}, "kv_cache_scheme.num_bits: a KV cache in 4-bit"),
    ],
)
def test_wrong_values_are_refused_with_their_place(config: Config, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        read(config)


def test_a_quantised_head_and_what_can_be_trained() -> None:
    assert read(GPTQ | {"lm_head": True}).quantized_head
    assert not read(GPTQ).quantized_head
    assert [read(each).trainable for each in (FP8_BLOCK, MXFP4, AWQ, W4A16)] == [True, True, False, False]

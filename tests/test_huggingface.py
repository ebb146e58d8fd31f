from __future__ import annotations

import json
from dataclasses import replace

import pytest

from simsys.errors import UsageError
from simsys.model.architectures import ARCHITECTURES
from simsys.model.huggingface import architecture_from_config
from simsys.model.transformer import build_transformer

BY_NAME = {architecture.name: architecture for architecture in ARCHITECTURES}


def llama(layers, hidden, heads, kv_heads, mlp, vocabulary, context=8192, **more):
    return {
        "model_type": "llama",
        "num_hidden_layers": layers,
        "hidden_size": hidden,
        "num_attention_heads": heads,
        "num_key_value_heads": kv_heads,
        "intermediate_size": mlp,
        "vocab_size": vocabulary,
        "max_position_embeddings": context,
        "hidden_act": "silu",
        "tie_word_embeddings": False,
        **more,
    }


LLAMA3_8B = llama(32, 4096, 32, 8, 14336, 128256)
QWEN3 = {"model_type": "qwen3", "head_dim": 128, "attention_bias": False}
QWEN3_MOE = QWEN3 | {"model_type": "qwen3_moe", "num_experts": 128, "num_experts_per_tok": 8, "mlp_only_layers": []}
MIXTRAL = {"model_type": "mixtral", "num_local_experts": 8, "num_experts_per_tok": 2, "sliding_window": None}
DEEPSEEK = {
    "model_type": "deepseek_v3",
    "n_shared_experts": 1,
    "num_experts_per_tok": 8,
    "moe_intermediate_size": 2048,
    "kv_lora_rank": 512,
    "q_lora_rank": 1536,
    "qk_nope_head_dim": 128,
    "qk_rope_head_dim": 64,
    "v_head_dim": 128,
    "num_nextn_predict_layers": 1,
}
DEEPSEEK_V3 = llama(
    61, 7168, 128, 128, 18432, 129280, 163840, **DEEPSEEK, n_routed_experts=256, first_k_dense_replace=3
)
GPT2 = {"model_type": "gpt2", "n_layer": 12, "n_embd": 768, "n_head": 12, "n_positions": 1024, "vocab_size": 50257}
BERT = llama(12, 768, 12, 12, 3072, 30522, 512, type_vocab_size=2) | {
    "model_type": "bert",
    "hidden_act": "gelu",
    "tie_word_embeddings": None,
}
FALCON = {
    "model_type": "falcon",
    "num_hidden_layers": 32,
    "hidden_size": 4544,
    "num_attention_heads": 71,
    "multi_query": True,
    "vocab_size": 65024,
}
OPT = llama(24, 2048, 32, 32, 1, 50272, 2048, ffn_dim=8192, dropout=0.1) | {
    "model_type": "opt",
    "intermediate_size": None,
    "tie_word_embeddings": True,
}
T5_LARGE = {
    "model_type": "t5",
    "architectures": ["T5ForConditionalGeneration"],
    "d_model": 1024,
    "d_kv": 64,
    "d_ff": 4096,
    "num_layers": 24,
    "num_decoder_layers": 24,
    "num_heads": 16,
    "n_positions": 512,
    "dropout_rate": 0.1,
    "vocab_size": 32128,
}
T5_11B = T5_LARGE | {"d_kv": 128, "d_ff": 65536, "num_heads": 128, "num_decoder_layers": None}
T5_XL_V1_1 = T5_LARGE | {"d_model": 2048, "d_ff": 5120, "num_heads": 32, "feed_forward_proj": "gated-gelu"}
BART = {
    "model_type": "bart",
    "architectures": ["BartForConditionalGeneration"],
    "d_model": 1024,
    "encoder_layers": 12,
    "decoder_layers": 12,
    "encoder_attention_heads": 16,
    "decoder_attention_heads": 16,
    "encoder_ffn_dim": 4096,
    "decoder_ffn_dim": 4096,
    "max_position_embeddings": 1024,
    "dropout": 0.1,
    "vocab_size": 50265,
}


@pytest.mark.parametrize(
    ("config", "total_billions", "active_billions", "kv_bytes"),
    [
        (LLAMA3_8B, 8.03, 8.03, 131_072),
        (llama(80, 8192, 64, 8, 28672, 128256), 70.55, 70.55, 327_680),
        (llama(126, 16384, 128, 8, 53248, 128256), 405.85, 405.85, 516_096),
        (llama(32, 4096, 32, 32, 11008, 32000), 6.74, 6.74, 524_288),
        (llama(60, 7168, 56, 8, 20480, 64000), 34.39, 34.39, 245_760),
        (llama(48, 8192, 64, 8, 22016, 32000), 33.74, 33.74, 196_608),
        (llama(36, 4096, 32, 8, 12288, 151936, **QWEN3), 8.19, 8.19, 147_456),
        (llama(64, 5120, 64, 8, 25600, 151936, **QWEN3), 32.76, 32.76, 262_144),
        (llama(28, 3584, 28, 4, 18944, 152064, **{"model_type": "qwen2"}), 7.62, 7.62, 57_344),
        (llama(32, 4096, 32, 8, 14336, 32000, **MIXTRAL), 46.70, 12.88, 131_072),
        (llama(56, 6144, 48, 8, 16384, 32000, **MIXTRAL), 140.62, 39.15, 229_376),
        (llama(48, 2048, 32, 4, 6144, 151936, **QWEN3_MOE, moe_intermediate_size=768), 30.53, 3.35, 98_304),
        (llama(94, 4096, 64, 4, 12288, 151936, **QWEN3_MOE, moe_intermediate_size=1536), 235.09, 22.19, 192_512),
        (DEEPSEEK_V3, 671.03, 37.55, 70_272),
        (
            llama(61, 7168, 64, 64, 18432, 163840, **DEEPSEEK, n_routed_experts=384, first_k_dense_replace=1),
            1026.41,
            32.86,
            70_272,
        ),
        (GPT2, 0.12444, 0.12444, 36_864),
        (BERT, 0.10948, 0.10948, 0),
        (FALCON, 6.92, 6.92, 8_192),
        (OPT, 1.3158, 1.3158, 196_608),
        (T5_LARGE, 0.73767, 0.73767, 0),
        (T5_11B, 11.3073, 11.3073, 0),
        (T5_XL_V1_1 | {"tie_word_embeddings": False}, 2.84976, 2.84976, 0),
        (BART, 0.40629, 0.40629, 0),
        (BART | {"decoder_layers": 6}, 0.30551, 0.30551, 0),
    ],
)
def test_parameters_and_kv_cache_are_those_published(config, total_billions, active_billions, kv_bytes):
    model = build_transformer(architecture_from_config(config))
    assert model.parameters / 1e9 == pytest.approx(total_billions, rel=1e-3)
    assert model.active_parameters / 1e9 == pytest.approx(active_billions, rel=2e-3)
    assert model.kv_elements_per_token * 2 == kv_bytes


@pytest.mark.parametrize(
    ("config", "name"),
    [
        (LLAMA3_8B, "Llama3-8B"),
        (GPT2, "GPT2-Small"),
        (BERT, "BERT-Base"),
        (DEEPSEEK_V3, "DeepSeek-V3"),
        (T5_LARGE, "T5-Large"),
        (T5_11B, "T5-11B"),
        (BART, "BART-Large"),
    ],
)
def test_a_configuration_gives_the_shipped_architecture(config, name):
    read = architecture_from_config(config)
    assert replace(read, name=name, source="") == replace(BY_NAME[name], source="")


def test_a_file_or_its_folder_can_be_read_and_names_the_model(tmp_path):
    folder = tmp_path / "My-Llama"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(LLAMA3_8B), encoding="utf-8")
    for path in (folder, folder / "config.json", str(folder)):
        architecture = architecture_from_config(path)
        assert (architecture.name, architecture.num_layers) == ("My-Llama", 32)


def test_a_multimodal_configuration_is_read_below_text_config():
    config = {"model_type": "mllama", "_name_or_path": "meta/Vision", "text_config": LLAMA3_8B}
    architecture = architecture_from_config(config)
    assert (architecture.name, architecture.hidden_size) == ("Vision", 4096)


def test_an_explicit_head_size_counts():
    assert architecture_from_config(LLAMA3_8B | {"head_dim": 96}).head_size == 96


def test_an_unknown_type_with_the_usual_keys_is_accepted_and_said_so():
    architecture = architecture_from_config(LLAMA3_8B | {"model_type": "newllama"})
    assert "'newllama' is unknown" in architecture.source
    assert architecture.gated_mlp
    assert not architecture_from_config(LLAMA3_8B | {"model_type": "new", "hidden_act": "relu"}).gated_mlp


def test_a_shared_expert_given_by_width_is_a_multiple_of_a_routed_one():
    config = llama(28, 3584, 28, 4, 18944, 151936, num_experts=64, num_experts_per_tok=8, moe_intermediate_size=2560)
    config |= {"model_type": "qwen2_moe", "shared_expert_intermediate_size": 20480}
    assert architecture_from_config(config).shared_experts == 8
    with pytest.raises(UsageError, match="not a multiple of the experts' width"):
        architecture_from_config(config | {"shared_expert_intermediate_size": 20481})


def test_leading_dense_layers_may_be_listed():
    config = llama(4, 64, 4, 4, 256, 100, **QWEN3_MOE, moe_intermediate_size=32)
    assert architecture_from_config(config | {"mlp_only_layers": [0, 1]}).dense_layers_first == 2
    with pytest.raises(UsageError, match="only leading dense layers"):
        architecture_from_config(config | {"mlp_only_layers": [0, 2]})
    with pytest.raises(UsageError, match="interleaved"):
        architecture_from_config(config | {"decoder_sparse_step": 2})


def test_a_decoder_must_be_as_wide_as_its_encoder():
    with pytest.raises(UsageError, match="decoder_ffn_dim: 2048 differs from encoder_ffn_dim 4096"):
        architecture_from_config(BART | {"decoder_ffn_dim": 2048})


def test_all_missing_keys_are_named():
    with pytest.raises(UsageError, match=r"missing num_hidden_layers, hidden_size, vocab_size$"):
        architecture_from_config(
            {"model_type": "llama", "num_attention_heads": 8, "intermediate_size": 64, "max_position_embeddings": 64}
        )


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"hidden_size": "4096"}, "hidden_size: expected a number"),
        ({"hidden_size": 4095}, "not a multiple of 32 heads"),
        ({"num_hidden_layers": 0}, "num_hidden_layers: expected a finite number >= 1"),
        ({"num_hidden_layers": 1.5}, "expected an integer"),
        ({"vocab_size": float("nan")}, "vocab_size: expected a finite number"),
        ({"num_local_experts": 8}, "missing num_experts_per_tok"),
        ({"kv_lora_rank": 512}, "missing qk_nope_head_dim, qk_rope_head_dim, v_head_dim"),
        ({"tie_word_embeddings": "no"}, "expected true or false"),
        ({"num_key_value_heads": 5}, "multiple of num_key_value_heads"),
    ],
)
def test_a_wrong_configuration_is_refused(changes, message):
    with pytest.raises(UsageError, match=message):
        architecture_from_config(LLAMA3_8B | changes)


def test_a_file_that_cannot_be_read_is_an_error(tmp_path):
    with pytest.raises(UsageError, match="cannot read model configuration"):
        architecture_from_config(tmp_path)
    (tmp_path / "config.json").write_text("{", encoding="utf-8")
    with pytest.raises(UsageError, match="not valid JSON"):
        architecture_from_config(tmp_path)
    (tmp_path / "config.json").write_text("[]", encoding="utf-8")
    with pytest.raises(UsageError, match="expected a mapping"):
        architecture_from_config(tmp_path)

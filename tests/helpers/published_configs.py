"""Configurations of published models, shortened to the keys that matter here, with what their model cards state.

The keys and values are those of the ``config.json`` (or ``hf_quant_config.json``) of the repositories named.
"""

from __future__ import annotations

from typing import Any, NamedTuple

Config = dict[str, Any]


class Published(NamedTuple):
    """A published model.

    Args:
        config: Its configuration.
        total: Parameters in billions as stated, to the digits stated.
        active: Those that a token passes through; empty where the card states none.
        without: Which tables the stated active ones leave out: ``embedding``, ``embedding and head`` or nothing.
    """

    config: Config
    total: str
    active: str = ""
    without: str = ""


def decoder(
    model_type: str,
    class_name: str,
    layers: int,
    hidden: int,
    heads: int,
    kv_heads: int,
    mlp: int,
    vocabulary: int,
    context: int,
    **more: Any,
) -> Config:
    return {
        "architectures": [class_name],
        "model_type": model_type,
        "num_hidden_layers": layers,
        "hidden_size": hidden,
        "num_attention_heads": heads,
        "num_key_value_heads": kv_heads,
        "intermediate_size": mlp,
        "vocab_size": vocabulary,
        "max_position_embeddings": context,
        "hidden_act": "silu",
        "initializer_range": 0.02,
        "rms_norm_eps": 1e-06,
        "torch_dtype": "bfloat16",
        "use_cache": True,
        "tie_word_embeddings": False,
        **more,
    }


AWQ = {
    "bits": 4,
    "group_size": 128,
    "modules_to_not_convert": None,
    "quant_method": "awq",
    "version": "gemm",
    "zero_point": True,
}
FP8_BLOCK = {"activation_scheme": "dynamic", "fmt": "e4m3", "quant_method": "fp8", "weight_block_size": [128, 128]}
W4A16 = {
    "config_groups": {
        "group_0": {
            "input_activations": None,
            "output_activations": None,
            "targets": ["Linear"],
            "weights": {
                "actorder": None,
                "block_structure": None,
                "dynamic": False,
                "group_size": 128,
                "num_bits": 4,
                "observer": "mse",
                "observer_kwargs": {},
                "strategy": "group",
                "symmetric": True,
                "type": "int",
            },
        }
    },
    "format": "pack-quantized",
    "global_compression_ratio": 1.8,
    "ignore": ["lm_head"],
    "kv_cache_scheme": None,
    "quant_method": "compressed-tensors",
    "quantization_status": "frozen",
}
KIMI_W4A16 = W4A16 | {
    "config_groups": {
        "group_0": W4A16["config_groups"]["group_0"]
        | {"weights": {"group_size": 32, "num_bits": 4, "strategy": "group", "symmetric": True, "type": "int"}}
    },
    "ignore": [
        "lm_head",
        "re:.*self_attn.*",
        "re:.*shared_experts.*",
        "re:.*mlp\\.(gate|up|gate_up|down)_proj.*",
    ],
}
MXFP4 = {
    "modules_to_not_convert": [
        "model.layers.*.self_attn",
        "model.layers.*.mlp.router",
        "model.embed_tokens",
        "lm_head",
    ],
    "quant_method": "mxfp4",
}
NVFP4 = {"quant_algo": "NVFP4", "kv_cache_quant_algo": "FP8", "group_size": 16, "exclude_modules": ["lm_head"]}
"""The ``quantization`` of the hf_quant_config.json of nvidia/Qwen3-32B-NVFP4 (ModelOpt 0.33)."""

LATENT = {"kv_lora_rank": 512, "q_lora_rank": 1536, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128}
DEEPSEEK_EXPERTS = {
    "moe_intermediate_size": 2048,
    "moe_layer_freq": 1,
    "n_shared_experts": 1,
    "norm_topk_prob": True,
    "num_experts_per_tok": 8,
    "scoring_func": "sigmoid",
    "topk_method": "noaux_tc",
}
DEEPSEEK_YARN = {"beta_fast": 32, "factor": 40, "original_max_position_embeddings": 4096, "type": "yarn"}

LLAMA_3_1_8B = decoder(
    "llama", "LlamaForCausalLM", 32, 4096, 32, 8, 14336, 128256, 131072, attention_bias=False, mlp_bias=False
)
MISTRAL_7B = decoder("mistral", "MistralForCausalLM", 32, 4096, 32, 8, 14336, 32000, 32768, sliding_window=4096)
QWEN3_32B = decoder(
    *("qwen3", "Qwen3ForCausalLM", 64, 5120, 64, 8, 25600, 151936, 40960),
    head_dim=128,
    attention_bias=False,
    max_window_layers=64,
    sliding_window=None,
    use_sliding_window=False,
    rope_theta=1000000,
)
QWEN3_8B = decoder(
    *("qwen3", "Qwen3ForCausalLM", 36, 4096, 32, 8, 12288, 151936, 40960),
    head_dim=128,
    max_window_layers=36,
    sliding_window=None,
    use_sliding_window=False,
)
QWEN3_NEXT = decoder(
    *("qwen3_next", "Qwen3NextForCausalLM", 48, 2048, 16, 2, 5120, 151936, 262144),
    decoder_sparse_step=1,
    full_attention_interval=4,
    head_dim=256,
    linear_conv_kernel_dim=4,
    linear_key_head_dim=128,
    linear_num_key_heads=16,
    linear_num_value_heads=32,
    linear_value_head_dim=128,
    mlp_only_layers=[],
    moe_intermediate_size=512,
    norm_topk_prob=True,
    num_experts=512,
    num_experts_per_tok=10,
    partial_rotary_factor=0.25,
    router_aux_loss_coef=0.001,
    shared_expert_intermediate_size=512,
    use_sliding_window=False,
)
DEEPSEEK_V3 = decoder(
    *("deepseek_v3", "DeepseekV3ForCausalLM", 61, 7168, 128, 128, 18432, 129280, 163840),
    **LATENT,
    **DEEPSEEK_EXPERTS,
    ep_size=1,
    first_k_dense_replace=3,
    n_group=8,
    n_routed_experts=256,
    num_nextn_predict_layers=1,
    quantization_config=FP8_BLOCK,
    rope_scaling=DEEPSEEK_YARN,
    routed_scaling_factor=2.5,
    topk_group=4,
)
KIMI_K2 = decoder(
    *("kimi_k2", "DeepseekV3ForCausalLM", 61, 7168, 64, 64, 18432, 163840, 131072),
    **LATENT,
    **DEEPSEEK_EXPERTS,
    first_k_dense_replace=1,
    n_group=1,
    n_routed_experts=384,
    num_nextn_predict_layers=0,
    quantization_config=FP8_BLOCK,
    rope_scaling=DEEPSEEK_YARN | {"factor": 32},
    topk_group=1,
)
GLM_4_5 = decoder(
    *("glm4_moe", "Glm4MoeForCausalLM", 92, 5120, 96, 8, 12288, 151552, 131072),
    attention_bias=True,
    first_k_dense_replace=3,
    head_dim=128,
    moe_intermediate_size=1536,
    n_group=1,
    n_routed_experts=160,
    n_shared_experts=1,
    norm_topk_prob=True,
    num_experts_per_tok=8,
    num_nextn_predict_layers=1,
    partial_rotary_factor=0.5,
    routed_scaling_factor=2.5,
    topk_group=1,
    use_qk_norm=True,
)
GLM_4_5_AIR = GLM_4_5 | {
    "num_hidden_layers": 46,
    "hidden_size": 4096,
    "intermediate_size": 10944,
    "first_k_dense_replace": 1,
    "moe_intermediate_size": 1408,
    "n_routed_experts": 128,
    "routed_scaling_factor": 1.0,
    "use_qk_norm": False,
}
MINIMAX_TEXT_01 = decoder(
    *("minimax_text_01", "MiniMaxText01ForCausalLM", 80, 6144, 64, 8, 9216, 200064, 10240000),
    attn_type_list=([0] * 7 + [1]) * 10,
    head_dim=128,
    layernorm_full_attention_alpha=3.5565588200778455,
    layernorm_full_attention_beta=1.0,
    num_experts_per_tok=2,
    num_local_experts=32,
    postnorm=True,
    rotary_dim=64,
    shared_intermediate_size=0,
    shared_moe_mode="sigmoid",
    sliding_window=None,
)
MINIMAX_M2 = decoder(
    *("minimax_m2", "MiniMaxM2ForCausalLM", 62, 3072, 48, 8, 1536, 200064, 196608),
    attn_type_list=[1] * 62,
    head_dim=128,
    num_experts_per_tok=8,
    num_local_experts=256,
    num_mtp_modules=3,
    qk_norm_type="per_layer",
    quantization_config=FP8_BLOCK | {"fmt": "float8_e4m3fn", "modules_to_not_convert": ["gate", "lm_head"]},
    rotary_dim=64,
    scoring_func="sigmoid",
    shared_intermediate_size=0,
    use_mtp=True,
    use_qk_norm=True,
    use_routing_bias=True,
)


def gpt_oss(layers: int, experts: int) -> Config:
    return decoder(
        *("gpt_oss", "GptOssForCausalLM", layers, 2880, 64, 8, 2880, 201088, 131072),
        attention_bias=True,
        experts_per_token=4,
        head_dim=64,
        initial_context_length=4096,
        layer_types=["sliding_attention", "full_attention"] * (layers // 2),
        num_experts_per_tok=4,
        num_local_experts=experts,
        quantization_config=MXFP4,
        rope_scaling={"factor": 32.0, "original_max_position_embeddings": 4096, "rope_type": "yarn"},
        sliding_window=128,
        swiglu_limit=7.0,
    )


def llama4(experts: int, step: int) -> Config:
    context = 10485760 if experts == 16 else 1048576
    text = decoder(
        *("llama4_text", "Llama4ForCausalLM", 48, 5120, 40, 8, 8192, 202048, context),
        attention_chunk_size=8192,
        for_llm_class=False,
        head_dim=128,
        interleave_moe_layer_step=step,
        intermediate_size_mlp=16384,
        no_rope_layers=[],
        num_experts_per_tok=1,
        num_local_experts=experts,
        use_qk_norm=experts == 16,
    )
    vision = {
        "hidden_size": 1408,
        "image_size": 336,
        "intermediate_size": 5632,
        "model_type": "llama4_vision_model",
        "num_attention_heads": 16,
        "num_channels": 3,
        "num_hidden_layers": 34,
        "patch_size": 14,
        "pixel_shuffle_ratio": 0.5,
        "projector_input_dim": 4096,
        "projector_output_dim": 4096,
        "vision_output_dim": 4096,
    }
    return {
        "architectures": ["Llama4ForConditionalGeneration"],
        "boi_token_index": 200080,
        "model_type": "llama4",
        "text_config": {key: value for key, value in text.items() if key != "tie_word_embeddings"},
        "vision_config": vision,
    }


SIGLIP = {
    "hidden_size": 1152,
    "image_size": 896,
    "intermediate_size": 4304,
    "model_type": "siglip_vision_model",
    "num_attention_heads": 16,
    "num_hidden_layers": 27,
    "patch_size": 14,
    "vision_use_head": False,
}
GEMMA_3_27B = {
    "architectures": ["Gemma3ForConditionalGeneration"],
    "boi_token_index": 255999,
    "eoi_token_index": 256000,
    "mm_tokens_per_image": 256,
    "model_type": "gemma3",
    "text_config": {
        "head_dim": 128,
        "hidden_size": 5376,
        "intermediate_size": 21504,
        "model_type": "gemma3_text",
        "num_attention_heads": 32,
        "num_hidden_layers": 62,
        "num_key_value_heads": 16,
        "query_pre_attn_scalar": 168,
        "rope_scaling": {"factor": 8.0, "rope_type": "linear"},
        "sliding_window": 1024,
    },
    "torch_dtype": "bfloat16",
    "vision_config": SIGLIP,
}
LLAVA_1_5_7B = {
    "architectures": ["LlavaForConditionalGeneration"],
    "ignore_index": -100,
    "image_token_index": 32000,
    "model_type": "llava",
    "pad_token_id": 32001,
    "projector_hidden_act": "gelu",
    "text_config": {
        "_name_or_path": "lmsys/vicuna-7b-v1.5",
        "architectures": ["LlamaForCausalLM"],
        "max_position_embeddings": 4096,
        "model_type": "llama",
        "rms_norm_eps": 1e-05,
        "torch_dtype": "float16",
        "vocab_size": 32064,
    },
    "tie_word_embeddings": False,
    "vision_config": {
        "hidden_size": 1024,
        "image_size": 336,
        "intermediate_size": 4096,
        "model_type": "clip_vision_model",
        "num_attention_heads": 16,
        "num_hidden_layers": 24,
        "patch_size": 14,
        "projection_dim": 768,
        "vocab_size": 32000,
    },
    "vision_feature_layer": -2,
    "vision_feature_select_strategy": "default",
}
QWEN2_5_VL_7B = decoder(
    *("qwen2_5_vl", "Qwen2_5_VLForConditionalGeneration", 28, 3584, 28, 4, 18944, 152064, 128000),
    max_window_layers=28,
    rope_scaling={"type": "mrope", "mrope_section": [16, 24, 24]},
    sliding_window=32768,
    use_sliding_window=False,
    vision_start_token_id=151652,
    vision_config={
        "depth": 32,
        "fullatt_block_indexes": [7, 15, 23, 31],
        "hidden_act": "silu",
        "hidden_size": 1280,
        "in_chans": 3,
        "intermediate_size": 3420,
        "model_type": "qwen2_5_vl",
        "num_heads": 16,
        "out_hidden_size": 3584,
        "patch_size": 14,
        "spatial_merge_size": 2,
        "spatial_patch_size": 14,
        "temporal_patch_size": 2,
        "tokens_per_second": 2,
        "window_size": 112,
    },
)
QWEN3_5_397B = {
    "architectures": ["Qwen3_5MoeForConditionalGeneration"],
    "image_token_id": 248056,
    "model_type": "qwen3_5_moe",
    "text_config": {
        "attention_bias": False,
        "attn_output_gate": True,
        "dtype": "bfloat16",
        "full_attention_interval": 4,
        "head_dim": 256,
        "hidden_size": 4096,
        "layer_types": ["linear_attention", "linear_attention", "linear_attention", "full_attention"] * 15,
        "linear_conv_kernel_dim": 4,
        "linear_key_head_dim": 128,
        "linear_num_key_heads": 16,
        "linear_num_value_heads": 64,
        "linear_value_head_dim": 128,
        "max_position_embeddings": 262144,
        "mlp_only_layers": [],
        "model_type": "qwen3_5_moe_text",
        "moe_intermediate_size": 1024,
        "mtp_num_hidden_layers": 1,
        "mtp_use_dedicated_embeddings": False,
        "num_attention_heads": 32,
        "num_experts": 512,
        "num_experts_per_tok": 10,
        "num_hidden_layers": 60,
        "num_key_value_heads": 2,
        "shared_expert_intermediate_size": 1024,
        "vocab_size": 248320,
    },
    "tie_word_embeddings": False,
    "vision_config": {
        "depth": 27,
        "hidden_size": 1152,
        "in_channels": 3,
        "intermediate_size": 4304,
        "model_type": "qwen3_5_moe",
        "num_heads": 16,
        "num_position_embeddings": 2304,
        "out_hidden_size": 4096,
        "patch_size": 16,
        "spatial_merge_size": 2,
        "temporal_patch_size": 2,
    },
}
KIMI_K2_5 = {
    "architectures": ["KimiK25ForConditionalGeneration"],
    "media_placeholder_token_id": 163605,
    "model_type": "kimi_k25",
    "text_config": KIMI_K2
    | {
        "max_position_embeddings": 262144,
        "quantization_config": KIMI_W4A16,
        "rope_scaling": DEEPSEEK_YARN | {"factor": 64.0},
    },
    "tie_word_embeddings": False,
    "use_unified_vision_chunk": True,
    "vision_config": {
        "init_pos_emb_height": 64,
        "init_pos_emb_time": 4,
        "init_pos_emb_width": 64,
        "merge_kernel_size": [2, 2],
        "mm_hidden_size": 1152,
        "patch_size": 14,
        "text_hidden_size": 7168,
        "vt_hidden_size": 1152,
        "vt_intermediate_size": 4304,
        "vt_num_attention_heads": 16,
        "vt_num_hidden_layers": 27,
    },
}
MIXTRAL_8X7B = decoder(
    *("mixtral", "MixtralForCausalLM", 32, 4096, 32, 8, 14336, 32000, 32768),
    num_experts_per_tok=2,
    num_local_experts=8,
    output_router_logits=False,
    router_aux_loss_coef=0.02,
    sliding_window=None,
)
GEMMA_2_9B = decoder(
    *("gemma2", "Gemma2ForCausalLM", 42, 3584, 16, 8, 14336, 256000, 8192),
    attn_logit_softcapping=50.0,
    final_logit_softcapping=30.0,
    head_dim=256,
    hidden_activation="gelu_pytorch_tanh",
    query_pre_attn_scalar=256,
    sliding_window=4096,
    sliding_window_size=None,
) | {"tie_word_embeddings": None, "hidden_act": None}

GPT2 = {
    **{"model_type": "gpt2", "n_layer": 12, "n_embd": 768, "n_head": 12, "n_positions": 1024, "n_ctx": 1024},
    **{"vocab_size": 50257, "activation_function": "gelu_new", "resid_pdrop": 0.1},
}
BERT = decoder("bert", "BertForMaskedLM", 12, 768, 12, 12, 3072, 30522, 512, type_vocab_size=2) | {
    "hidden_act": "gelu",
    "tie_word_embeddings": None,
}
FALCON = {
    "model_type": "falcon",
    "num_hidden_layers": 32,
    "hidden_size": 4544,
    "num_attention_heads": 71,
    "multi_query": True,
    "parallel_attn": True,
    "bias": False,
    "vocab_size": 65024,
}
OPT = decoder("opt", "OPTForCausalLM", 24, 2048, 32, 32, 1, 50272, 2048, ffn_dim=8192, dropout=0.1) | {
    "activation_function": "relu",
    "intermediate_size": None,
    "tie_word_embeddings": True,
}
T5_LARGE = {
    "model_type": "t5",
    "architectures": ["T5ForConditionalGeneration"],
    "is_encoder_decoder": True,
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
    "activation_function": "gelu",
    "dropout": 0.1,
    "vocab_size": 50265,
}

BOTH = "embedding and head"
PUBLISHED: dict[str, Published] = {
    "DeepSeek-V3": Published(DEEPSEEK_V3, "671", "37", "embedding"),
    "GLM-4.5": Published(GLM_4_5, "355", "32", BOTH),
    "GLM-4.5-Air": Published(GLM_4_5_AIR, "106", "12", BOTH),
    "Kimi-K2": Published(KIMI_K2, "1026", "32", "embedding"),
    "Llama-3.1-8B": Published(LLAMA_3_1_8B, "8.03"),
    "Llama-3.1-8B-w4a16": Published(LLAMA_3_1_8B | {"quantization_config": W4A16}, "8.03"),
    "Llama-4-Maverick": Published(llama4(128, 2), "400", "17"),
    "Llama-4-Scout": Published(llama4(16, 1), "109", "17"),
    "LLaVA-1.5-7B": Published(LLAVA_1_5_7B, "7.06"),
    "MiniMax-M2": Published(MINIMAX_M2, "230", "10", "embedding"),
    "MiniMax-Text-01": Published(MINIMAX_TEXT_01, "456", "45.9", BOTH),
    "Mistral-7B": Published(MISTRAL_7B, "7.24"),
    "Mixtral-8x7B": Published(MIXTRAL_8X7B, "46.7", "12.9"),
    "Qwen2.5-VL-7B": Published(QWEN2_5_VL_7B, "8.29"),
    "Qwen3-32B-AWQ": Published(QWEN3_32B | {"quantization_config": AWQ}, "32.8"),
    "Qwen3-8B-FP8": Published(QWEN3_8B | {"quantization_config": FP8_BLOCK}, "8.2"),
    "Qwen3-Next-80B-A3B": Published(QWEN3_NEXT, "80", "3", BOTH),
    "Qwen3.5-397B-A17B": Published(QWEN3_5_397B, "397", "17"),
    "gemma-2-9b": Published(GEMMA_2_9B, "9.24"),
    "gemma-3-27b-it": Published(GEMMA_3_27B, "27.4"),
    "gpt-oss-120b": Published(gpt_oss(36, 128), "116.8", "5.1", "embedding"),
    "gpt-oss-20b": Published(gpt_oss(24, 32), "20.9", "3.6", "embedding"),
    "Kimi-K2.5": Published(KIMI_K2_5, "1026", "32", "embedding"),
}

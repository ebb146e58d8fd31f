"""The known model types, with their implicit properties.

Implicit properties are from its configuration and modelling code in Hugging Face's transformers 5.23 (its class
defaults and the weights of a model built from them), or, for types with their own code, from the config files and
model cards of the repositories that use them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from simsys.errors import did_you_mean
from simsys.model.fields import Fields

ALL_LAYERS = 1
"""A period of windows: every layer has one."""


@dataclass(frozen=True)
class Family:
    """Implicit properties of a model type.

    Args:
        gated: True if the MLP is gated; None: depends on the activation. tied: Default of ``tie_word_embeddings``.
        biases: Whether linear layers and norms have biases.
        learned_positions: Whether positions are a table.
        qkv_biases: Whether queries, keys and values have biases.
        qk_norms: Whether queries and keys are normalised.
        causal: False for an encoder, also in an encoder-decoder.
        post_norm: True if norms follow the sums.
        decoder: True for an encoder-decoder, by default with as many decoder layers.
        decoder_sequence_length: Default length of decoder training sequences (0: as for the encoder).
        implied_intermediate: True if the MLP width is 4 × hidden when the file does not give it.
        sandwich_norms: Whether the outputs of attention and MLP are normalised too.
        gated_attention: Whether attention has an output gate.
        window_period: Default pattern of layers: the last of this number of layers has full attention, the others a
            window (`ALL_LAYERS`: all have windows; 0: none).
        linear_period: Default pattern of layers with linear attention.
        shared_experts: Default number of shared experts.
        defaults: Default values of a nested configuration.
    """

    gated: bool | None = None
    tied: bool = False
    biases: bool = False
    learned_positions: bool = False
    qkv_biases: bool = False
    qk_norms: bool = False
    causal: bool = True
    post_norm: bool = False
    decoder: bool = False
    decoder_sequence_length: int = 0
    implied_intermediate: bool = False
    sandwich_norms: bool = False
    gated_attention: bool = False
    window_period: int = 0
    linear_period: int = 0
    shared_experts: int = 0
    defaults: Mapping[str, int | bool] = field(default_factory=dict)


def _defaults(
    layers: int, hidden: int, heads: int, kv_heads: int, mlp: int, vocabulary: int, context: int, **more: int
) -> Mapping[str, int]:
    return {
        "num_hidden_layers": layers,
        "hidden_size": hidden,
        "num_attention_heads": heads,
        "num_key_value_heads": kv_heads,
        "intermediate_size": mlp,
        "vocab_size": vocabulary,
        "max_position_embeddings": context,
        **more,
    }


_GATED = Family(gated=True)
_QK = Family(gated=True, qk_norms=True)
_LLAMA = Family(gated=True, defaults=_defaults(32, 4096, 32, 32, 11008, 32000, 2048))
_MISTRAL = Family(
    gated=True,
    window_period=ALL_LAYERS,
    defaults=_defaults(32, 4096, 32, 8, 14336, 32000, 131072, sliding_window=4096),
)
_QWEN2 = Family(gated=True, qkv_biases=True, defaults=_defaults(32, 4096, 32, 32, 22016, 151936, 32768))
_QWEN3 = Family(gated=True, qk_norms=True, defaults=_defaults(32, 4096, 32, 32, 22016, 151936, 32768, head_dim=128))
_QWEN3_MOE = replace(_QK, defaults=_defaults(24, 2048, 32, 4, 6144, 151936, 32768))
_QWEN3_NEXT = Family(gated=True, qk_norms=True, gated_attention=True, linear_period=4)
_LINEAR = {"linear_num_key_heads": 16, "linear_num_value_heads": 32, "linear_key_head_dim": 128}
_LINEAR |= {"linear_value_head_dim": 128, "head_dim": 256}
_QWEN3_5 = replace(_QWEN3_NEXT, defaults=_defaults(32, 4096, 16, 4, 12288, 248320, 32768, **_LINEAR))
_EXPERTS = {"num_experts": 256, "num_experts_per_tok": 8, "moe_intermediate_size": 512}
_EXPERTS |= {"shared_expert_intermediate_size": 512}
_QWEN3_5_MOE = replace(_QWEN3_NEXT, defaults=_defaults(40, 2048, 16, 2, 512, 248320, 32768, **_LINEAR, **_EXPERTS))
_QWEN3_VL_EXPERTS = {"num_experts": 60, "num_experts_per_tok": 4, "moe_intermediate_size": 1408, "head_dim": 128}
_GEMMA = Family(gated=True, tied=True, defaults=_defaults(28, 3072, 16, 16, 24576, 256000, 8192, head_dim=256))
_GEMMA2 = Family(
    gated=True,
    tied=True,
    sandwich_norms=True,
    window_period=2,
    defaults=_defaults(26, 2304, 8, 4, 9216, 256000, 8192, head_dim=256, sliding_window=4096),
)
_GEMMA3 = replace(
    _GEMMA2,
    qk_norms=True,
    window_period=6,
    defaults=_defaults(26, 2304, 8, 4, 9216, 262208, 131072, head_dim=256, sliding_window=4096),
)
_LLAMA4 = Family(
    gated=True,
    window_period=4,
    shared_experts=1,
    defaults=_defaults(
        48,
        5120,
        40,
        8,
        8192,
        202048,
        131072,
        head_dim=128,
        intermediate_size_mlp=16384,
        attention_chunk_size=8192,
        num_local_experts=16,
        num_experts_per_tok=1,
        interleave_moe_layer_step=1,
    ),
)
_GLM4 = Family(gated=True, sandwich_norms=True, qkv_biases=True)
_GPT2 = Family(gated=False, tied=True, biases=True, learned_positions=True, implied_intermediate=True)
_BERT = Family(gated=False, tied=True, biases=True, learned_positions=True, causal=False, post_norm=True)
_T5 = Family(tied=True, causal=False, decoder=True, decoder_sequence_length=128)
_LIGHTNING = Family(gated=True, linear_period=8)

FAMILIES: Mapping[str, Family] = {
    "arcee": Family(gated=False),
    "baichuan": _GATED,
    "bart": replace(_BERT, decoder=True),
    "bert": _BERT,
    "bloom": Family(gated=False, tied=True, biases=True, implied_intermediate=True),
    "cohere": Family(gated=True, tied=True),
    "cohere2": Family(gated=True, tied=True, window_period=4),
    "deepseek_v2": _GATED,
    "deepseek_v3": _GATED,
    "deepseek_v32": _GATED,
    "dots1": _QK,
    "ernie4_5": Family(gated=True, tied=True),
    "ernie4_5_moe": Family(gated=True, tied=True),
    "exaone4": Family(gated=True, qk_norms=True, window_period=4),
    "falcon": Family(gated=False, tied=True, implied_intermediate=True),
    "gemma": _GEMMA,
    "gemma2": _GEMMA2,
    "gemma3_text": _GEMMA3,
    "glm": Family(gated=True, qkv_biases=True),
    "glm4": _GLM4,
    "glm4_moe": _GATED,
    "glm4_moe_lite": _GATED,
    "glm4v_moe_text": _GATED,
    "glm4v_text": _GLM4,
    "glm_moe_dsa": _GATED,
    "gpt2": _GPT2,
    "gpt_bigcode": _GPT2,
    "gpt_neox": Family(gated=False, biases=True),
    "gpt_oss": Family(gated=True, qkv_biases=True, window_period=2),
    "gptj": Family(gated=False, implied_intermediate=True),
    "granite": _GATED,
    "granitemoe": _GATED,
    "hunyuan_v1_dense": _QK,
    "internlm2": _GATED,
    "internlm3": _GATED,
    "kimi_k2": _GATED,
    "llama": _LLAMA,
    "llama4_text": _LLAMA4,
    "mimo": Family(gated=True, qkv_biases=True),
    "minimax": replace(_LIGHTNING, linear_period=2),
    "minimax_m1": _LIGHTNING,
    "minimax_m2": _QK,
    "minimax_text_01": _LIGHTNING,
    "ministral": _MISTRAL,
    "mistral": _MISTRAL,
    "mixtral": Family(gated=True, window_period=ALL_LAYERS),
    "mt5": _T5,
    "nemotron": Family(gated=False),
    "olmo": _GATED,
    "olmo2": _QK,
    "olmo3": Family(gated=True, qk_norms=True, window_period=4),
    "olmoe": _QK,
    "opt": Family(gated=False, tied=True, biases=True, learned_positions=True),
    "phi": Family(gated=False, biases=True),
    "phi3": Family(gated=True, window_period=ALL_LAYERS),
    "phimoe": Family(gated=True, window_period=ALL_LAYERS),
    "qwen2": _QWEN2,
    "qwen2_5_vl_text": _QWEN2,
    "qwen2_moe": Family(gated=True, qkv_biases=True),
    "qwen2_vl_text": _QWEN2,
    "qwen3": _QWEN3,
    "qwen3_5_moe_text": _QWEN3_5_MOE,
    "qwen3_5_text": _QWEN3_5,
    "qwen3_moe": _QWEN3_MOE,
    "qwen3_next": _QWEN3_NEXT,
    "qwen3_vl_moe_text": replace(_QK, defaults=_defaults(24, 2048, 16, 16, 5632, 151936, 128000, **_QWEN3_VL_EXPERTS)),
    "qwen3_vl_text": _QWEN3,
    "roberta": _BERT,
    "seed_oss": _GATED,
    "smollm3": Family(gated=True, tied=True),
    "stablelm": _GATED,
    "starcoder2": Family(gated=False, tied=True, biases=True, window_period=ALL_LAYERS),
    "t5": _T5,
    "xlm-roberta": _BERT,
}

MULTIMODAL: Mapping[str, str] = {
    "gemma3": "gemma3_text",
    "glm4v": "glm4v_text",
    "glm4v_moe": "glm4v_moe_text",
    "internvl": "qwen2",
    "kimi_k25": "kimi_k2",
    "llama4": "llama4_text",
    "llava": "llama",
    "llava_next": "llama",
    "mistral3": "mistral",
    "paligemma": "gemma",
    "qwen2_5_vl": "qwen2",
    "qwen2_vl": "qwen2",
    "qwen3_5": "qwen3_5_text",
    "qwen3_5_moe": "qwen3_5_moe_text",
    "qwen3_vl": "qwen3_vl_text",
    "qwen3_vl_moe": "qwen3_vl_moe_text",
}
"""Types with a vision tower, and the type of the language model where the file does not say."""

_STATE_SPACE = "layers of state-space models (Mamba) are not modelled"
_HYBRID = "attention combined with state-space layers (Mamba) is not modelled"
_RECURRENT = "recurrent layers are not modelled"
NOT_MODELLED: Mapping[str, str] = {
    "bamba": _HYBRID,
    "chatglm": "its file has its own names of sizes; use the config.json of this model as type glm",
    "clip": "it is no language model",
    "dbrx": "its file names sizes in a way of its own",
    "deepseek_v4": "attention to compressed contexts and hyper-connections are not modelled",
    "falcon_h1": _HYBRID,
    "falcon_mamba": _STATE_SPACE,
    "gemma3n": "embeddings of each layer and layers that share caches are not modelled",
    "gemma4": "layers that share caches or have other head sizes are not modelled",
    "gpt_neo": "its file names windows in a way of its own",
    "granitemoehybrid": _HYBRID,
    "jamba": _HYBRID,
    "kimi_linear": "linear attention combined with latent attention is not modelled",
    "lfm2": "convolutions in place of attention are not modelled",
    "lfm2_moe": "convolutions in place of attention are not modelled",
    "longcat_flash": "experts that do nothing are not modelled",
    "mamba": _STATE_SPACE,
    "mamba2": _STATE_SPACE,
    "mimo_v2_flash": "windows with other numbers of heads than full attention are not modelled",
    "mllama": "cross-attention of the language model to images is not modelled",
    "mpt": "its file names sizes in a way of its own",
    "nemotron_h": _HYBRID,
    "olmo_hybrid": _RECURRENT,
    "plamo2": _HYBRID,
    "qwen2_audio": "audio is not modelled",
    "qwen2_5_omni": "audio is not modelled",
    "qwen3_omni_moe": "audio is not modelled",
    "recurrent_gemma": _RECURRENT,
    "rwkv": _RECURRENT,
    "whisper": "audio is not modelled",
    "xlstm": _RECURRENT,
    "zamba": _HYBRID,
    "zamba2": _HYBRID,
}
"""Types that are known and refused, and why."""


def language_type(fields: Fields, assume: str | None) -> str:
    """The model type of the language model in a configuration.

    Args:
        fields: The root of the configuration.
        assume: A known type that overrides the type in the file.

    Raises:
        ConfigError: The type is missing, not modelled or not known.
    """
    if assume is not None:
        return assume
    outer = fields.text("model_type")
    if outer in NOT_MODELLED:
        fields.fail("model_type", f"{outer!r} cannot be simulated: {NOT_MODELLED[outer]}")
    known = {*FAMILIES, *MULTIMODAL}
    if outer not in known:
        hint = "to simulate it as a Llama-like decoder, write assume: llama next to huggingface"
        fields.fail("model_type", f"unknown model_type {outer!r}{did_you_mean(outer, known)}; {hint}")
    return outer

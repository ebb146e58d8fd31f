"""The transformers that simsys ships, as numbers; sizes are facts from the files and papers named in `source`."""

from __future__ import annotations

from dataclasses import replace

from simsys.model.transformer_architecture import TransformerArchitecture, gpt_architecture


def _gpt2(name: str, layers: int, hidden: int, heads: int) -> TransformerArchitecture:
    source = "Radford et al. 2019, Table 2; config.json of openai-community/gpt2 and its larger siblings"
    return gpt_architecture(name, num_layers=layers, hidden_size=hidden, num_attention_heads=heads, source=source)


def _gpt3(name: str, layers: int, hidden: int, heads: int) -> TransformerArchitecture:
    return gpt_architecture(
        name,
        num_layers=layers,
        hidden_size=hidden,
        num_attention_heads=heads,
        max_context_tokens=2048,
        source="Brown et al. 2020, Table 2.1",
    )


def _megatron(name: str, layers: int, hidden: int, heads: int) -> TransformerArchitecture:
    return gpt_architecture(
        name,
        num_layers=layers,
        hidden_size=hidden,
        num_attention_heads=heads,
        vocab_size=51200,
        max_context_tokens=2048,
        source="Korthikanti et al. 2022 (arXiv 2205.05198), Table 3",
    )


def _bert(name: str, layers: int, hidden: int, heads: int) -> TransformerArchitecture:
    return TransformerArchitecture(
        name=name,
        num_layers=layers,
        hidden_size=hidden,
        num_attention_heads=heads,
        num_key_value_heads=heads,
        head_size=hidden // heads,
        intermediate_size=4 * hidden,
        gated_mlp=False,
        vocab_size=30522,
        tied_embeddings=True,
        max_context_tokens=512,
        learned_positions=True,
        biases=True,
        dropout=True,
        causal=False,
        post_norm=True,
        token_types=2,
        source="Devlin et al. 2018, §3; config.json of google-bert/bert-base-uncased and bert-large-uncased",
    )


def _t5(
    name: str, repository: str, layers: int, hidden: int, heads: int, head_size: int, mlp: int
) -> TransformerArchitecture:
    """An encoder-decoder of the first T5 release: RMSNorm, no biases, one table for both embeddings and the head.

    Raffel et al. trained with 512 tokens (§3.1.2); 128 on the decoder's side are those of Megatron-LM's example.
    """
    return TransformerArchitecture(
        name=name,
        num_layers=layers,
        hidden_size=hidden,
        num_attention_heads=heads,
        num_key_value_heads=heads,
        head_size=head_size,
        intermediate_size=mlp,
        gated_mlp=False,
        vocab_size=32128,
        tied_embeddings=True,
        max_context_tokens=512,
        decoder_layers=layers,
        decoder_sequence_length=128,
        dropout=True,
        causal=False,
        source=f"Raffel et al. 2020, §3.7; config.json of {repository}",
    )


_BART_LARGE = TransformerArchitecture(
    name="BART-Large",
    num_layers=12,
    hidden_size=1024,
    num_attention_heads=16,
    num_key_value_heads=16,
    head_size=64,
    intermediate_size=4096,
    gated_mlp=False,
    vocab_size=50265,
    tied_embeddings=True,
    max_context_tokens=1024,
    decoder_layers=12,
    learned_positions=True,
    biases=True,
    dropout=True,
    causal=False,
    post_norm=True,
    source="Lewis et al. 2019, §2.1; config.json of facebook/bart-large",
)


def _llama(
    name: str,
    repository: str,
    layers: int,
    hidden: int,
    heads: int,
    kv_heads: int,
    mlp: int,
    vocabulary: int,
    context: int,
    **flags: bool,
) -> TransformerArchitecture:
    """A decoder in the style of Llama: RMSNorm, gated MLP, no biases, untied head, heads of 128."""
    return TransformerArchitecture(
        name=name,
        num_layers=layers,
        hidden_size=hidden,
        num_attention_heads=heads,
        num_key_value_heads=kv_heads,
        head_size=128,
        intermediate_size=mlp,
        gated_mlp=True,
        vocab_size=vocabulary,
        tied_embeddings=False,
        max_context_tokens=context,
        source=f"config.json of {repository}",
        **flags,
    )


def _moe(architecture: TransformerArchitecture, *, experts: int, per_token: int) -> TransformerArchitecture:
    """The same with each MLP replaced by a mixture of experts of that width."""
    return replace(
        architecture,
        experts=experts,
        experts_per_token=per_token,
        expert_intermediate_size=architecture.intermediate_size,
    )


_DEEPSEEK_V3 = TransformerArchitecture(
    name="DeepSeek-V3",
    num_layers=61,
    hidden_size=7168,
    num_attention_heads=128,
    num_key_value_heads=128,
    head_size=192,
    intermediate_size=18432,
    gated_mlp=True,
    vocab_size=129280,
    tied_embeddings=False,
    max_context_tokens=163840,
    experts=256,
    experts_per_token=8,
    expert_intermediate_size=2048,
    shared_experts=1,
    dense_layers_first=3,
    q_lora_rank=1536,
    kv_lora_rank=512,
    qk_nope_head_size=128,
    qk_rope_head_size=64,
    v_head_size=128,
    source="config.json of deepseek-ai/DeepSeek-V3 (without its multi-token-prediction layer)",
)

# name, repository, layers, hidden, heads, key-value heads, MLP width, vocabulary, context
_DENSE = (
    _llama("Llama-2-7B", "meta-llama/Llama-2-7b-hf", 32, 4096, 32, 32, 11008, 32000, 4096),
    _llama("Llama-2-13B", "meta-llama/Llama-2-13b-hf", 40, 5120, 40, 40, 13824, 32000, 4096),
    _llama("Llama-2-70B", "meta-llama/Llama-2-70b-hf", 80, 8192, 64, 8, 28672, 32000, 4096),
    _llama("Llama3-8B", "meta-llama/Meta-Llama-3-8B", 32, 4096, 32, 8, 14336, 128256, 8192),
    _llama("Llama3-70B", "meta-llama/Meta-Llama-3-70B", 80, 8192, 64, 8, 28672, 128256, 8192),
    _llama("Llama-3.1-8B", "meta-llama/Llama-3.1-8B", 32, 4096, 32, 8, 14336, 128256, 131072),
    _llama("Llama-3.1-70B", "meta-llama/Llama-3.1-70B", 80, 8192, 64, 8, 28672, 128256, 131072),
    _llama("Llama-3.1-405B", "meta-llama/Llama-3.1-405B", 126, 16384, 128, 8, 53248, 128256, 131072),
    _llama(
        "Mistral-7B",
        "mistralai/Mistral-7B-v0.2 (v0.1 has windows of 4096 tokens)",
        32,
        4096,
        32,
        8,
        14336,
        32000,
        32768,
    ),
    _llama("LLaMA-7B", "huggyllama/llama-7b", 32, 4096, 32, 32, 11008, 32000, 2048),
    _llama("Aquila-7B", "BAAI/Aquila-7B", 32, 4096, 32, 32, 11008, 100008, 2048),
    _llama("Qwen1.5-7B", "Qwen/Qwen1.5-7B", 32, 4096, 32, 32, 11008, 151936, 32768, qkv_biases=True),
    _llama("Qwen2-7B", "Qwen/Qwen2-7B", 28, 3584, 28, 4, 18944, 152064, 131072, qkv_biases=True),
    _llama("Qwen2-72B", "Qwen/Qwen2-72B", 80, 8192, 64, 8, 29568, 152064, 131072, qkv_biases=True),
    _llama("Qwen2.5-7B", "Qwen/Qwen2.5-7B", 28, 3584, 28, 4, 18944, 152064, 131072, qkv_biases=True),
    _llama("Qwen3-8B", "Qwen/Qwen3-8B", 36, 4096, 32, 8, 12288, 151936, 40960, qk_norms=True),
    _llama("Qwen3-32B", "Qwen/Qwen3-32B", 64, 5120, 64, 8, 25600, 151936, 40960, qk_norms=True),
)

_KIMI_K2 = replace(
    _DEEPSEEK_V3,
    name="Kimi-K2",
    num_attention_heads=64,
    num_key_value_heads=64,
    vocab_size=163840,
    max_context_tokens=131072,
    experts=384,
    dense_layers_first=1,
    source="config.json of moonshotai/Kimi-K2-Instruct",
)

_GLM_5 = replace(
    _DEEPSEEK_V3,
    name="GLM-5",
    num_layers=78,
    hidden_size=6144,
    num_attention_heads=64,
    num_key_value_heads=64,
    head_size=256,
    intermediate_size=12288,
    vocab_size=154880,
    max_context_tokens=202752,
    q_lora_rank=2048,
    qk_nope_head_size=192,
    v_head_size=256,
    source="config.json of zai-org/GLM-5 (as if attention were dense, without its multi-token-prediction layer)",
)

_GPT_J = TransformerArchitecture(
    name="GPT-J-6B",
    num_layers=28,
    hidden_size=4096,
    num_attention_heads=16,
    num_key_value_heads=16,
    head_size=256,
    intermediate_size=16384,
    gated_mlp=False,
    vocab_size=50400,
    tied_embeddings=False,
    max_context_tokens=2048,
    source="config.json of EleutherAI/gpt-j-6b",
)

_OPT_6_7B = gpt_architecture(
    "OPT-6.7B",
    num_layers=32,
    hidden_size=4096,
    num_attention_heads=32,
    vocab_size=50272,
    max_context_tokens=2048,
    source="Zhang et al. 2022, Table 1; config.json of facebook/opt-6.7b",
)

_FALCON_180B = TransformerArchitecture(
    name="Falcon-180B",
    num_layers=80,
    hidden_size=14848,
    num_attention_heads=232,
    num_key_value_heads=8,
    head_size=64,
    intermediate_size=59392,
    gated_mlp=False,
    vocab_size=65024,
    tied_embeddings=False,
    max_context_tokens=2048,
    source="config.json of tiiuae/falcon-180B",
)


def _bloom(name: str, repository: str, layers: int, hidden: int, heads: int) -> TransformerArchitecture:
    """A decoder with ALiBi in place of a table of positions, a norm after the embedding left out."""
    return replace(
        gpt_architecture(name, num_layers=layers, hidden_size=hidden, num_attention_heads=heads, vocab_size=250880),
        max_context_tokens=2048,
        learned_positions=False,
        dropout=False,
        source=f"BigScience 2022, Table 3; config.json of {repository}",
    )


def _gpt_oss(name: str, repository: str, layers: int, experts: int) -> TransformerArchitecture:
    """Every second layer attends to 128 tokens; four experts a token."""
    return TransformerArchitecture(
        name=name,
        num_layers=layers,
        hidden_size=2880,
        num_attention_heads=64,
        num_key_value_heads=8,
        head_size=64,
        intermediate_size=2880,
        gated_mlp=True,
        vocab_size=201088,
        tied_embeddings=False,
        max_context_tokens=131072,
        qkv_biases=True,
        experts=experts,
        experts_per_token=4,
        expert_intermediate_size=2880,
        window_layers=layers // 2,
        sliding_window=128,
        source=f"config.json of {repository}",
    )


_QWEN3_5_397B = TransformerArchitecture(
    name="Qwen3.5-397B-A17B",
    num_layers=60,
    hidden_size=4096,
    num_attention_heads=32,
    num_key_value_heads=2,
    head_size=256,
    intermediate_size=1024,
    gated_mlp=True,
    vocab_size=248320,
    tied_embeddings=False,
    max_context_tokens=262144,
    qk_norms=True,
    gated_attention=True,
    experts=512,
    experts_per_token=10,
    expert_intermediate_size=1024,
    shared_experts=1,
    linear_layers=45,
    linear_key_heads=16,
    linear_value_heads=64,
    linear_head_size=128,
    source="model card and config.json of Qwen/Qwen3.5-397B-A17B (language model alone)",
)

_MIXTRAL_8X7B = _llama("Mixtral-8x7B", "mistralai/Mixtral-8x7B-v0.1", 32, 4096, 32, 8, 14336, 32000, 32768)
_MIXTRAL_8X22B = _llama("Mixtral-8x22B", "mistralai/Mixtral-8x22B-v0.1", 56, 6144, 48, 8, 16384, 32000, 65536)
_QWEN3_30B = _llama("Qwen3-30B-A3B", "Qwen/Qwen3-30B-A3B", 48, 2048, 32, 4, 768, 151936, 40960, qk_norms=True)
_MINIMAX_M2 = _llama("MiniMax-M2", "MiniMaxAI/MiniMax-M2", 62, 3072, 48, 8, 1536, 200064, 196608, qk_norms=True)
_QWEN3_235B = _llama("Qwen3-235B-A22B", "Qwen/Qwen3-235B-A22B", 94, 4096, 64, 4, 1536, 151936, 40960, qk_norms=True)

ARCHITECTURES: tuple[TransformerArchitecture, ...] = (
    _gpt2("GPT2-Small", 12, 768, 12),
    _gpt2("GPT2-Medium", 24, 1024, 16),
    _gpt2("GPT2-Large", 36, 1280, 20),
    _gpt2("GPT2-XL", 48, 1600, 25),
    _bert("BERT-Base", 12, 768, 12),
    _bert("BERT-Large", 24, 1024, 16),
    _t5("T5-Large", "google-t5/t5-large", 24, 1024, 16, 64, 4096),
    _t5("T5-11B", "google-t5/t5-11b", 24, 1024, 128, 128, 65536),
    _BART_LARGE,
    _gpt3("GPT-3-175B", 96, 12288, 96),
    _megatron("Megatron-22B", 48, 6144, 64),
    _megatron("Megatron-175B", 96, 12288, 96),
    _megatron("Megatron-530B", 105, 20480, 128),
    _megatron("Megatron-1T", 128, 25600, 160),
    *_DENSE,
    _moe(_MIXTRAL_8X7B, experts=8, per_token=2),
    _moe(_MIXTRAL_8X22B, experts=8, per_token=2),
    _moe(_QWEN3_30B, experts=128, per_token=8),
    _moe(_QWEN3_235B, experts=128, per_token=8),
    _DEEPSEEK_V3,
    _KIMI_K2,
    _GLM_5,
    _moe(_MINIMAX_M2, experts=256, per_token=8),
    _gpt_oss("gpt-oss-20b", "openai/gpt-oss-20b", 24, 32),
    _gpt_oss("gpt-oss-120b", "openai/gpt-oss-120b", 36, 128),
    _QWEN3_5_397B,
    _GPT_J,
    _OPT_6_7B,
    _FALCON_180B,
    _bloom("BLOOM-7B1", "bigscience/bloom-7b1", 30, 4096, 32),
    _bloom("BLOOM-176B", "bigscience/bloom", 70, 14336, 112),
)

"""Transformers, dense and with mixture of experts: an architecture's numbers turned into operators.

FLOP, parameters and elements are those of Korthikanti et al. 2022 ("Reducing Activation Recomputation in Large
Transformer Models", arXiv 2205.05198), generalised to grouped-query attention, gated MLPs, mixtures of experts and
multi-head latent attention (DeepSeek-AI 2024, arXiv 2405.04434). Rotary embeddings are taken as fused.
"""

from __future__ import annotations

from dataclasses import replace

from simsys.model.transformer_architecture import TransformerArchitecture, gpt_architecture
from simsys.model.work import Block, Model, Operator, OperatorKind, Split

__all__ = ["TransformerArchitecture", "build_transformer", "gpt_architecture"]

# Longest default training sequence: models with a longer context were pre-trained at up to 8,192 tokens and extended
# afterwards (Llama 3: Grattafiori et al. 2024, §3.4).
LONGEST_DEFAULT_SEQUENCE = 8192


def build_transformer(architecture: TransformerArchitecture) -> Model:
    """Return the model: ``embedding``, the layers (equal ones are one object), ``head``.

    A model with `dense_layers_first` has two kinds of layer, ``dense_layer`` and ``moe_layer``; any other has
    ``layer``. The head of an encoder is the pooler and the masked-language-model decoder, tied to the embedding; the
    pooler's weights count but not its FLOP (it works on one token a sequence).
    """
    a = architecture
    dense = a.dense_layers_first if a.experts > 1 else a.num_layers
    mixed = 0 < dense < a.num_layers
    layers: list[Block] = []
    if dense:
        layers += [_layer(a, "dense_layer" if mixed else "layer", moe=False)] * dense
    if dense < a.num_layers:
        layers += [_layer(a, "moe_layer" if mixed else "layer", moe=True)] * (a.num_layers - dense)
    return Model(
        name=a.name,
        family="decoder" if a.causal else "encoder",
        blocks=(_embedding(a), *layers, _head(a)),
        hidden_size=a.hidden_size,
        num_layers=a.num_layers,
        num_attention_heads=a.num_attention_heads,
        # The latent keys and values are one "head" that every tensor-parallel rank needs whole.
        num_key_value_heads=1 if a.latent else a.num_key_value_heads,
        vocab_size=a.vocab_size,
        max_context_tokens=a.max_context_tokens,
        kv_elements_per_token=float(a.kv_elements_per_layer * a.num_layers if a.causal else 0),
        sequence_length=min(a.max_context_tokens, LONGEST_DEFAULT_SEQUENCE),
        tied_parameters=float(a.vocab_size * a.hidden_size if a.tied_embeddings else 0),
        source=a.source,
    )


def _gemm(
    name: str, inner: int, columns: int, split: Split, *, bias: bool = False, per_logit: bool = False
) -> Operator:
    """A product (tokens × inner)·(inner × columns): 2·inner·columns FLOP a token."""
    return Operator(
        name,
        OperatorKind.GEMM,
        split,
        parameters=float(inner * columns + (columns if bias else 0)),
        columns=columns,
        inner=inner,
        flop_per_token=2.0 * inner * columns,
        elements_per_token=float(inner + columns),
        per_logit=per_logit,
    )


def _routed(a: TransformerArchitecture, name: str, inner: int, columns: int, split: Split) -> Operator:
    """The same for routed experts: each token makes `experts_per_token` rows."""
    k = a.experts_per_token
    return Operator(
        name,
        OperatorKind.GEMM,
        split,
        parameters=float(a.experts * inner * columns),
        rows_per_token=float(k),
        columns=columns,
        inner=inner,
        flop_per_token=2.0 * inner * columns * k,
        elements_per_token=float((inner + columns) * k),
        experts=a.experts,
        experts_per_token=k,
    )


def _memory(
    name: str, elements: float, split: Split = Split.REPLICATED, *, parameters: int = 0, per_logit: bool = False
) -> Operator:
    """An operator bound by bandwidth that moves `elements` a token."""
    kind = OperatorKind.MEMORY
    return Operator(name, kind, split, float(parameters), elements_per_token=float(elements), per_logit=per_logit)


def _norm(a: TransformerArchitecture, name: str, *, per_logit: bool = False) -> Operator:
    """A norm with the residual addition fused: reads input and residual, writes their sum and its norm."""
    h = a.hidden_size
    return _memory(name, 4 * h, parameters=2 * h if a.biases else h, per_logit=per_logit)


def _embedding(a: TransformerArchitecture) -> Block:
    h = a.hidden_size
    rows = a.vocab_size + a.token_types + (a.max_context_tokens if a.learned_positions else 0)
    tables = 1 + a.learned_positions + (a.token_types > 0)
    lookup = Operator(
        "embedding",
        OperatorKind.MEMORY,
        Split.VOCABULARY,
        parameters=float(rows * h),
        elements_per_token=float((tables + 1) * h),  # one row of each table read, their sum written
        lookup=True,
    )
    operators = (lookup,) if a.causal else (lookup, _norm(a, "embedding_norm"))
    kept = (0 if a.causal else h) + h / 2 * a.dropout  # the norm's input and a mask of one byte
    return Block("embedding", operators, float(h), kept, kept)


def _head(a: TransformerArchitecture) -> Block:
    """Final norm and projection; keeps the input of each, and the logits in 32 bit (Korthikanti et al., §4.3)."""
    h = a.hidden_size
    lm_head = _gemm("lm_head", h, a.vocab_size, Split.VOCABULARY, per_logit=True)
    if a.causal:
        first = _norm(a, "final_norm", per_logit=True)
    else:
        first = _memory("pooler", 0, parameters=h * h + h, per_logit=True)
    inputs = 2.0 * h if a.causal else float(h)
    return Block("head", (first, lm_head), float(a.vocab_size), inputs + 2.0 * a.vocab_size, inputs)


def _layer(a: TransformerArchitecture, name: str, *, moe: bool) -> Block:
    mlp = _moe_operators(a) if moe else _mlp_operators(a, "", a.intermediate_size)
    split, replicated, routed = _activation_elements(a, moe=moe)
    return Block(
        name,
        (_norm(a, "attention_norm"), *_attention_operators(a), _norm(a, "mlp_norm"), *mlp),
        output_elements_per_token=float(a.hidden_size),
        activation_elements_per_token=split + replicated,
        routed_activation_elements_per_token=routed,
        replicated_activation_elements_per_token=replicated,
        # Softmax output; with dropout also its mask (1 byte) and output: 5 bytes a head (Korthikanti et al., §4.1).
        score_elements_per_pair=(2.5 if a.dropout else 1.0) * a.num_attention_heads,
    )


def _attention_operators(a: TransformerArchitecture) -> tuple[Operator, ...]:
    if a.latent:
        return _latent_attention_operators(a)
    q, kv = a.num_attention_heads * a.head_size, a.num_key_value_heads * a.head_size
    operators = [_gemm("qkv", a.hidden_size, q + 2 * kv, Split.COLUMN, bias=a.biases or a.qkv_biases)]
    if a.qk_norms:
        operators.append(_memory("qk_norm", 2 * (q + kv), Split.HEADS, parameters=2 * a.head_size))
    operators += _attention_kernels(a, 4.0 * q, 4.0 * q, 2 * q + 2 * kv, 2 * kv)
    operators.append(_gemm("attention_output", q, a.hidden_size, Split.ROW, bias=a.biases))
    return tuple(operators)


def _latent_attention_operators(a: TransformerArchitecture) -> tuple[Operator, ...]:
    """Multi-head latent attention.

    A prompt uses the keys and values of every head; decoding works on the latent vectors, with the up-projection of
    keys and values applied to query and output instead (the same FLOP a token).
    """
    heads, latent, rope = a.num_attention_heads, a.kv_lora_rank, a.qk_rope_head_size
    key, value = a.qk_nope_head_size + rope, a.v_head_size
    per_pair = 2.0 * heads * (key + value)
    per_cached = 2.0 * heads * (2 * latent + rope)
    return (
        _gemm("qkv_down", a.hidden_size, a.q_lora_rank + latent + rope, Split.REPLICATED),
        _memory("latent_norm", 2 * (a.q_lora_rank + latent), parameters=a.q_lora_rank + latent),
        _gemm("q_up", a.q_lora_rank or a.hidden_size, heads * key, Split.COLUMN),
        _gemm("kv_up", latent, heads * (a.qk_nope_head_size + value), Split.COLUMN),
        *_attention_kernels(a, per_pair, per_cached, heads * (2 * key + 2 * value), heads * (key + value)),
        _gemm("attention_output", heads * value, a.hidden_size, Split.ROW),
    )


def _attention_kernels(
    a: TransformerArchitecture, flop_per_pair: float, flop_per_cached_token: float, elements: float, kv_elements: float
) -> list[Operator]:
    """Prompt attention (and its reading and writing for all tokens) and decode attention over the cache."""
    cached = float(a.kv_elements_per_layer)
    prompt = Operator(
        "attention",
        OperatorKind.ATTENTION,
        Split.HEADS,
        elements_per_token=float(elements),
        flop_per_pair=flop_per_pair,
        # Scores, their softmax and, with dropout, its output and mask (1 byte) are each written once and read once.
        elements_per_pair=(7.0 if a.dropout else 4.0) * a.num_attention_heads,
        elements_per_context_token=cached if a.causal else 0.0,
        kv_elements_per_token=float(kv_elements),
    )
    decode = Operator(
        "decode_attention",
        OperatorKind.DECODE_ATTENTION,
        Split.HEADS,
        flop_per_pair=flop_per_cached_token,
        elements_per_context_token=cached,
    )
    return [prompt, decode] if a.causal else [prompt]


def _mlp_operators(a: TransformerArchitecture, prefix: str, width: int) -> tuple[Operator, ...]:
    h, wide = a.hidden_size, 2 * width if a.gated_mlp else width
    return (
        _gemm(f"{prefix}{'gate_up' if a.gated_mlp else 'up'}", h, wide, Split.COLUMN, bias=a.biases),
        _memory(f"{prefix}activation", wide + width, Split.COLUMN),
        _gemm(f"{prefix}down", width, h, Split.ROW, bias=a.biases),
    )


def _moe_operators(a: TransformerArchitecture) -> tuple[Operator, ...]:
    h, width, k = a.hidden_size, a.expert_intermediate_size, a.experts_per_token
    wide = 2 * width if a.gated_mlp else width
    shared = _mlp_operators(a, "shared_", a.shared_experts * width) if a.shared_experts else ()
    activation = _memory("experts_activation", (wide + width) * k, Split.COLUMN)
    return (
        _gemm("router", h, a.experts, Split.REPLICATED),
        *shared,
        _routed(a, f"experts_{'gate_up' if a.gated_mlp else 'up'}", h, wide, Split.COLUMN),
        replace(activation, experts=a.experts, experts_per_token=k),
        _routed(a, "experts_down", width, h, Split.ROW),
    )


def _activation_elements(a: TransformerArchitecture, *, moe: bool) -> tuple[float, float, float]:
    """Elements of 2 bytes that a layer keeps for its backward pass.

    Returns:
        What tensor parallelism divides, what it leaves whole, and what of both belongs to routed experts.

    Korthikanti et al. 2022, §4.1, counted tensor by tensor. Replicated: the inputs of two norms, of the QKV and of
    the MLP projection, and two dropout masks of one byte: 10 bytes × hidden for GPT. Divided: queries, keys, values,
    the input of the output projection, and what the MLP keeps (activation input and output: 2 × width; gated: gate,
    up and their product: 3 × width): 24 bytes × hidden for GPT, 34 in all. Latent attention keeps each latent vector
    before and after its norm. Experts keep, for each of the k copies of a token, input and output, and the router its
    logits. The scores (5·a·s² bytes) stand in `score_elements_per_pair`.
    """
    h, heads = a.hidden_size, a.num_attention_heads
    replicated = 4.0 * h + (h if a.dropout else 0.0)
    if a.latent:
        key, value = a.qk_nope_head_size + a.qk_rope_head_size, a.v_head_size
        replicated += 2 * (a.q_lora_rank + a.kv_lora_rank) + a.qk_rope_head_size
        divided = float(heads * (2 * key + 2 * value))
    else:
        divided = 2.0 * (heads + a.num_key_value_heads) * a.head_size
    kept_per_width = 3 if a.gated_mlp else 2
    if not moe:
        return divided + kept_per_width * a.intermediate_size, replicated, 0.0
    k = a.experts_per_token
    replicated += 2 * k * h + a.experts
    in_experts = kept_per_width * k * a.expert_intermediate_size
    shared = kept_per_width * a.shared_experts * a.expert_intermediate_size
    return divided + in_experts + shared, replicated, in_experts + 2.0 * k * h

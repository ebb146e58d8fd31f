"""Transformers, dense and with mixtures of experts: from the numbers of an architecture to operators.

FLOP, parameters and elements are those of Korthikanti et al. 2022 ("Reducing Activation Recomputation in Large
Transformer Models", arXiv 2205.05198), generalised to grouped-query attention, gated MLPs, mixtures of experts and
multi-head latent attention (DeepSeek-AI 2024, arXiv 2405.04434). Rotary embeddings are assumed fused.
"""

from __future__ import annotations

from dataclasses import replace

from simsys.model.encoder_decoder import with_decoder
from simsys.model.feed_forward import feed_forward_elements, mlp_operators, moe_operators
from simsys.model.hybrid import hybrid_layers
from simsys.model.mixed_attention import indexer, linear_attention, projections
from simsys.model.model import Block, Model
from simsys.model.operators import Operator, OperatorKind, Split
from simsys.model.transformer_architecture import TransformerArchitecture, gpt_architecture
from simsys.model.transformer_operators import gemm, memory, norm, score_elements

__all__ = ["TransformerArchitecture", "build_transformer", "gpt_architecture"]

# Longest default training sequence: models with a longer context were pre-trained at up to 8,192 tokens and extended
# afterwards (Llama 3: Grattafiori et al. 2024, §3.4).
LONGEST_DEFAULT_SEQUENCE = 8192

# Of the pieces of latent attention. Fitted, as `simsys.model.feed_forward.ROUTED_LAUNCHES`.
LATENT_LAUNCHES = 12


def build_transformer(architecture: TransformerArchitecture) -> Model:
    """Return the model: ``embedding``, the layers (equal ones are one object), ``head``.

    A model with `dense_layers_first` has two kinds of layer, ``dense_layer`` and ``moe_layer``; one with windows or
    linear attention has ``window_layer`` or ``linear_layer`` before ``layer``, stored together, as the time of a pass
    is independent of the order; one with Mamba has those of `simsys.model.hybrid`; any other has ``layer``. The head
    of an encoder is the pooler and the masked-language-model decoder, tied to the embedding; the pooler's weights
    count but not its FLOP (it works on one token a sequence). An encoder-decoder has ``decoder_layer`` after the
    encoder's layers.
    """
    a = architecture
    dense = a.dense_layers if a.experts > 1 else a.num_layers
    default_length = min(a.max_context_tokens, LONGEST_DEFAULT_SEQUENCE)
    layers = hybrid_layers(a, _attention_operators(a)) if a.mamba_layers else _layers(a, dense)
    blocks = (_embedding(a), *layers, _head(a))
    return Model(
        name=a.name,
        family="encoder_decoder" if a.decoder_layers else "decoder" if a.causal else "encoder",
        blocks=with_decoder(a, blocks) if a.decoder_layers else blocks,
        hidden_size=a.hidden_size,
        num_layers=a.num_layers + a.decoder_layers,
        num_attention_heads=a.num_attention_heads,
        # The latent keys and values are one "head" that every tensor-parallel rank needs whole.
        num_key_value_heads=1 if a.latent else a.num_key_value_heads,
        vocab_size=a.vocab_size,
        max_context_tokens=a.max_context_tokens,
        kv_elements_per_token=float(a.kv_elements_per_layer * a.full_attention_layers if a.causal else 0),
        sequence_length=default_length,
        decoder_sequence_length=(a.decoder_sequence_length or default_length) if a.decoder_layers else 0,
        tied_parameters=float(a.vocab_size * a.hidden_size if a.tied_embeddings else 0),
        source=a.source,
    )


def _layers(a: TransformerArchitecture, dense: int) -> list[Block]:
    """Return the layers, `dense` of them without experts; equal layers are consecutive.

    The order of layers does not change a pass; layers with windows or linear attention and a dense MLP come first.
    """
    others = a.window_layers + a.linear_layers
    kinds = [
        ("window_", a.window_layers, _attention_operators(a, window=a.sliding_window)),
        ("linear_", a.linear_layers, linear_attention(a) if a.linear_layers else ()),
        ("", a.num_layers - others, _attention_operators(a)),
    ]
    mixed = 0 < dense < a.num_layers
    spread = others > 0 or a.dense_layers_between > 0
    layers: list[Block] = []
    for name, count, attention in kinds:
        without = min(dense, count)
        dense -= without
        plain, routed = (
            (f"dense_{name}layer", name + "layer" if name else "moe_layer") if mixed else (name + "layer",) * 2
        )
        layers += [_layer(a, plain, attention, moe=False, spread=spread)] * without
        layers += [_layer(a, routed, attention, moe=True, spread=spread)] * (count - without)
    return layers


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
    operators = (lookup, norm(a, "embedding_norm")) if a.post_norm else (lookup,)
    kept = h * a.post_norm + h / 2 * a.dropout  # the norm's input and a mask of one byte
    return Block("embedding", operators, float(h), kept, kept)


def _head(a: TransformerArchitecture) -> Block:
    """Final norm, if any, and projection; keeps the input of each, and logits in 32 bit (Korthikanti et al., §4.3)."""
    h = a.hidden_size
    lm_head = gemm("lm_head", h, a.vocab_size, Split.VOCABULARY, per_logit=True)
    inputs = float(h) if a.post_norm else 2.0 * h
    operators = [lm_head]
    if not a.post_norm:
        operators.insert(0, norm(a, "final_norm", per_logit=True))
    if not a.causal and not a.decoder_layers:
        operators.insert(0, memory("pooler", 0, parameters=h * h + h, per_logit=True))
    return Block("head", tuple(operators), float(a.vocab_size), inputs + 2.0 * a.vocab_size, inputs)


def _layer(
    a: TransformerArchitecture, name: str, attention: tuple[Operator, ...], *, moe: bool, spread: bool
) -> Block:
    mlp = moe_operators(a) if moe else mlp_operators(a, "", a.intermediate_size)
    if a.sandwich_norms:
        attention = (*attention, memory("attention_output_norm", 2 * a.hidden_size, parameters=a.hidden_size))
        mlp = (*mlp, memory("mlp_output_norm", 2 * a.hidden_size, parameters=a.hidden_size))
    split, replicated, routed = _activation_elements(a, moe=moe)
    return Block(
        name,
        (norm(a, "attention_norm"), *attention, norm(a, "mlp_norm"), *mlp),
        spread=spread,
        output_elements_per_token=float(a.hidden_size),
        activation_elements_per_token=split + replicated,
        routed_activation_elements_per_token=routed,
        replicated_activation_elements_per_token=replicated,
    )


def _attention_operators(a: TransformerArchitecture, window: int = 0) -> tuple[Operator, ...]:
    """Attention to everything before, or to the last `window` tokens (Beltagy et al. 2020, §3.1)."""
    if a.latent:
        return _latent_attention_operators(a)
    q, kv = a.num_attention_heads * a.head_size, a.num_key_value_heads * a.head_size
    operators = projections(a)
    kernels = _attention_kernels(a, 4.0 * q, 4.0 * q, 2 * q + 2 * kv, 2 * kv)
    operators += [replace(kernel, window=window) for kernel in kernels] if window else kernels
    operators.append(gemm("attention_output", q, a.hidden_size, Split.ROW, bias=a.biases))
    return tuple(operators)


def _latent_attention_operators(a: TransformerArchitecture) -> tuple[Operator, ...]:
    """Multi-head latent attention.

    A prompt uses the keys and values of every head; decoding works on the latent vectors, with the up-projection of
    keys and values applied to query and output instead (the same FLOP a token). Sparse attention also does so for
    prompts.
    """
    heads, latent, rope = a.num_attention_heads, a.kv_lora_rank, a.qk_rope_head_size
    key, value = a.qk_nope_head_size + rope, a.v_head_size
    per_cached = 2.0 * heads * (2 * latent + rope)
    per_pair = per_cached if a.index_tokens else 2.0 * heads * (key + value)
    kernels = _attention_kernels(a, per_pair, per_cached, heads * (2 * key + 2 * value), heads * (key + value))
    if a.index_tokens:
        kernels = [*indexer(a), *(replace(kernel, window=a.index_tokens, chosen=True) for kernel in kernels)]
    return (
        gemm("qkv_down", a.hidden_size, a.q_lora_rank + latent + rope, Split.REPLICATED),
        memory("latent_norm", 2 * (a.q_lora_rank + latent), parameters=a.q_lora_rank + latent),
        replace(gemm("q_up", a.q_lora_rank or a.hidden_size, heads * key, Split.COLUMN), launches=LATENT_LAUNCHES),
        replace(gemm("kv_up", latent, heads * (a.qk_nope_head_size + value), Split.COLUMN), launches=LATENT_LAUNCHES),
        *kernels,
        gemm("attention_output", heads * value, a.hidden_size, Split.ROW),
    )


def _attention_kernels(
    a: TransformerArchitecture, flop_per_pair: float, flop_per_cached_token: float, elements: float, kv_elements: float
) -> list[Operator]:
    """Prompt attention (and its reading and writing for all tokens) and decode attention over the cache."""
    cached = float(a.attended_elements_per_layer)
    moved, kept = score_elements(a)
    prompt = Operator(
        "attention",
        OperatorKind.ATTENTION,
        Split.HEADS,
        inner=a.head_size,
        elements_per_token=float(elements),
        flop_per_pair=flop_per_pair,
        elements_per_pair=moved,
        kept_elements_per_pair=kept,
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


def _activation_elements(a: TransformerArchitecture, *, moe: bool) -> tuple[float, float, float]:
    """Elements of 2 bytes that a layer keeps for its backward pass.

    Returns: Elements divided by tensor parallelism, replicated elements, and the part of both of routed experts.

    Korthikanti et al. 2022, §4.1, counted tensor by tensor. Replicated: the inputs of two norms, of the QKV and of
    the MLP projection, and two dropout masks of one byte: 10 bytes × hidden for GPT. Divided: queries, keys, values,
    the input of the output projection, and what the MLP keeps (activation input and output: 2 × width; gated: gate,
    up and their product: 3 × width): 24 bytes × hidden for GPT, 34 in all. Latent attention keeps each latent vector
    before and after its norm, and sandwich norms keep their inputs. The scores (5·a·s² bytes) are the attention
    operator's (`score_elements`).
    """
    h, heads = a.hidden_size, a.num_attention_heads
    replicated = (6.0 if a.sandwich_norms else 4.0) * h + (h if a.dropout else 0.0)
    if a.latent:
        key, value = a.qk_nope_head_size + a.qk_rope_head_size, a.v_head_size
        replicated += 2 * (a.q_lora_rank + a.kv_lora_rank) + a.qk_rope_head_size
        divided = float(heads * (2 * key + 2 * value))
    else:
        divided = 2.0 * (heads + a.num_key_value_heads) * a.head_size
    in_mlp, routers, routed = feed_forward_elements(a, moe=moe)
    return divided + in_mlp, replicated + routers, routed

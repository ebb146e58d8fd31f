"""The sizes of a transformer, read from the operators of a model's description."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from simsys.errors import UsageError
from simsys.model.model import Block, Model
from simsys.model.operators import Operator


@dataclass(frozen=True)
class TransformerSizes:
    """The sizes of a transformer; in elements.

    Args:
        num_layers: Layers.
        hidden_size: Width of the residual stream.
        num_attention_heads: Query heads.
        num_key_value_heads: Heads of keys and values.
        head_size: Width of a head.
        intermediate_size: Width of the feed-forward layers.
        vocab_size: Rows of the token embedding.
        positions: Rows of the learned positions; 0 for rotary embeddings.
        token_types: Rows of the token-type embedding; 0 without one.
        gated: Three matrices in the feed-forward layers (SwiGLU) instead of two (GELU).
        biases: Output and feed-forward projections have biases.
        qkv_bias: The projection of queries, keys and values has a bias.
        norm_biases: Layer norms instead of RMS norms.
        qk_norms: Queries and keys are normalised per head.
        sandwich_norms: The outputs of attention and feed-forward layers are normalised, too.
        post_norm: Norms follow the sums.
        causal: A decoder; otherwise an encoder that predicts masked tokens.
        tied: The head uses the token embedding.
        pooler: The head has a pooler.
        dropout: Training uses dropout.
    """

    num_layers: int
    hidden_size: int
    num_attention_heads: int
    num_key_value_heads: int
    head_size: int
    intermediate_size: int
    vocab_size: int
    positions: int
    token_types: int
    gated: bool
    biases: bool
    qkv_bias: bool
    norm_biases: bool
    qk_norms: bool
    sandwich_norms: bool
    post_norm: bool
    causal: bool
    tied: bool
    pooler: bool
    dropout: bool


def transformer_sizes(model: Model) -> TransformerSizes:
    """The sizes of a dense decoder or encoder.

    Raises:
        UsageError: If the lab cannot build the model.
    """
    layers = [block for block in model.kinds_of_blocks if block.name not in ("embedding", "head")]
    if model.family not in ("decoder", "encoder") or [block.name for block in layers] != ["layer"]:
        raise UsageError(
            f"the lab builds dense decoders and encoders with full attention and ResNet-50, not {model.name} "
            f"({model.family} with {', '.join(block.name for block in layers)})"
        )
    operators = _operators(layers[0])
    hidden, heads = model.hidden_size, model.num_attention_heads
    head_size, qkv = operators["attention"].inner, operators["qkv"]
    if qkv.columns != (heads + 2 * model.num_key_value_heads) * head_size:
        raise UsageError(f"the lab cannot build {model.name}: gated or latent attention")
    positions, token_types = _tables(model)
    up = operators.get("gate_up") or operators["up"]
    head = _operators(model.blocks[-1])
    post_norm = "final_norm" not in head
    return TransformerSizes(
        num_layers=model.num_layers,
        hidden_size=hidden,
        num_attention_heads=heads,
        num_key_value_heads=model.num_key_value_heads,
        head_size=head_size,
        intermediate_size=operators["down"].inner,
        vocab_size=model.vocab_size,
        positions=positions,
        token_types=token_types,
        gated=up.name == "gate_up",
        biases=_has_bias(operators["attention_output"]),
        qkv_bias=_has_bias(qkv),
        norm_biases=operators["attention_norm"].parameters == 2 * hidden,
        qk_norms="qk_norm" in operators,
        sandwich_norms="mlp_output_norm" in operators,
        post_norm=post_norm,
        causal=model.causal,
        tied=model.tied_parameters > 0,
        pooler="pooler" in head,
        dropout=model.blocks[0].activation_elements_per_token > hidden * post_norm,
    )


def _operators(block: Block) -> Mapping[str, Operator]:
    return {operator.name: operator for operator in block.operators}


def _has_bias(product: Operator) -> bool:
    return product.parameters > product.inner * product.columns


def _tables(model: Model) -> tuple[int, int]:
    """Rows of the tables of positions and of token types, beside the tokens."""
    lookup = _operators(model.blocks[0])["embedding"]
    tables = round(lookup.elements_per_token / model.hidden_size) - 1
    others = round(lookup.parameters / model.hidden_size) - model.vocab_size
    if tables == 1:
        return 0, 0
    return (others, 0) if tables == 2 else (model.max_context_tokens, others - model.max_context_tokens)

"""The decoder of an encoder-decoder transformer such as T5 or BART (Vaswani et al. 2017, §3.1).

A decoder layer is the encoder's, on the decoder's tokens and causal, with a cross-attention in the middle: queries of
the decoder's tokens, keys and values of the encoder's output. Work on the decoder's tokens is counted per
logit, since in training each of these tokens goes through the head. Biases of relative positions (T5) are taken as
fused, and their table, a few hundred numbers, is left out.
"""

from __future__ import annotations

from dataclasses import replace

from simsys.model.model import Block
from simsys.model.operators import Operator, OperatorKind, Pairs, Split
from simsys.model.transformer_architecture import TransformerArchitecture
from simsys.model.transformer_operators import gemm, norm, score_elements


def with_decoder(a: TransformerArchitecture, blocks: tuple[Block, ...]) -> tuple[Block, ...]:
    """Add the decoder to an encoder.

    The decoder's embedding is next to the encoder's, with a shared table, so all layers are consecutive and can be
    divided among pipeline stages. Its result passes the encoder layers, and the encoder's output the decoder layers.

    Args:
        a: The architecture.
        blocks: Of the encoder: ``embedding``, the layers and a ``head`` without pooler.
    """
    embedding, layer, head = blocks[0], blocks[1], blocks[-1]
    return (
        _embeddings(a, embedding),
        *(replace(layer, output_elements_per_logit=layer.output_elements_per_token),) * a.num_layers,
        *(_decoder_layer(a, layer),) * a.decoder_layers,
        _head(a, head),
    )


def _embeddings(a: TransformerArchitecture, embedding: Block) -> Block:
    """The encoder's embedding and the decoder's: the same table, but positions of its own."""
    h = a.hidden_size
    lookup = Operator(
        "decoder_embedding",
        OperatorKind.MEMORY,
        Split.VOCABULARY,
        parameters=float(a.max_context_tokens * h if a.learned_positions else 0),
        elements_per_token=float((2 + a.learned_positions) * h),
        per_logit=True,
        lookup=True,
    )
    norms = (norm(a, "decoder_embedding_norm", per_logit=True),) if a.post_norm else ()
    return replace(
        embedding,
        operators=(*embedding.operators, lookup, *norms),
        output_elements_per_logit=embedding.output_elements_per_token,
        activation_elements_per_logit=embedding.activation_elements_per_token,
        replicated_activation_elements_per_logit=embedding.replicated_activation_elements_per_token,
    )


def _decoder_layer(a: TransformerArchitecture, layer: Block) -> Block:
    """The encoder's layer on the decoder's tokens, with cross-attention between attention and MLP.

    What cross-attention keeps is counted tensor by tensor as in `build_transformer`. Of each token of the decoder:
    the inputs of the norm and of the query projection and a dropout mask of one byte, which tensor parallelism does
    not divide; queries and the input of the output projection. Of each token of the encoder: keys and values. The
    encoder's output, from which all layers project them, is kept once (`Block.shared_elements_per_token`).
    """
    h = a.hidden_size
    queries, keys = float(a.num_attention_heads * a.head_size), float(a.num_key_value_heads * a.head_size)
    block = _on_decoder_tokens(layer)
    middle = [operator.name for operator in block.operators].index("mlp_norm")
    whole = 2.5 * h if a.dropout else 2.0 * h
    return replace(
        block,
        name="decoder_layer",
        operators=(*block.operators[:middle], *_cross_attention(a), *block.operators[middle:]),
        output_elements_per_token=layer.output_elements_per_token,
        activation_elements_per_token=2 * keys,
        activation_elements_per_logit=block.activation_elements_per_logit + whole + 2 * queries,
        replicated_activation_elements_per_logit=block.replicated_activation_elements_per_logit + whole,
        shared_elements_per_token=float(h),
    )


def _cross_attention(a: TransformerArchitecture) -> tuple[Operator, ...]:
    h, queries, keys = a.hidden_size, a.num_attention_heads * a.head_size, a.num_key_value_heads * a.head_size
    moved, kept = score_elements(a)
    attention = Operator(
        "cross_attention",
        OperatorKind.ATTENTION,
        Split.HEADS,
        elements_per_token=2.0 * queries,
        flop_per_pair=4.0 * queries,
        elements_per_pair=moved,
        kept_elements_per_pair=kept,
        pairs=Pairs.CROSS,
        elements_per_key_token=2.0 * keys,
        kv_elements_per_token=2.0 * keys,
        per_logit=True,
    )
    bias = a.biases or a.qkv_biases
    return (
        norm(a, "cross_attention_norm", per_logit=True),
        gemm("cross_query", h, queries, Split.COLUMN, bias=bias, per_logit=True),
        gemm("cross_key_value", h, 2 * keys, Split.COLUMN, bias=bias),
        attention,
        gemm("cross_attention_output", queries, h, Split.ROW, bias=a.biases, per_logit=True),
    )


def _head(a: TransformerArchitecture, head: Block) -> Block:
    """The head, on decoder tokens.

    The encoder's final norm, if it has one, is here, too, so that all decoder layers are equal.
    """
    block = _on_decoder_tokens(head)
    if a.post_norm:
        return block
    kept = float(a.hidden_size)
    return replace(
        block,
        operators=(norm(a, "encoder_norm"), *block.operators),
        activation_elements_per_token=kept,
        replicated_activation_elements_per_token=kept,
    )


def _on_decoder_tokens(block: Block) -> Block:
    """Return the block with per-token counts as per-logit counts, and with the attention of the decoder."""
    operators = (replace(operator, per_logit=True) for operator in block.operators)
    return replace(
        block,
        operators=tuple(
            replace(operator, pairs=Pairs.DECODER) if operator.kind is OperatorKind.ATTENTION else operator
            for operator in operators
        ),
        output_elements_per_token=0.0,
        activation_elements_per_token=0.0,
        replicated_activation_elements_per_token=0.0,
        output_elements_per_logit=block.output_elements_per_token,
        activation_elements_per_logit=block.activation_elements_per_token,
        replicated_activation_elements_per_logit=block.replicated_activation_elements_per_token,
    )

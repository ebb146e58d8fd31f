"""Multi-token prediction in training (DeepSeek-AI 2024, DeepSeek-V3, arXiv 2412.19437, §2.2).

Each module for a further token normalises the hidden states and the embedding of the next token, projects both
together to the hidden size, and has one layer of the model. Embedding and head are shared with the model. In a hybrid
with one mixer in each layer, it has a layer with attention and a feed-forward one (Nemotron 3: the pattern ``*E`` of
Megatron Core's ``mtp_hybrid_override_pattern``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from simsys.errors import UsageError
from simsys.model.model import Block, Model
from simsys.model.operators import Operator, OperatorKind, Split
from simsys.model.transformer_operators import gemm, memory


def with_predicted_tokens(model: Model, layers: int) -> Model:
    """Return the model with modules that predict further tokens, before its head.

    The modules lie with the head in a pipeline, as Megatron-LM places them by default.

    Args:
        model: A decoder.
        layers: Number of modules, each for one further token.

    Raises:
        UsageError: It is no decoder with layers and a head.
    """
    inner = [block for block in model.blocks if not any(op.is_head or op.lookup for op in block.operators)]
    head = model.blocks[-1]
    logits = [op for op in head.operators if op.is_head]
    if model.family != "decoder" or not model.layered or not inner or len(logits) != 1:
        raise UsageError(f"mtp_layers needs a decoder with layers and a head, not {model.name}")
    module = _module(model.hidden_size, _whole_layer(inner), head, logits[0])
    return replace(model, blocks=(*model.blocks[:-1], *[module] * layers, head))


def _whole_layer(layers: Sequence[Block]) -> Block:
    """The last layer; in a hybrid, whose layers are attention or feed-forward, one of both."""
    last = layers[-1]
    attending = [layer for layer in layers if any(op.name == "attention" for op in layer.operators)]
    if last in attending or not attending:
        return last
    first = attending[-1]
    renamed = (replace(op, name="mlp_norm") if op.name == "mixer_norm" else op for op in last.operators)
    return replace(
        last,
        operators=(*first.operators, *renamed),
        activation_elements_per_token=first.activation_elements_per_token + last.activation_elements_per_token,
        replicated_activation_elements_per_token=(
            first.replicated_activation_elements_per_token + last.replicated_activation_elements_per_token
        ),
    )


def _module(hidden: int, layer: Block, head: Block, logits: Operator) -> Block:
    before = (
        memory("mtp_hidden_norm", 2 * hidden, parameters=hidden),
        memory("mtp_embedding_norm", 3 * hidden, parameters=hidden),  # a row of the shared embedding is read, too
        replace(gemm("mtp_projection", 2 * hidden, hidden, Split.COLUMN), split=Split.REPLICATED),
    )
    norms = tuple(op for op in head.operators if op.kind is OperatorKind.MEMORY)
    own = 5.0 * hidden  # inputs of the norms, of the projection and its result
    return Block(
        "mtp_layer",
        (*before, *layer.operators, *norms, replace(logits, parameters=0.0)),
        output_elements_per_token=layer.output_elements_per_token,
        activation_elements_per_token=layer.activation_elements_per_token + head.activation_elements_per_token + own,
        replicated_activation_elements_per_token=(
            layer.replicated_activation_elements_per_token + head.replicated_activation_elements_per_token + own
        ),
        routed_activation_elements_per_token=layer.routed_activation_elements_per_token,
    )

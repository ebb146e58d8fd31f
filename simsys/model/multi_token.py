"""Multi-token prediction in training (DeepSeek-AI 2024, DeepSeek-V3, arXiv 2412.19437, §2.2).

Each module for a further token normalises the hidden states and the embedding of the next token, projects both
together to the hidden size, and has one layer of the model. Embedding and head are shared with the model.
"""

from __future__ import annotations

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
    module = _module(model.hidden_size, inner[-1], head, logits[0])
    return replace(model, blocks=(*model.blocks[:-1], *[module] * layers, head))


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

"""The vision encoder beside a language model: the work of a pass over images, as blocks of operators.

A row of its matrix products is a patch (`Batch.tokens`); a row of the projector is a token of the language model
(`Batch.logits`). Attention is not causal, within an image, a tile or a window (Dosovitskiy et al. 2021, §3.1).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from simsys.model.batch import Batch
from simsys.model.image_grids import ImageWork
from simsys.model.model import Block, Model
from simsys.model.operators import Operator, OperatorKind, Split
from simsys.model.transformer import build_transformer
from simsys.model.transformer_architecture import TransformerArchitecture
from simsys.model.transformer_operators import gemm
from simsys.model.vision_encoder import VisionEncoder

PREFIX = "vision_"
"""Of the names of all operators of an encoder."""
TOWER = "vision_tower"
"""The name of the operator of a language model that holds the weights of its encoder."""


def encoder_model(encoder: VisionEncoder, image: ImageWork) -> Model:
    """An encoder as a model of its own, with windows of the mean size for an image.

    Args:
        encoder: The encoder.
        image: The image, which decides how many keys a query in a window has.
    """
    built = build_transformer(_architecture(encoder))
    layer = next(block for block in built.blocks if block.name == "layer")
    layer = replace(layer, operators=tuple(_named(operator) for operator in layer.operators))
    keys = image.window_pairs / image.patches
    windowed = replace(layer, name="window_layer", operators=tuple(_within(each, keys) for each in layer.operators))
    embed = _named(gemm("patches", encoder.patch_elements, encoder.hidden_size, Split.REPLICATED))
    blocks = (
        Block("patches", (embed,), output_elements_per_token=float(encoder.hidden_size)),
        *(windowed,) * (encoder.layers - encoder.full_layers),
        *(layer,) * encoder.full_layers,
        *_projector(encoder),
    )
    return replace(built, name=encoder.kind, blocks=blocks, tied_parameters=0.0)


def _architecture(encoder: VisionEncoder) -> TransformerArchitecture:
    return TransformerArchitecture(
        name=encoder.kind,
        num_layers=1,
        hidden_size=encoder.hidden_size,
        num_attention_heads=encoder.heads,
        num_key_value_heads=encoder.heads,
        head_size=encoder.hidden_size // encoder.heads,
        intermediate_size=encoder.intermediate_size,
        gated_mlp=encoder.gated,
        vocab_size=1,
        tied_embeddings=False,
        max_context_tokens=1,
        causal=False,
    )


def _projector(encoder: VisionEncoder) -> Iterator[Block]:
    """A block for each part of the projector that ends with a sum over ranks, or with the last product."""
    operators = list[Operator]()
    for number, each in enumerate(encoder.projector):
        product = gemm(f"projector_{number}", each.inner, each.columns, each.split, per_logit=True)
        operators.append(_named(product))
        if each.split is Split.ROW or number == len(encoder.projector) - 1:
            yield Block("projector", tuple(operators), output_elements_per_logit=float(each.columns))
            operators = []


def image_batch(image: ImageWork, count: int) -> Batch:
    """The batch of a pass over a number of equal images."""
    return Batch(count * image.patches, count * image.embeddings, float(count * image.pairs))


def _named(operator: Operator) -> Operator:
    return replace(operator, name=PREFIX + operator.name)


def _within(operator: Operator, keys: float) -> Operator:
    """Attention to a number of keys per query, whatever the pairs of a batch; other operators as they are."""
    if operator.kind is not OperatorKind.ATTENTION:
        return operator
    return replace(operator, flop_per_token=operator.flop_per_pair * keys, flop_per_pair=0.0, elements_per_pair=0.0)


def with_whole_tower(model: Model) -> Model:
    """The model with an encoder that every rank holds whole, as with ``--mm-encoder-tp-mode data`` of vLLM."""
    first = model.blocks[0]
    operators = (replace(each, split=Split.REPLICATED) if each.name == TOWER else each for each in first.operators)
    return replace(model, blocks=(replace(first, operators=tuple(operators)), *model.blocks[1:]))

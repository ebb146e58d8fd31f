"""The vision encoder beside a language model: the work of a pass over images, as blocks of operators.

A row of its matrix products is a patch (`Batch.tokens`); a row of the projector is a token of the language model
(`Batch.logits`). Attention is not causal, within an image, a tile or a window (Dosovitskiy et al. 2021, §3.1).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

from simsys.model.batch import Batch
from simsys.model.image_grids import ImageGrid, ImageWork
from simsys.model.model import Block, Model
from simsys.model.operators import Operator, OperatorKind, Split
from simsys.model.transformer import build_transformer
from simsys.model.transformer_architecture import TransformerArchitecture
from simsys.model.transformer_operators import gemm

PREFIX = "vision_"
"""Of the names of all operators of an encoder."""
TOWER = "vision_tower"
"""The name of the operator of a language model that holds the weights of its encoder."""


class Product(NamedTuple):
    """A matrix product of a projector, for each token of the language model.

    Args:
        inner: Input features.
        columns: Output features.
        split: How tensor parallelism divides it.
    """

    inner: int
    columns: int
    split: Split = Split.REPLICATED


@dataclass(frozen=True, kw_only=True)
class VisionEncoder:
    """A vision transformer and its projector; sizes are in elements.

    Args:
        kind: Its type, such as ``siglip_vision_model``.
        layers: Layers that are computed.
        full_layers: How many of them attend to the whole image; the others attend in windows.
        hidden_size: Width.
        heads: Attention heads.
        intermediate_size: Width of the MLP.
        gated: Whether the MLP has three matrices.
        patch_elements: Elements of a patch: channels × frames × side².
        projector: Its products in order.
        output_size: Width of the language model.
        grid: How images become patches and tokens.
    """

    kind: str
    layers: int
    full_layers: int
    hidden_size: int
    heads: int
    intermediate_size: int
    gated: bool
    patch_elements: int
    projector: tuple[Product, ...]
    output_size: int
    grid: ImageGrid

    def model(self, image: ImageWork) -> Model:
        """The encoder as a model of its own, with windows of the mean size for an image.

        Args:
            image: The image, which decides how many keys a query in a window has.
        """
        built = build_transformer(self._architecture)
        layer = next(block for block in built.blocks if block.name == "layer")
        layer = replace(layer, operators=tuple(_named(operator) for operator in layer.operators))
        keys = image.window_pairs / image.patches
        windowed = replace(
            layer, name="window_layer", operators=tuple(_within(each, keys) for each in layer.operators)
        )
        patches = Block("patches", (_named(gemm("patches", self.patch_elements, self.hidden_size, Split.REPLICATED)),))
        blocks = (
            replace(patches, output_elements_per_token=float(self.hidden_size)),
            *(windowed,) * (self.layers - self.full_layers),
            *(layer,) * self.full_layers,
            *self._projector,
        )
        return replace(built, name=self.kind, blocks=blocks, tied_parameters=0.0)

    @property
    def _architecture(self) -> TransformerArchitecture:
        return TransformerArchitecture(
            name=self.kind,
            num_layers=1,
            hidden_size=self.hidden_size,
            num_attention_heads=self.heads,
            num_key_value_heads=self.heads,
            head_size=self.hidden_size // self.heads,
            intermediate_size=self.intermediate_size,
            gated_mlp=self.gated,
            vocab_size=1,
            tied_embeddings=False,
            max_context_tokens=1,
            causal=False,
        )

    @property
    def _projector(self) -> Iterator[Block]:
        """A block for each part of the projector that ends with a sum over ranks, or with the last product."""
        operators = list[Operator]()
        for number, each in enumerate(self.projector):
            product = gemm(f"projector_{number}", each.inner, each.columns, each.split, per_logit=True)
            operators.append(_named(product))
            if each.split is Split.ROW or number == len(self.projector) - 1:
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

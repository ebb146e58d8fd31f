"""A neural network as simsys sees it: blocks of operators."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import chain
from typing import TypeVar

from simsys.model.batch import Batch, attention_pairs
from simsys.model.operators import Operator
from simsys.model.quantization import Quantization
from simsys.model.scales import Scales
from simsys.model.vision_encoder import VisionEncoder
from simsys.sums import ordered_sum

T = TypeVar("T")

MASKED = 20 / 128
"""Share of tokens that go through the head in training of an encoder: the masked ones (Devlin et al. 2018, §3.1).

About 15 %: 20 positions in a sequence of 128 tokens and 80 in one of 512, as in google-research/bert.
"""


@dataclass(frozen=True, slots=True)
class Block:
    """A sequence of operators, such as one transformer layer.

    Args:
        name: Such as ``layer``, ``embedding`` or ``conv3_2``.
        operators: In order of execution.
        output_elements_per_token: Elements sent to the next block (the hidden size, for a transformer).
        activation_elements_per_token: Elements kept for the backward pass (with fused attention).
        replicated_activation_elements_per_token: The part of them that tensor parallelism without sequence parallelism
            replicates on every rank (Korthikanti et al. 2022, §4.2.1: 10 of 34 bytes).
        output_elements_per_logit: Elements handed on for each token of a decoder that stands beside an encoder.
        activation_elements_per_logit: Elements kept for each such token.
        replicated_activation_elements_per_logit: The part of them that tensor parallelism leaves whole.
        shared_elements_per_token: Elements of each encoder token that the block reads in addition to its input and
            that equal blocks in a row keep once: the output of the encoder, for cross-attention.
        backward_flop_ratio: Work of the backward pass over that of the forward pass.
        routed_activation_elements_per_token: What of the kept elements belongs to routed experts.
        spread: True if the layers of this block alternate with other spread layers in the model. They are listed
            together, since their order does not change the time of a pass; pipeline stages share them evenly.
    """

    name: str
    operators: tuple[Operator, ...]
    output_elements_per_token: float = 0.0
    activation_elements_per_token: float = 0.0
    replicated_activation_elements_per_token: float = 0.0
    output_elements_per_logit: float = 0.0
    activation_elements_per_logit: float = 0.0
    replicated_activation_elements_per_logit: float = 0.0
    shared_elements_per_token: float = 0.0
    backward_flop_ratio: float = 2.0
    routed_activation_elements_per_token: float = 0.0
    spread: bool = False

    @property
    def parameters(self) -> float:
        """Weights of the block."""
        return ordered_sum(operator.parameters for operator in self.operators)


@dataclass(frozen=True, slots=True)
class Model:
    """The description of a neural network.

    Args:
        name: Name in the model DB.
        family: ``decoder``, ``encoder``, ``encoder_decoder`` or ``cnn`` (a token is a sample; also models written
            layer by layer).
        blocks: In order of execution; equal layers are the same object, so caches by identity work.
        hidden_size: Width of the residual stream (0 for a CNN).
        num_layers: Transformer layers of encoder and decoder (or convolution blocks).
        num_attention_heads: Query heads (0 for a CNN).
        num_key_value_heads: Key and value heads.
        vocab_size: Rows of the embedding (0 for a CNN).
        max_context_tokens: Longest sequence it accepts (0: no limit).
        kv_elements_per_token: KV-cache elements each token of context needs, all layers with full attention.
        sequence_length: Default training sequence length (1 for a CNN: a token is a sample).
        decoder_sequence_length: Default sequence length of the decoder of an encoder-decoder (0: none).
        tied_parameters: Weights counted in two blocks but stored once (tied embeddings).
        source: Where the architecture numbers come from.
        class_name: The class that a published configuration names; empty if there is none.
        quantization: How a published checkpoint stores the weights; None for 16 bit.
        notes: Parts of a published model that were left out or assumed, as phrases.
        warnings: Reasons to doubt the figures, as phrases.
        layered: Whether its blocks are its layers; if not, they add up to the macro operations that its entry has.
        scales: Ratios of its macro operations to the sums over its blocks; None if all are 1.
        vision: The encoder of images beside it, if it has one.
    """

    name: str
    family: str
    blocks: tuple[Block, ...]
    hidden_size: int = 0
    num_layers: int = 0
    num_attention_heads: int = 0
    num_key_value_heads: int = 0
    vocab_size: int = 0
    max_context_tokens: int = 0
    kv_elements_per_token: float = 0.0
    sequence_length: int = 1
    decoder_sequence_length: int = 0
    tied_parameters: float = 0.0
    source: str = ""
    class_name: str = ""
    quantization: Quantization | None = None
    notes: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    layered: bool = True
    scales: Scales | None = None
    vision: VisionEncoder | None = None

    @property
    def parameters(self) -> float:
        """Number of stored weights."""
        return ordered_sum(self.of_blocks(lambda block: block.parameters)) - self.tied_parameters

    @property
    def active_parameters(self) -> float:
        """Weights a single token passes through: routed experts count k of E."""

        def of_operators(block: Block) -> list[float]:
            used = (operator for operator in block.operators if not operator.stored_only)
            return [operator.parameters * operator.experts_per_token / operator.experts for operator in used]

        return ordered_sum(chain.from_iterable(self.of_blocks(of_operators))) - self.tied_parameters

    @property
    def caches(self) -> bool:
        """Whether tokens leave keys, values or states for later tokens."""
        return self.kv_elements_per_token > 0 or any(
            operator.window or operator.elements_per_sequence
            for block in self.kinds_of_blocks
            for operator in block.operators
        )

    @property
    def kinds_of_blocks(self) -> list[Block]:
        """The blocks, each kind once, in order of appearance."""
        return list(dict(zip(map(id, self.blocks), self.blocks, strict=True)).values())

    def of_blocks(self, figure: Callable[[Block], T]) -> list[T]:
        """A figure of each of the blocks, computed once for each kind."""
        figures = {id(block): figure(block) for block in self.kinds_of_blocks}
        return [*map(figures.__getitem__, map(id, self.blocks))]

    def with_operators(self, change: Callable[[Operator], Operator]) -> Model:
        """The model with its operators changed; equal layers stay one object."""
        made: dict[int, Block] = {}
        for block in self.kinds_of_blocks:
            operators = tuple(map(change, block.operators))
            made[id(block)] = block if operators == block.operators else replace(block, operators=operators)
        return replace(self, blocks=tuple(made[id(block)] for block in self.blocks))

    @property
    def aggregated(self) -> Model:
        """A copy of the model with the ratios of its macro operations on its operators, as used at medium detail."""
        if self.scales is None:
            return self
        return self.with_operators(lambda operator: replace(operator, scales=self.scales))

    @property
    def experts_per_token(self) -> int:
        """Experts that each token is routed to; 1 in a dense model."""
        return max((each.experts_per_token for block in self.kinds_of_blocks for each in block.operators), default=1)

    @property
    def experts(self) -> int:
        """Routed experts of a layer; 1 for a dense model."""
        return max((operator.experts for block in self.kinds_of_blocks for operator in block.operators), default=1)

    @property
    def causal(self) -> bool:
        """True if a token attends only to those before it."""
        return self.family == "decoder"

    def training_batch(
        self,
        sequences: int,
        sequence_length: int,
        decoder_sequence_length: int | None = None,
        *,
        fused_attention: bool = True,
        attention_block: int = 1,
    ) -> Batch:
        """The batch of one forward pass over `sequences` full sequences (samples for a CNN).

        Fused attention (Dao et al. 2022) skips masked pairs and keeps no scores; unfused attention computes and stores
        the full square.

        Args:
            sequences: How many.
            sequence_length: Tokens of each; tokens of the encoder in an encoder-decoder.
            decoder_sequence_length: Tokens of each on the decoder's side (None: the model's default).
            fused_attention: Whether attention is fused.
            attention_block: Tokens of the blocks that fused attention computes or skips as a whole.
        """
        tokens, block = float(sequences * sequence_length), attention_block
        pairs = attention_pairs(sequence_length, causal=self.causal and fused_attention, block=block) * sequences
        unfused = not fused_attention
        if not self.decoder_sequence_length:
            predicted = MASKED if self.family == "encoder" else 1.0
            return Batch(tokens, predicted * tokens, pairs, unfused_attention=unfused)
        answer = decoder_sequence_length or self.decoder_sequence_length
        return Batch(
            tokens,
            float(sequences * answer),
            pairs,
            decoder_pairs=attention_pairs(answer, causal=fused_attention, block=block) * sequences,
            cross_pairs=tokens * answer,
            unfused_attention=unfused,
        )

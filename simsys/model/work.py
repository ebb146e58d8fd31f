"""What a model costs, free of hardware: operators, blocks, models, and the work one pass asks for.

The amounts are counts (parameters, elements, FLOP); bytes appear when a precision is chosen. All
amounts of an operator are *per token* (per sample for a CNN), *per attention pair* (one query token
attending to one key token) or *per context token* (one cached token whose keys and values are read),
so one evaluation per pass is O(operators), whatever the batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

FP32_BYTES = 4.0


class OperatorKind(StrEnum):
    """What limits an operator, and so which efficiency curve of a device applies to it."""

    GEMM = "gemm"
    CONV = "conv"
    ATTENTION = "attention"  # prompt (or training) attention: many queries per sequence
    DECODE_ATTENTION = "decode_attention"  # one query per sequence over its cached keys and values
    MEMORY = "memory"  # norms, activations, embeddings: bandwidth only


class Split(StrEnum):
    """How tensor parallelism divides an operator (Shoeybi et al. 2019, §3)."""

    COLUMN = "column"  # output features are divided; no communication afterwards
    ROW = "row"  # input features are divided; partial outputs are summed by an all-reduce
    HEADS = "heads"  # attention heads are divided; KV heads at most down to one per rank
    VOCABULARY = "vocabulary"  # rows of the embedding or head; an all-gather of logits when sampling
    REPLICATED = "replicated"  # every rank does all of it


class Batch(NamedTuple):
    """What one pass over a model processes.

    Args:
        tokens: Tokens (samples for a CNN) that go through the weights.
        logits: Tokens that go through the head: all of them in training, one per sequence in serving.
        attention_pairs: Query-key pairs of prompt or training attention, summed over sequences.
        prompt_context_tokens: Cached tokens read by prompt attention, summed over prompt chunks.
        decode_context_tokens: Cached tokens read by decode attention, summed over decoding sequences.
        decode_sequences: Sequences that decode one token each in this pass.
        score_pairs: Query-key pairs whose attention scores go through memory: none with fused attention, else the
            full square, s² a sequence, since a causal mask leaves the matrix as large as it is.
    """

    tokens: float = 0.0
    logits: float = 0.0
    attention_pairs: float = 0.0
    prompt_context_tokens: float = 0.0
    decode_context_tokens: float = 0.0
    decode_sequences: float = 0.0
    score_pairs: float = 0.0

    def part(self, parts: int) -> Batch:
        """One of so many equal parts: sequences divided among the ranks of context parallelism."""
        return Batch(*(count / parts for count in self))

    def __add__(self, other: Batch) -> Batch:  # type: ignore[override]
        """Both batches in one pass."""
        return Batch(
            self.tokens + other.tokens,
            self.logits + other.logits,
            self.attention_pairs + other.attention_pairs,
            self.prompt_context_tokens + other.prompt_context_tokens,
            self.decode_context_tokens + other.decode_context_tokens,
            self.decode_sequences + other.decode_sequences,
            self.score_pairs + other.score_pairs,
        )


@dataclass(frozen=True, slots=True)
class Operator:
    """One kernel of a block, in counts per token, pair or context token.

    Args:
        name: Short name, unique in its block, such as ``qkv`` or ``down``.
        kind: Which resource curve applies.
        split: How tensor parallelism divides it.
        parameters: Weights held, all experts included.
        rows_per_token: GEMM rows per token: 1, or experts per token for a routed expert.
        columns: Output features n of the GEMM (0 if it is none).
        inner: Input features k of the GEMM (0 if it is none).
        flop_per_token: FLOP for each token; 2·n·k·rows for a GEMM.
        elements_per_token: Activation elements read and written for each token.
        flop_per_pair: FLOP for each query-key pair (attention).
        elements_per_pair: Elements of scores read and written for each query-key pair if attention is not fused.
        elements_per_context_token: KV-cache elements read for each cached token.
        kv_elements_per_token: Keys and values that each token contributes to attention over a divided sequence.
        experts: Experts among which the parameters are divided (1: dense).
        experts_per_token: Experts each token is routed to.
        expert_ranks: Ranks among which the experts are divided, all of whose tokens come to those of this one.
        per_logit: True if "token" means a token that goes through the head, not every token.
        lookup: True if the parameters are a table of which a pass reads only the rows it looks up; those rows
            stand in `elements_per_token`, so the parameters count as stored but never as read.
    """

    name: str
    kind: OperatorKind
    split: Split = Split.REPLICATED
    parameters: float = 0.0
    rows_per_token: float = 1.0
    columns: int = 0
    inner: int = 0
    flop_per_token: float = 0.0
    elements_per_token: float = 0.0
    flop_per_pair: float = 0.0
    elements_per_pair: float = 0.0
    elements_per_context_token: float = 0.0
    kv_elements_per_token: float = 0.0
    experts: int = 1
    experts_per_token: int = 1
    expert_ranks: int = 1
    per_logit: bool = False
    lookup: bool = False

    def parameters_read(self, tokens: float) -> float:
        """Weights that one pass over `tokens` tokens reads.

        Of E experts with top-k routing, the expected number touched is E·(1 − (1 − k/E)^tokens) if tokens are
        routed independently and evenly.
        """
        if self.lookup:
            return 0.0
        if self.experts == 1:
            return self.parameters
        untouched: float = (1.0 - self.experts_per_token / self.experts) ** (tokens * self.expert_ranks)
        return self.parameters * (1.0 - untouched)


@dataclass(frozen=True, slots=True)
class Block:
    """A run of operators between which nothing else happens, such as one transformer layer.

    Args:
        name: Such as ``layer``, ``embedding`` or ``conv3_2``.
        operators: In order of execution.
        output_elements_per_token: Elements handed to the next block (the hidden size, for a transformer).
        activation_elements_per_token: Elements kept for the backward pass (with fused attention).
        replicated_activation_elements_per_token: The part of them that tensor parallelism without sequence
            parallelism leaves whole on every rank (Korthikanti et al. 2022, §4.2.1: 10 of 34 bytes).
        score_elements_per_pair: Elements kept per query-key pair if attention is not fused (`Batch.score_pairs`).
        backward_flop_ratio: Work of the backward pass over that of the forward pass.
        routed_activation_elements_per_token: What of the kept elements belongs to routed experts.
    """

    name: str
    operators: tuple[Operator, ...]
    output_elements_per_token: float = 0.0
    activation_elements_per_token: float = 0.0
    replicated_activation_elements_per_token: float = 0.0
    score_elements_per_pair: float = 0.0
    backward_flop_ratio: float = 2.0
    routed_activation_elements_per_token: float = 0.0

    @property
    def parameters(self) -> float:
        """Weights of the block."""
        return sum(operator.parameters for operator in self.operators)


@dataclass(frozen=True, slots=True)
class Model:
    """A neural network as simsys sees it.

    Args:
        name: Name in the model DB.
        family: ``decoder``, ``encoder`` or ``cnn`` (a token is a sample; also models written layer by layer).
        blocks: In order of execution; equal layers are the same object, so caches by identity work.
        hidden_size: Width of the residual stream (0 for a CNN).
        num_layers: Transformer layers (or convolution blocks).
        num_attention_heads: Query heads (0 for a CNN).
        num_key_value_heads: Key and value heads.
        vocab_size: Rows of the embedding (0 for a CNN).
        max_context_tokens: Longest sequence it accepts (0: no limit).
        kv_elements_per_token: KV-cache elements each token of context needs, all layers.
        sequence_length: Default training sequence length (1 for a CNN: a token is a sample).
        tied_parameters: Weights counted in two blocks but stored once (tied embeddings).
        source: Where the architecture numbers come from.
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
    tied_parameters: float = 0.0
    source: str = ""

    @property
    def parameters(self) -> float:
        """Weights stored."""
        return sum(block.parameters for block in self.blocks) - self.tied_parameters

    @property
    def active_parameters(self) -> float:
        """Weights a single token passes through: routed experts count k of E."""
        return (
            sum(
                operator.parameters * operator.experts_per_token / operator.experts
                for block in self.blocks
                for operator in block.operators
            )
            - self.tied_parameters
        )

    @property
    def experts(self) -> int:
        """Routed experts of a layer; 1 for a dense model."""
        return max((operator.experts for block in self.blocks for operator in block.operators), default=1)

    @property
    def causal(self) -> bool:
        """True if a token attends only to those before it."""
        return self.family == "decoder"

    def training_batch(self, sequences: int, sequence_length: int, *, fused_attention: bool = True) -> Batch:
        """The batch of one forward pass over `sequences` full sequences (samples for a CNN).

        Fused attention (Dao et al. 2022) skips what a causal mask hides and keeps no scores; unfused attention
        computes and stores the full square.
        """
        tokens = float(sequences * sequence_length)
        pairs = attention_pairs(sequence_length, causal=self.causal and fused_attention) * sequences
        return Batch(tokens, tokens, pairs, score_pairs=0.0 if fused_attention else pairs)


@dataclass(frozen=True, slots=True)
class Precision:
    """Bytes per element of what is stored and moved, and the names of the dtypes."""

    compute: str = "bf16"
    weight_bytes: float = 2.0
    activation_bytes: float = 2.0
    kv_bytes: float = 2.0


class Kernel(NamedTuple):
    """One launch on a device: what it computes and moves.

    Args:
        kind: Which efficiency curve applies.
        flop: Floating-point operations.
        nbytes: Bytes read and written in device memory.
        rows: GEMM rows m (0 if not a GEMM).
        columns: GEMM columns n.
        inner: GEMM inner dimension k.
        dtype: Compute data type, such as ``bf16``.
    """

    kind: OperatorKind
    flop: float
    nbytes: float
    rows: float = 0.0
    columns: int = 0
    inner: int = 0
    dtype: str = "bf16"


@dataclass(frozen=True, slots=True, eq=False)
class Work:
    """Kernels that run one after another on one device; compared by identity, so that it can be a cache key.

    Args:
        kernels: In order.
        layers: How many layers' worth of host overhead the kernels carry.
    """

    kernels: tuple[Kernel, ...] = field(default=())
    layers: float = 0.0

    @property
    def flop(self) -> float:
        """Total floating-point operations."""
        return sum(kernel.flop for kernel in self.kernels)

    @property
    def nbytes(self) -> float:
        """Total bytes moved."""
        return sum(kernel.nbytes for kernel in self.kernels)


def attention_pairs(tokens: float, *, context: float = 0.0, causal: bool = True) -> float:
    """Query-key pairs of `tokens` new tokens after `context` cached ones.

    Example:
        >>> attention_pairs(4), attention_pairs(2, context=10), attention_pairs(4, causal=False)
        (10.0, 23.0, 16.0)
    """
    own = tokens * (tokens + 1) / 2 if causal else tokens * tokens
    return tokens * context + own


def kernel_of(operator: Operator, batch: Batch, precision: Precision) -> Kernel:
    """The kernel that `operator` launches for one forward pass over `batch`."""
    tokens = batch.logits if operator.per_logit else batch.tokens
    flop = operator.flop_per_token * tokens
    elements_bytes = operator.elements_per_token * tokens * precision.activation_bytes
    weight_bytes = operator.parameters_read(tokens) * precision.weight_bytes if tokens else 0.0
    context_bytes = 0.0
    if operator.kind is OperatorKind.ATTENTION:
        flop += operator.flop_per_pair * batch.attention_pairs
        elements_bytes += operator.elements_per_pair * batch.score_pairs * precision.activation_bytes
        context_bytes = operator.elements_per_context_token * batch.prompt_context_tokens * precision.kv_bytes
    elif operator.kind is OperatorKind.DECODE_ATTENTION:
        flop += operator.flop_per_pair * batch.decode_context_tokens
        context_bytes = operator.elements_per_context_token * batch.decode_context_tokens * precision.kv_bytes
    return Kernel(
        kind=operator.kind,
        flop=flop,
        nbytes=weight_bytes + elements_bytes + context_bytes,
        rows=tokens * operator.rows_per_token,
        columns=operator.columns,
        inner=operator.inner,
        dtype=precision.compute,
    )


def forward_work(operators: Sequence[Operator], batch: Batch, precision: Precision, *, layers: float = 1.0) -> Work:
    """The work of one forward pass over `operators`."""
    kernels = tuple(kernel_of(operator, batch, precision) for operator in operators)
    return Work(tuple(kernel for kernel in kernels if kernel.flop or kernel.nbytes), layers=layers)


def backward_work(forward: Work, ratio: float = 2.0) -> Work:
    """The work of the backward pass, `ratio` times the FLOP and bytes of the forward pass.

    Gradients with respect to inputs and to weights are two products of the forward's size, so the ratio is 2
    (Narayanan et al. 2021, appendix) unless a block says otherwise (`Block.backward_flop_ratio`).
    """
    scaled = tuple(k._replace(flop=ratio * k.flop, nbytes=ratio * k.nbytes) for k in forward.kernels)
    return Work(scaled, layers=forward.layers)

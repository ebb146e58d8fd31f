"""Operators: computation and memory traffic of one kernel of a model, as counts independent of precision and batch.

The amounts are counts (parameters, elements, FLOP); bytes appear when a precision is chosen. All
amounts of an operator are *per token* (per sample for a CNN), *per attention pair* (one query token
attending to one key token) or *per context token* (one cached token with keys and values read). So one evaluation per
pass is O(operators) for any batch.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from math import exp, inf, lgamma
from typing import Literal

from simsys.model.scales import PLAIN, Scale, Scales

POPULARITY = 1.5
"""Shape of the distribution of tokens over experts; infinite for equal shares. Fitted to times per token of mixtures
of experts, which equal shares overestimate most at one token per expert (ai-dynamo/aiconfigurator silicon samples)."""


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


class Pairs(StrEnum):
    """Which query-key pairs an attention operator works on: a counter of `Batch`."""

    OWN = "attention_pairs"  # of a decoder alone, or of an encoder
    DECODER = "decoder_pairs"  # of the decoder's tokens among themselves, beside an encoder
    CROSS = "cross_pairs"  # of the decoder's tokens with the encoder's


LaunchedFor = Literal["experts", "latent_attention", "linear_attention"]
"""Kinds of operators that the host launches several kernels for."""


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
        kept_elements_per_pair: Elements of scores kept for the backward pass if attention is not fused.
        pairs: Kind of pairs.
        elements_per_key_token: Elements of keys and values read for each encoder token (cross-attention).
        elements_per_context_token: KV-cache elements read for each cached token.
        length_skew: Time of decode attention over several sequences, relative to equal lengths: 1 or more.
        kv_elements_per_token: Keys and values that each token contributes to attention over a divided sequence.
        window: Largest number of keys attended by a query, including its own; 0 without a limit. Keys beyond it are
            removed before a pass is costed (`simsys.model.windows`).
        chosen: True if the keys in the window are chosen among all keys, which stay in the cache.
        elements_per_sequence: 16-bit elements that every running sequence keeps in memory, independent of its length.
        experts: Experts among which the parameters are divided (1: dense).
        experts_per_token: Experts each token is routed to.
        experts_held: Number of experts on this rank; 0 for all.
        expert_load: Tokens of the experts on this rank over the mean of all ranks.
        expert_ranks: Ranks that divide the experts and send their tokens here.
        frozen: Weights held and read that are not trained, in addition to `parameters`.
        frozen_bytes: Bytes in which they are stored.
        adapters: LoRA adapters that divide the parameters; each token uses one of them.
        launches: Number of kernels launched by the host, such as routing and sorting before experts.
        per_logit: True if "token" means a token that passes the head: in the head, and in the decoder of an
            encoder-decoder.
        lookup: True if the parameters are a lookup table. Rows read are in `elements_per_token`, so the parameters
            count as stored but never as read.
        scales: Ratios of its costs to these amounts, from macro operations; stored amounts are not scaled.
        effort: Time to compute, over that of the device's curve: not 1 if an engine has slower or faster kernels.
        by_deep_gemm: Whether DeepGEMM multiplies, if the device has a curve for it.
        decoded_by: Kernels of decode attention for which devices may have a curve, named as in `Efficiency`; empty for
            others.
        padding_tokens: Tokens that each pass computes in addition, as padding of the rows of experts.
        alike: Sequences of a pass with the same tokens, which use the same experts.
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
    kept_elements_per_pair: float = 0.0
    pairs: Pairs = Pairs.OWN
    elements_per_key_token: float = 0.0
    elements_per_context_token: float = 0.0
    length_skew: float = 1.0
    kv_elements_per_token: float = 0.0
    window: int = 0
    chosen: bool = False
    elements_per_sequence: float = 0.0
    experts: int = 1
    experts_per_token: int = 1
    experts_held: int = 0
    expert_load: float = 1.0
    expert_ranks: int = 1
    frozen: float = 0.0
    frozen_bytes: float = 0.0
    adapters: int = 1
    launches: int = 1
    per_logit: bool = False
    lookup: bool = False
    scales: Scales | None = None
    effort: float = 1.0
    by_deep_gemm: bool = False
    decoded_by: str = ""
    padding_tokens: float = 0.0
    alike: float = 1.0

    @property
    def launches_for(self) -> LaunchedFor | None:
        """What the launches beyond the first are for; None if there are none."""
        if self.launches == 1:
            return None
        if self.experts > 1:
            return "experts"
        return "latent_attention" if self.kind is OperatorKind.GEMM else "linear_attention"

    def scale(self, *, prompts: bool) -> Scale:
        """Return the ratios of its cost to its amounts in a pass with or without prompts."""
        if self.scales is None:
            return PLAIN
        decodes = self.per_logit or self.kind is OperatorKind.DECODE_ATTENTION or not prompts
        return self.scales.decode if decodes else self.scales.prompts

    def costed(self, *, prompts: bool) -> Operator:
        """Return the operator with the amounts that it costs in a pass with or without prompts."""
        scale = self.scale(prompts=prompts)
        if scale == PLAIN:
            return self if self.scales is None else replace(self, scales=None)
        flop, elements, weights, pairs, context, factor = scale
        return replace(
            self,
            parameters=self.parameters * weights * factor,
            frozen=self.frozen * weights * factor,
            flop_per_token=self.flop_per_token * flop * factor,
            elements_per_token=self.elements_per_token * elements * factor,
            flop_per_pair=self.flop_per_pair * pairs * factor,
            elements_per_pair=self.elements_per_pair * factor,
            elements_per_key_token=self.elements_per_key_token * elements * factor,
            elements_per_context_token=self.elements_per_context_token * context * factor,
            scales=None,
        )

    @property
    def stored_only(self) -> bool:
        """True if its parameters are only stored: no pass reads them."""
        return self.lookup and not self.elements_per_token

    @property
    def is_head(self) -> bool:
        """Whether it computes logits."""
        return self.per_logit and self.split is Split.VOCABULARY and not self.lookup

    @property
    def role(self) -> str:
        """For what devices may have a curve, named as in `Efficiency`; empty for anything else."""
        if self.decoded_by:
            return self.decoded_by
        if self.kind is not OperatorKind.MEMORY:
            return "deep_gemm" if self.by_deep_gemm else ""
        if self.name.endswith("_norm"):
            return "norm"
        return "activation" if self.name.endswith("activation") else ""

    @property
    def backward_share(self) -> float:
        """Work of its backward pass over that of an operator whose weights are trained.

        A product of frozen weights has the gradients of its inputs only: one product instead of two. A frozen table
        has no gradients.
        """
        if not self.frozen:
            return 1.0
        return 0.0 if self.lookup else 0.5 if self.kind is OperatorKind.GEMM else 1.0

    @property
    def grouped(self) -> bool:
        """True if it consists of many small matrix products of experts."""
        return self.experts > 1 and self.kind is OperatorKind.GEMM

    def parameters_read(self, tokens: float) -> float:
        """Weights that one pass over `tokens` tokens reads.

        With E experts and top-k routing, independent and even routing would use E·(1 − (1 − k/E)^tokens) experts. In
        fact, an expert's share of tokens varies. It is modelled as a beta distribution of mean k/E and shape
        `POPULARITY`, so (1 − k/E)^tokens becomes its mean, a quotient of gamma functions. One token uses k experts
        either way. Adapters are equally likely.
        """
        if self.lookup:
            return 0.0
        dense = self.experts == self.adapters == 1
        held = self.parameters + self.frozen
        return held if dense else held * self._touched(tokens)

    def rows(self, tokens: float) -> float:
        """Rows of the matrix product of one pass over `tokens` tokens; for experts, rows per used expert."""
        rows = tokens * self.rows_per_token
        if self.experts == 1 or not rows:
            return rows
        held = self.experts_held or self.experts
        if self.padding_tokens:
            return rows / held + self.padding_tokens * self.rows_per_token / held
        return max(1.0, rows / (held * self._touched(tokens)))

    def _touched(self, tokens: float) -> float:
        """Return the share of the experts, or adapters, that any token uses."""
        chosen = min(1.0, self.experts_per_token * self.expert_load / (self.experts * self.adapters))
        tokens = max(min(1.0, tokens), tokens / self.alike) * self.expert_ranks
        if self.experts == 1 or chosen == 1.0 or tokens == inf:
            return 1.0 - float((1.0 - chosen) ** tokens)
        other = POPULARITY * (1.0 - chosen) / chosen
        untouched = lgamma(other + tokens) - lgamma(other) + lgamma(POPULARITY + other)
        return 1.0 - exp(untouched - lgamma(POPULARITY + other + tokens))

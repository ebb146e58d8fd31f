"""Blocks of a model whose entry has only `aggregated_ops`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from simsys.model.aggregates import BYTES_PER_ELEMENT, DECODE, FACTOR, FORWARD, PREFILL, Aggregates
from simsys.model.model import Block
from simsys.model.operators import Operator, OperatorKind, Split


@dataclass(frozen=True, slots=True)
class Macro:
    """Macro operations without critical-path factors; bytes are in bf16.

    Args:
        flop_per_token: FLOP of each token.
        nbytes_per_token: Activation bytes of each token.
        weight_nbytes: Weights read by each pass.
        flop_per_pair: FLOP of each query-key pair of a prompt.
        flop_per_logit: Additional FLOP of a token that passes the head.
        nbytes_per_logit: Its additional activation bytes.
        head_nbytes: Its additional weights read.
        flop_per_context_token: FLOP of a decoded token for each cached one.
        kv_nbytes_per_context_token: KV cache read by decode attention for each cached token.
    """

    flop_per_token: float
    nbytes_per_token: float
    weight_nbytes: float
    flop_per_pair: float
    flop_per_logit: float = 0.0
    nbytes_per_logit: float = 0.0
    head_nbytes: float = 0.0
    flop_per_context_token: float = 0.0
    kv_nbytes_per_context_token: float = 0.0


def macro_of(stated: Aggregates) -> Macro:
    """Return the sums that the blocks must have; missing amounts are 0.

    The head gets the additional amounts of a decoded token over a prompt token. If a decoded token needs less, the
    blocks have the amounts of the prompt token, and `simsys.model.aggregates.scales_of` gives the ratio for decode
    steps.
    """
    if "forward" in stated:
        return Macro(*_amounts(stated["forward"], FORWARD))
    flop, nbytes, weights, pairs = _amounts(stated["prefill"], PREFILL)
    more = _amounts(stated["decode"], DECODE)
    return Macro(
        *(flop, nbytes, weights, pairs),
        flop_per_logit=max(0.0, more[0] - flop),
        nbytes_per_logit=max(0.0, more[1] - nbytes),
        head_nbytes=max(0.0, more[2] - weights),
        kv_nbytes_per_context_token=more[3],
        flop_per_context_token=more[4],
    )


def _amounts(given: Mapping[str, float], keys: Mapping[str, str]) -> list[float]:
    return [given.get(key, 0.0) for key in keys if key != FACTOR]


def macro_blocks(macro: Macro, *, kind: OperatorKind, layers: int, hidden_size: int) -> tuple[Block, ...]:
    """Return `layers` copies of the block ``macro`` with the sums of `macro`.

    With one layer it is a single block; with more, each is an equal share, which can be assigned to pipeline stages. A
    share has two halves with row-split weights, each followed by an all-reduce as in a transformer layer, and
    attention. The entry has no activation sizes, so each tensor is assumed to be written once, read once, and kept.
    """
    share, element_share = 1.0 / layers, 1.0 / layers / BYTES_PER_ELEMENT
    half = Operator(
        "first_half",
        kind,
        Split.ROW if hidden_size else Split.REPLICATED,
        parameters=macro.weight_nbytes * element_share / 2,
        flop_per_token=macro.flop_per_token * share / 2,
        elements_per_token=macro.nbytes_per_token * element_share / 2,
    )
    decoded_token = Operator(
        "decoded_token",
        kind,
        Split.VOCABULARY,
        parameters=macro.head_nbytes * element_share,
        flop_per_token=macro.flop_per_logit * share,
        elements_per_token=macro.nbytes_per_logit * element_share,
        per_logit=True,
    )
    operators = (*_macro_attention(macro, share), half, replace(half, name="second_half"), decoded_token)
    block = Block(
        "macro",
        tuple(operator for operator in operators if _does_something(operator)),
        output_elements_per_token=float(hidden_size),
        activation_elements_per_token=macro.nbytes_per_token * element_share / 2,
    )
    return (block,) * layers


def _macro_attention(macro: Macro, share: float) -> tuple[Operator, Operator]:
    cached = macro.kv_nbytes_per_context_token * share / BYTES_PER_ELEMENT
    per_pair, per_cached = macro.flop_per_pair * share, macro.flop_per_context_token * share
    kinds = OperatorKind.ATTENTION, OperatorKind.DECODE_ATTENTION
    prompt, decode = (
        Operator(kind.value, kind, Split.HEADS, flop_per_pair=flop, elements_per_context_token=cached)
        for kind, flop in zip(kinds, (per_pair, per_cached), strict=True)
    )
    return prompt, decode


def _does_something(operator: Operator) -> bool:
    amounts = (operator.parameters, operator.flop_per_token, operator.elements_per_token, operator.flop_per_pair)
    return any(amounts) or operator.elements_per_context_token > 0

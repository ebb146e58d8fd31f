"""Macro operations: what a whole prompt or a whole decode step costs, in a handful of numbers (`aggregated_ops`).

They are derived from a model's operators, so that a reader of the model DB sees them, and they can stand in for the
operators: an entry that has nothing else becomes a model of one block, ``macro``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from simsys.model.fields import Fields
from simsys.model.model import Block, Model
from simsys.model.operators import Operator, OperatorKind, Split
from simsys.model.windows import in_serving, whole
from simsys.sums import ordered_sum

BYTES_PER_ELEMENT = 2.0  # the model DB's bytes are those of bf16
PREFILL_KEYS = (
    "total_flops_per_prompt_token",
    "total_memory_bytes_per_prompt_token",
    "weight_bytes_per_step",
    "attention_flops_per_token_pair",
    "critical_path_factor",
)
DECODE_KEYS = (
    "total_flops_per_token_in_batch",
    "total_memory_bytes_per_token_in_batch",
    "weight_bytes_per_step",
    "kv_bytes_per_context_token",
    "attention_flops_per_context_token",
    "critical_path_factor",
)
FORWARD_KEYS = (
    "total_flops_per_token",
    "total_memory_bytes_per_token",
    "weight_bytes_per_step",
    "attention_flops_per_token_pair",
    "critical_path_factor",
)


def aggregated_ops(model: Model) -> dict[str, dict[str, float]]:
    """Return the macro operations of a model: prefill and decode of a decoder, else one forward pass.

    A prompt token does not go through the head, a decoded token does; so it does in the forward pass of an encoder or
    a CNN, whose token is a sample. Of an encoder-decoder the costs are those of one token on each side, and of one
    pair of each attention. Bytes per token are activations in bf16; weights, which a step reads once, stand apart:
    for a mixture of experts all of them in prefill (a full batch), those of one token in decode. Sliding windows
    count as full ones.
    """
    model = in_serving(model, whole)
    operators = [operator for block in model.blocks for operator in block.operators]
    body = [operator for operator in operators if not operator.per_logit]
    pairs = ordered_sum(o.flop_per_pair for o in operators if o.kind is OperatorKind.ATTENTION)
    all_weights = BYTES_PER_ELEMENT * ordered_sum(o.parameters_read(math.inf) for o in operators)
    every_token = _per_token(operators)
    if model.family != "decoder":
        return {"forward": dict(zip(FORWARD_KEYS, (*every_token, all_weights, pairs, 1.0), strict=True))}
    one_token_weights = BYTES_PER_ELEMENT * ordered_sum(o.parameters_read(1.0) for o in operators)
    decode = [o for o in operators if o.kind is OperatorKind.DECODE_ATTENTION]
    cached = BYTES_PER_ELEMENT * ordered_sum(o.elements_per_context_token for o in decode)
    context = ordered_sum(o.flop_per_pair for o in decode)
    return {
        "prefill": dict(zip(PREFILL_KEYS, (*_per_token(body), all_weights, pairs, 1.0), strict=True)),
        "decode": dict(zip(DECODE_KEYS, (*every_token, one_token_weights, cached, context, 1.0), strict=True)),
    }


def _per_token(operators: list[Operator]) -> tuple[float, float]:
    flop = ordered_sum(operator.flop_per_token for operator in operators)
    elements = ordered_sum(operator.elements_per_token + operator.elements_per_key_token for operator in operators)
    return flop, BYTES_PER_ELEMENT * elements


@dataclass(frozen=True, slots=True)
class Macro:
    """Macro operations with their critical-path factors multiplied in; bytes are in bf16.

    Args:
        flop_per_token: FLOP of each token.
        nbytes_per_token: Activation bytes of each token.
        flop_per_logit: FLOP that a decoded token needs besides.
        nbytes_per_logit: Bytes that a decoded token moves besides.
        weight_nbytes: Weights read by each step.
        flop_per_pair: FLOP of each query-key pair of a prompt.
        flop_per_context_token: FLOP of a decoded token for each cached one.
        kv_nbytes_per_context_token: KV cache read by decode attention for each cached token.
        decode_factor: Critical-path factor of decode, contained in the figures above.
    """

    flop_per_token: float
    nbytes_per_token: float
    flop_per_logit: float
    nbytes_per_logit: float
    weight_nbytes: float
    flop_per_pair: float
    flop_per_context_token: float
    kv_nbytes_per_context_token: float
    decode_factor: float


def read_macro(fields: Fields) -> Macro:
    """Read `aggregated_ops`: ``prefill`` and ``decode``, or ``forward``.

    Only the FLOP and bytes per token are needed; the rest is 0 and the critical-path factor 1 if absent. The factor
    multiplies FLOP and bytes of its operation; weights take decode's, which is where they bind.

    Raises:
        ConfigError: A value is missing or wrong; decode needs less than prefill for a token; or the two read different
            weights (a mixture of experts, whose weight traffic depends on the batch, needs ``layers``).
    """
    if "forward" in fields:
        fields.reject_unknown(["forward"])
        return _read_forward(fields.child("forward"))
    fields.reject_unknown(["prefill", "decode"])
    fields.require("prefill", "decode")
    prefill, decode = fields.child("prefill"), fields.child("decode")
    prefill.reject_unknown(PREFILL_KEYS)
    decode.reject_unknown(DECODE_KEYS)
    prefill_factor, factor = (step.number("critical_path_factor", 1.0) for step in (prefill, decode))
    flop, nbytes = (prefill_factor * prefill.number(key) for key in PREFILL_KEYS[:2])
    more = [factor * decode.number(key) - token for key, token in zip(DECODE_KEYS, (flop, nbytes), strict=False)]
    if min(more) < 0:
        decode.fail("", "a decoded token goes through all that a prompt token does, so it cannot cost less")
    return Macro(
        flop_per_token=flop,
        nbytes_per_token=nbytes,
        flop_per_logit=more[0],
        nbytes_per_logit=more[1],
        weight_nbytes=factor * _weight_nbytes(prefill, decode),
        flop_per_pair=prefill_factor * prefill.number("attention_flops_per_token_pair", 0.0),
        flop_per_context_token=factor * decode.number("attention_flops_per_context_token", 0.0),
        kv_nbytes_per_context_token=factor * decode.number("kv_bytes_per_context_token", 0.0),
        decode_factor=factor,
    )


def _read_forward(forward: Fields) -> Macro:
    forward.reject_unknown(FORWARD_KEYS)
    factor = forward.number("critical_path_factor", 1.0)
    flop, nbytes = (factor * forward.number(key) for key in FORWARD_KEYS[:2])
    weights = factor * forward.number("weight_bytes_per_step", 0.0)
    pairs = factor * forward.number("attention_flops_per_token_pair", 0.0)
    return Macro(flop, nbytes, 0.0, 0.0, weights, pairs, 0.0, 0.0, factor)


def _weight_nbytes(prefill: Fields, decode: Fields) -> float:
    given = [step.number("weight_bytes_per_step") for step in (prefill, decode) if "weight_bytes_per_step" in step]
    if given and not math.isclose(min(given), max(given), rel_tol=1e-9):
        decode.fail("weight_bytes_per_step", "differs from prefill's; a mixture of experts needs `layers`")
    return given[0] if given else 0.0


def macro_blocks(macro: Macro, *, kind: OperatorKind, layers: int, hidden_size: int) -> tuple[Block, ...]:
    """Return `layers` times the block ``macro``, which together do what `macro` says.

    With one layer it is a single block; with more, each is an equal share, so that pipeline stages can take some of
    them. A share is two halves whose input features are divided under tensor parallelism, each followed by its
    all-reduce as in a transformer layer, and its attention. As nothing says what the backward pass needs, each
    tensor is taken to be written once, read once, and kept.
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

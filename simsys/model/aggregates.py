"""Macro operations: total costs of prompt processing and of a decode step (`aggregated_ops`).

The shipped ones are derived from the layers. At medium detail they decide the cost: each amount of an operator is
scaled by the ratio of the macro operation's amount to the sum over the layers (`scales_of`). A changed number
therefore counts, and an unchanged one gives a ratio of 1. An entry without layers becomes equal blocks that add up to
the macro operations (`simsys.model.macro_blocks`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

from simsys.model.fields import Fields
from simsys.model.model import Model
from simsys.model.operators import Operator, OperatorKind
from simsys.model.scales import PLAIN, Scale, Scales
from simsys.model.windows import in_serving, whole
from simsys.sums import ordered_sum

BYTES_PER_ELEMENT = 2.0  # the model DB's bytes are those of bf16
FACTOR = "critical_path_factor"
SAME = 1e-9
"""Up to this relative difference, macro operations and layers agree."""
PREFILL = {
    "total_flops_per_prompt_token": "flop",
    "total_memory_bytes_per_prompt_token": "elements",
    "weight_bytes_per_step": "weights",
    "attention_flops_per_token_pair": "pairs",
    FACTOR: "factor",
}
"""The amounts of a macro operation, and the ratio of `Scale` that follows each."""
DECODE = {
    "total_flops_per_token_in_batch": "flop",
    "total_memory_bytes_per_token_in_batch": "elements",
    "weight_bytes_per_step": "weights",
    "kv_bytes_per_context_token": "context",
    "attention_flops_per_context_token": "pairs",
    FACTOR: "factor",
}
FORWARD = {
    "total_flops_per_token": "flop",
    "total_memory_bytes_per_token": "elements",
    "weight_bytes_per_step": "weights",
    "attention_flops_per_token_pair": "pairs",
    FACTOR: "factor",
}
STEPS = {"prefill": PREFILL, "decode": DECODE, "forward": FORWARD}
Aggregates = Mapping[str, Mapping[str, float]]
"""Amounts by macro operation and key."""


def aggregated_ops(model: Model, *, forward: bool | None = None) -> dict[str, dict[str, float]]:
    """Return the macro operations as sums over the layers of a model.

    A prompt token does not pass the head; a decoded token, and a token of an encoder or a CNN (a sample), does. Costs
    of an encoder-decoder are for one token on each side, and one pair of each attention. Bytes per token are
    activations in bf16. Weights, read once per step, are separate: of a mixture of experts, all in prefill (a full
    batch), those of one token in decode. Sliding windows count as full attention.

    Args:
        model: The model.
        forward: Whether to return one forward pass, or prefill and decode; by default the latter for a decoder.
    """
    model = in_serving(model, whole)
    operators = [operator for block in model.blocks for operator in block.operators]
    pairs = ordered_sum(o.flop_per_pair for o in operators if o.kind is OperatorKind.ATTENTION)
    if model.family != "decoder" if forward is None else forward:
        return {"forward": dict(zip(FORWARD, (*_per_token(operators), _weights(operators), pairs, 1.0), strict=True))}
    body = [operator for operator in operators if not operator.per_logit]
    decode = [o for o in operators if o.kind is OperatorKind.DECODE_ATTENTION]
    cached = BYTES_PER_ELEMENT * ordered_sum(o.elements_per_context_token for o in decode)
    of_decode = _weights(operators, 1.0), cached, ordered_sum(o.flop_per_pair for o in decode)
    return {
        "prefill": dict(zip(PREFILL, (*_per_token(body), _weights(body), pairs, 1.0), strict=True)),
        "decode": dict(zip(DECODE, (*_per_token(operators), *of_decode, 1.0), strict=True)),
    }


def stated_ops(model: Model) -> dict[str, dict[str, float]]:
    """Return the macro operations as in an entry of the model DB: the costs of the model at medium detail."""
    derived, scales = aggregated_ops(model), model.scales or Scales()
    return {
        step: {key: amount * getattr(_scale_of(scales, step), STEPS[step][key]) for key, amount in amounts.items()}
        for step, amounts in derived.items()
    }


def _scale_of(scales: Scales, step: str) -> Scale:
    return scales.decode if step == "decode" else scales.prompts


def _per_token(operators: list[Operator]) -> tuple[float, float]:
    flop = ordered_sum(operator.flop_per_token for operator in operators)
    elements = ordered_sum(operator.elements_per_token + operator.elements_per_key_token for operator in operators)
    return flop, BYTES_PER_ELEMENT * elements


def _weights(operators: list[Operator], tokens: float = math.inf) -> float:
    return BYTES_PER_ELEMENT * ordered_sum(operator.parameters_read(tokens) for operator in operators)


def read_aggregates(fields: Fields) -> dict[str, dict[str, float]]:
    """Read `aggregated_ops`: ``prefill`` and ``decode``, or ``forward``, with the keys that are given.

    Raises:
        ConfigError: A key or value is wrong, or FLOP or bytes per token are missing.
    """
    names = ["forward"] if "forward" in fields else ["prefill", "decode"]
    fields.reject_unknown(names)
    fields.require(*names)
    return {name: _read_step(fields.child(name), STEPS[name]) for name in names}


def _read_step(fields: Fields, keys: Mapping[str, str]) -> dict[str, float]:
    fields.reject_unknown(keys)
    fields.require(*list(keys)[:2])
    given = {key: fields.number(key) for key in keys if key in fields}
    if given.get(FACTOR) == 0.0:
        fields.fail(FACTOR, "must be above 0; it multiplies the time of kernels")
    return given


def scales_of(model: Model, stated: Aggregates, fields: Fields) -> Scales | None:
    """Return the ratios of macro operations to the sums over the layers; None if all are 1.

    Args:
        model: The layers.
        stated: The macro operations.
        fields: The mapping that states them, for messages.

    Raises:
        ConfigError: A macro operation states an amount above 0 that is 0 in the layers, so that no kernel has it.
    """
    derived = aggregated_ops(model, forward="forward" in stated)
    scales = {step: _scale(amounts, derived[step], step, fields) for step, amounts in stated.items()}
    prompts = scales.get("forward") or scales["prefill"]
    decode = scales.get("forward") or scales["decode"]
    found = Scales(prompts._replace(context=decode.context), decode)  # of the cache, there is one amount
    return None if found == Scales() else found


def _scale(stated: Mapping[str, float], derived: Mapping[str, float], step: str, fields: Fields) -> Scale:
    ratios = {}
    for key, value in stated.items():
        if math.isclose(value, derived[key], rel_tol=SAME):
            continue
        if not derived[key]:
            fields.fail(f"{step}.{key}", f"states {value:g}, but the layers have nothing of it")
        ratios[STEPS[step][key]] = value / derived[key]
    return PLAIN._replace(**ratios)


def differences(model: Model) -> Iterator[str]:
    """Yield a phrase for each amount in which macro operations and layers of a model differ."""
    if model.scales is None:
        return
    derived = aggregated_ops(model)
    for step, amounts in stated_ops(model).items():
        for key, value in amounts.items():
            if not math.isclose(value, derived[step][key], rel_tol=SAME):
                yield f"{step}.{key} {value:.6g} (layers: {derived[step][key]:.6g})"

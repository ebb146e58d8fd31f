"""Whether sequences can be divided among ranks: sequence and context parallelism, and overlap that builds on them."""

from __future__ import annotations

from collections.abc import Mapping
from math import gcd

from simsys.check.findings import Findings
from simsys.check.nearest import divisors_near, either, nearest_multiples
from simsys.config.experiment import SimulationConfig
from simsys.model.model import Model
from simsys.model.operators import OperatorKind

SEQUENCE, CONTEXT = ("parallelism", "sequence_parallel"), ("parallelism", "cp_degree")
OVERLAP = ("parallelism", "tp_overlap")
LENGTHS = ("sequence_length", "decoder_sequence_length")
NAMES = {
    SEQUENCE: "sequence parallelism",
    CONTEXT: "context parallelism",
    OVERLAP: "overlap of tensor parallelism",
}


def check_sequences(config: SimulationConfig, gpus: int, model: Model | None, found: Findings) -> None:
    """Book what is wrong.

    Args:
        config: The scenario.
        gpus: GPUs of the cluster; 0 if unknown.
        model: The model; if it is unknown (None), lengths are not checked.
        found: Where problems are booked.
    """
    given = config.parallelism
    if config.training is None:
        if given.sequence_parallel and given.tp_degree == 1:
            found.error(SEQUENCE, "sequence_parallel has no effect with tp_degree 1; remove it")
        kinds = ((OVERLAP, given.tp_overlap), (CONTEXT, given.cp_degree > 1))
        for path, written in kinds:
            if written:
                found.error(path, f"{NAMES[path]} is for training; remove {path[1]}")
        return
    lengths = _lengths(config, model)
    longest = model.max_context_tokens if model is not None else 0
    if given.sequence_parallel:
        _check_sequence_parallel(given.tp_degree, given.cp_degree, lengths, longest, found)
    if given.tp_overlap and not (given.sequence_parallel and given.tp_degree > 1):
        message = (
            "tp_overlap cuts the exchanges of sequence parallelism; write sequence_parallel: true and a tp_degree"
        )
        found.error(OVERLAP, f"{message} above 1, or remove it")
    if given.cp_degree > 1 and model is not None:
        sharing = gpus // (given.tp_degree * given.pp_stages)
        _check_context_parallel(given.cp_degree, sharing, model, lengths, found)


def _lengths(config: SimulationConfig, model: Model | None) -> dict[str, int]:
    """Tokens of a sequence, and of a decoder's beside an encoder, by setting; none if the model is unknown."""
    if model is None:
        return {}
    lengths = {key: getattr(config.model, key) or getattr(model, key) for key in LENGTHS}
    return {key: length for key, length in lengths.items() if length}


def _check_sequence_parallel(
    tensor: int, context: int, lengths: Mapping[str, int], longest: int, found: Findings
) -> None:
    """It divides what a rank has of the sequences among the ranks of a tensor-parallel group."""
    if tensor == 1:
        found.error(SEQUENCE, "sequence_parallel needs a tp_degree above 1; write tp_degree: 2 or remove it")
        return
    among = f"tp_degree {tensor}" + (f" x cp_degree {context}" if context > 1 else "")
    for key, length in lengths.items():
        if length % (tensor * context):
            message = f"sequence parallelism divides sequences among {among} ranks, not {length} tokens"
            advice = _fitting_lengths(key, tensor * context, length, longest) or ["sequence_parallel: false"]
            found.error(SEQUENCE, f"{message}; {' or '.join(advice)} would fit")


def _check_context_parallel(
    context: int, gpus: int, model: Model, lengths: Mapping[str, int], found: Findings
) -> None:
    """Each rank gets an early and a late part of every sequence, so that a causal mask leaves all equally busy."""
    attends = any(
        operator.kind is OperatorKind.ATTENTION and operator.kv_elements_per_token
        for block in model.blocks
        for operator in block.operators
    )
    if not attends:
        found.error(CONTEXT, f"{model.name} has no attention whose keys and values could go around; use cp_degree: 1")
        return
    for key, length in lengths.items():
        if length % (2 * context):
            message = f"context parallelism divides sequences into 2 x cp_degree = {2 * context} parts"
            halves, odd = divmod(gcd(*lengths.values()), 2)
            degrees = [each for each in divisors_near(halves, context, gpus) if each > 1 and not odd]
            advice = [either("cp_degree", degrees)] if degrees else []
            advice += _fitting_lengths(key, 2 * context, length, model.max_context_tokens)
            found.error(CONTEXT, f"{message}, not {length} tokens; {' or '.join(advice) or 'cp_degree: 1'} would fit")


def _fitting_lengths(key: str, parts: int, length: int, longest: int) -> list[str]:
    """The lengths next to `length` that can be divided into so many parts, as a setting; nothing if there are none."""
    fitting = nearest_multiples(parts, length, longest)
    return [either(key, fitting)] if fitting else []

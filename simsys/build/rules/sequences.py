"""Checks whether sequences can be divided among ranks: sequence and context parallelism, and overlap with them."""

from __future__ import annotations

from collections.abc import Mapping
from math import gcd

from simsys.build.cluster import Cluster
from simsys.build.rules.degrees import degree, degrees
from simsys.build.rules.findings import Findings, Remedy, Suggestion
from simsys.build.rules.nearest import nearest_divisors, nearest_multiples
from simsys.build.rules.registry import Parts, rule
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


@rule("parallelism.sequence_parallel")
def divided_sequences(parts: Parts, found: Findings) -> None:
    """Ranks that divide a sequence get equal parts of it."""
    config, cluster, model, given = parts.config, parts.cluster, parts.model, parts.config.parallelism
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
        _check_context_parallel(config, cluster, model, lengths, found)


def _lengths(config: SimulationConfig, model: Model | None) -> dict[str, int]:
    """Tokens of a sequence, and of a decoder's sequence after an encoder, by setting; empty for an unknown model."""
    if model is None:
        return {}
    lengths = {key: getattr(config.model, key) or getattr(model, key) for key in LENGTHS}
    return {key: length for key, length in lengths.items() if length}


def _check_sequence_parallel(
    tensor: int, context: int, lengths: Mapping[str, int], longest: int, found: Findings
) -> None:
    """Sequence parallelism divides a rank's part of the sequences among the ranks of its tensor-parallel group."""
    if tensor == 1:
        groups: list[list[Remedy]] = [[{"parallelism.tp_degree": 2}], [{"parallelism.sequence_parallel": False}]]
        message = "sequence_parallel needs a tp_degree above 1"
        found.error(SEQUENCE, message, suggestion=Suggestion(groups, "write {}"))
        return
    among = f"tp_degree {tensor}" + (f" x cp_degree {context}" if context > 1 else "")
    for key, length in lengths.items():
        if length % (tensor * context):
            message = f"sequence parallelism divides sequences among {among} ranks, not {length} tokens"
            groups = _fitting_lengths(key, tensor * context, length, longest)
            groups = groups or [[{"parallelism.sequence_parallel": False}]]
            found.error(SEQUENCE, message, suggestion=Suggestion(groups))


def _check_context_parallel(
    config: SimulationConfig, cluster: Cluster | None, model: Model, lengths: Mapping[str, int], found: Findings
) -> None:
    """Each rank gets an early and a late part of every sequence, so that all are equally busy under a causal mask."""
    given = config.parallelism
    context, shared = given.cp_degree, given.tp_degree * given.pp_stages
    gpus = cluster.num_gpus // shared if cluster is not None else 0
    attends = any(
        operator.kind is OperatorKind.ATTENTION and operator.kv_elements_per_token
        for block in model.blocks
        for operator in block.operators
    )
    if not attends:
        message = f"{model.name} has no attention with keys and values to exchange"
        found.error(CONTEXT, message, suggestion=degrees(config, cluster, "cp_degree", [1]))
        return
    for key, length in lengths.items():
        if length % (2 * context):
            message = f"context parallelism divides sequences into 2 x cp_degree = {2 * context} parts"
            halves, odd = divmod(gcd(*lengths.values()), 2)
            near = [] if odd else [each for each in nearest_divisors(halves, context, gpus) if each > 1]
            groups = [degree(config, cluster, "cp_degree", each) for each in near[:2]]
            groups += _fitting_lengths(key, 2 * context, length, model.max_context_tokens)
            groups = groups or [degree(config, cluster, "cp_degree", 1)]
            found.error(CONTEXT, f"{message}, not {length} tokens", suggestion=Suggestion(groups))


def _fitting_lengths(key: str, parts: int, length: int, longest: int) -> list[list[Remedy]]:
    """The lengths next to `length` that can be divided into `parts` equal parts."""
    return [[{f"model.{key}": each}] for each in nearest_multiples(parts, length, longest)]

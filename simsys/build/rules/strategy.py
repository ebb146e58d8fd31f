"""Checks whether the name of a strategy and the degrees of parallelism agree."""

from __future__ import annotations

from collections.abc import Sequence

from simsys.build.rules.degrees import DIVIDING, degree
from simsys.build.rules.findings import Findings, Remedy, Suggestion
from simsys.build.rules.registry import Parts, rule
from simsys.config.parallelism import DATA_STRATEGIES, STRATEGY_PARTS, ParallelismConfig

STRATEGY = ("parallelism", "strategy")
KINDS = {"training": STRATEGY_PARTS, "serving": ("TP", "EP", "PP")}
"""Supported kinds of parallelism; in serving ``dp_degree`` is the number of independent replicas."""


@rule("parallelism.strategy")
def strategy(parts: Parts, found: Findings) -> None:
    """A degree above 1 needs a strategy with its kind, and a kind in the strategy needs a degree above 1."""
    config, given = parts.config, parts.config.parallelism
    kinds = KINDS[config.kind]
    if given.strategy is None:
        return
    if given.parts - set(kinds):
        names = ", ".join(["None", *kinds])
        found.error(STRATEGY, f"strategy {given.strategy} is not one for {config.kind}; so far there are: {names}")
        return
    replicas, before = _data_degree(parts), len(found.errors)
    for kind, key in DIVIDING.items():
        size = getattr(given, key)
        if size > 1 and kind not in given.parts and kind in kinds:
            _refuse_degree(given, key, size, [kind], found)
        elif size == 1 and kind in given.parts:
            rest = "_".join(part for part in STRATEGY_PARTS if part in given.parts - {kind})
            rest = rest or ("DDP" if config.training is not None and replicas > 1 else "None")
            message = f"strategy {given.strategy} with {key} 1 divides nothing"
            groups: list[Sequence[Remedy]] = [
                degree(config, parts.cluster, key, 2),
                [{"parallelism.strategy": rest}],
            ]
            found.error(STRATEGY, message, suggestion=Suggestion(groups, "write {}"))
    if len(found.errors) > before:
        return  # the number of replicas is not known yet
    if config.training is not None and replicas > 1 and not given.parts.intersection(DATA_STRATEGIES):
        _refuse_degree(given, "dp_degree", replicas, DATA_STRATEGIES, found)


def _refuse_degree(given: ParallelismConfig, key: str, size: int, kinds: Sequence[str], found: Findings) -> None:
    named = ("_".join(part for part in STRATEGY_PARTS if part in given.parts | {kind}) for kind in kinds)
    suggestion = Suggestion([[{"parallelism.strategy": name}] for name in named], "write {}")
    path = ("parallelism", key)
    if found.written(path):
        found.error(path, f"strategy {given.strategy} has no {key} above 1, not {size}", suggestion=suggestion)
    else:
        message = f"strategy {given.strategy} leaves {size} replicas without a strategy"
        found.error(STRATEGY, message, suggestion=suggestion)


def _data_degree(parts: Parts) -> int:
    """The data-parallel degree, given or implied; 1 if the scenario names its own data-parallel module."""
    config, given = parts.config, parts.config.parallelism
    if config.training is not None and config.training.data_parallel is not None:
        return 1
    if given.dp_degree is not None:
        return given.dp_degree
    return parts.cluster.num_gpus // given.shards if parts.cluster is not None else 1

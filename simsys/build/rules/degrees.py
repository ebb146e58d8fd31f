"""Proposals of degrees in place of one that does not fit, with the settings that have to change with them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from simsys.build.cluster import Cluster
from simsys.build.rules.findings import Remedy, Suggestion
from simsys.config.experiment import SimulationConfig
from simsys.config.parallelism import DATA_STRATEGIES, STRATEGY_PARTS

DIVIDING = {"TP": "tp_degree", "CP": "cp_degree", "EP": "ep_degree", "PP": "pp_stages"}
"""The setting of the degree of each kind of parallelism."""


def degrees(config: SimulationConfig, cluster: Cluster | None, key: str, values: Iterable[int]) -> Suggestion:
    """Propose values of a degree: each alone, or else with matching replicas and strategy."""
    return Suggestion([degree(config, cluster, key, value) for value in values])


def degree(config: SimulationConfig, cluster: Cluster | None, key: str, value: int) -> list[Remedy]:
    """Remedies of one value of a degree: alone, and with matching replicas and strategy."""
    alone: dict[str, Any] = {f"parallelism.{key}": value}
    given = config.parallelism
    named = {name: getattr(given, name) for name in (*DIVIDING.values(), "attention_dp")} | {key: value}
    together = dict(alone)
    shards = named["tp_degree"] * named["cp_degree"] * named["pp_stages"] * named["attention_dp"]
    gpus = cluster.num_gpus if cluster is not None else shards * (given.dp_degree or 1)
    if gpus % shards:
        return [alone]
    replicas = gpus // shards
    if given.dp_degree is not None and given.dp_degree != replicas:
        together["parallelism.dp_degree"] = replicas
    if given.strategy is not None:
        data = next((part for part in DATA_STRATEGIES if part in given.parts), DATA_STRATEGIES[0])
        kinds = {kind for kind, name in DIVIDING.items() if named[name] > 1}
        kinds |= {data} if config.training is not None and replicas > 1 else set()
        strategy = "_".join(part for part in STRATEGY_PARTS if part in kinds) or "None"
        if kinds != given.parts:
            together["parallelism.strategy"] = strategy
    return [alone] if together == alone else [alone, together]

"""From the section `search` of a serving scenario to the axes of its space."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from math import prod
from typing import Any

from simsys.build.cluster import Cluster
from simsys.build.serving_precision import kv_precision, weights_of
from simsys.build.variants.variant import variants_of
from simsys.config.engine_schema import EngineProfile
from simsys.config.experiment import SimulationConfig
from simsys.config.serving import ServingConfig
from simsys.config.serving_options import DisaggregatedConfig
from simsys.errors import UsageError
from simsys.model.model import Model
from simsys.model.precision import half_of
from simsys.searches.scenarios import AUTO, is_written

KEYS = {
    "parallelism.tp_degree": "tensor",
    "parallelism.pp_stages": "pipeline",
    "parallelism.attention_dp": "attention",
    "parallelism.ep_degree": "expert",
    "parallelism.dp_degree": "replicas",
    "serving.precision": "precision",
    "serving.kv_precision": "kv_precision",
    "serving.max_num_seqs": "sequences",
    "serving.max_num_batched_tokens": "tokens",
    "serving.router": "routers",
    "serving.disaggregated": "pools",
}
"""The settings of a deployment, each with its axis."""
FOLLOWS = {
    "workload.num_requests": "it is the length of the runs",
    "workload.duration": "it is the length of the runs",
    "simulation.duration": "it is the length of the runs",
}
"""Settings that cannot be searched, with the reason."""
COUNTS = ("tensor", "pipeline", "attention", "expert", "replicas", "sequences", "tokens")
PIPELINES = (1, 2, 4, 8)
SEQUENCES, TOKENS = (None, 64, 256), (None, 2048, 8192)
PREFILL_SHARES = (Fraction(1, 4), Fraction(1, 3), Fraction(1, 2), Fraction(2, 3))
"""Shares of the replicas that process prompts."""
MOST_GPUS = 1024
"""Most GPUs of a deployment whose number of replicas varies, unless a condition allows more."""
Pools = Fraction | DisaggregatedConfig | None
"""Division into prefill and decode replicas: their share, their numbers, or none."""


@dataclass(frozen=True)
class Axes:
    """The values of each axis of the space.

    Args:
        tensor: Tensor-parallel degrees.
        pipeline: Numbers of pipeline stages.
        attention: Data-parallel ranks of a replica that share their experts.
        expert: Expert-parallel degrees; 0 for all GPUs of a replica that share the experts.
        replicas: Numbers of replicas; None for any.
        precision: Precisions of the weights; None for that of the scenario or checkpoint.
        kv_precision: Precisions of the KV cache; None for that which follows from the weights or checkpoint.
        sequences: Most sequences of a step; None for the default of the engine.
        tokens: Most tokens of a step; None for the default of the engine.
        routers: Routers.
        pools: Divisions of the replicas into prefill and decode.
    """

    tensor: tuple[int, ...]
    pipeline: tuple[int, ...]
    attention: tuple[int, ...]
    expert: tuple[int, ...]
    replicas: tuple[int, ...] | None
    precision: tuple[str | None, ...]
    kv_precision: tuple[str | None, ...]
    sequences: tuple[int | None, ...]
    tokens: tuple[int | None, ...]
    routers: tuple[str, ...]
    pools: tuple[Pools, ...]

    @property
    def groups(self) -> list[tuple[int, int, int]]:
        """Combinations of tensor-parallel degree, pipeline stages and data-parallel ranks of a replica."""
        return list(product(self.tensor, self.pipeline, self.attention))

    @property
    def each(self) -> int:
        """Number of combinations of all values but these and the number of replicas."""
        sides = (self.expert, self.precision, self.kv_precision, self.sequences, self.tokens, self.routers, self.pools)
        return prod(map(len, sides))

    @property
    def shapes(self) -> int:
        """Number of combinations of all values but the number of replicas."""
        return len(self.groups) * self.each


def deployment_axes(
    config: SimulationConfig,
    over: Mapping[str, Any] | str,
    cluster: Cluster,
    model: Model,
    engine: EngineProfile,
    *,
    node_gpus: int,
) -> Axes:
    """The axes of a search.

    Args:
        config: The scenario.
        over: As `SearchConfig.over`; keys that belong to no axis are ignored.
        cluster: The cluster as it is written.
        model: The model.
        engine: The engine.
        node_gpus: GPUs of a whole node.

    Raises:
        UsageError: If a value does not belong to its axis.
    """
    found: dict[str, Any] = {}
    useful = _Useful(config, cluster, model, engine, node_gpus)
    for key, axis in KEYS.items():
        given = asked_values(config, over, key)
        if given is None:
            found[axis] = (_value(config, key),)
        elif given == AUTO:
            found[axis] = useful.values(axis)
        else:
            found[axis] = _values(key, axis, given)
    if found["replicas"] == (None,):
        found["replicas"] = None
    return Axes(**found)


def different_precisions(
    config: SimulationConfig, axes: Axes, cluster: Cluster, model: Model
) -> list[tuple[str | None, str | None]]:
    """Written precisions of weights and KV cache, without those that mean the same as earlier ones."""
    serving, half = config.serving, half_of(cluster.spec.peak_flop_per_s)
    assert serving is not None
    found: dict[object, tuple[str | None, str | None]] = {}
    for precision, kv in product(axes.precision, axes.kv_precision):
        written = {"precision": precision, "kv_precision": kv}
        settings = serving.model_copy(update={key: value for key, value in written.items() if value is not None})
        try:
            meaning: object = (weights_of(settings, model), kv_precision(settings, model, half))
        except UsageError:
            meaning = precision, kv
        found.setdefault(meaning, (precision, kv))
    return list(found.values())


def asked_values(config: SimulationConfig, over: Mapping[str, Any] | str, key: str) -> Sequence[Any] | str | None:
    """The values that a search asks for, or ``auto``; None if the setting does not vary."""
    if isinstance(over, Mapping):
        return over.get(key)
    return None if is_written(config, key) else AUTO


def _value(config: SimulationConfig, key: str) -> Any:
    section, _, name = key.partition(".")
    return getattr(getattr(config, section), name)


@dataclass(frozen=True)
class _Useful:
    """The values of axes that may be of use."""

    config: SimulationConfig
    cluster: Cluster
    model: Model
    engine: EngineProfile
    node_gpus: int

    @property
    def serving(self) -> ServingConfig:
        assert self.config.serving is not None
        return self.config.serving

    def values(self, axis: str) -> tuple[Any, ...] | None:
        """All values of an axis that may be of use; None for any number of replicas."""
        drafted = self.serving.drafted
        plain: dict[str, tuple[Any, ...] | None] = {
            "tensor": tuple(each for each in range(1, self.node_gpus + 1) if self.node_gpus % each == 0),
            "pipeline": PIPELINES,
            "attention": self._attention(),
            "expert": (1, 0) if self.model.experts > 1 else (1,),
            "replicas": None,
            "sequences": SEQUENCES,
            "tokens": tuple(each and each * (1 + drafted) for each in TOKENS),
            "routers": self._routers(),
            "pools": (None, *PREFILL_SHARES) if self._may_divide() else (self.serving.disaggregated,),
            "precision": self._precisions(),
            "kv_precision": self._kv_precisions(),
        }
        return plain[axis]

    def _routers(self) -> tuple[str, ...]:
        workload = self.config.workload
        shared = workload is not None and (workload.prefixes is not None or workload.sessions is not None)
        return ("round_robin", "least_outstanding", *(("prefix_affinity",) if shared else ()))

    def _attention(self) -> tuple[int, ...]:
        """Data-parallel ranks within a node, where there are experts to share and nothing that excludes these."""
        if self.model.experts == 1 or any(each.apart for each in variants_of(self.serving)):
            return (1,)
        return tuple(each for each in range(1, self.node_gpus + 1) if self.node_gpus % each == 0)

    def _may_divide(self) -> bool:
        """Whether prefill and decode may be divided, in combination with the written settings."""
        serving = self.serving
        return not (serving.autoscaling or serving.speculative or serving.preemption != "recompute")

    def _precisions(self) -> tuple[str | None, ...]:
        """The precision of the scenario or checkpoint, and lower ones in which the GPU computes."""
        if self.model.quantization is not None:
            return (None,)
        lower = [each for each in ("fp8", "fp4") if each in self.cluster.spec.peak_flop_per_s]
        return (None, *(each for each in lower if each != weights_of(self.serving, self.model)))

    def _kv_precisions(self) -> tuple[str | None, ...]:
        """The precision that follows from the weights, and fp8 where the engine has it."""
        known = self.engine.kv_precisions
        if known is not None and "fp8" not in known:
            return (None,)
        if self.model.quantization is not None and self.model.quantization.problem:
            return (None,)
        own = kv_precision(self.serving, self.model, half_of(self.cluster.spec.peak_flop_per_s))
        return (None,) if own == "fp8" else (None, "fp8")


def _values(key: str, axis: str, given: Sequence[Any]) -> tuple[Any, ...]:
    """The values that the user lists."""
    free: Collection[Any] = (None,) if axis in ("sequences", "tokens", "precision", "kv_precision", "pools") else ()
    for each in given:
        if each in free:
            continue
        if axis in COUNTS and (isinstance(each, bool) or not isinstance(each, int) or each < 1):
            raise UsageError(f"search.over: {key}: positive integers are needed, not {each!r}")
        if axis not in (*COUNTS, "pools") and not isinstance(each, str):
            raise UsageError(f"search.over: {key}: a name is needed, not {each!r}")
    if axis == "pools":
        return tuple(_pools(key, each) for each in given)
    return tuple(dict.fromkeys(given))


def _pools(key: str, given: Any) -> Pools:
    if given is None:
        return None
    try:
        pools = DisaggregatedConfig.model_validate(given)
    except ValueError as error:
        raise UsageError(f"search.over: {key}: {error}") from None
    if pools.own_degrees:
        raise UsageError(f"search.over: {key}: prefill and decode replicas have the degrees that are searched")
    return pools

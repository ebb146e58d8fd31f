"""Checks whether a scenario fits into device memory, and applies remedies: settings that change the memory need.

A remedy is a set of settings that can be written into the experiment file. `training_remedies` and `serving_remedies`
list them. A remedy is proposed only after the scenario with its settings was built and passed the memory rule.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, TypeVar, cast

from simsys.build.cluster import Cluster
from simsys.build.job import cluster_of, job_of
from simsys.build.rules.findings import Remedy
from simsys.build.serving import ServingJob
from simsys.build.training import TrainingJob
from simsys.config.document import KeyPath
from simsys.config.experiment import SimulationConfig
from simsys.config.places import key_path
from simsys.errors import InfeasibleError
from simsys.sums import ordered_sum
from simsys.units import pretty_memory

Job = TypeVar("Job", TrainingJob, ServingJob)
MAX_TENSOR_DEGREE = 64


def memory_problem(job: TrainingJob | ServingJob, tokens: int = 1) -> str:
    """Why a job does not fit into the memory of its GPUs; empty if it does.

    Args:
        job: The job to check.
        tokens: In serving, the shortest request (prompt and output) that must fit into the KV cache alone.
    """
    if isinstance(job, TrainingJob):
        available = job.cluster.smallest.memory_bytes
        if ordered_sum(job.memory_bytes.values()) <= available:
            return ""
        return f"{_does_not_fit(job, job.memory_bytes)}, {pretty_memory(available)} are available"
    return next(filter(None, (_no_room(pool, tokens) for pool in job.pools)), "")


def _no_room(pool: ServingJob, tokens: int) -> str:
    """Why replicas cannot serve the shortest request; empty if they can."""
    try:
        capacity = pool.engine_blocks * pool.settings.block_size
    except InfeasibleError:
        needed = _does_not_fit(pool, pool.fixed_bytes)
        usable = pretty_memory(pool.usable_bytes(pool.fixed_bytes))
        return f"{needed} before any KV cache, {usable} are usable{pool.cache_shortage()}"
    if tokens - 1 <= capacity:  # the last token of a request is never cached
        return ""
    held = f"{pool.engine_blocks} blocks of {pool.settings.block_size}"
    return f"the KV cache has room for {capacity} tokens ({held}), but the shortest request has {tokens}"


def remedy_text(remedy: Remedy) -> str:
    """The settings as text in YAML.

    Example:
        >>> remedy_text({"parallelism.tp_degree": 4, "parallelism.dp_degree": 2})
        'parallelism.tp_degree: 4 and parallelism.dp_degree: 2'
    """
    return " and ".join(f"{path}: {_yaml(value)}" for path, value in remedy.items())


def _yaml(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def changed(config: SimulationConfig, remedy: Remedy) -> SimulationConfig:
    """A copy of the scenario with a remedy's settings."""
    folder = config.folder
    for path, value in remedy.items():
        config = _with(config, key_path(path), value)
    return config.located_in(folder)


def _with(part: Any, path: KeyPath, value: Any) -> Any:
    """A copy of a part of a scenario with one setting in it changed."""
    if not path:
        return value
    key, rest = path[0], path[1:]
    if isinstance(part, list):
        return [_with(each, rest, value) if place == key else each for place, each in enumerate(part)]
    if isinstance(part, Mapping):
        return {**part, key: _with(part.get(key, {}), rest, value)}
    return part.model_copy(update={str(key): _with(getattr(part, str(key)), rest, value)})


def changed_setup(job: TrainingJob | ServingJob, remedy: Remedy) -> tuple[SimulationConfig, Cluster]:
    """The scenario of a job with a remedy's settings, and the cluster of this scenario."""
    config = changed(job.config, remedy)
    if not any(path.startswith("hardware.") for path in remedy):
        return config, job.cluster
    return config, cluster_of(config)


def applied(job: Job, remedy: Remedy) -> Job:
    """Build the job with a remedy's settings, without a check."""
    return cast(Job, job_of(*changed_setup(job, remedy), job.model))


def _does_not_fit(job: TrainingJob | ServingJob, components: Mapping[str, float]) -> str:
    parts = ", ".join(f"{name} {pretty_memory(size)}" for name, size in components.items() if size)
    needed = pretty_memory(ordered_sum(components.values()))
    return f"{job.model.name} does not fit into {job.cluster.smallest.name}: {needed} are needed ({parts})"

"""The aspects of a scenario: groups of settings in which two scenarios are the same or differ.

Pairs of measured runs and pairs of users' scenarios have the same names of aspects, so that a comparison can report
the error of ratios of such pairs (`simsys.config.expected_ratios`).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias

from simsys.build.job import Job
from simsys.build.training import TrainingJob
from simsys.config.expected_ratios import ENGINE, GPU

Aspects: TypeAlias = Mapping[str, str]
"""The settings of each aspect as JSON, by the name of the aspect."""

MODEL, NUM_GPUS, LAYOUT = "model", "number of GPUs or nodes", "layout"
BATCH, MICRO_BATCH, LENGTHS, NETWORK = "global batch", "micro-batch", "lengths", "nodes and links"
LOAD = "load or engine limits"
"""One aspect, since measurements of batches limit the engine to the batch."""
RELEASE = "engine release"
COMES_WITH: Mapping[str, str] = {GPU: NETWORK, ENGINE: RELEASE}
"""Aspects that another one brings with it."""
PATHS: Mapping[str, str] = {
    "model": MODEL,
    "model.sequence_length": LENGTHS,
    "model.decoder_sequence_length": LENGTHS,
    "hardware": NETWORK,
    "network": NETWORK,
    "parallelism": LAYOUT,
    "training.options": LAYOUT,
    "training.data_parallel": LAYOUT,
    "training.precision": "precision",
    "training.mixed_precision": "precision",
    "training.activation_recompute": "activation recomputation",
    "training.attention": "kernels",
    "training.norms": "kernels",
    "training.fused_optimizer": "kernels",
    "serving.precision": "precision",
    "serving.kv_precision": "precision",
    "serving.engine_release": RELEASE,
    "serving.max_num_seqs": LOAD,
    "serving.max_num_batched_tokens": LOAD,
    "serving.max_model_len": LOAD,
    "serving.allow_long_max_model_len": LOAD,
    "workload.arrivals": LOAD,
    "workload.prompt_tokens": LENGTHS,
    "workload.output_tokens": LENGTHS,
}
"""Aspects by the paths of their settings; a longer path has priority. Other settings are aspects of their own."""
LEFT_OUT = (
    *("name", "description", "economics", "simulation", "slo", "sweep", "search", "lab", "training.target"),
    *("hardware.gpu", "hardware.gpu_model", "hardware.num_nodes", "hardware.gpus_per_node"),
    *("parallelism.dp_degree", "training.engine", "serving.engine", "training.num_nodes", "training.num_iterations"),
    *("training.batch_size_per_gpu", "training.gradient_accumulation_steps", "training.global_batch_size"),
    *("workload.num_requests", "workload.duration"),
)
"""Settings that change no figure, and settings that `aspects_of` reads from the job."""


def aspects_of(job: Job) -> Aspects:
    """Return the aspects of a scenario.

    The data-parallel degree follows from the number of GPUs and the layout, so it is part of neither.
    """
    world_size = job.layout.world_size
    found: dict[str, dict[str, Any]] = {
        GPU: {"name": job.cluster.gpu.name},
        ENGINE: {"name": job.engine.name},
        NUM_GPUS: {"gpus": world_size, "nodes": -(-world_size // job.cluster.gpus_per_node)},
    }
    if isinstance(job, TrainingJob):
        settings = job.settings
        samples = settings.batch_size_per_gpu * settings.gradient_accumulation_steps * job.layout.data
        found[BATCH] = {"samples": samples}
        found[MICRO_BATCH] = {"samples": settings.batch_size_per_gpu}
    for path, value in _settings(job.config.model_dump(mode="json", exclude_none=True)):
        if _longest(path, LEFT_OUT) is None:
            own = _longest(path, PATHS)
            found.setdefault(PATHS[own] if own is not None else path, {})[path] = value
    return {name: json.dumps(each, sort_keys=True) for name, each in found.items()}


def different_aspects(one: Aspects, other: Aspects) -> list[str]:
    """Return the names of the aspects in which two scenarios differ, sorted.

    Nodes and links come with the GPU, and a release with the engine, so they are not named in addition.

    Example:
        >>> different_aspects({"GPU": "1", "load": "2"}, {"GPU": "1", "load": "3"})
        ['load']
    """
    found = {name for name in one.keys() | other.keys() if one.get(name) != other.get(name)}
    return sorted(found - {with_it for owner, with_it in COMES_WITH.items() if owner in found})


def _settings(data: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the settings of nested mappings by dotted path."""
    for key, value in data.items():
        if isinstance(value, dict):
            yield from _settings(value, f"{path}{key}.")
        else:
            yield f"{path}{key}", value


def _longest(path: str, places: Mapping[str, str] | tuple[str, ...]) -> str | None:
    """Return the longest of these paths that is this path or contains it."""
    parts = path.split(".")
    inside = (".".join(parts[:count]) for count in range(len(parts), 0, -1))
    return next((each for each in inside if each in places), None)

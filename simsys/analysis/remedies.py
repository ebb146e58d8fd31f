"""Settings that may reduce what a run loses to a resource; `gains` simulates them.

A remedy is a function from a job to candidates. To add one, write such a function and put it into `TRAINING` or, in
`serving_remedies`, into `SERVING`, at the resources that it helps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar

from simsys.build.rules.findings import Remedy
from simsys.build.training import TrainingJob
from simsys.check.training_remedies import (
    MAX_MICRO_BATCHES,
    SHARDING,
    current_strategy,
    fused_attention,
    more_tensor,
    sequence_parallel,
    smaller_batch,
    strategy_remedy,
    with_degree,
)

OTHER_BATCH = "changes the global batch"
FEWER_BITS = "fewer bits per number"
REPAIR = "repair or replacement"
LARGEST_FACTOR = 16
"""Most times that a batch is enlarged."""


@dataclass(frozen=True)
class Candidate:
    """Settings that may help.

    Args:
        settings: The settings by dotted path.
        note: What they change in addition to time; empty if nothing.
    """

    settings: Remedy
    note: str = ""


Remedies: TypeAlias = Callable[[TrainingJob], Iterator[Candidate]]
JobType = TypeVar("JobType")


def plain(*kinds: Callable[[JobType], Iterator[Remedy]]) -> Callable[[JobType], Iterator[Candidate]]:
    """Remedies that change nothing but time and memory."""

    def remedies(job: JobType) -> Iterator[Candidate]:
        for kind in kinds:
            yield from map(Candidate, kind(job))

    return remedies


def whole_links(job: Any) -> Iterator[Candidate]:
    """Links at their usual bandwidth: each degradation removed, and all."""
    yield from _without("network.degradations", job.config.network.degradations)


def whole_gpus(job: Any) -> Iterator[Candidate]:
    """GPUs as fast as the others: each exception and slowdown removed, and all of a kind."""
    hardware = job.config.hardware
    yield from _without("hardware.exceptions", hardware.exceptions)
    yield from _without("hardware.slowdowns", hardware.slowdowns)


def _without(path: str, entries: Sequence[Any]) -> Iterator[Candidate]:
    if entries:
        yield Candidate({path: []}, REPAIR)
    if len(entries) > 1:
        for place in range(len(entries)):
            yield Candidate({path: [each for index, each in enumerate(entries) if index != place]}, REPAIR)


def automatic_collectives(job: Any) -> Iterator[Candidate]:
    """The fastest algorithm of collectives."""
    if job.settings.communication_pattern != "auto":
        section = "training" if isinstance(job, TrainingJob) else "serving"
        yield Candidate({f"{section}.communication_pattern": "auto"})


# --- training -----------------------------------------------------------------------------------------------------


def overlap(job: TrainingJob) -> Iterator[Candidate]:
    """Communication beside computation, and less of it."""
    given, layout = job.config.parallelism, job.layout
    for name, matters in (("tp_overlap", layout.tensor), ("p2p_overlap", layout.pipeline)):
        if matters > 1 and not getattr(given, name):
            yield Candidate({f"parallelism.{name}": True})
    if layout.tensor > 1 and layout.pipeline > 1 and not given.scatter_gather:
        yield Candidate({"parallelism.scatter_gather": True})


def other_sharding(job: TrainingJob) -> Iterator[Candidate]:
    """Other kinds of data parallelism."""
    for data in SHARDING:
        if data != current_strategy(job) and (remedy := strategy_remedy(job, data)):
            yield Candidate(remedy)


def more_accumulation(job: TrainingJob) -> Iterator[Candidate]:
    """More micro-batches of the same size for each step of the optimizer."""
    steps = job.settings.gradient_accumulation_steps
    for factor in (2, 4, 8, 16):
        if steps * factor <= MAX_MICRO_BATCHES and not job.settings.batch_schedule:
            yield Candidate({**_free(job), "training.gradient_accumulation_steps": steps * factor}, OTHER_BATCH)


def fewer_stages(job: TrainingJob) -> Iterator[Candidate]:
    """Shorter pipelines, with more replicas in their place."""
    stages = job.layout.pipeline // 2
    while stages >= 1:
        yield from map(Candidate, with_degree(job, "pp_stages", stages))
        stages //= 2


def less_tensor(job: TrainingJob) -> Iterator[Candidate]:
    """Smaller tensor-parallel groups, with more replicas in their place."""
    degree = job.layout.tensor // 2
    while degree >= 1:
        yield from map(Candidate, with_degree(job, "tp_degree", degree))
        degree //= 2


def smaller_micro_batches(job: TrainingJob) -> Iterator[Candidate]:
    """More micro-batches from the same samples: the factors of two, or the smallest ones."""
    found = list(smaller_batch(job))
    steps = job.settings.gradient_accumulation_steps
    doubled = [each for each in found if _is_power(each["training.gradient_accumulation_steps"] / steps)]
    yield from map(Candidate, (doubled or found)[:3])


def other_schedules(job: TrainingJob) -> Iterator[Candidate]:
    """Pipeline schedules with smaller bubbles."""
    if job.layout.pipeline == 1:
        return
    given = job.config.parallelism
    if given.schedule != "zero_bubble":
        yield Candidate({"parallelism.schedule": "zero_bubble", "parallelism.virtual_stages": 1})
    for chunks in (2, 4):
        if given.virtual_stages != chunks:
            yield Candidate({"parallelism.schedule": "interleaved", "parallelism.virtual_stages": chunks})


def larger_micro_batches(job: TrainingJob) -> Iterator[Candidate]:
    """Larger micro-batches: fewer of them from the same samples, or a larger global batch."""
    given = job.settings
    size, steps = given.batch_size_per_gpu, given.gradient_accumulation_steps
    if given.batch_schedule:
        return
    factor = 2
    while factor <= max(LARGEST_FACTOR, steps):
        if steps % factor == 0:
            settings = {"training.batch_size_per_gpu": size * factor}
            yield Candidate({**settings, "training.gradient_accumulation_steps": steps // factor})
        elif factor <= LARGEST_FACTOR:
            yield Candidate({**_free(job), "training.batch_size_per_gpu": size * factor}, OTHER_BATCH)
        factor *= 2


def better_kernels(job: TrainingJob) -> Iterator[Candidate]:
    """Fused kernels."""
    given = job.settings
    if given.attention != "fused":
        yield Candidate({"training.attention": "fused"})
    if given.norms != "fused":
        yield Candidate({"training.norms": "fused"})
    if not given.fused_optimizer:
        yield Candidate({"training.fused_optimizer": True})


def smaller_numbers(job: TrainingJob) -> Iterator[Candidate]:
    """Matrix products in fewer bits, if the GPUs have them."""
    peaks = job.cluster.spec.peak_flop_per_s
    if job.precision.compute in ("fp32", "tf32") and "bf16" in peaks:
        yield Candidate({"training.mixed_precision": True, "training.precision": "bf16"}, FEWER_BITS)
    elif job.precision.compute in ("bf16", "fp16") and "fp8" in peaks:
        yield Candidate({"training.precision": "fp8"}, FEWER_BITS)


def less_recomputation(job: TrainingJob) -> Iterator[Candidate]:
    """Less recomputation of activations, and no offloading."""
    kinds, given = ("none", "selective", "half", "full"), job.settings.activation_recompute
    less = kinds[: kinds.index(given)] if isinstance(given, str) else ("none",)
    for kind in less:
        yield Candidate({"training.activation_recompute": kind})
    if getattr(job.data_parallel[1], "offload", "none") != "none":
        yield Candidate({"training.options": {**job.settings.options, "offload": "none"}})


def less_host(job: TrainingJob) -> Iterator[Candidate]:
    """Checkpoints in the background or fewer of them, and faster loading."""
    saved, loading = job.settings.checkpoint, job.settings.data_loading
    if saved is not None:
        if not saved.asynchronous:
            yield Candidate({"training.checkpoint.asynchronous": True})
        yield Candidate({"training.checkpoint.interval": 10 * saved.interval}, "more work is lost by a failure")
    if loading is not None and loading.time:
        if not loading.prefetch:
            yield Candidate({"training.data_loading.prefetch": True})
        for workers in (2, 8):
            note = f"{workers} times the loader's workers"
            yield Candidate({"training.data_loading.time": loading.time / workers}, note)


def _free(job: TrainingJob) -> dict[str, Any]:
    """The setting that frees the global batch."""
    return {} if job.settings.global_batch_size is None else {"training.global_batch_size": None}


def _is_power(ratio: float) -> bool:
    return ratio == int(ratio) and int(ratio) & (int(ratio) - 1) == 0


TRAINING: Mapping[str, Sequence[Remedies]] = {
    "network": (
        whole_links,
        overlap,
        plain(sequence_parallel),
        automatic_collectives,
        other_sharding,
        less_tensor,
        more_accumulation,
        larger_micro_batches,
    ),
    "bubble": (smaller_micro_batches, other_schedules, fewer_stages, more_accumulation),
    "compute": (
        whole_gpus,
        better_kernels,
        larger_micro_batches,
        plain(fused_attention),
        smaller_numbers,
        other_sharding,
    ),
    "memory": (less_recomputation, other_sharding, plain(more_tensor)),
    "host": (less_host, larger_micro_batches),
}
"""Remedies by resource, those without side effects first."""

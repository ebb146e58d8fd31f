"""Settings that may reduce what a serving run loses to a resource; see `remedies`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, TypeAlias

from simsys.analysis.remedies import FEWER_BITS, Candidate, automatic_collectives, plain, whole_gpus, whole_links
from simsys.build.serving import ServingJob
from simsys.check.serving_remedies import memory_share, more_tensor, small_cache, small_weights, twice_the_replicas
from simsys.config.serving import CACHE_SIZES

Remedies: TypeAlias = Callable[[ServingJob], Iterator[Candidate]]
MORE_GPUS = "more GPUs"
VARIANTS = 2
"""Most variants of a remedy with many."""


def whole_cache(job: ServingJob) -> Iterator[Candidate]:
    """The memory that the engine uses by default, in place of a smaller cache that the scenario asks for."""
    given = [name for name in CACHE_SIZES if getattr(job.config.serving, name) is not None]
    if given:
        yield Candidate({f"serving.{name}": None for name in given})


def smaller_numbers(job: ServingJob) -> Iterator[Candidate]:
    """A KV cache in 8 bit, and weights in fewer bits."""
    yield from (Candidate(remedy, FEWER_BITS) for remedy in small_cache(job))
    yield from (Candidate(remedy, FEWER_BITS) for remedy in islice(small_weights(job), VARIANTS))


def larger_groups(job: ServingJob) -> Iterator[Candidate]:
    """Larger tensor-parallel groups on the present GPUs."""
    yield from map(Candidate, islice(more_tensor(job), VARIANTS))


def smaller_groups(job: ServingJob) -> Iterator[Candidate]:
    """Smaller tensor-parallel groups, with more replicas in their place."""
    given, degree = job.config.parallelism, job.layout.tensor // 2
    if degree < 1 or given.ep_degree > 1 or job.settings.disaggregated is not None:
        return
    remedy: dict[str, Any] = {"parallelism.tp_degree": degree}
    if given.dp_degree is not None:
        remedy["parallelism.dp_degree"] = 2 * given.dp_degree
    if given.strategy is not None and degree == 1:
        remedy["parallelism.strategy"] = "PP" if job.layout.pipeline > 1 else "None"
    yield Candidate(remedy)


def more_sequences(job: ServingJob) -> Iterator[Candidate]:
    """More sequences in a step, if there can be as many requests at a time."""
    if job.settings.max_num_seqs >= (job.requests.concurrency or len(job.requests)):
        return
    now, tokens = job.settings.max_num_seqs, job.settings.max_num_batched_tokens
    usual = job.settings.defaults["max_num_seqs"].value if "max_num_seqs" in job.settings.defaults else None
    for count in dict.fromkeys([2 * now, 8 * now, 32 * now, usual]):
        if count is not None and count > now:
            enough = {} if tokens >= count else {"serving.max_num_batched_tokens": count}
            yield Candidate({"serving.max_num_seqs": count, **enough})


def fewer_sequences(job: ServingJob) -> Iterator[Candidate]:
    """Fewer sequences in a step, so that the admitted ones keep their cache."""
    for factor in (4, 16):
        if job.settings.max_num_seqs >= 2 * factor:
            yield Candidate({"serving.max_num_seqs": job.settings.max_num_seqs // factor})


def other_steps(job: ServingJob) -> Iterator[Candidate]:
    """More tokens in a step for prompts, or fewer so that they delay decoding less."""
    now = job.settings.max_num_batched_tokens
    yield Candidate({"serving.max_num_batched_tokens": 2 * now})
    yield Candidate({"serving.max_num_batched_tokens": 4 * now})
    if now // 2 >= job.settings.max_num_seqs:
        yield Candidate({"serving.max_num_batched_tokens": now // 2})


def better_router(job: ServingJob) -> Iterator[Candidate]:
    """Requests go to the replica with the fewest."""
    if job.layout.data > 1 and job.settings.router != "least_outstanding":
        yield Candidate({"serving.router": "least_outstanding", "serving.router_options": {}})


def more_replicas(job: ServingJob) -> Iterator[Candidate]:
    """Twice the nodes, with twice the replicas."""
    yield from (Candidate(remedy, MORE_GPUS) for remedy in twice_the_replicas(job))


def faster_host(job: ServingJob) -> Iterator[Candidate]:
    """CUDA graphs, and scheduling during the step before."""
    given = job.settings
    if not given.cuda_graphs:
        yield Candidate({"serving.cuda_graphs": True})
    if not given.async_scheduling:
        yield Candidate({"serving.async_scheduling": True})


_CACHE = (whole_cache, plain(memory_share), fewer_sequences, larger_groups, smaller_numbers, more_replicas)
SERVING: Mapping[str, Sequence[Remedies]] = {
    "kv_capacity": _CACHE,
    "queueing": (
        whole_gpus,
        more_sequences,
        better_router,
        other_steps,
        larger_groups,
        smaller_numbers,
        more_replicas,
    ),
    "compute": (whole_gpus, other_steps, larger_groups, smaller_numbers, more_replicas),
    "memory": _CACHE,
    "network": (whole_links, automatic_collectives, smaller_groups, faster_host),
    "host": (faster_host, smaller_groups, more_replicas),
}
"""Remedies by resource, those without side effects first."""

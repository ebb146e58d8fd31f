"""Where a run loses time: the link, the rank, the pipeline stage or the dimension of parallelism, with figures."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from simsys.analysis.losses import Loss
from simsys.build.job import Job
from simsys.build.serving import ServingJob
from simsys.metrics.iteration_log import HOST
from simsys.metrics.result import RunResult
from simsys.parallel.layout import GROUPS
from simsys.platform.device_spec import DeviceSpec
from simsys.sums import ordered_sum
from simsys.units import Dimension, pretty, pretty_memory

MOST_PAIRS = 4096
"""Pairs of ranks whose links are compared."""
LISTED = 4
"""Ranks that are named."""


@dataclass(frozen=True)
class Place:
    """A place, with the figures that show it.

    Args:
        text: For people; empty if there is no place.
        evidence: Figures by name.
    """

    text: str = ""
    evidence: Mapping[str, Any] = field(default_factory=dict)


def place_of(kind: str, lost: Sequence[Loss], result: RunResult, job: Job) -> Place:
    """The place of the losses of a resource.

    Args:
        kind: The resource.
        lost: Its losses.
        result: The result.
        job: The job that was run.
    """
    if kind == "network":
        return _network(lost, result, job)
    if kind == "compute":
        return _compute(lost, result, job)
    if kind == "bubble":
        return _bubble(result)
    if kind == "memory":
        return _memory(result)
    if not lost:
        return Place()
    if kind in ("queueing", "kv_capacity") and isinstance(job, ServingJob):
        return _replicas(kind, result, job)
    return Place("", {loss.name.replace(" ", "_") + "_s": loss.seconds for loss in lost})


# --- network ------------------------------------------------------------------------------------------------------


def _network(lost: Sequence[Loss], result: RunResult, job: Job) -> Place:
    """The dimension with most exposed communication, and the busiest or slowest of its links."""
    exposed = {axis: seconds for axis, seconds in result.exposed_s.items() if seconds and axis != HOST}
    axis = max(exposed, key=exposed.__getitem__) if exposed else _widest_axis(job)
    if axis is None or not lost:
        return Place()
    evidence: dict[str, Any] = {"dimension": axis, **{f"exposed_{name}_s": each for name, each in exposed.items()}}
    link = _busiest_link(result) or _slowest_link(job, axis)
    if link is None:
        return Place(f"the {axis} dimension", evidence)
    text = f"the {axis} dimension; {'busiest' if 'utilization' in link else 'slowest'} link: {link['link']}"
    rate = pretty(link["bytes_per_s"], Dimension.BYTES_PER_SECOND)
    usual = link.get("usual_bytes_per_s")
    rate += "" if usual is None else f", others of this kind {pretty(usual, Dimension.BYTES_PER_SECOND)}"
    return Place(f"{text} ({rate})", {**evidence, **link})


def _widest_axis(job: Job) -> str | None:
    sizes = {axis: job.layout.group(0, axis).size for axis in GROUPS}
    axis = max(sizes, key=sizes.__getitem__)
    return axis if sizes[axis] > 1 else None


def _busiest_link(result: RunResult) -> dict[str, Any] | None:
    """The link with the highest utilisation, where transfers were on links."""
    links = result.links
    shares = links.get("utilization") or []
    if not len(shares):
        return None
    place = max(range(len(shares)), key=lambda index: shares[index])
    return {
        "link": f"{links['from'][place]} to {links['to'][place]}",
        "link_kind": links["kind"][place],
        "bytes_per_s": links["bytes_per_s"][place],
        "utilization": shares[place],
        "queued_s": links["queued_s"][place],
    }


def _slowest_link(job: Job, axis: str) -> dict[str, Any] | None:
    """The slowest link between neighbours of the groups of an axis, and the bandwidth that others of its kind have."""
    if job.cluster.topology.num_gpus != job.cluster.num_gpus:  # a job's part of a cluster
        return None
    network = job.cluster.platform().network
    rates: dict[int, float] = {}
    for src, dst in islice(_neighbours(job, axis), MOST_PAIRS):
        for hop in network.way(src, dst):
            rates |= {link: network.bytes_per_s(link) for link, _ in hop if link not in rates}
    if not rates:
        return None
    slowest = min(rates, key=rates.__getitem__)
    kinds = job.cluster.topology.links
    alike = [rate for link, rate in rates.items() if kinds[link].kind == kinds[slowest].kind]
    weak = {"usual_bytes_per_s": max(alike)} if max(alike) > rates[slowest] else {}
    name = network.link_name(slowest).removeprefix("the link ")
    return {"link": name, "link_kind": kinds[slowest].kind, "bytes_per_s": rates[slowest], **weak}


def _neighbours(job: Job, axis: str) -> Iterator[tuple[int, int]]:
    """Pairs of GPUs that follow one another in groups of an axis, in both directions."""
    seen: set[tuple[int, ...]] = set()
    for rank in range(job.layout.world_size):
        ranks = job.layout.group(rank, axis).ranks
        if ranks in seen or len(ranks) < 2:
            continue
        seen.add(ranks)
        for src, dst in zip(ranks, (*ranks[1:], ranks[0]), strict=True):
            yield src, dst
            yield dst, src


# --- ranks, stages and replicas -----------------------------------------------------------------------------------


def _compute(lost: Sequence[Loss], result: RunResult, job: Job) -> Place:
    """GPUs that are slower than the others, if there are any; else how well kernels use the GPUs."""
    slow = _slow_gpus(job)
    metrics = result.metrics
    evidence: dict[str, Any] = {"gpu_utilization": metrics["gpu_utilization"]}
    if "attained_peak_share" in metrics and metrics["gpu_utilization"]:
        evidence["peak_share_while_busy"] = metrics["attained_peak_share"] / metrics["gpu_utilization"]
    if slow and any(loss.name == "waiting for other ranks" for loss in lost):
        speeds = dict(list(slow.items())[:LISTED])
        named = ", ".join(f"GPU {gpu} (node {_node(job, gpu)}) at {speed:.0%} speed" for gpu, speed in speeds.items())
        more = f" and {len(slow) - LISTED} more" if len(slow) > LISTED else ""
        return Place(
            f"{named}{more}".replace("%", " %"), {**evidence, "slow_gpus": list(slow), "speed": min(slow.values())}
        )
    busiest = _busiest_rank(result)
    return Place("" if busiest is None else f"rank {busiest}" if len(result.ranks["rank"]) > 1 else "", evidence)


def _slow_gpus(job: Job) -> dict[int, float]:
    """GPUs below the speed of the fastest one, with their share of it; a changing speed counts at its lowest."""
    specs = job.cluster.specs
    dtype = job.precision.compute

    def pace(spec: DeviceSpec) -> float:
        return spec.speed * spec.peak_flop_per_s.get(dtype, 0.0)

    paces = [pace(spec) for spec in specs]
    for gpu, over_time in job.cluster.speeds.items():
        paces[gpu] = min(paces[gpu], *(pace(spec) for spec in over_time.values))
    fastest = max(paces)
    return {gpu: each / fastest for gpu, each in enumerate(paces) if each < fastest * (1 - 1e-9)} if fastest else {}


def _node(job: Job, gpu: int) -> int:
    return job.cluster.nodes[gpu] if job.cluster.nodes else gpu // job.cluster.gpus_per_node


def _busiest_rank(result: RunResult) -> int | None:
    if not result.ranks:
        return None
    seconds = result.ranks["compute_s"]
    return int(result.ranks["rank"][max(range(len(seconds)), key=lambda index: seconds[index])])


def _bubble(result: RunResult) -> Place:
    """The stage that waits longest."""
    if not result.ranks or not ordered_sum(result.ranks["bubble_s"]):
        return Place()
    waits = result.ranks["bubble_s"]
    place = max(range(len(waits)), key=lambda index: waits[index])
    stage, rank = result.ranks["stage"][place], result.ranks["rank"][place]
    evidence = {"dimension": "pipeline", "stages": len(set(result.ranks["stage"])), "bubble_s": waits[place]}
    return Place(f"the pipeline dimension; stage {stage} (rank {rank}) waits longest", {**evidence, "stage": stage})


def _memory(result: RunResult) -> Place:
    """The largest component of the fullest GPU."""
    peak, capacity = result.metrics["peak_memory_bytes"], result.metrics["memory_capacity_bytes"]
    if not result.memory_bytes or not capacity:
        return Place()
    part = max(result.memory_bytes, key=lambda name: result.memory_bytes[name])
    largest = f"{part.replace('_', ' ')} {pretty_memory(result.memory_bytes[part])}"
    evidence = {"peak_memory_bytes": peak, "peak_memory_share": peak / capacity, "largest_component": part}
    return Place(f"{peak / capacity:.0%} of the fullest GPU in use, mostly {largest}".replace("%", " %"), evidence)


def _replicas(kind: str, result: RunResult, job: ServingJob) -> Place:
    """What batches and the KV cache hold, and the replica whose cache is fullest."""
    metrics, limit = result.metrics, job.settings.max_num_seqs
    evidence = {
        name: metrics[name]
        for name in ("mean_waiting", "mean_running", "mean_kv_cache_usage", "max_kv_cache_usage", "preemptions")
        if name in metrics
    }
    evidence |= {"mean_batch_size": metrics["mean_batch_size"], "max_num_seqs": limit}
    caches = {} if result.requests is None else result.requests.caches
    if kind == "queueing":
        at_limit = metrics["mean_batch_size"] > 0.9 * limit
        why = f"batches are at max_num_seqs ({limit})" if at_limit else "batches are below max_num_seqs"
        return Place(why, evidence)
    if not caches or not evidence.get("max_kv_cache_usage"):
        return Place()
    fullest = max(caches, key=lambda rank: caches[rank].peak_blocks / caches[rank].num_blocks)
    blocks, used = caches[fullest].num_blocks, caches[fullest].peak_blocks
    tokens = blocks * job.settings.block_size
    evidence |= {"kv_blocks": blocks, "kv_tokens": tokens, "rank": fullest}
    return Place(f"the cache of {blocks:,} blocks ({tokens:,} tokens) at rank {fullest}, {used:,} in use", evidence)

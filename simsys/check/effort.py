"""Estimates the processor time of a simulation before it begins; long simulations are refused by default.

The constants were measured on a core of a shared x86 machine. Of 215 random scenarios at medium, 95 % needed at most
2.2 times the estimate, and none 4.4 times; the median was 0.7. Scenarios whose transfers turn out not to meet need
down to a twentieth. The estimate does not depend on the machine.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from simsys.build.rules.findings import Findings
from simsys.build.serving import ServingJob
from simsys.build.training import TrainingJob
from simsys.config.document import KeyPath
from simsys.config.experiment import JobConfig
from simsys.executors import Links, combination
from simsys.parallel.plan import TrainingPlan
from simsys.parallel.roles import one_group
from simsys.shared_links import MOST_APART, links_of_serving
from simsys.sums import ordered_sum

GPUS: KeyPath = ("hardware",)
LEVEL: KeyPath = ("simulation", "lod")
TRAINING: KeyPath = ("training",)
WORKLOAD: KeyPath = ("workload",)
GPU_S = 120e-6
"""Time to build and to report each GPU of a cluster, with its links."""
TRAINING_GPU_S, MEMBER_S = 0.4e-3, 0.8e-3
"""Time of each GPU that trains on several nodes, with its mirrored ranks, and of each member of a data-parallel group,
with the look-up of its routes for each step of each algorithm."""
SPREAD_S = 5e-6
"""Time of each such GPU for each link of a transfer from the first to the last one: hundreds if three levels of
switches spread the bytes over all paths."""
BLOCK_EVENTS = {"plain": 4, "sharded": 6, "tensor": 16, "context": 40}
"""Events of a block's passes with a micro-batch at medium, by the division of the block, counted in runs of 24
blocks."""
EVENT_S = 15e-6
MEETING_S = 50e-6
"""Time of an event where the transfers of several jobs share links."""
EVEN = ("switch", "rail_optimized", "fat_tree")
"""Networks that serve all nodes alike."""
BUCKET_BYTES = 25e6
"""Size of a bucket of gradients."""
STAGE_S = {"inside": 20e-6, "over nodes": 2e-3}
"""Time of a micro-batch in a pipeline stage at medium, by whether its transfers may share links between nodes."""
RUN_S = 12e-3
"""Time of any run: building and reporting it."""
OPERATION_S = 60e-6
"""Time of a computation or collective of one process at medium where operations are carried out one by one, since
transfers meet or ranks are unequal."""
ITERATION_S = 10e-6
"""Time to report an iteration."""
RANK_BLOCK_S = {"plain": 20e-6, "sharded": 35e-6, "tensor": 60e-6, "context": 100e-6}
"""Time of a block's passes with a micro-batch on one rank at high."""
REQUEST_S = {"plain": 12e-6, "replicas": 30e-6, "split": 80e-6, "pipeline": 300e-6}
"""Time of a request at medium, for each feature of a deployment."""
LOCKSTEP_S = 180e-6
"""Time of a request at medium in a pool of data-parallel ranks that step together: whenever a request comes or ends,
the work of all ranks is found anew. Measured with 8 to 48 ranks at 1 to 24 requests per second: 90 to 420 us."""
LOCKSTEP_WITH_DRAFTS = 3.0
"""How much longer that takes with drafts, whose rounds of different lengths are put together."""
LOADED_STEP_S = 40e-6
"""Time of a decode step of a pool with tensor parallelism, whose all-reduces meet caches on links. Measured with 1 to
15 replicas of 4 to 8 GPUs: 0.3 to 44 us, since only steps that do meet a cache are carried out one by one."""
LAYER_S = {"plain": 0.8e-6, "tensor": 4e-6, "nodes": 60e-6}
"""Time of a layer of a serving step at high: alone, with tensor parallelism inside a node, and over several nodes."""
STEP_S = 20e-6
"""Time of a serving step that is simulated individually."""


def check_effort(job: TrainingJob | ServingJob, found: Findings, given: JobConfig | None = None) -> None:
    """Record an error if a valid job needs more processor time than allowed.

    Args:
        job: The job.
        found: Collects the error.
        given: Which of several jobs it is, with its placement; None if it is alone.
    """
    if found.limit_s == math.inf:
        return
    if isinstance(job, ServingJob) and (least_s := _undrawn_s(job)) > found.limit_s:
        parts: dict[KeyPath, float] = {WORKLOAD: least_s}  # without drawing millions of requests
    else:
        parts = cpu_parts(job, meets=given is not None and given.placement != "packed")
    total_s = ordered_sum(parts.values())
    if total_s > found.limit_s:
        dearest = max(parts, key=lambda path: parts[path])
        what = (
            "a simulation of this number of GPUs"
            if dearest == GPUS
            else f"at {job.config.simulation.lod} detail, this"
        )
        more = f"needs about {_about(total_s)} of processor time, more than --limit allows ({found.limit_s:.3g} s)"
        found.error(dearest, f"{what} {more}; --yes simulates it anyway")


def cpu_parts(job: TrainingJob | ServingJob, *, meets: bool = False) -> dict[KeyPath, float]:
    """Approximate processor time of a simulation (s), by the setting that each part depends on most.

    Args:
        job: The job.
        meets: Whether other jobs may use the same links.
    """
    high = not combination(job.config.simulation.lod).computation.aggregates  # layer by layer
    if isinstance(job, ServingJob):
        place = WORKLOAD
        work_s = _steps_s(job) if high else _requests_s(job)
    else:
        place = TRAINING
        work_s = _high_s(job) if high else _medium_s(job, meets=meets)
    return {GPUS: cluster_s(job), LEVEL if high else place: work_s}


def cluster_s(job: TrainingJob | ServingJob) -> float:
    """Approximate processor time for the size of a cluster (s), independent of the work on it."""
    built_s, layout = RUN_S + GPU_S * job.cluster.num_gpus, job.layout
    if isinstance(job, ServingJob) or layout.world_size <= job.cluster.gpus_per_node:
        return built_s
    links = sum(len(hop) for hop in job.cluster.topology.way(0, layout.world_size - 1))
    return built_s + (TRAINING_GPU_S + SPREAD_S * links) * layout.world_size + MEMBER_S * layout.data


def block_events(job: TrainingJob, micro_batches: int) -> float:
    """Approximate events of an iteration at medium: passes through blocks, and buckets of gradients."""
    each = ordered_sum(BLOCK_EVENTS[name] for name in _division(job))
    buckets = 4 * job.model.parameters / job.layout.tensor / BUCKET_BYTES
    return micro_batches * each * max(1, job.model.num_layers) + buckets


def _division(job: TrainingJob) -> list[str]:
    """The ways in which blocks are divided."""
    sharded = any(part in job.config.parallelism.parts for part in ("FSDP", "HSDP"))
    divided = {"plain": True, "sharded": sharded, "tensor": job.layout.tensor > 1, "context": job.layout.context > 1}
    return [name for name, is_so in divided.items() if is_so]


def _high_s(job: TrainingJob) -> float:
    """Time of all iterations at high: every rank computes every block."""
    ranks = job.layout.world_size / job.layout.pipeline
    each_s = ordered_sum(RANK_BLOCK_S[name] for name in _division(job)) * max(1, job.model.num_layers)
    return ordered_sum(phase.iterations * ranks * phase.micro_batches * each_s for phase in job.phases)


def _medium_s(job: TrainingJob, *, meets: bool) -> float:
    """Time of all iterations at medium: of the equal iterations of a phase only one is simulated."""
    layout, settings = job.layout, job.config.simulation
    varied = job.config.hardware.jitter is not None or settings.collect_events or meets
    alike = job.data_parallel[0].same_every_step and not varied
    over_nodes = layout.tensor * layout.context * layout.expert > job.cluster.gpus_per_node
    stage_s = layout.pipeline * STAGE_S["over nodes" if over_nodes else "inside"]
    total_s = ITERATION_S * job.settings.num_iterations
    processes = _processes(job)
    played = meets or _may_meet(job) or processes > layout.pipeline
    for phase, plans in zip(job.phases, job.plans, strict=True):
        iterations = 1 if alike else phase.iterations
        once_s = block_events(job, 1) * EVENT_S + phase.micro_batches * stage_s
        each_s = block_events(job, phase.micro_batches) * (MEETING_S if meets else EVENT_S)
        total_s += once_s if alike else iterations * each_s
        total_s += iterations * processes * _operations(job, plans, processes) * OPERATION_S if played else 0.0
    return total_s


def _processes(job: TrainingJob) -> int:
    """Approximate number of ranks with a process at medium.

    On FIFO links, one of equal transfers is first; on networks without central switches, some groups get less.
    """
    size, roles = job.layout.world_size, len(job.roles())
    if size > MOST_APART or job.cluster.num_nodes == 1 or not _may_meet(job):
        return roles
    if job.cluster.network.in_turn:
        return size
    return roles if job.config.network.topology_type in EVEN else min(size, 3 * roles)


def _may_meet(job: TrainingJob) -> bool:
    """Whether several groups use links at the same time, and these are not known to be idle."""
    runs = job.shards.weights, job.shards.optimizer
    return job.config.simulation.occupy_links is not False and not one_group(job.layout, runs)


def _operations(job: TrainingJob, plans: Sequence[TrainingPlan], processes: int) -> float:
    """Operations of an iteration that are carried out one by one, the mean over the ranks."""
    blocks = [block for plan in plans for block in plan.blocks]
    parts = [part for block in blocks for part in (*block.forward, *block.backward, *block.weight)]
    if job.config.hardware.jitter is None:  # else each is
        kinds = {part.over for part in parts if part.kind is not None}
        apart = {over for over in kinds if processes > job.layout.pipeline or _leaves_nodes(job, over)}
        parts = [part for part in parts if part.kind is not None and part.over in apart]
    messages = 2 * sum(len(plan.chunks) for plan in plans) if job.layout.pipeline > 1 else 0
    gathered = 3 * len(blocks) if job.shards.weights > 1 else 0
    buckets = ordered_sum(plan.gradient_bytes for plan in plans) / BUCKET_BYTES
    return (plans[0].micro_batches * (len(parts) + messages) + gathered + 2 * buckets) / len(plans)


def _leaves_nodes(job: TrainingJob, over: str) -> bool:
    """Whether a group has ranks on several nodes."""
    return len({rank // job.cluster.gpus_per_node for rank in job.layout.group(0, over).ranks}) > 1


def _requests_s(job: ServingJob) -> float:
    """Time of all requests at medium, where the steps between two arrivals or ends of requests are one event."""
    settings, layout = job.settings, job.layout
    has = {
        "plain": True,
        "replicas": layout.data > 1,
        "split": settings.disaggregated is not None,
        "pipeline": layout.pipeline > 1,
    }
    each_s = ordered_sum(seconds for name, seconds in REQUEST_S.items() if has[name])
    slower = LOCKSTEP_WITH_DRAFTS if job.draft_model is not None else 1.0
    each_s += slower * LOCKSTEP_S * sum(pool.attention_dp > 1 for pool in job.pools)
    chunks = job.requests.mean_prompt_tokens / settings.max_num_batched_tokens
    varies = job.config.hardware.jitter is not None
    steps = _steps(job) * layout.pipeline if settings.stepping or varies else _served(job) * chunks
    return _served(job) * each_s + steps * STEP_S + _loaded_steps(job) * LOADED_STEP_S


def _loaded_steps(job: ServingJob) -> float:
    """Decode steps that are carried out one by one, since transfers of their group and of caches meet."""
    decode = job.pools[-1]
    if not decode.only_decodes or decode.layout.tensor == 1:
        return 0.0
    if links_of_serving(job, job.cluster.platform().network) is not Links.LOADS:
        return 0.0
    users = job.requests.concurrency or len(job.requests)
    together = min(max(1.0, users / decode.layout.data), job.settings.max_num_seqs)
    return _served(job) * job.requests.mean_output_tokens / together


def _undrawn_s(job: ServingJob) -> float:
    """Least time of requests that are not drawn yet; 0 if they are."""
    workload = job.config.timed_workload
    return 0.0 if workload is None or job.drawn_requests else workload.expected_requests * REQUEST_S["plain"]


def _steps_s(job: ServingJob) -> float:
    """Time of all steps at high."""
    layout = job.layout
    apart = layout.tensor > 1 and layout.tensor > job.cluster.gpus_per_node
    layer_s = LAYER_S["nodes" if apart else "tensor" if layout.tensor > 1 else "plain"]
    return _requests_s(job) + _steps(job) * max(1, job.model.num_layers) * layer_s


def _steps(job: ServingJob) -> float:
    """Steps of all replicas: full chunks of prompts, and decode steps of the estimated number of running requests."""
    requests, replicas = job.requests, max(1, job.layout.data)
    spec = job.cluster.spec
    weights_bytes = job.model.parameters * 2.0 / job.layout.tensor
    step_s = weights_bytes / spec.memory_bytes_per_s + job.model.num_layers * (job.engine.per_layer or 0.0)
    rate_per_s = requests.mean_rate_per_s or 1e9  # all at once
    together = rate_per_s * requests.mean_output_tokens * step_s / replicas
    together = min(max(1.0, together), job.settings.max_num_seqs, max(1.0, len(requests) / replicas))
    chunks = job.requests.mean_prompt_tokens / job.settings.max_num_batched_tokens
    return _served(job) * (requests.mean_output_tokens / together + max(1.0, chunks))


def _served(job: ServingJob) -> float:
    """Requests that arrive before the run ends."""
    requests, duration_s = job.requests, job.config.simulation.duration
    if duration_s is None or requests.span_s <= duration_s:
        return float(len(requests))
    return len(requests) * duration_s / requests.span_s


def _about(seconds: float) -> str:
    """A time with one significant digit, such as ``40 s`` or ``3 h``."""
    for unit, length_s in (("days", 86_400.0), ("h", 3600.0), ("min", 60.0)):
        if seconds >= 1.5 * length_s:
            return f"{float(f'{seconds / length_s:.1g}'):,.0f} {unit}"
    return f"{float(f'{seconds:.1g}'):.0f} s"

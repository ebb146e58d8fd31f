"""Data for pictures that result files do not hold: passes, memory by component, traffic, and gaps between tokens.

In training, one iteration is simulated again, observed, with every pass carried out by itself. Its times are those of
the run; an observed run would take longer, since none of its iterations could be skipped.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from simsys.build.job import Job, build
from simsys.build.serving import ServingJob
from simsys.build.training import TrainingJob
from simsys.config.experiment import SimulationConfig
from simsys.contents.latencies import distribution
from simsys.errors import SimsysError
from simsys.executors import Links, combination
from simsys.metrics.result import RunResult
from simsys.model.batch import Batch, attention_pairs
from simsys.model.work import forward_work
from simsys.platform.device_spec import DeviceSpec, work_seconds
from simsys.platform.traffic import payload_bytes
from simsys.plots.iteration_probe import IterationProbe, Span, recording
from simsys.simulation import simulate_job
from simsys.sums import ordered_sum

MOST_PASSES = 60_000
"""Passes of blocks of an iteration, of all pipeline stages together, beyond which it is not observed."""
MOST_REQUESTS = 20_000
"""Requests of a serving run beyond which it is not simulated again for its traffic."""
MOST_PAIRS = 1 << 17
"""Pairs of GPUs beyond which no communication graph is kept."""
Table = Mapping[str, Sequence[Any]]


class Observation(NamedTuple):
    """What was observed for pictures.

    Args:
        tables: The tables.
        missing: Why there are no further ones, for people; empty if there are all.
    """

    tables: dict[str, Table]
    missing: str = ""


def observed(config: SimulationConfig, result: RunResult) -> Observation:
    """Those tables for pictures that can be made; none of several jobs.

    Args:
        config: The scenario.
        result: Its result.
    """
    if config.jobs is not None:
        return Observation({}, "passes, memory over time and traffic are observed of one job, not of several")
    try:
        job = build(config).jobs[0]
        if isinstance(job, ServingJob):
            tables = {**_gaps(result), "passes": _serving_passes(job, result)}
            return Observation({**tables, **_serving_traffic(config, job, result)})
        blocks = sum(plan.micro_batches * sum(map(len, plan.chunks)) for plan in job.plans[0])
        if blocks > MOST_PASSES:
            limit = f"an iteration of more than {MOST_PASSES:,} passes of blocks is not observed"
            return Observation({}, f"{limit}, and this one has {blocks:,}")
        return Observation(_iteration(job, result))
    except SimsysError as error:  # as of a scenario that cannot be simulated in another way
        return Observation({}, str(error))


def _gaps(result: RunResult) -> dict[str, Table]:
    """The distribution of the gaps between tokens."""
    log = result.requests
    if log is None or not (gaps := log.between_tokens).total:
        return {}
    points = distribution(sorted((1e3 * gaps.sample_s()).tolist()))
    return {"gaps": {"itl_ms": [ms for ms, _ in points], "share_percent": [share for _, share in points]}}


def _iteration(job: TrainingJob, result: RunResult) -> dict[str, Table]:
    """Passes, memory and traffic of one iteration."""
    lod, carried = job.config.simulation.lod, any(result.links.values())
    stages = dict(zip(result.ranks["rank"], result.ranks["stage"], strict=True))
    probe, passes = IterationProbe(stages), list[Span]()
    made_of = replace(combination(lod, Links.STEPS if carried else Links.IDLE), programs=recording(passes, stages))
    seen = simulate_job(_one_iteration(job), [probe], made_of)
    spec = job.cluster.spec
    tables = {
        "activity": probe.activity(passes),
        "held": probe.held_over_time(),
        "passes": _with_roofs(probe.passes(), spec, job.precision.compute),
    }
    return {**tables, **_traffic(job, seen, result)}


def _serving_traffic(config: SimulationConfig, job: ServingJob, result: RunResult) -> dict[str, Table]:
    """The traffic of a run on several GPUs; without a communication graph it is simulated again."""
    if result.traffic:
        return _traffic(job, result, result)
    if job.layout.world_size < 2 or job.num_requests > MOST_REQUESTS:
        return {}
    again = build(_counting(config)).jobs[0]
    return _traffic(again, simulate_job(again), result)


def _counting(config: SimulationConfig, **changes: object) -> SimulationConfig:
    """The scenario with the communication graph in its result, and with other sections."""
    simulation = config.simulation.model_copy(update={"collect_events": True})
    return config.model_copy(update={"simulation": simulation, **changes}).located_in(config.folder)


def _traffic(job: Job, seen: RunResult, result: RunResult) -> dict[str, Table]:
    """What was sent: the communication graph, and the loads of links.

    Args:
        job: The job.
        seen: The run with the graph, such as of one iteration.
        result: The result, whose own graph and links come first.
    """
    traffic = seen.traffic
    if not 0 < len(traffic.get("src", ())) <= MOST_PAIRS:
        return {}
    loads = {} if any(result.links.values()) else {"loads": _loads(job, traffic, seen.simulated_s)}
    return loads if result.traffic else {"traffic": traffic, **loads}


def _one_iteration(job: TrainingJob) -> TrainingJob:
    """The job with its first iteration alone, and with the communication graph in its result."""
    config, training = job.config, job.config.training
    assert training is not None  # which makes it a training job
    short = training.model_copy(update={"num_iterations": 1, "batch_schedule": []})
    built = build(_counting(config, training=short)).jobs[0]
    assert isinstance(built, TrainingJob)  # as the one that it is made from
    return built


def _loads(job: Job, traffic: Table, seconds: float) -> Table:
    """The load of links by some traffic."""
    network = job.cluster.platform().network
    topology, loads = network.topology, payload_bytes(traffic, network.way)
    specs = [topology.links[number] for number in loads]
    return {
        "src": [spec.src for spec in specs],
        "dst": [spec.dst for spec in specs],
        "from": [topology.vertex_name(spec.src) for spec in specs],
        "to": [topology.vertex_name(spec.dst) for spec in specs],
        "kind": [spec.kind for spec in specs],
        "bytes_per_s": [spec.bytes_per_s for spec in specs],
        "nbytes": list(loads.values()),
        "utilization": [
            nbytes / spec.bytes_per_s / seconds for nbytes, spec in zip(loads.values(), specs, strict=True)
        ],
    }


def _with_roofs(passes: Mapping[str, Sequence[Any]], spec: DeviceSpec, dtype: str) -> Table:
    """Passes with the limits of the device in each row."""
    limits = {
        "device": spec.name,
        "dtype": dtype,
        "peak_flop_per_s": spec.peak_flop_per_s.get(dtype) or max(spec.peak_flop_per_s.values()),
        "memory_bytes_per_s": spec.memory_bytes_per_s,
    }
    count = len(passes["name"])
    return {**passes, **{name: [value] * count for name, value in limits.items()}}


def _serving_passes(job: ServingJob, result: RunResult) -> Table:
    """Prefill of a mean prompt, and a decode step of the mean batch, on a GPU of the first stage."""
    lengths = job.requests
    prompt = sum(lengths.prompt_tokens) / len(lengths)
    context = prompt + sum(lengths.output_tokens) / len(lengths) / 2
    sequences = max(1.0, result.metrics.get("mean_batch_size") or 1.0)
    batches = {
        f"prefill of {prompt:.0f} tokens": Batch(prompt, 1.0, attention_pairs(prompt)),
        f"decode step of {sequences:.3g} sequences": Batch(
            sequences, sequences, decode_context_tokens=sequences * context, decode_sequences=sequences
        ),
    }
    plan, spec, rows = job.stages[0], job.cluster.spec, []
    for name, batch in batches.items():
        works = [
            (stretch.repeat, forward_work(list(stretch.operators), batch, job.precision)) for stretch in plan.stretches
        ]
        seconds = ordered_sum(repeat * work_seconds(spec, work, job.engine.per_layer) for repeat, work in works)
        flop, nbytes = (
            ordered_sum(repeat * getattr(work, key) for repeat, work in works) for key in ("flop", "nbytes")
        )
        rows.append((0, 0, name, flop, nbytes, seconds))
    columns = zip(*rows, strict=True)
    passes = dict(zip(("stage", "rank", "name", "flop", "nbytes", "seconds"), map(list, columns), strict=True))
    return _with_roofs(passes, spec, job.precision.compute)

"""The replicas of a serving job: which of them do what, and what requests come to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from simsys.build.modules import module_options
from simsys.config.document import KeyPath
from simsys.config.experiment import SimulationConfig
from simsys.config.parallelism import ParallelismConfig
from simsys.config.serving_options import DisaggregatedConfig
from simsys.executors.executor import Executor
from simsys.framework import FRAMEWORKS, FetchingScheduler, Router, Scheduler
from simsys.serving.autoscaler import Autoscaler, ScalingRule
from simsys.serving.engine import Engine
from simsys.serving.handover import Handover
from simsys.serving.source import Source

if TYPE_CHECKING:
    from simsys.build.serving import ServingJob

DISAGGREGATED, AUTOSCALING = ("serving", "disaggregated"), ("serving", "autoscaling")


class ReplicasProblem(NamedTuple):
    """Why a scenario cannot be served by so many replicas.

    Args:
        place: The setting that is wrong.
        reason: What is wrong with it.
        edits: Settings that may be right, by dotted path.
    """

    place: KeyPath
    reason: str
    edits: Mapping[str, Any] = MappingProxyType({})


def replicas_problem(config: SimulationConfig, replicas: int, gpus: int) -> ReplicasProblem | None:
    """Why a scenario cannot be served by so many replicas; None if it can.

    Args:
        config: The scenario.
        replicas: How many there are of ``tp_degree`` GPUs in each stage.
        gpus: GPUs of the cluster.
    """
    assert config.serving is not None
    split, scaled = config.serving.disaggregated, config.serving.autoscaling
    if split is not None:
        problem = _wrong_degrees(split, config.parallelism, gpus)
        if problem:
            return ReplicasProblem(DISAGGREGATED, problem)
        if split.prefill_tp_degree is split.decode_tp_degree is None and split.replicas != replicas:
            return _wrong_sum(split.prefill_replicas, split.decode_replicas, replicas)
        if not issubclass(FRAMEWORKS.get(split.decode_scheduler, Scheduler), FetchingScheduler):
            return ReplicasProblem(
                (*DISAGGREGATED, "decode_scheduler"),
                f"scheduler {split.decode_scheduler} fetches no KV caches",
                {"serving.disaggregated.decode_scheduler": "disaggregated_decode"},
            )
    if scaled is not None:
        for key in ("max_replicas", "min_replicas"):
            if (getattr(scaled, key) or 0) > replicas:
                reason = f"{getattr(scaled, key)} replicas need more GPUs than there are, which hold {replicas}"
                return ReplicasProblem((*AUTOSCALING, key), reason, {f"serving.autoscaling.{key}": replicas})
        if not FRAMEWORKS.get(config.serving.router, Router).scales:
            return ReplicasProblem(
                ("serving", "router"),
                f"router {config.serving.router} cannot be scaled",
                {"serving.router": "least_outstanding"}
                | ({"serving.router_options": {}} if config.serving.router_options else {}),
            )
    return None


def _wrong_degrees(split: DisaggregatedConfig, given: ParallelismConfig, gpus: int) -> str:
    """What is wrong with tensor-parallel degrees that differ; empty if nothing is."""
    if split.prefill_tp_degree is split.decode_tp_degree is None:
        return ""
    prefill, decode = split.tp_degrees(given.tp_degree)
    if max(prefill, decode) % min(prefill, decode):
        return f"a cache on {prefill} GPUs cannot be sent to {decode} in equal parts; use a multiple for one of them"
    if given.ep_degree > 1 and prefill != decode:
        return f"with ep_degree {given.ep_degree} all replicas need the same tp_degree; remove that of one kind"
    needed = (split.prefill_replicas * prefill + split.decode_replicas * decode) * given.pp_stages
    if needed != gpus:
        stages = f", each in {given.pp_stages} stages" * (given.pp_stages > 1)
        return (
            f"{split.prefill_replicas} replicas x {prefill} GPUs + {split.decode_replicas} x {decode}{stages} need "
            f"{needed} GPUs, there are {gpus}"
        )
    return ""


def _wrong_sum(prefill: int, decode: int, replicas: int) -> ReplicasProblem:
    text = f"prefill_replicas {prefill} + decode_replicas {decode} = {prefill + decode}, but the GPUs hold {replicas}"
    if replicas < 2:
        return ReplicasProblem(DISAGGREGATED, f"{text}, and disaggregation needs at least 2 replicas")
    fitting = min(prefill, replicas - 1)
    counts = {"prefill": fitting, "decode": replicas - fitting}
    edits = {f"serving.disaggregated.{pool}_replicas": count for pool, count in counts.items()}
    return ReplicasProblem(DISAGGREGATED, text, edits)


def start_source(job: ServingJob, executor: Executor, engines: Sequence[Engine]) -> Source:
    """Let requests come to the engines of a job: all of them, the first ones or those that are on."""
    settings, seed = job.settings, job.config.simulation.seed
    module, options = module_options(settings.router, Router, settings.router_options, "serving.router_options")
    env, requests, probes, late_s = executor.env, job.requests, executor.probes, job.api_s
    if settings.disaggregated is not None:
        split, decode_pool = settings.disaggregated, job.pools[-1]
        decoding = [engine for engine in engines if isinstance(engine.scheduler, FetchingScheduler)]
        prefilling = [engine for engine in engines if not isinstance(engine.scheduler, FetchingScheduler)]
        token_bytes = [decode_pool.token_bytes(stage) for stage in job.stage_numbers]
        # Its own stream, lest two routers that draw make the same choices.
        decode_router = FRAMEWORKS.get(split.decode_router, Router)(decoding, seed + 1)
        Handover(prefilling, decoding, decode_router, env, probes, token_bytes)
        return Source(env, requests, module(prefilling, seed, options), probes, late_s=late_s, elsewhere=decoding)
    if settings.autoscaling is None:
        return Source(env, requests, module(engines, seed, options), probes, late_s=late_s)
    scaled = settings.autoscaling
    count = job.layout.data
    rule = ScalingRule(
        scaled.min_replicas,
        scaled.max_replicas or count,
        scaled.scale_up_queue,
        scaled.scale_down_idle,
        scaled.startup,
        scaled.interval,
        scaled.scale_down_requests,
    )
    scaler = Autoscaler(env, engines, count, rule, lambda seen: module(seen, seed, options), probes)
    source = Source(env, requests, scaler, probes, late_s=late_s)
    source.ended.callbacks.append(lambda _: scaler.stop())
    return source

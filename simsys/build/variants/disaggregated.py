"""Disaggregated serving: prefill replicas send KV caches to decode replicas."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import suppress

from simsys.build.cluster import Cluster
from simsys.build.modules import module_options
from simsys.build.rules.experts import shared_experts_problem
from simsys.build.rules.findings import Findings, Remedy, Suggestion
from simsys.build.rules.modules import known_module
from simsys.build.rules.parallelism import replicas_of, split_problem
from simsys.build.rules.registry import Parts, rule
from simsys.build.serving_memory import ServingMemory
from simsys.build.variants.variant import Variant, attends_in_parallel, variant
from simsys.config.parallelism import ParallelismConfig
from simsys.config.serving import ServingConfig
from simsys.config.serving_options import POOL_DEGREES, DisaggregatedConfig, PoolDegrees
from simsys.errors import Problem, SimsysError
from simsys.executors.executor import Executor
from simsys.framework import FRAMEWORKS, FetchingScheduler, Router, Scheduler
from simsys.model.model import Model
from simsys.serving.engine import Engine
from simsys.serving.handover import Handover
from simsys.serving.layerwise import LayerwiseHandover
from simsys.serving.source import Source

DISAGGREGATED = ("serving", "disaggregated")
_SENT = {
    "after_prefill": "whole once the receiver has room",
    "layerwise": "layer by layer while its prompt is computed, once the receiver has room for all of it",
}


@variant
class Disaggregated(Variant):
    """Requests are sent to prefill replicas; decode replicas fetch the KV caches from them."""

    regime = "disaggregated prefill and decode"

    def on(self, settings: ServingConfig) -> bool:
        """Whether prefill and decode replicas are given."""
        return settings.disaggregated is not None

    def assumptions(self, setup: ServingMemory) -> Iterator[str]:
        """The numbers of prefill and decode replicas."""
        split = setup.settings.disaggregated
        assert split is not None
        degrees = " and ".join(str(pool.layout.tensor * pool.attention_dp) for pool in setup.pools)
        yield (
            f"disaggregated: prefill on {split.prefill_replicas}, decode on {split.decode_replicas} replicas, with "
            f"{degrees} GPUs per stage; a KV cache is sent {_SENT[split.transfer]}; "
            "requests preempted afterwards are recomputed or swapped where they decode"
        )

    def scheduler(self, pool: ServingMemory) -> str:
        """The scheduler of decode replicas; empty for prefill replicas."""
        split = pool.settings.disaggregated
        return split.decode_scheduler if split is not None and pool.only_decodes else ""

    def source(self, setup: ServingMemory, executor: Executor, engines: Sequence[Engine]) -> Source:
        """Requests are sent to prefill engines, which hand over to decode engines."""
        settings, seed, env, probes = setup.settings, setup.config.simulation.seed, executor.env, executor.probes
        split = settings.disaggregated
        assert split is not None
        module, options = module_options(settings.router, Router, settings.router_options, "serving.router_options")
        decoding = [engine for engine in engines if isinstance(engine.scheduler, FetchingScheduler)]
        prefilling = [engine for engine in engines if not isinstance(engine.scheduler, FetchingScheduler)]
        token_bytes = [setup.pools[-1].token_bytes(stage) for stage in setup.stage_numbers]
        # A separate random stream, so that two routers that draw do not make equal choices.
        decode_router = FRAMEWORKS.get(split.decode_router, Router)(decoding, seed + 1)
        later = split.first_token == "decode"
        parts = prefilling, decoding, decode_router, env, probes, token_bytes
        if split.transfer == "layerwise":
            LayerwiseHandover(*parts, answers_later=later, layers=setup.model.num_layers)
        else:
            Handover(*parts, answers_later=later)
        router = module(prefilling, seed, options)
        late_s, api = setup.api_s, setup.api_server()
        return Source(env, setup.requests, router, probes, late_s=late_s, api=api, elsewhere=decoding)


@rule("serving.disaggregated")
def modules_of_decoding(parts: Parts, found: Findings) -> None:
    """The router and the scheduler of decode replicas exist."""
    split = parts.config.serving.disaggregated if parts.config.serving is not None else None
    if split is not None:
        place = (*DISAGGREGATED, "decode_router")
        if (
            known_module(split.decode_router, Router, place, found)
            and FRAMEWORKS.get(split.decode_router, Router).sheds
        ):
            found.error(place, f"{split.decode_router} sheds requests, which a prefill replica has accepted already")
        known_module(split.decode_scheduler, Scheduler, (*DISAGGREGATED, "decode_scheduler"), found)


@rule("serving.disaggregated")
def layers_one_by_one(parts: Parts, found: Findings) -> None:
    """Layers are sent by replicas that begin steps on their own, to requests that stay."""
    config = parts.config
    split = config.serving.disaggregated if config.serving is not None else None
    if split is None or split.transfer != "layerwise":
        return
    path = (*DISAGGREGATED, "transfer")
    if config.parallelism.pp_stages > 1:
        found.error(path, "transfer: layerwise with pp_stages is not available; write after_prefill")
    if attends_in_parallel(config):
        found.error(path, "transfer: layerwise with attention_dp is not available; write after_prefill")
    with suppress(SimsysError):  # an unknown router is reported by another rule
        if FRAMEWORKS.get(split.decode_router, Router).shares_queue:
            message = f"transfer: layerwise with decode_router: {split.decode_router} is not available"
            found.error(path, f"{message}; write after_prefill")
    if config.workload is not None and config.workload.cancellation is not None:
        found.error(path, "transfer: layerwise with workload.cancellation is not available; write after_prefill")


@rule("workload.cancellation")
def first_tokens_in_time(parts: Parts, found: Findings) -> None:
    """A client knows of its first token where the prefill replica answers."""
    serving, workload = parts.config.serving, parts.config.workload
    split = serving.disaggregated if serving is not None else None
    gives_up = workload.cancellation if workload is not None else None
    if split is None or gives_up is None or gives_up.ttft_timeout is None or split.first_token == "prefill":
        return
    message = "ttft_timeout with serving.disaggregated.first_token: decode is not available"
    edits: list[Remedy] = [{"serving.disaggregated.first_token": "prefill"}]
    found.error(("workload", "cancellation", "ttft_timeout"), message, suggestion=Suggestion([edits], "write {}"))


@rule("serving.disaggregated", when_sound=True)
def disaggregated(parts: Parts, found: Findings) -> None:
    """Prefill and decode replicas use the GPUs of all nodes, can transfer caches, and divide the model."""
    assert parts.config.serving is not None
    assert parts.cluster is not None
    split, given = parts.config.serving.disaggregated, parts.config.parallelism
    if split is None:
        return
    replicas = replicas_of(parts)
    problem = _wrong_degrees(split, given, parts.cluster)
    if problem:
        found.error(DISAGGREGATED, problem)
    elif not split.own_degrees and split.replicas != replicas:
        _wrong_sum(split.prefill_replicas, split.decode_replicas, replicas, found)
    elif not issubclass(FRAMEWORKS.get(split.decode_scheduler, Scheduler), FetchingScheduler):
        message = f"scheduler {split.decode_scheduler} fetches no KV caches"
        edit = {"serving.disaggregated.decode_scheduler": "disaggregated_decode"}
        found.error((*DISAGGREGATED, "decode_scheduler"), message, suggestion=Suggestion([[edit]], "write {}"))
    elif parts.model is not None:
        for pool in split.pools(given):
            _divided_model(pool, parts.config.serving, parts.model, found)


def _divided_model(pool: PoolDegrees, serving: ServingConfig, model: Model, found: Findings) -> None:
    """The replicas of one kind can divide the model, and its experts."""
    split = serving.disaggregated
    written = {key: getattr(split, f"{pool.name}_{key}") is not None for key in POOL_DEGREES}
    if written["tp_degree"] and pool.tp_degree > 1:
        unfit = split_problem(model, pool.tp_degree)
        if unfit:
            found.error((*DISAGGREGATED, f"{pool.name}_tp_degree"), unfit)
            return
    if not any(written.values()):
        return
    problem, near = "", list[int]()
    place = next(key for key in ("ep_degree", "attention_dp", "tp_degree") if written[key])
    if max(pool.attention_dp, pool.ep_degree) > 1 and model.experts == 1:
        problem = f"{model.name} has no experts to divide; write 1, or use a mixture of experts"
    elif pool.attention_dp > 1:
        degrees = pool.tp_degree, pool.attention_dp, pool.ep_degree
        problem, near = shared_experts_problem(model, *degrees, serving.experts)
    elif pool.ep_degree not in (1, pool.tp_degree):
        problem = f"without attention_dp, ep_degree is 1 or tp_degree ({pool.tp_degree}), not {pool.ep_degree}"
        near = [pool.tp_degree]
    if problem:
        groups = [[{f"serving.disaggregated.{pool.name}_ep_degree": degree}] for degree in near]
        suggestion = Suggestion(groups, "write {}") if groups else None
        found.error((*DISAGGREGATED, f"{pool.name}_{place}"), problem, suggestion=suggestion)


def _wrong_degrees(split: DisaggregatedConfig, given: ParallelismConfig, cluster: Cluster) -> str:
    """Why different degrees of the two kinds do not fit; empty if they do."""
    if not split.own_degrees:
        return ""
    prefill, decode = split.pools(given)
    most, least = max(prefill.tp_degree, decode.tp_degree), min(prefill.tp_degree, decode.tp_degree)
    if most % least:
        return (
            f"a cache on {prefill.tp_degree} GPUs cannot be sent to {decode.tp_degree} in equal parts; use a multiple "
            "for one of them"
        )
    first, gpus = split.first_decode_gpu(given, cluster.gpus_per_node), cluster.num_gpus
    needed = first + decode.replicas * decode.gpus * given.pp_stages
    if not needed <= gpus < needed + cluster.gpus_per_node:
        stages = f", each in {given.pp_stages} stages" * (given.pp_stages > 1)
        nodes = f" on nodes of {cluster.gpus_per_node}" * (cluster.num_nodes > 1)
        enough = math.ceil(needed / cluster.gpus_per_node)
        return (
            f"{prefill.replicas} replicas x {prefill.gpus} GPUs + {decode.replicas} x {decode.gpus}{stages} need "
            f"{needed} GPUs{nodes}, there are {gpus}; hardware.num_nodes: {enough} would do"
        )
    return ""


@rule("serving.disaggregated", when_sound=True)
def idle_gpus(parts: Parts, found: Findings) -> None:
    """GPUs without a replica are mentioned; costs leave them out."""
    assert parts.config.serving is not None
    assert parts.cluster is not None
    split, given, gpus = parts.config.serving.disaggregated, parts.config.parallelism, parts.cluster.num_gpus
    if split is None or not split.own_degrees:
        return
    idle = gpus - sum(pool.replicas * pool.gpus for pool in split.pools(given)) * given.pp_stages
    if idle > 0:
        message = f"{idle} of {gpus} GPUs have no replica; costs leave them out"
        found.warn(Problem(message, ".".join(DISAGGREGATED)))


def _wrong_sum(prefill: int, decode: int, replicas: int, found: Findings) -> None:
    text = f"prefill_replicas {prefill} + decode_replicas {decode} = {prefill + decode}, but the GPUs hold {replicas}"
    if replicas < 2:
        found.error(DISAGGREGATED, f"{text}, and disaggregation needs at least 2 replicas")
        return
    fitting = min(prefill, replicas - 1)
    counts = {"prefill": fitting, "decode": replicas - fitting}
    edit = {f"serving.disaggregated.{pool}_replicas": count for pool, count in counts.items()}
    found.error(DISAGGREGATED, text, suggestion=Suggestion([[edit]], "write {}"))

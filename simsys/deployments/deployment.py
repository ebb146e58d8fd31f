"""A scenario to be emitted, with the parts that templates ask for: GPUs, model and checkpoint."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from simsys.build.cluster import Cluster, build_cluster
from simsys.build.model import build_model
from simsys.build.rules.findings import Findings, unlocated
from simsys.build.rules.global_batch import settle_global_batch
from simsys.build.rules.registry import Parts
from simsys.build.training import training_precision
from simsys.config.architectures import listed_models
from simsys.config.experiment import SimulationConfig
from simsys.config.model import ModelConfig
from simsys.config.parallelism import DATA_STRATEGIES, STRATEGY_PARTS, ParallelismConfig
from simsys.config.serving import ServingConfig
from simsys.config.serving_options import DEFAULT_DECODE_ROUTER, DisaggregatedConfig
from simsys.input_files import path_from
from simsys.model.model import Model
from simsys.model.model_db import load_model

_CHECKPOINT = re.compile(r"config\.json of ([\w.-]+/[\w.-]+)(?! and )\b(?! and )")


@dataclass(frozen=True)
class Deployment:
    """A scenario with its GPUs and model.

    Args:
        config: The scenario in canonical form.
        model: Its model.
        num_nodes: Nodes of the cluster.
        gpus_per_node: GPUs of each node.
        checkpoint: Path or Hugging Face id of the weights; empty if none is known.
        release: Release of the tool for which files are written.
    """

    config: SimulationConfig
    model: Model
    num_nodes: int
    gpus_per_node: int
    checkpoint: str
    release: str

    @property
    def world_size(self) -> int:
        """Ranks of a training job, or GPUs of all replicas."""
        given = self.config.parallelism
        return given.shards * (given.dp_degree or 1)


def deployment_of(config: SimulationConfig, release: str, checkpoint: str | None) -> Deployment:
    """Look up the parts of a scenario.

    Args:
        config: The scenario, of training or serving.
        release: Release of the tool.
        checkpoint: The weights; by default as `checkpoint_of`.

    Raises:
        SimsysError: The cluster or the model cannot be built.
    """
    cluster = build_cluster(config.hardware, config.network, config.folder)
    model = build_model(config.model, config.folder)
    return Deployment(
        _canonical(_with_steps(config, model, cluster), model, cluster),
        model,
        cluster.num_nodes,
        cluster.gpus_per_node,
        checkpoint or checkpoint_of(config, model),
        release,
    )


def _with_steps(config: SimulationConfig, model: Model, cluster: Cluster) -> SimulationConfig:
    """The scenario with accumulation steps instead of the global batch that they follow from."""
    parts, found = Parts(config, cluster.spec, model, cluster=cluster), Findings(unlocated({}))
    settle_global_batch(parts, found)
    found.require()
    return parts.config


def checkpoint_of(config: SimulationConfig, model: Model) -> str:
    """The folder of its Hugging Face configuration, or the id that the scenario or the model DB has; else empty."""
    if config.model.huggingface is not None:
        path = path_from(config.folder, config.model.huggingface).resolve()
        return str(path.parent if path.suffix == ".json" else path)
    if config.model.name is None:
        return ""
    return config.model.name if "/" in config.model.name else _checkpoint_ids().get(model.name, "")


def checkpoint_of_name(name: str) -> str:
    """The Hugging Face id of a model of the DB; empty if none is known."""
    return _checkpoint_ids().get(load_model(name).name, "")


def model_of_checkpoint(checkpoint: str) -> str | None:
    """The model of the DB with these weights; None if there is none."""
    return next((name for name, known in _checkpoint_ids().items() if known == checkpoint), None)


@cache
def _checkpoint_ids() -> dict[str, str]:
    """Hugging Face ids by name of the model, where the source of its figures is exactly one repository."""
    return dict(_ids())


def _ids() -> Iterator[tuple[str, str]]:
    for listed in listed_models():
        found = _CHECKPOINT.search(listed.architecture.source)
        if found is not None:
            yield listed.architecture.name, found[1]


def _canonical(config: SimulationConfig, model: Model, cluster: Cluster) -> SimulationConfig:
    """The scenario with its data-parallel degree and precision, and without settings that have no effect."""
    parallelism = _parallelism(config, cluster)
    updates: dict[str, object] = {"parallelism": parallelism, "model": _model(config, model)}
    if config.serving is not None:
        updates["serving"] = _serving(
            config.serving, (parallelism.dp_degree or 0) * parallelism.attention_dp, parallelism.tp_degree
        )
    if config.serving is not None and config.serving.disaggregated is not None:
        updates["parallelism"] = _of_decode_replicas(parallelism, config.serving.disaggregated)
    if config.training is not None:
        compute = training_precision(config.training, cluster.spec).compute
        changes = {"precision": compute, "mixed_precision": compute not in ("fp32", "tf32")}
        options = _options(config.training.options, parallelism)
        updates["training"] = config.training.model_copy(update={**changes, "options": options})
    return config.model_copy(update=updates).located_in(config.folder)


def _serving(given: ServingConfig, replicas: int, tensor: int) -> ServingConfig:
    """The settings without routers of a single engine, and with the degree of prefill replicas alone."""
    pools, no_router = given.disaggregated, {"router": "round_robin", "router_options": {}}
    if pools is None:
        return given.model_copy(update=no_router) if replicas == 1 else given
    changes: dict[str, object] = {} if pools.prefill_replicas > 1 else dict(no_router)
    prefill, decode = pools.tp_degrees(tensor)
    degrees = {"prefill_tp_degree": prefill if prefill != decode else None, "decode_tp_degree": None}
    router = {} if pools.decode_replicas > 1 else {"decode_router": DEFAULT_DECODE_ROUTER}
    return given.model_copy(update={**changes, "disaggregated": pools.model_copy(update={**degrees, **router})})


def _of_decode_replicas(given: ParallelismConfig, pools: DisaggregatedConfig) -> ParallelismConfig:
    """The degrees of decode replicas; the pools state how many there are."""
    return given.model_copy(update={"dp_degree": None, "tp_degree": pools.decode_tp_degree or given.tp_degree})


def _options(given: Mapping[str, Any], parallelism: ParallelismConfig) -> dict[str, Any]:
    """Options of data parallelism that have an effect: one rank exchanges nothing, and one group of all is usual."""
    ranks = (parallelism.dp_degree or 1) * parallelism.cp_degree
    if ranks == 1:
        return {name: value for name, value in given.items() if name == "offload"}
    return {name: value for name, value in given.items() if (name, value) != ("shard_size", ranks)}


def _parallelism(config: SimulationConfig, cluster: Cluster) -> ParallelismConfig:
    """The degrees, all of them given, with the order of all axes."""
    given = config.parallelism
    degree = given.dp_degree
    pools = config.serving is not None and (config.serving.disaggregated or config.serving.autoscaling)
    if degree is None and not pools:
        degree = max(1, cluster.num_gpus // given.shards)
    strategy = _strategy(given, degree or 1) if config.training is not None else None
    changes: dict[str, object] = {"dp_degree": degree, "strategy": strategy, "order": _order(given)}
    if given.pp_stages == 1:
        changes["schedule"] = "1f1b"
    return given.model_copy(update=changes)


def _order(given: ParallelismConfig) -> str:
    """The order of all axes; an axis that is not named has no effect, or follows tensor parallelism."""
    axes = given.order.split("-")
    if "cp" not in axes:
        axes.insert(axes.index("tp") + 1, "cp")
    if "ep" not in axes and given.ep_degree == 1:
        axes.insert(axes.index("cp") + 1, "ep")
    return "-".join(axes)


def _model(config: SimulationConfig, model: Model) -> ModelConfig:
    """The model with its own name or its folder, and without the sequence length that it has anyway."""
    given, changes = config.model, dict[str, object]()
    if given.name is not None and given.layers is None:
        changes["name"] = model.name
    elif given.huggingface is not None:
        changes["huggingface"] = checkpoint_of(config, model)
    if given.sequence_length == model.sequence_length:
        changes["sequence_length"] = None
    return given.model_copy(update=changes)


def _strategy(given: ParallelismConfig, degree: int) -> str:
    """The kinds of parallelism of a training job, with DDP where replicas have none."""
    degrees = {"TP": given.tp_degree, "CP": given.cp_degree, "EP": given.ep_degree, "PP": given.pp_stages}
    kinds = {kind for kind, size in degrees.items() if size > 1}
    data = next((kind for kind in DATA_STRATEGIES if kind in given.parts), "DDP")
    if degree * given.cp_degree > 1:
        kinds.add(data)
    return "_".join(kind for kind in STRATEGY_PARTS if kind in kinds) or "None"

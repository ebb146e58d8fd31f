"""From a scenario to a job: makes each part once, applies all rules, and builds the job from the parts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeAlias

from simsys.build.cluster import Cluster, build_cluster
from simsys.build.resolved_serving import resolved_serving
from simsys.build.rules import Parts, apply_rules
from simsys.build.rules.findings import Findings, Suggestion, unlocated
from simsys.build.rules.global_batch import settle_global_batch
from simsys.build.rules.hardware import found_device
from simsys.build.rules.model import found_model
from simsys.build.rules.shards import can_shard
from simsys.build.rules.sizes import sizes_can_be_built
from simsys.build.serving import ServingJob, serving_job
from simsys.build.training import TrainingJob, training_job
from simsys.build.variants.variant import variants_of
from simsys.config.engine_schema import EngineProfile
from simsys.config.experiment import JobConfig, SimulationConfig
from simsys.config.hardware import Named, load_engine, profiles_read
from simsys.config.profile_layers import Layer
from simsys.errors import UsageError
from simsys.executors import costed_model
from simsys.model.model import Model

Job: TypeAlias = TrainingJob | ServingJob
MakeCluster: TypeAlias = Callable[[SimulationConfig], Cluster]
STEP = ("max_num_seqs", "max_num_batched_tokens")


@dataclass(frozen=True)
class Built:
    """A scenario that breaks no rule, built once for the check and the run.

    Args:
        config: The scenario.
        cluster: Its GPUs and links.
        jobs: The scenario as a job; or each of its jobs, placed on the first GPUs of the cluster.
        profiles: The profiles that were read by name, with their layers.
    """

    config: SimulationConfig
    cluster: Cluster
    jobs: tuple[Job, ...]
    profiles: Mapping[Named, Sequence[Layer]]

    @property
    def num_requests(self) -> int:
        """Requests of its jobs, including requests that are not drawn yet."""
        return sum(job.num_requests for job in self.jobs if isinstance(job, ServingJob))

    def without_requests(self) -> Built:
        """A copy that draws its requests when they are needed, so that many scenarios need little memory."""
        jobs = [replace(job, drawn_requests=None) if isinstance(job, ServingJob) else job for job in self.jobs]
        return replace(self, jobs=tuple(jobs))


def cluster_of(config: SimulationConfig) -> Cluster:
    """The cluster of a scenario; errors as `build_cluster`."""
    return build_cluster(config.hardware, config.network, config.folder)


def build(config: SimulationConfig) -> Built:
    """Build a scenario.

    Raises:
        ConfigError: With every problem, if it breaks a rule.
        InfeasibleConfigError: If the only problem is that a job needs more GPUs than the cluster has.
    """
    cluster: list[Cluster] = []

    def once(scenario: SimulationConfig) -> Cluster:
        if not cluster:
            cluster.append(cluster_of(scenario))
        return cluster[0]

    with profiles_read() as read:
        jobs = [_sound(config.job(given), given, once) for given in config.jobs or ()] or [_sound(config, None, once)]
    return Built(config, cluster[0], tuple(jobs), read)


def together(config: SimulationConfig, jobs: Sequence[Built]) -> Built:
    """Combine jobs that were built on one cluster to a scenario of several jobs."""
    read = {named: layers for each in jobs for named, layers in each.profiles.items()}
    return Built(config, jobs[0].cluster, tuple(job for each in jobs for job in each.jobs), read)


def build_job(config: SimulationConfig) -> Job:
    """Build a scenario that is one job; raises as `build`."""
    return build(config).jobs[0]


def job_on(job: Job, config: SimulationConfig, cluster: Cluster, gpus: Sequence[int]) -> Job:
    """Move one of several jobs to other GPUs.

    Args:
        job: The job on any of the GPUs of the cluster.
        config: Its scenario, with settings of the run that may differ.
        cluster: The whole cluster.
        gpus: The new GPUs of the job.
    """
    return replace(job_of(config, cluster.part(gpus), job.model), doubts=job.doubts)


def gpus_of(config: SimulationConfig, job: JobConfig, num_gpus: int) -> int:
    """The number of GPUs of a job of a scenario, on a cluster of `num_gpus`."""
    if job.gpus is not None:
        return job.gpus
    given = job.parallelism or config.parallelism
    return given.shards * given.dp_degree if given.dp_degree is not None else num_gpus


def assemble(
    config: SimulationConfig, found: Findings, job: JobConfig | None = None, make_cluster: MakeCluster = cluster_of
) -> tuple[Job, Parts] | None:
    """Build a scenario, and record every rule that it breaks.

    Args:
        config: The scenario, which is one job.
        found: Collects the problems.
        job: The entry of one of several jobs; None if the scenario is one job.
        make_cluster: Builds the cluster.

    Returns:
        The job and the parts it was built from; None if a problem was recorded.
    """
    if not sizes_can_be_built(config, found):
        return None
    parts, costed = Parts(config, found_device(config, found), found_model(config, found)), None
    if parts.model is not None:
        costed = _costed(parts.model, config, found)
    parts.engine = _engine(config, found)
    if parts.spec is not None:
        parts.cluster = found.attempt((), lambda: make_cluster(config), error_at=("hardware",))
    if parts.cluster is not None and job is not None:
        gpus = gpus_of(config, job, parts.cluster.num_gpus)
        if gpus > parts.cluster.num_gpus:
            found.does_not_fit(("gpus",), f"{gpus} GPUs are needed, the cluster has {parts.cluster.num_gpus}")
            return None
        parts.cluster = parts.cluster.part(range(gpus))
    settle_global_batch(parts, found)
    _settle_serving(parts, costed or parts.model, found)
    apply_rules(parts, found)
    if found.errors or costed is None:
        return None
    made = _of_parts(parts, costed)
    if isinstance(made, TrainingJob) and not can_shard(made, found):
        return None
    return replace(made, doubts=tuple(found.doubts)) if found.doubts else made, parts


def job_of(config: SimulationConfig, cluster: Cluster, model: Model) -> Job:
    """Build a scenario that breaks no rule, on an existing cluster and model.

    Raises:
        SimsysError: If its engine, the engine's settings or the draft model cannot be read.
    """
    parts, found = Parts(config, cluster.spec, model, cluster=cluster), Findings(unlocated({}))
    parts.engine = _engine(config, found)
    settle_global_batch(parts, found)
    costed = costed_model(model, config.simulation.lod)
    _settle_serving(parts, costed, found)
    found.require()
    return _of_parts(parts, costed)


def _sound(config: SimulationConfig, job: JobConfig | None, make_cluster: MakeCluster) -> Job:
    found = Findings(unlocated(config.model_dump(exclude_unset=True)))
    made = assemble(config, found, job, make_cluster)
    found.require()
    assert made is not None  # otherwise a problem was recorded
    return made[0]


def _of_parts(parts: Parts, model: Model) -> Job:
    """The job of the parts; `model` has the amounts of work for the level of detail."""
    assert parts.cluster is not None
    assert parts.engine is not None
    if parts.config.training is not None:
        return training_job(parts.config, parts.cluster, model, parts.engine)
    assert parts.serving is not None
    return serving_job(parts.config, parts.serving, parts.cluster, model, parts.engine, parts.draft, parts.requests)


def _costed(model: Model, config: SimulationConfig, found: Findings) -> Model | None:
    """The model with the amounts of work for the level of detail."""
    try:
        return costed_model(model, config.simulation.lod)
    except UsageError as error:
        suggestion = Suggestion([[{"simulation.lod": "medium"}]], "write {}")
        found.error(("simulation", "lod"), str(error), suggestion=suggestion)
        return None


def _engine(config: SimulationConfig, found: Findings) -> EngineProfile | None:
    settings = config.training or config.serving
    assert settings is not None
    return found.attempt((config.kind, "engine"), lambda: load_engine(settings.engine, config.profile_folders))


def _settle_serving(parts: Parts, model: Model | None, found: Findings) -> None:
    """Set the settings of serving with the defaults of the engine, and the draft model."""
    settings, engine, cluster = parts.config.serving, parts.engine, parts.cluster
    if settings is None:
        return
    if model is not None:
        for each in variants_of(settings):
            parts.draft = parts.draft or found.attempt(each.place, partial(each.draft_model, parts.config, model))
    if engine is not None and cluster is not None and model is not None:
        name = next((name for name in ("engine_release", *STEP) if getattr(settings, name) is not None), "engine")
        parts.serving = found.attempt(("serving", name), lambda: resolved_serving(settings, engine, cluster, model))

"""From a scenario to what can be simulated, whatever it is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from simsys.build.cluster import Cluster, build_cluster
from simsys.build.model import build_model
from simsys.build.serving import ServingJob, serving_job
from simsys.build.training import TrainingJob, training_job
from simsys.config.experiment import JobConfig, SimulationConfig
from simsys.executors import costed_model
from simsys.model.model import Model

Job: TypeAlias = TrainingJob | ServingJob


def job_of(config: SimulationConfig, cluster: Cluster, model: Model) -> Job:
    """The scenario on a cluster and model that are built already.

    Raises:
        SimsysError: If they do not fit together.
    """
    model = costed_model(model, config.simulation.lod)
    return (training_job if config.training is not None else serving_job)(config, cluster, model)


def build_job(config: SimulationConfig) -> Job:
    """Resolve a scenario into what can be started.

    Raises:
        SimsysError: If it names something unknown or does not fit together.
    """
    cluster = build_cluster(config.hardware, config.network, config.folder)
    return job_of(config, cluster, build_model(config.model, config.folder))


def build_jobs(config: SimulationConfig) -> list[Job]:
    """Resolve each of the jobs of a scenario, as if it had the first GPUs of the cluster.

    Raises:
        SimsysError: If one names something unknown or does not fit together.
    """
    cluster = build_cluster(config.hardware, config.network, config.folder)
    return [resolve(config, job, cluster, range(gpus_of(config, job, cluster.num_gpus))) for job in config.jobs or ()]


def resolve(config: SimulationConfig, job: JobConfig, cluster: Cluster, gpus: Sequence[int]) -> Job:
    """Resolve one of the jobs of a scenario on some of the GPUs of its cluster; raises as `build_jobs`."""
    own = config.job(job)
    return job_of(own, cluster.part(gpus), build_model(own.model, own.folder))


def gpus_of(config: SimulationConfig, job: JobConfig, num_gpus: int) -> int:
    """How many GPUs of a cluster of `num_gpus` one of the jobs of a scenario takes."""
    if job.gpus is not None:
        return job.gpus
    given = job.parallelism or config.parallelism
    return given.shards * given.dp_degree if given.dp_degree is not None else num_gpus

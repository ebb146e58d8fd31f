"""From a scenario to what can be simulated, whatever it is."""

from __future__ import annotations

from typing import TypeAlias

from simsys.build.cluster import Cluster, build_cluster
from simsys.build.model import build_model
from simsys.build.serving import ServingJob, serving_job
from simsys.build.training import TrainingJob, training_job
from simsys.config.experiment import JobConfig, SimulationConfig
from simsys.model.model import Model

Job: TypeAlias = TrainingJob | ServingJob


def job_of(config: SimulationConfig, cluster: Cluster, model: Model) -> Job:
    """The scenario on a cluster and model that are built already.

    Raises:
        SimsysError: If they do not fit together.
    """
    return (training_job if config.training is not None else serving_job)(config, cluster, model)


def build_job(config: SimulationConfig) -> Job:
    """Resolve a scenario into what can be started.

    Raises:
        SimsysError: If it names something unknown or does not fit together.
    """
    cluster = build_cluster(config.hardware, config.network, config.folder)
    return job_of(config, cluster, build_model(config.model, config.folder))


def gpus_of(job: JobConfig, config: SimulationConfig, num_gpus: int) -> int:
    """How many GPUs of a cluster of `num_gpus` a job takes, whose scenario of its own is `config`."""
    if job.gpus is not None:
        return job.gpus
    given = config.parallelism
    return given.shards * given.dp_degree if given.dp_degree is not None else num_gpus

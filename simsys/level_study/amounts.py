"""How much a scenario has to do, and the same scenario with less of it."""

from __future__ import annotations

from simsys.build.job import build_job
from simsys.build.serving import ServingJob
from simsys.config.experiment import SimulationConfig
from simsys.errors import UsageError

RANDOM_ARRIVALS = frozenset({"poisson", "gamma", "time_varying"})
GIVEN_LENGTHS = frozenset({"fixed", "trace"})


def unit(config: SimulationConfig) -> str:
    """What a scenario consists of, in the plural."""
    return {"training": "iterations", "serving": "requests", "jobs": "jobs"}[config.kind]


def amount(config: SimulationConfig) -> int:
    """How many iterations, requests or jobs a scenario has.

    Raises:
        UsageError: If nothing is to be done.
    """
    if config.jobs is not None:
        return len(config.jobs)
    if config.training is not None:
        return config.training.num_iterations
    assert config.workload is not None
    found, timed = config.workload.num_requests, config.timed_workload
    if found is None or (timed is not None and timed.duration is not None):
        job = build_job(config)
        assert isinstance(job, ServingJob)
        found = len(job.requests)
    if not found:
        raise UsageError(f"{config.name}: the workload has no request, so there is nothing to compare")
    return found


def with_amount(config: SimulationConfig, count: int) -> SimulationConfig:
    """The scenario with its first `count` iterations or requests, all served; several jobs stay as they are."""
    if config.jobs is not None:
        return config
    if config.training is not None:
        training = config.training.model_copy(update={"num_iterations": count})
        return config.model_copy(update={"training": training}).located_in(config.folder)
    assert config.workload is not None
    workload = config.workload.model_copy(update={"num_requests": count, "duration": None})
    simulation = config.simulation.model_copy(update={"duration": None})
    return config.model_copy(update={"workload": workload, "simulation": simulation}).located_in(config.folder)


def drawn(config: SimulationConfig) -> bool:
    """Whether the workload of a serving scenario has anything random, so that the seed matters; True of all others."""
    workload = config.workload
    if workload is None:
        return True
    lengths = {workload.prompt_tokens.kind, workload.output_tokens.kind}
    return workload.arrivals.kind in RANDOM_ARRIVALS or not lengths <= GIVEN_LENGTHS or workload.sessions is not None

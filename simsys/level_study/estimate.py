"""How much a scenario would cost at high, found out by beginning it."""

from __future__ import annotations

import time
from typing import Any, NamedTuple

from simsys.build.job import build, build_job
from simsys.config.experiment import SimulationConfig
from simsys.job_run import JobRun
from simsys.level_study.variants import HIGH, as_variant

TRIAL_S = 1.0
"""CPU time that a trial may take."""


class Estimate(NamedTuple):
    """What a run would cost.

    Args:
        events: SimPy events.
        built_s: CPU time of building the scenario.
        run_s: CPU time of what follows.
    """

    events: float
    built_s: float
    run_s: float

    @property
    def cpu_s(self) -> float:
        """CPU time of both."""
        return self.built_s + self.run_s

    def times(self, share: float) -> Estimate:
        """The estimate of a multiple of the work."""
        return Estimate(self.events * share, self.built_s, self.run_s * share)


def estimate(config: SimulationConfig, simulated_s: float, trial_s: float = TRIAL_S) -> Estimate:
    """Simulate the beginning of a scenario at high, and conclude from it on the rest.

    Args:
        config: The scenario.
        simulated_s: How long it lasts, as medium says.
        trial_s: CPU time to begin with.
    """
    started_s = time.process_time()
    env, _run = _begin(as_variant(config, HIGH).config)
    built_s = time.process_time() - started_s
    before, stops, until_s, spent_s = env.events_scheduled, 0, simulated_s / 4096, 0.0
    while spent_s < trial_s and until_s < simulated_s:
        env.run(until=until_s)
        stops += 1
        spent_s = time.process_time() - started_s - built_s
        reached_s = until_s
        # Twice as far, but no further than the rest of the trial is likely to reach.
        until_s *= min(2.0, 1.0 + (trial_s / spent_s if spent_s else 1.0))
    if until_s >= simulated_s and spent_s < trial_s:
        env.run()
        spent_s, reached_s = time.process_time() - started_s - built_s, simulated_s
    share = reached_s / simulated_s
    return Estimate((env.events_scheduled - before - stops) / share, built_s, spent_s / share)


def _begin(config: SimulationConfig) -> tuple[Any, object]:
    """An environment in which the scenario is about to run, and what keeps it alive."""
    if config.jobs is not None:
        from simsys.shared_cluster import SharedCluster

        shared = SharedCluster(build(config), [])
        return shared.platform.env, shared
    job = build_job(config)
    platform = job.cluster.platform()
    return platform.env, JobRun(job, platform)

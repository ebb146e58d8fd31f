"""The jobs of a scenario as separate scenarios; their problems are reported at the lines of the file."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from simsys.config.document import KeyPath, Mark
from simsys.config.experiment import JOB_SECTIONS, JobConfig, SchedulingConfig, SimulationConfig
from simsys.config.loader import ScenarioSource
from simsys.errors import Problem


@dataclass(frozen=True)
class OneJob:
    """One job as a separate scenario.

    Args:
        index: Its place in the list.
        job: Its entry in the list.
        config: Its scenario.
        source: Where its settings were written.
    """

    index: int
    job: JobConfig
    config: SimulationConfig
    source: ScenarioSource

    def in_the_file(self, problems: Iterable[Problem]) -> Iterator[Problem]:
        """Add the job's name and paths in the file to problems of the job; problems of the cluster stay unchanged."""
        for problem in problems:
            section = problem.path.split(".")[0].split("[")[0]
            if section not in (*JOB_SECTIONS, "gpus"):
                yield problem
                continue
            own = section == "gpus" or getattr(self.job, section) is not None
            path = f"jobs[{self.index}].{problem.path}" if own else problem.path
            fixes = tuple(replace(fix, edits=self._in_the_file(fix.edits)) for fix in problem.fixes)
            yield replace(problem, path=path, message=f"job {self.job.name}: {problem.message}", fixes=fixes)

    def _in_the_file(self, edits: Mapping[str, Any]) -> dict[str, Any]:
        """Settings that the job has itself, by their paths in the file."""
        return {f"jobs[{self.index}].{path}": value for path, value in edits.items()}


def jobs_of(source: ScenarioSource, config: SimulationConfig) -> Iterator[OneJob]:
    """Each job of a scenario, with its own placement or the placement of the cluster.

    Args:
        source: Where the scenario's settings were written.
        config: The scenario.
    """
    scheduling = config.scheduling or SchedulingConfig()
    for index, given_job in enumerate(config.jobs or ()):
        job = given_job.model_copy(update={"placement": given_job.placement or scheduling.placement})
        given = source.data["jobs"][index]
        data = {**source.data, **(given if isinstance(given, dict) else {})}
        yield OneJob(index, job, config.job(job), ScenarioSource(job.name, data, _Locate(source, index, set(given))))


@dataclass(frozen=True)
class _Locate:
    """Finds a setting of a job in its own entry, or else in the scenario."""

    source: ScenarioSource
    index: int
    own: set[str]

    def __call__(self, path: KeyPath, *, key: bool = False) -> Mark | None:
        inside: KeyPath = ("jobs", self.index)
        if path and (path[0] in self.own or path[0] == "gpus"):
            return self.source.locate((*inside, *path) if path[0] in self.own else inside, key=key)
        return self.source.locate(path, key=key)

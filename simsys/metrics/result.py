"""The outcome of a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from simsys.metrics.iteration_log import COMMUNICATION
from simsys.metrics.observation import Observation
from simsys.shown import Shown
from simsys.version import __version__

if TYPE_CHECKING:
    import pandas

    from simsys.metrics.serving_log import ServingLog


SCHEMA_VERSION = 2
"""Version of `RunResult.as_dict`; incremented by changes that could break a reader."""
SHOWN = {
    "training": ("mean_iteration_s", "samples_per_s", "mfu"),
    "serving": ("served_requests_per_s", "served_share", "p50_ttft_ms", "p50_tpot_ms"),
    "jobs": ("jobs", "makespan_s"),
}
"""Metrics that a result shows where Python prints it."""


@dataclass(frozen=True, repr=False)
class RunResult(Shown):
    """The result of a run; a function of the scenario alone, except for `wall_s` and `cpu_s`.

    Args:
        name: The scenario.
        kind: ``training``, ``serving``, or ``jobs``.
        lod: Level of detail.
        contention: Model of link sharing.
        metrics: Metrics by name, with units in the names.
        rows: One column per name, one row per iteration, request or job.
        memory_bytes: Peak memory of the fullest GPU, by component.
        ranks: One column per name, one row per observed rank, the first of every pipeline stage: the means of the
            parts of its iterations, and its peak memory; none in serving.
        replica_changes: One column per name, one row per change of the numbers of active and of paid replicas; only
            with autoscaling.
        memory_timeline: One column per name, one row per change of memory in use on a simulated GPU; only if events
            are collected.
        timeline: One column per name, one row per interval of a serving run, with means
            (`simsys.metrics.serving_timeline`).
        requests: The log of requests and steps of a serving run.
        gpus: One column per name, one row per GPU; at medium only stand-ins are busy.
        links: One column per name, one row per link that carried anything; none at medium,
            unless links are occupied. ``nbytes`` is what ranks sent over it, ``protocol_nbytes`` as many
            bytes as keep it busy for as long as the protocols of collectives do.
        traffic: The communication graph: one column per name, one row per pair of GPUs of which the first sent
            anything to the second; only if events are collected.
        jobs: The result of each job, if several share the cluster.
        assumptions: Defaults and data that the figures rest on, for people.
        defaults: What the engine of a serving run has set, by setting: the value, and where it comes from.
        observations: What analyses of the user's own have found, by their names (`simsys.metrics.own`).
        warnings: What makes the figures doubtful, or was understood otherwise than it may have been meant; for people,
            who see it first.
        profiles: A digest of each hardware and engine profile that the run has read, by kind and name.
        simulated_s: Simulated time.
        world_size: Ranks of the job; 0 of several jobs.
        simulated_ranks: Those that run processes of their own, as stand-ins or each for itself.
        events: SimPy events scheduled.
        wall_s: Wall-clock time of the simulation.
        cpu_s: CPU time of the simulation.
    """

    name: str
    kind: str
    lod: str
    contention: str
    metrics: Mapping[str, Any]
    rows: Mapping[str, Sequence[Any]]
    memory_bytes: Mapping[str, float] = field(default_factory=dict)
    ranks: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    replica_changes: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    memory_timeline: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    timeline: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    requests: ServingLog | None = None
    gpus: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    links: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    traffic: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    jobs: Sequence[RunResult] = ()
    assumptions: Sequence[str] = ()
    defaults: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    observations: Mapping[str, Sequence[Observation]] = field(default_factory=dict)
    warnings: Sequence[str] = ()
    profiles: Mapping[str, str] = field(default_factory=dict)
    simulated_s: float = 0.0
    world_size: int = 0
    simulated_ranks: int = 0
    events: int = 0
    wall_s: float = 0.0
    cpu_s: float = 0.0

    def __repr__(self) -> str:
        """In one line, since the tables may hold a million rows."""
        found = ((name, self.metrics.get(name)) for name in SHOWN.get(self.kind, ()))
        figures = "".join(f", {name}={value:.4g}" for name, value in found if value is not None)
        doubts = f", warnings={len(self.warnings)}" if self.warnings else ""
        return f"<RunResult {self.name!r} kind={self.kind}, lod={self.lod}{figures}{doubts}>"

    @property
    def exposed_s(self) -> dict[str, float]:
        """The exposed communication of an iteration by the axis that it is due to, in seconds; empty in serving."""
        names = {axis: f"exposed_{axis}_s" for axis in COMMUNICATION}
        return {axis: self.metrics[name] for axis, name in names.items() if name in self.metrics}

    def table(self) -> pandas.DataFrame:
        """The rows as a pandas table."""
        import pandas

        return pandas.DataFrame(dict(self.rows))

    def shown(self) -> pandas.DataFrame:
        """The metrics, which notebooks show."""
        import pandas

        return pandas.DataFrame({"metric": list(self.metrics), "value": [str(each) for each in self.metrics.values()]})

    def as_dict(self) -> dict[str, Any]:
        """The reproducible part, ready for JSON."""
        return {
            "schema_version": SCHEMA_VERSION,
            "simsys_version": __version__,
            "name": self.name,
            "kind": self.kind,
            "level_of_detail": self.lod,
            "contention": self.contention,
            "warnings": list(self.warnings),
            "simulated_s": self.simulated_s,
            "events": self.events,
            "metrics": dict(self.metrics),
            **(
                {"jobs": [job.as_dict() for job in self.jobs]}
                if self.jobs
                else {"memory_bytes": dict(self.memory_bytes)}
            ),
            "assumptions": list(self.assumptions),
            **({"defaults": {name: dict(each) for name, each in self.defaults.items()}} if self.defaults else {}),
            "profiles": dict(self.profiles),
        }

"""The schema of an experiment file with one scenario.

The keys of the first design documents (``gpu_model``, ``compute_tflops``, ``memory_gb``,
``network_bandwidth_gbps`` in GB/s, ``base_latency_us``, ``training.num_nodes`` …) are accepted as aliases;
they are the only places where a bare number may stand for a quantity.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import AfterValidator, Field, NonNegativeInt, PositiveInt, PrivateAttr, model_validator

from simsys.config.base import FrozenModel, invalid, invalid_at
from simsys.config.changes import Changeable
from simsys.config.cluster import HardwareConfig
from simsys.config.economics import EconomicsConfig
from simsys.config.hardware import own_folders
from simsys.config.images import with_encoder
from simsys.config.lab import LabConfig
from simsys.config.loader import read_sources, validate_all
from simsys.config.model import ModelConfig
from simsys.config.network import NetworkConfig
from simsys.config.parallelism import ParallelismConfig
from simsys.config.scheduling import Placement
from simsys.config.scheduling import SchedulingConfig as SchedulingConfig
from simsys.config.search import SearchConfig
from simsys.config.serving import ServingConfig
from simsys.config.slo import SloConfig as SloConfig
from simsys.config.sweep import SweepConfig
from simsys.config.training import TrainingConfig
from simsys.config.workload import WorkloadConfig
from simsys.errors import UsageError
from simsys.units import LONGEST_S, NonNegativeSeconds, Seconds

Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$", max_length=100)]


class SimulationSettings(FrozenModel):
    """Level of detail, seed and outputs of the simulation.

    `occupy_links` says whether transfers share the bandwidth of their links at medium, as they always do at high:
    ``auto`` (the default) where transfers can meet, ``true`` everywhere, ``false`` nowhere. With `save_detailed`, the
    times of every request and token of a serving run are written; the name is an option of ``vllm bench serve``. With
    `duration`, a serving run ends after this simulated time at the latest, and reports the requests in flight at that
    moment.
    """

    other_names: ClassVar[Mapping[str, str]] = {"level_of_detail": "lod", "detail": "lod"}

    lod: Literal["high", "medium"] = Field(
        default="medium", description="Level of detail: high simulates every operation of every rank"
    )
    seed: NonNegativeInt = Field(default=42, description="Seed of all random streams")
    collect_events: bool = Field(
        default=False, description="Write the event history, traffic between GPUs and memory over time"
    )
    occupy_links: Literal["auto"] | bool = Field(
        default="auto",
        description="Contention of transfers at medium: where transfers can meet (auto), always or never",
    )
    save_detailed: bool = Field(
        default=False, description="Write the times of every request and token of a serving run"
    )
    duration: Seconds | None = Field(default=None, description="Simulated time after which a serving run ends")
    metrics: list[str] = Field(
        default_factory=list, description="Metrics of your own, such as my_metrics:TokensPerJoule"
    )
    analyses: list[str] = Field(
        default_factory=list, description="Analyses of your own, such as my_analyses:UnusedMemory"
    )


SERVING_SECTIONS = ("serving", "workload", "slo")
JOB_SECTIONS = ("model", "parallelism", "training", *SERVING_SECTIONS)
"""Sections that a job may have instead of the sections of the scenario."""


def _in_time(arrival_s: float) -> float:
    if arrival_s > LONGEST_S:
        raise invalid(f"at most {LONGEST_S:g} s (300 years) are simulated, not {arrival_s:g} s")
    return arrival_s


class JobConfig(FrozenModel):
    """One of several jobs. It uses the sections of the scenario, except those that it has itself.

    `gpus` is its number of GPUs; left out, the product of its degrees, or the whole cluster if no degrees are given.
    `walltime` is the expected duration, which only the ``backfill`` queue uses; left out, the duration of the job
    alone on the cluster. `placement` replaces the placement of ``scheduling``.
    """

    name: Name = Field(description="Name of the job")
    gpus: PositiveInt | None = Field(
        default=None, description="GPUs of the job; by default the product of its degrees, or the whole cluster"
    )
    arrival: Annotated[NonNegativeSeconds, AfterValidator(_in_time)] = Field(
        default=0.0, description="Time at which the job enters the queue"
    )
    priority: Annotated[int, Field(strict=True, ge=-1000, le=1000)] = Field(
        default=0, description="Priority in the priority queue; the highest is first"
    )
    walltime: Seconds | None = Field(
        default=None,
        description="Expected duration, used by the backfill queue; by default the duration of the job alone",
    )
    placement: Placement | None = Field(
        default=None, description="Placement of this job; replaces the placement of the cluster"
    )
    model: ModelConfig | None = Field(
        default=None, description="Model of this job; replaces the model of the scenario"
    )
    parallelism: ParallelismConfig | None = Field(
        default=None, description="Parallelism of this job; replaces the parallelism of the scenario"
    )
    training: TrainingConfig | None = Field(
        default=None, description="Training of this job; replaces the training of the scenario"
    )
    serving: ServingConfig | None = Field(
        default=None, description="Serving of this job; replaces the serving of the scenario"
    )
    workload: WorkloadConfig | None = Field(
        default=None, description="Workload of this job; replaces the workload of the scenario"
    )
    slo: SloConfig | None = Field(
        default=None, description="Latency targets of this job; replace the targets of the scenario"
    )


class SimulationConfig(Changeable):
    """One scenario.

    Give ``training``, or ``serving`` with a ``workload``. With `jobs`, several of them share the cluster, as
    ``scheduling`` defines.
    """

    name: Name = Field(default="experiment", description="Name of the scenario, and of the folder of its results")
    description: str = Field(default="", description="Free text")
    hardware: HardwareConfig = Field(description="GPUs, nodes and network cards")
    network: NetworkConfig = Field(default=NetworkConfig(), description="Network between nodes")
    model: ModelConfig = Field(description="Model that is trained or served")
    parallelism: ParallelismConfig = Field(
        default=ParallelismConfig(), description="Division of the model and the batch among ranks"
    )
    training: TrainingConfig | None = Field(
        default=None, description="Training job; a scenario has either training or serving"
    )
    serving: ServingConfig | None = Field(default=None, description="Inference engine and its settings")
    workload: WorkloadConfig | None = Field(default=None, description="Requests of a serving scenario")
    slo: SloConfig | None = Field(
        default=None, description="Latency targets; goodput counts the requests that meet all of them"
    )
    jobs: Annotated[list[JobConfig], Field(min_length=1)] | None = Field(
        default=None, description="Jobs that share the cluster"
    )
    scheduling: SchedulingConfig | None = Field(default=None, description="Queue and placement of jobs")
    economics: EconomicsConfig = Field(
        default=EconomicsConfig(), description="Data centre and electricity, for energy and CO2"
    )
    simulation: SimulationSettings = Field(
        default=SimulationSettings(), description="Level of detail, seed and outputs"
    )
    sweep: SweepConfig | None = Field(default=None, description="Settings that vary in simsys sweep")
    search: SearchConfig | None = Field(default=None, description="Question that simsys search answers")
    lab: LabConfig | None = Field(default=None, description="How simsys lab carries a training scenario out")
    _folder: Path = PrivateAttr(default_factory=Path)

    @model_validator(mode="before")
    @classmethod
    def _aliases(cls, data: Any) -> Any:
        """Move ``training.num_nodes`` to the hardware, where it belongs."""
        data = with_encoder(data)
        if isinstance(data, dict) and "chakra" in data:
            message = "a replay of Chakra traces is no scenario; carry it out with simsys chakra replay FILE"
            raise invalid_at(("chakra",), message, data["chakra"])
        if not isinstance(data, dict) or not isinstance(data.get("training"), dict | TrainingConfig):
            return data
        training, hardware = data["training"], data.get("hardware")
        given = training if isinstance(training, dict) else training.model_dump(exclude_unset=True)
        if given.get("num_nodes") is None:
            return data
        num_nodes = given["num_nodes"]
        fields = dict(hardware) if isinstance(hardware, dict) else hardware
        if isinstance(fields, HardwareConfig):
            fields = fields.model_copy(update={"num_nodes": num_nodes})
        elif isinstance(fields, dict):
            if fields.get("num_nodes", num_nodes) != num_nodes:
                raise invalid(
                    f"training.num_nodes ({num_nodes}) and hardware.num_nodes ({fields['num_nodes']}) differ"
                )
            fields["num_nodes"] = num_nodes
        rest = {key: value for key, value in given.items() if key != "num_nodes"}
        return {**data, "hardware": fields, "training": rest}

    @model_validator(mode="after")
    def _one_workload(self) -> Self:
        if problem := self._incomplete():
            raise invalid(problem)
        for index, job in enumerate(self.jobs or ()):
            if problem := self.job(job)._incomplete():
                raise invalid_at(("jobs", index), f"job {job.name}: {problem}", job.name)
        if self.training is not None and self.simulation.save_detailed:
            raise invalid("simulation.save_detailed is about requests and belongs to serving, not to training")
        jobs = [self.job(job) for job in self.jobs or ()] or [self]
        if self.simulation.duration is not None and all(job.serving is None for job in jobs):
            raise invalid(
                "simulation.duration ends a serving run, but this is training; give training.num_iterations instead"
            )
        return self

    def _incomplete(self) -> str:
        """Why the sections fit neither a training nor a serving scenario; empty if they do."""
        if (self.training is None) == (self.serving is None):
            common = "; with jobs, it is for jobs without their own section" if self.jobs else ""
            return f"a scenario has either training or serving{common}"
        if self.serving is not None and self.workload is None:
            return "serving needs a workload: arrivals, prompt_tokens, output_tokens and num_requests"
        if self.training is not None and (self.workload is not None or self.slo is not None):
            return "workload and slo belong to serving, not to training"
        return ""

    @model_validator(mode="after")
    def _search_of_one_job(self) -> Self:
        if self.search is not None and self.kind == "jobs":
            message = "simsys search is for one training job or one serving scenario; jobs cannot be searched"
            raise invalid_at(("search",), message, self.search)
        return self

    @model_validator(mode="after")
    def _jobs_have_unique_names(self) -> Self:
        names = [job.name for job in self.jobs or ()]
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            raise invalid(f"several jobs are called {twice}")
        if self.jobs is None and self.scheduling is not None:
            raise invalid("scheduling is for several jobs; add jobs: [{name: …, gpus: …}, …]")
        return self

    @property
    def folder(self) -> Path:
        """The folder of the experiment file, from which relative paths in the scenario start."""
        return self._folder

    @property
    def profile_folders(self) -> tuple[Path, ...]:
        """Folders with the user's own hardware and engine profiles, best first."""
        return own_folders(self._folder, self.hardware.profile_folder)

    @property
    def kind(self) -> Literal["training", "serving", "jobs"]:
        """The kind of the scenario: ``training``, ``serving`` or ``jobs``."""
        if self.jobs is not None:
            return "jobs"
        return "training" if self.training is not None else "serving"

    @property
    def timed_workload(self) -> WorkloadConfig | None:
        """The workload within the duration of the run."""
        workload, run_s = self.workload, self.simulation.duration
        if workload is None or run_s is None or not workload.limited_by_time:
            return workload
        return workload.model_copy(update={"duration": min(run_s, workload.duration or run_s)})

    def job(self, job: JobConfig) -> Self:
        """The scenario of one of the jobs, alone on the cluster.

        A training job loses the serving sections of the scenario, and a serving job its training section.
        """
        own = {name: getattr(job, name) for name in JOB_SECTIONS if getattr(job, name) is not None}
        other = SERVING_SECTIONS if job.training is not None else ("training",) if job.serving is not None else ()
        seed = zlib.crc32(f"{self.simulation.seed} {job.name}".encode())  # so that the random streams of jobs differ
        alone = {"jobs": None, "scheduling": None, "simulation": self.simulation.model_copy(update={"seed": seed})}
        changes = {**dict.fromkeys(other), **own, "name": job.name, **alone}
        return self.model_copy(update=changes)

    def located_in(self, folder: Path) -> Self:
        """A copy of this scenario with relative paths that start from `folder`."""
        self._folder = folder
        return self

    @classmethod
    def from_yaml(cls, path: str | Path, scenario: str | None = None) -> SimulationConfig:
        """Read a scenario from a file.

        Args:
            path: The experiment file.
            scenario: Which of its scenarios; may be left out if there is only one.

        Raises:
            ConfigError: With all problems of the file.
            UsageError: If the file has several scenarios and none is named.
        """
        found = validate_all(read_sources(Path(path), names=() if scenario is None else (scenario,)), cls)
        if len(found) > 1:
            names = ", ".join(each.name for each in found)
            raise UsageError(f"the file holds {len(found)} scenarios; name one of: {names}")
        return found[0].located_in(Path(path).resolve().parent)

"""The experiment file: one scenario as the user describes it, in units and names of the field.

The keys of the first design documents (``gpu_model``, ``compute_tflops``, ``memory_gb``,
``network_bandwidth_gbps`` in GB/s, ``base_latency_us``, ``training.num_nodes`` …) are accepted as aliases;
only these accept numbers without a unit.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import AfterValidator, Field, NonNegativeInt, PositiveInt, PrivateAttr, model_validator

from simsys.config.base import FrozenModel, invalid, invalid_at
from simsys.config.cluster import HardwareConfig
from simsys.config.hardware import own_folders
from simsys.config.loader import read_sources, validate_all
from simsys.config.network import NetworkConfig
from simsys.config.parallelism import ParallelismConfig
from simsys.config.serving import ServingConfig
from simsys.config.training import TrainingConfig
from simsys.config.workload import WorkloadConfig
from simsys.errors import UsageError
from simsys.units import LONGEST_S, NonNegativeSeconds, Seconds

Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$", max_length=100)]


class ModelConfig(FrozenModel):
    """The model: a name of the model DB, a Hugging Face ``config.json``, an architecture, or layers.

    Exactly one of ``name``, ``huggingface``, ``layers`` and ``model_type`` with its sizes. A Hugging Face model of a
    type that is not known can be read as one that is: `assume` names that type, such as ``llama``.
    """

    name: str | None = None
    huggingface: str | None = None
    assume: str | None = None
    model_type: str | None = None
    num_layers: PositiveInt | None = None
    hidden_size: PositiveInt | None = None
    num_attention_heads: PositiveInt | None = None
    num_key_value_heads: PositiveInt | None = None
    intermediate_size: PositiveInt | None = None
    vocab_size: PositiveInt | None = None
    sequence_length: PositiveInt | None = None
    decoder_sequence_length: PositiveInt | None = None
    layers: list[dict[str, Any]] | None = None

    @model_validator(mode="after")
    def _one_source(self) -> Self:
        given = [key for key in ("name", "huggingface", "model_type", "layers") if getattr(self, key) is not None]
        if self.layers is not None and given in (["name", "layers"], ["model_type", "layers"]):
            given = ["layers"]
        if len(given) != 1:
            found = f"not {' and '.join(given)}" if given else "but none is"
            raise invalid(f"exactly one of name, huggingface, model_type and layers is to be given, {found}")
        if self.layers is not None and not self.layers:
            raise invalid("a model needs at least one layer")
        if self.assume is not None and self.huggingface is None:
            raise invalid(
                "assume says how a Hugging Face configuration is read; write huggingface too or remove assume"
            )
        return self


class SloConfig(FrozenModel):
    """Latency targets; a request counts towards goodput if it meets all of them."""

    other_names: ClassVar[Mapping[str, str]] = {"itl": "tpot", "e2e": "e2el"}

    ttft: Seconds | None = None
    tpot: Seconds | None = None
    e2el: Seconds | None = None


class SimulationSettings(FrozenModel):
    """How the scenario is simulated, and what is written of it.

    `occupy_links` says whether transfers slow each other on their links at medium, as they always do at high:
    ``auto`` (the default) where transfers can meet, ``true`` everywhere, ``false`` nowhere. With `save_detailed`, the
    times of every request and token of a serving run are written, as ``vllm bench serve`` calls it. With `duration`, a
    serving run ends so long after its start at the latest, and says which requests were in flight then.
    """

    other_names: ClassVar[Mapping[str, str]] = {"level_of_detail": "lod", "detail": "lod"}

    lod: Literal["high", "medium"] = "medium"
    seed: NonNegativeInt = 42
    collect_events: bool = False
    occupy_links: Literal["auto"] | bool = "auto"
    save_detailed: bool = False
    duration: Seconds | None = None


Placement = Literal["packed", "spread", "random"]
SERVING_SECTIONS = ("serving", "workload", "slo")
JOB_SECTIONS = ("model", "parallelism", "training", *SERVING_SECTIONS)
"""What a job may give instead of its scenario."""


def _in_time(arrival_s: float) -> float:
    if arrival_s > LONGEST_S:
        raise invalid(f"at most {LONGEST_S:g} s (300 years) are simulated, not {arrival_s:g} s")
    return arrival_s


class JobConfig(FrozenModel):
    """One of several jobs. It is the scenario's training or serving, but for the sections that it gives itself.

    `gpus` is how many it takes; left out, the product of its degrees, or all of the cluster if these do not say.
    `walltime` is how long its user expects it to take, which only the ``backfill`` queue heeds; left out, how long it
    takes when alone. `placement` replaces that of the cluster.
    """

    name: Name
    gpus: PositiveInt | None = None
    arrival: Annotated[NonNegativeSeconds, AfterValidator(_in_time)] = 0.0
    priority: Annotated[int, Field(strict=True, ge=-1000, le=1000)] = 0
    walltime: Seconds | None = None
    placement: Placement | None = None
    model: ModelConfig | None = None
    parallelism: ParallelismConfig | None = None
    training: TrainingConfig | None = None
    serving: ServingConfig | None = None
    workload: WorkloadConfig | None = None
    slo: SloConfig | None = None


class SchedulingConfig(FrozenModel):
    """The batch system: order of the `queue`, and placement of jobs on GPUs.

    ``fifo`` allows no overtaking; ``backfill`` lets short jobs overtake if they delay no other job; ``priority``
    serves the highest priority first. ``packed`` uses the fewest nodes, ``spread`` the most, ``random`` any GPUs.
    """

    queue: Literal["fifo", "backfill", "priority"] = "fifo"
    placement: Placement = "packed"


class SimulationConfig(FrozenModel):
    """One scenario. Give ``training``, or ``serving`` with a ``workload``.

    With `jobs`, several of these share the cluster; ``scheduling`` says how.
    """

    name: Name = "experiment"
    description: str = ""
    hardware: HardwareConfig
    network: NetworkConfig = NetworkConfig()
    model: ModelConfig
    parallelism: ParallelismConfig = ParallelismConfig()
    training: TrainingConfig | None = None
    serving: ServingConfig | None = None
    workload: WorkloadConfig | None = None
    slo: SloConfig | None = None
    jobs: Annotated[list[JobConfig], Field(min_length=1)] | None = None
    scheduling: SchedulingConfig | None = None
    simulation: SimulationSettings = SimulationSettings()
    _folder: Path = PrivateAttr(default_factory=Path)

    @model_validator(mode="before")
    @classmethod
    def _aliases(cls, data: Any) -> Any:
        """Move ``training.num_nodes`` to the hardware, where it belongs."""
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
        """What the sections of a training or a serving lack, or have too many of; empty if they are as they should."""
        if (self.training is None) == (self.serving is None):
            common = "; of several jobs, it is that of jobs without a section of their own" if self.jobs else ""
            return f"a scenario has either training or serving{common}"
        if self.serving is not None and self.workload is None:
            return "serving needs a workload: arrivals, prompt_tokens, output_tokens and num_requests"
        if self.training is not None and (self.workload is not None or self.slo is not None):
            return "workload and slo belong to serving, not to training"
        return ""

    @model_validator(mode="after")
    def _jobs_told_apart(self) -> Self:
        names = [job.name for job in self.jobs or ()]
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            raise invalid(f"several jobs are called {twice}")
        if self.jobs is None and self.scheduling is not None:
            raise invalid("scheduling is for several jobs; add jobs: [{name: …, gpus: …}, …]")
        return self

    @property
    def folder(self) -> Path:
        """The folder that relative paths in the scenario start from: that of the experiment file."""
        return self._folder

    @property
    def profile_folders(self) -> tuple[Path, ...]:
        """Folders with the user's own hardware and engine profiles, best first."""
        return own_folders(self._folder, self.hardware.profile_folder)

    @property
    def kind(self) -> Literal["training", "serving", "jobs"]:
        """What is simulated."""
        if self.jobs is not None:
            return "jobs"
        return "training" if self.training is not None else "serving"

    @property
    def timed_workload(self) -> WorkloadConfig | None:
        """The part of the workload within the duration of the run."""
        workload, run_s = self.workload, self.simulation.duration
        if workload is None or run_s is None or not workload.limited_by_time:
            return workload
        return workload.model_copy(update={"duration": min(run_s, workload.duration or run_s)})

    def job(self, job: JobConfig) -> Self:
        """The scenario of one of the jobs, as if it had the cluster for itself.

        A job that trains does not serve, and the other way round.
        """
        own = {name: getattr(job, name) for name in JOB_SECTIONS if getattr(job, name) is not None}
        other = SERVING_SECTIONS if job.training is not None else ("training",) if job.serving is not None else ()
        seed = zlib.crc32(f"{self.simulation.seed} {job.name}".encode())  # so that jobs do not draw the same
        alone = {"jobs": None, "scheduling": None, "simulation": self.simulation.model_copy(update={"seed": seed})}
        changes = {**dict.fromkeys(other), **own, "name": job.name, **alone}
        return self.model_copy(update=changes)

    def located_in(self, folder: Path) -> Self:
        """This scenario, with relative paths starting from `folder`."""
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

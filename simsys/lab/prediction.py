"""A scenario as the simulator predicts it, with the options that describe how PyTorch carries it out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from simsys.build.training import TrainingJob
from simsys.check import sound
from simsys.config.experiment import SimulationConfig
from simsys.config.hardware import profile_names
from simsys.lab.settings import strategy_of
from simsys.metrics.result import RunResult
from simsys.ops import Collective, Compute, Operation
from simsys.probes import Probe
from simsys.simulation import simulate
from simsys.sums import ordered_sum

AS_PYTORCH: Mapping[str, Mapping[str, Any]] = {
    "ddp": {"whole_tensors": True},
    "zero1": {"whole_tensors": True, "all_reduce": True, "broadcast_parameters": True},
    "fsdp": {"buffer_copies": True},
}
"""Options of data-parallel modules with which they do what PyTorch does."""
ON_CPU: Mapping[str, Mapping[str, Any]] = {"fsdp": {"overlap": False}}
"""Further ones on a CPU: ``fully_shard`` has no streams there and waits for every collective."""


@dataclass(frozen=True)
class Predicted:
    """A predicted iteration of the first rank.

    Args:
        result: The result of the simulation.
        iteration_s: Time of an iteration.
        causes_s: Its time by cause.
        collectives: Kind and full buffer in bytes of each collective, in order.
        memory_bytes: Memory by component.
    """

    result: RunResult
    iteration_s: float
    causes_s: Mapping[str, float]
    collectives: Sequence[tuple[str, float]]
    memory_bytes: Mapping[str, float]


@dataclass
class FirstRank(Probe):
    """Notes what the first rank does."""

    computed: list[tuple[str, float]] = field(default_factory=list)
    exchanged: list[tuple[float, str, float]] = field(default_factory=list)

    def operation(self, op: Operation, started_s: float, ended_s: float) -> None:
        """Note a computation or a collective."""
        if isinstance(op, Compute) and op.rank == 0:
            self.computed.append((op.name, ended_s - started_s))
        elif isinstance(op, Collective) and op.rank == 0:
            self.exchanged.append((started_s, str(op.kind), op.nbytes))


def as_carried_out(job: TrainingJob, *, on_cpu: bool) -> SimulationConfig:
    """The scenario with one iteration, and with options that the user left out set as PyTorch behaves.

    The engine is the profile of the same name as the node's, as `simsys measure` writes it, unless another is given.
    """
    config, training = job.config, job.settings
    strategy = strategy_of(job) or "none"
    options = {**AS_PYTORCH.get(strategy, {}), **(ON_CPU.get(strategy, {}) if on_cpu else {}), **training.options}
    if "bucket_size" in options:
        options.setdefault("first_bucket_size", options["bucket_size"])
    changes: dict[str, Any] = {"num_iterations": 1, "options": options if strategy != "none" else {}}
    profile = config.hardware.profile
    given = "engine" in training.model_fields_set
    if not given and isinstance(profile, str) and profile in profile_names("engine", config.profile_folders):
        changes["engine"] = profile
    simulation = config.simulation.model_copy(update={"lod": "high", "collect_events": False})
    update = {"training": training.model_copy(update=changes), "simulation": simulation}
    return config.model_copy(update=update)


def predict(job: TrainingJob, *, on_cpu: bool) -> Predicted:
    """Simulate an iteration of a scenario.

    Args:
        job: The scenario.
        on_cpu: Whether it runs on a CPU.

    Raises:
        SimsysError: If it cannot be simulated.
    """
    config = as_carried_out(job, on_cpu=on_cpu)
    probe = FirstRank()
    result = simulate(config, [probe], built=sound(config))
    iteration_s = float(result.metrics["mean_iteration_s"])
    causes = {
        name: ordered_sum(seconds for each, seconds in probe.computed if each == name)
        for name in ("forward", "backward", "optimizer")
    }
    causes["exposed communication"] = max(0.0, iteration_s - ordered_sum(causes.values()))
    collectives = [(kind, nbytes) for _, kind, nbytes in sorted(probe.exchanged, key=lambda each: each[0])]
    return Predicted(result, iteration_s, causes, collectives, result.memory_bytes)

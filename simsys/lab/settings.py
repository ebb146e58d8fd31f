"""A training scenario as the lab carries it out, and what of a scenario it refuses."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from simsys.build.training import TrainingJob
from simsys.config.lab import LabConfig
from simsys.errors import ConfigError, Problem
from simsys.input_files import path_from
from simsys.model.model import Model
from simsys.parallel.activations import Recompute

STRATEGIES = {"none": "none", "ddp": "ddp", "zero1": "zero1", "fsdp": "fsdp"}
"""Strategies of the lab by data-parallel module."""
USED_OPTIONS = {
    "none": frozenset[str](),
    "ddp": frozenset({"bucket_size", "first_bucket_size", "overlap", "gradient_as_bucket_view", "whole_tensors"}),
    "zero1": frozenset(
        {"bucket_size", "first_bucket_size", "overlap", "broadcast_parameters", "all_reduce", "whole_tensors"}
    ),
    "fsdp": frozenset({"reshard_after_forward", "no_sync", "forward_prefetch", "backward_prefetch", "overlap"}),
}
"""Options of the data-parallel modules that the lab carries out."""


@dataclass(frozen=True)
class LabSettings:
    """What trainers need to know; the defaults train a small model on one process.

    Args:
        strategy: ``none``, ``ddp``, ``zero1`` or ``fsdp``.
        options: Options of the data-parallel module.
        batch_size: Samples of a micro-batch on each rank.
        micro_batches: Micro-batches of an iteration.
        iterations: Iterations (optimizer steps).
        precision: ``fp32``, ``bf16`` or ``fp16``.
        optimizer: ``adam`` (AdamW) or ``sgd``.
        fused_optimizer: Update the weights in one kernel.
        recompute: What the backward pass recomputes.
        sequence_length: Tokens of a sequence.
        seed: Seed of weights, data and dropout.
        lab: The settings of the experiment file's section `lab`.
        folder: Folder from which the path of a file of text starts.
    """

    strategy: str = "none"
    options: dict[str, Any] = field(default_factory=dict)
    batch_size: int = 8
    micro_batches: int = 1
    iterations: int = 10
    precision: str = "fp32"
    optimizer: str = "adam"
    fused_optimizer: bool = True
    recompute: Recompute = Recompute.NONE
    sequence_length: int = 128
    seed: int = 42
    lab: LabConfig = field(default_factory=LabConfig)
    folder: Path = field(default_factory=Path)

    @property
    def text_file(self) -> Path | None:
        """The file whose bytes are the tokens; None for synthetic data."""
        file = self.lab.data.file
        return None if file is None else path_from(self.folder, file)


def settings_of(job: TrainingJob) -> LabSettings:
    """The settings of a scenario.

    Raises:
        ConfigError: With everything in it that the lab cannot carry out.
    """
    problems = [Problem(message, path) for path, message in _refused(job)]
    if problems:
        raise ConfigError(problems)
    training, phase = job.settings, job.phases[0]
    module, options = job.data_parallel
    del module
    return LabSettings(
        strategy=strategy_of(job) or "none",
        options=options.model_dump(),
        batch_size=phase.batch_size_per_gpu,
        micro_batches=phase.micro_batches,
        iterations=training.num_iterations,
        precision=job.precision.compute,
        optimizer=training.optimizer,
        fused_optimizer=training.fused_optimizer,
        recompute=Recompute(str(training.activation_recompute)),
        sequence_length=job.sequence_length,
        seed=job.config.simulation.seed,
        lab=job.config.lab or LabConfig(),
        folder=job.config.folder,
    )


def strategy_of(job: TrainingJob) -> str | None:
    """The strategy of a scenario, if the lab has it; a single rank needs none."""
    name = job.data_parallel[0].__name__.lower()
    return "none" if job.layout.world_size == 1 else STRATEGIES.get(name)


def _refused(job: TrainingJob) -> Iterator[tuple[str, str]]:
    """What the lab cannot carry out: settings and reasons."""
    training, layout = job.settings, job.layout
    if layout.data != layout.world_size:
        yield "parallelism.strategy", "the lab trains with data parallelism only: None, DDP, ZERO1 or FSDP"
    elif strategy_of(job) is None or "HSDP" in job.config.parallelism.parts:
        yield "parallelism.strategy", "the lab has None, DDP, ZERO1 and FSDP"
    elif strategy_of(job) != "none":
        own, given = USED_OPTIONS[strategy_of(job) or "none"], training.options
        for name in given:
            if name not in own:
                yield f"training.options.{name}", "the lab has no such option; leave it out"
    if job.precision.compute not in ("fp32", "tf32", "bf16", "fp16"):
        yield "training.precision", f"the lab trains in fp32, bf16 and fp16, not in {job.precision.compute}"
    for name in ("batch_schedule", "failures", "data_loading"):
        if getattr(training, name):
            yield f"training.{name}", "the lab cannot carry it out; leave it out"
    if training.attention in ("unfused", "eager"):
        yield "training.attention", "the lab uses PyTorch's fused attention"
    lab = job.config.lab or LabConfig()
    if lab.data.kind == "text" and _is_too_small(job.model):
        yield "lab.data.kind", f"bytes need a vocabulary of 256 tokens; {job.model.name} has {job.model.vocab_size}"
    if not isinstance(training.activation_recompute, str):
        yield "training.activation_recompute", "the lab recomputes no single modules; write selective, half or full"
    elif job.model.name == "ResNet-50" and training.activation_recompute != "none":
        yield "training.activation_recompute", "the lab recomputes activations of transformers only"


def _is_too_small(model: Model) -> bool:
    return model.vocab_size < 256

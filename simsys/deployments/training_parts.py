"""Correspondences that the training targets share: GPUs, batches, and settings that describe data or cluster."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from simsys.config.experiment import SimulationConfig
from simsys.deployments.correspondence import Correspondence, InexpressibleError, Options, Settings
from simsys.deployments.deployment import Deployment
from simsys.deployments.shell import Raw

SECTIONS = ("model", "parallelism", "training")
OUTSIDE = frozenset(
    {
        *("model.assume", "model.decoder_sequence_length", "parallelism.expert_skew"),
        *("training.checkpoint.storage_bandwidth", "training.mixed_precision"),
        *("training.data_loading.time", "training.data_loading.prefetch"),
        *(f"training.failures.{name}" for name in ("duration", "gpu_mtbf", "node_mtbf", "link_mtbf")),
        *("training.failures.detection", "training.failures.restart"),
    }
)
"""Settings that describe the data, the cluster or the simulation of training. ``mixed_precision`` follows from
``precision``."""
PROGRAM_DECIDES = frozenset(
    {
        *(f"model.{name}" for name in ("name", "huggingface", "model_type", "layers", "sequence_length")),
        *("model.num_layers", "model.hidden_size", "model.num_attention_heads", "model.num_key_value_heads"),
        *("model.intermediate_size", "model.vocab_size", "training.num_iterations"),
        *("training.checkpoint.interval", "training.checkpoint.asynchronous"),
    }
)
"""Settings that a training program decides, where a file configures only its library."""
PROGRAM_REASONS = {
    "training.activation_recompute": "cannot be expressed, as the program decides it",
    "training.attention": "cannot be expressed, as the program decides it",
    "training.norms": "cannot be expressed, as the program decides it",
}
"""Why such a file does not express some settings."""
HEAD_NODE = Raw('"${HEAD_NODE:-localhost}:29500"')
"""Address at which the processes of a job meet, as a word of a shell script."""


@dataclass(frozen=True)
class Processes(Correspondence):
    """One process per GPU: nodes and GPUs of each node. Data parallelism uses what other degrees leave.

    Args:
        nodes: The option with the number of nodes.
        per_node: The option with the GPUs of each node.
        divisors: Options whose product is the number of ranks that work on one set of samples.
    """

    nodes: str
    per_node: str
    divisors: tuple[str, ...]
    paths: ClassVar[tuple[str, ...]] = ("parallelism.dp_degree",)

    @property
    def options(self) -> tuple[str, ...]:
        """Both options."""
        return (self.nodes, self.per_node)

    def write(self, settings: Settings, deployment: Deployment) -> Options:
        """Whole nodes, or a part of one."""
        world, per_node = deployment.world_size, min(deployment.world_size, deployment.gpus_per_node)
        if world % per_node:
            message = f"{world} ranks do not fill nodes of {per_node} GPUs; a launcher starts equally many on each"
            raise InexpressibleError(self.paths[0], message)
        return {self.nodes: world // per_node, self.per_node: per_node}

    def read(self, options: Mapping[str, Any], like: SimulationConfig) -> dict[str, Any]:
        """What other degrees leave."""
        return {self.paths[0]: self.degree(options)}

    def degree(self, options: Mapping[str, Any]) -> int:
        """The data-parallel degree of these options."""
        degree: int = options[self.nodes] * options[self.per_node]
        for name in self.divisors:
            degree //= options.get(name, 1)
        return degree


@dataclass(frozen=True)
class Batch(Correspondence):
    """The micro-batch, and the batch of all ranks instead of the micro-batches of an iteration.

    Args:
        micro: The option with the samples of a micro-batch.
        whole: The option with the samples of an iteration on all ranks.
        processes: The correspondence with the data-parallel degree.
    """

    micro: str
    whole: str
    processes: Processes
    paths: ClassVar[tuple[str, ...]] = ("training.batch_size_per_gpu", "training.gradient_accumulation_steps")

    @property
    def options(self) -> tuple[str, ...]:
        """Both options."""
        return (self.micro, self.whole)

    def write(self, settings: Settings, deployment: Deployment) -> Options:
        """Samples of a micro-batch and of an iteration."""
        samples, steps = settings[self.paths[0]], settings.get(self.paths[1], 1)
        degree = settings["parallelism.dp_degree"]
        return {self.micro: samples, self.whole: samples * steps * degree}

    def read(self, options: Mapping[str, Any], like: SimulationConfig) -> dict[str, Any]:
        """Samples and micro-batches."""
        degree = self.processes.read(options, like)["parallelism.dp_degree"]
        samples = options[self.micro]
        return dict(zip(self.paths, (samples, options[self.whole] // samples // degree), strict=True))

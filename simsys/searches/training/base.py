"""The fixed part of a search: a training scenario with its cluster, model and engine, without a layout."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from simsys.build.cluster import Cluster
from simsys.build.job import cluster_of
from simsys.build.model import build_model
from simsys.build.training import training_precision
from simsys.build.training_setup import TrainingSetup
from simsys.config.engine_schema import EngineProfile
from simsys.config.experiment import SimulationConfig
from simsys.config.hardware import load_engine
from simsys.config.parallelism import STRATEGY_PARTS
from simsys.config.training import TrainingConfig
from simsys.executors import costed_model
from simsys.model.model import Model
from simsys.model.work import Precision
from simsys.parallel.layout import Layout
from simsys.parallel.passes import forward_pass
from simsys.parallel.stages import layer_count, uneven_layers
from simsys.searches.scenarios import by_section
from simsys.searches.training.space import Division, Variant

DEGREES = {"TP": "tensor", "CP": "context", "EP": "expert", "PP": "pipeline"}


def strategy_of(division: Division, kind: str) -> str:
    """The name of the strategy of a division with a kind of data parallelism."""
    parts = {part for part, degree in DEGREES.items() if getattr(division, degree) > 1}
    parts |= {kind} if division.replicas > 1 else set()
    return "_".join(part for part in STRATEGY_PARTS if part in parts) or "None"


@dataclass(frozen=True)
class Base:
    """A training scenario whose layout is searched.

    Args:
        config: The scenario, with a global batch size.
        cluster: Its GPUs and links.
        model: The model, with the amounts of work of medium detail.
        engine: The engine profile.
        precision: Precision of the training.
    """

    config: SimulationConfig
    cluster: Cluster
    model: Model
    engine: EngineProfile
    precision: Precision

    @classmethod
    def of(cls, config: SimulationConfig) -> Base:
        """Build the parts of a scenario.

        Raises:
            SimsysError: If a part cannot be built.
        """
        assert config.training is not None
        cluster = cluster_of(config)
        model = costed_model(build_model(config.model, config.folder), "medium")
        engine = load_engine(config.training.engine, config.profile_folders)
        return cls(config, cluster, model, engine, training_precision(config.training, cluster.spec))

    @property
    def training(self) -> TrainingConfig:
        """The settings of the training."""
        assert self.config.training is not None
        return self.config.training

    @property
    def samples(self) -> int:
        """Samples of an iteration on all GPUs."""
        assert self.training.global_batch_size is not None
        return self.training.global_batch_size

    @property
    def tokens(self) -> int:
        """Tokens of a sample."""
        return self.config.model.sequence_length or self.model.sequence_length

    @cached_property
    def layers(self) -> int:
        """Layers that pipeline stages divide."""
        return layer_count(forward_pass(self.model))

    def layout(self, division: Division) -> Layout:
        """The arrangement of the ranks of a division."""
        return Layout(
            tensor=division.tensor,
            context=division.context,
            data=division.data,
            pipeline=division.pipeline,
            expert=division.expert,
            order=self.config.parallelism.axes,
            whole_experts=self.config.parallelism.expert_tp_degree == 1 < min(division.tensor, division.expert),
        )

    def stages_lie_alike(self, division: Division) -> bool:
        """Whether the ranks of all pipeline stages lie alike on equal nodes of one switch."""
        each, node = division.tensor * division.replicas, self.cluster.gpus_per_node
        even = each % node == 0 or node % each == 0
        even = even and self.config.parallelism.axes[-1] == "pipeline"
        return even and not self.cluster.nodes and self.config.network.topology_type == "switch"

    def stage_layers(self, division: Division, virtual: int) -> list[int] | None:
        """The layers of each stage, as the scenario gives them, or where plain stages are unequal; else None."""
        given = self.config.parallelism.stage_layers
        if given is not None or virtual > 1 or self.layers % division.pipeline == 0:
            return given
        return uneven_layers(self.layers, division.pipeline)

    def settings(self, division: Division, variant: Variant) -> dict[str, Any]:
        """The settings of a layout, by dotted path; together with the scenario they are the layout's scenario."""
        layers = self.stage_layers(division, variant.virtual)
        return {
            "parallelism.strategy": strategy_of(division, variant.kind),
            "parallelism.tp_degree": division.tensor,
            "parallelism.cp_degree": division.context,
            "parallelism.ep_degree": division.expert,
            "parallelism.pp_stages": division.pipeline,
            "parallelism.dp_degree": division.data,
            "parallelism.sequence_parallel": division.sequence_parallel,
            "parallelism.schedule": variant.schedule,
            "parallelism.virtual_stages": variant.virtual,
            **({} if layers is None else {"parallelism.stage_layers": layers}),
            "training.batch_size_per_gpu": variant.samples,
            "training.activation_recompute": variant.recompute,
        }

    def scenario(self, division: Division, variant: Variant) -> SimulationConfig:
        """The scenario of a layout, unchecked, with its accumulation steps."""
        steps = max(1, self.samples // (variant.samples * division.data))
        settings = by_section(self.settings(division, variant))
        parallelism = self.config.parallelism.model_copy(update=settings["parallelism"])
        changes = {**settings["training"], "gradient_accumulation_steps": steps, "global_batch_size": None}
        training = self.training.model_copy(update=changes)
        return self.config.model_copy(update={"parallelism": parallelism, "training": training})

    def setup(self, division: Division, variant: Variant) -> TrainingSetup:
        """The training with a layout, unchecked."""
        config, layout = self.scenario(division, variant), self.layout(division)
        assert config.training is not None
        return TrainingSetup(config, config.training, self.cluster, self.model, self.engine, layout, self.precision)

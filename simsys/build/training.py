"""From a training scenario to a `TrainingJob`: the work of a step, the modules that run it, its memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from simpy.events import Event

from simsys.build.batches import iteration_assumptions, mean_over_iterations
from simsys.build.campaign import run_campaign
from simsys.build.checkpoints import build_checkpoints
from simsys.build.cluster import Cluster
from simsys.build.economics import economic_assumptions
from simsys.build.engine_support import engine_warnings
from simsys.build.imperfections import build_jitter, imperfections
from simsys.build.model import model_warnings
from simsys.build.training_memory import host_bytes, memory_by_stage, replicated_bytes
from simsys.build.training_setup import TrainingSetup
from simsys.collectives.choose import named
from simsys.config.engine_schema import EngineProfile
from simsys.config.experiment import SimulationConfig
from simsys.config.training import TrainingConfig
from simsys.costs.launches import Launches
from simsys.errors import Problem
from simsys.executors.execution_model import ExecutionModel
from simsys.executors.executor import Executor
from simsys.executors.iterations.checkpoints import Checkpoints
from simsys.executors.iterations.training_loop import Phase, TrainingLoop
from simsys.framework import FRAMEWORKS, TrainingFramework
from simsys.metrics.collector import TrainingMetrics
from simsys.model.description import described
from simsys.model.model import Model
from simsys.model.work import Precision
from simsys.parallel.activations import recomputed_parts
from simsys.parallel.layout import Layout
from simsys.parallel.plan import TrainingPlan
from simsys.parallel.roles import Roles, alone, numbered, one_group, roles_of, varied_roles
from simsys.parallel.training import model_flop, recomputed_flop
from simsys.parallel.training_memory import checkpoint_bytes
from simsys.platform.device_spec import DeviceSpec
from simsys.rank import Rank
from simsys.sums import ordered_sum

STEADY_MEMORY = ("parameters", "gradients", "optimizer", "buffers", "fragmentation", "context")
"""Components of memory that are constant during the run; the other components change with the passes."""


@dataclass(frozen=True)
class TrainingJob(TrainingSetup):
    """A training scenario that can be measured and started.

    Args:
        rank_classes: A number for each rank; ranks with different numbers have separate processes, even if they work
            alike. Empty if it distinguishes no ranks.
        doubts: Warnings of rules.
    """

    rank_classes: tuple[int, ...] = ()
    doubts: tuple[Problem, ...] = ()

    @cached_property
    def memory_by_stage(self) -> list[dict[str, int]]:
        """For each pipeline stage, the memory of one of its GPUs in the phase that needs most, by component."""
        return memory_by_stage(self)

    @property
    def host_bytes(self) -> float:
        """Bytes of model states in host memory per GPU, in the stage with most of them."""
        return host_bytes(self)

    @property
    def memory_bytes(self) -> dict[str, int]:
        """Memory of the fullest GPU, by component."""
        return max(self.memory_by_stage, key=lambda parts: ordered_sum(parts.values()))

    def sizes(self) -> dict[str, float]:
        """Metrics of what one GPU holds and computes at a time."""
        return {
            "batch_size_per_gpu": max(phase.batch_size_per_gpu for phase in self.phases),
            "replicated_states_bytes": replicated_bytes(self),
        }

    def execution_model(self) -> ExecutionModel:
        """Overheads and algorithms for the executor."""
        choose = named(self.settings.communication_pattern, self.cluster.tuning)
        launches = Launches(self.engine.launch_per_layer or 0.0)
        return ExecutionModel(
            choose,
            self.precision,
            self.engine.per_layer,
            build_jitter(self.config),
            launches,
            communication_share=self.engine.communication_share or 0.0,
        )

    def collector(self) -> TrainingMetrics:
        """A probe that measures this job."""
        phases, samples = self.phases, [phase.samples * self.layout.data for phase in self.phases]
        return TrainingMetrics(
            0,
            stages={rank: self.layout.coordinates(rank)["pipeline"] for rank in self._observed()},
            samples=[(phase.iterations, each) for phase, each in zip(phases, samples, strict=True)],
            samples_per_iteration=mean_over_iterations(phases, samples),
            tokens_per_sample=self.sequence_length,
            model_flop_per_iteration=mean_over_iterations(phases, map(self.model_flop, samples)),
            hardware_flop_per_iteration=mean_over_iterations(phases, map(self.hardware_flop, samples)),
            executed_flop_per_iteration=mean_over_iterations(phases, map(self._executed_flop, self.plans)),
            num_gpus=self.layout.world_size,
            peak_flop_per_s=self.cluster.mean_peak_flop_per_s(self.precision.compute),
            checkpoint_bytes=self.checkpoint_bytes if self.settings.checkpoint else 0.0,
        )

    def model_flop(self, samples: int) -> float:
        """FLOP of an iteration as MFU counts them: all query-key pairs of attention, without recomputation."""
        return model_flop(self.trained_model, self._batch(samples, fused=False))

    def hardware_flop(self, samples: int) -> float:
        """FLOP of an iteration as HFU counts them: FLOP of the model, and of activation recomputation."""
        parts = recomputed_parts(self.settings.activation_recompute)
        again = recomputed_flop(self.trained_model, self._batch(samples, fused=False), parts)
        return self.model_flop(samples) + again

    @property
    def checkpoint_bytes(self) -> float:
        """Bytes of a checkpoint of the model."""
        return checkpoint_bytes(self.trained_model.parameters, self.precision, self.settings.optimizer, self.shards)

    def checkpoints(self) -> Checkpoints | None:
        """Interval and times of checkpoints; the ranks with equal weights share the work."""
        held = []
        for chunks in self.stages:
            experts = ordered_sum(chunk.expert_parameters for chunk in chunks)
            rest = ordered_sum(chunk.parameters for chunk in chunks) - experts - self.tied_parameters
            held.append(rest / self.layout.replicas + experts * self.layout.expert / self.layout.expert_replicas)
        copied_bytes = checkpoint_bytes(max(held), self.precision, self.settings.optimizer, self.shards)
        slowest = min(self.cluster.specs, key=lambda spec: spec.pcie_bytes_per_s)
        return build_checkpoints(self.settings.checkpoint, slowest, self.checkpoint_bytes, copied_bytes)

    def _executed_flop(self, plans: Sequence[TrainingPlan]) -> float:
        """FLOP that kernels execute in an iteration on all GPUs together; with skewed experts a slight overestimate.

        Every rank is assumed to be as busy as the busiest rank.
        """
        return ordered_sum(plan.flop for plan in plans) * self.layout.tensor * self.layout.replicas

    def campaign(self, iteration_s: float) -> dict[str, float]:
        """Goodput of weeks of training under failures, for this iteration time; empty without failures."""
        failures, saved, seed = self.settings.failures, self.settings.checkpoint, self.config.simulation.seed
        if failures is None:
            return {}
        reading_s = 0.0 if saved is None else self.checkpoint_bytes / saved.storage_bandwidth
        return run_campaign(failures, self.cluster, iteration_s, self.checkpoints(), reading_s, seed)

    def roles(self) -> Roles:
        """Groups of ranks that work alike; with unequal hardware and a custom module, every rank is its own group."""
        if len(set(self.rank_classes)) == self.layout.world_size:
            return alone(self.layout)
        cluster, varies, runs = self.cluster, self.config.hardware.jitter is not None, self._runs()
        together = one_group(self.layout, runs)
        kinds = cluster.kinds(links=not together)  # links do not distinguish ranks that all communicate together
        if self.rank_classes:
            kinds = numbered(list(zip(kinds, self.rank_classes, strict=True)))
        if self.settings.data_parallel is not None and (varies or len(set(kinds)) > 1 or cluster.nodes):
            return alone(self.layout)
        if varies:  # a rank that is slower at first may be faster when a slowdown ends
            changing = [-1 - gpu if gpu in cluster.speeds else kind for gpu, kind in enumerate(kinds)]
            return varied_roles(self.layout, changing, runs)
        return roles_of(self.layout, kinds, runs, cluster.nodes)

    def _observed(self) -> list[int]:
        """One rank of every role, even if ranks of a role have separate processes."""
        leaders = [role[0] for role in self.roles()]
        if not self.rank_classes:
            return leaders
        return [min(set(role).intersection(leaders)) for role in replace(self, rank_classes=()).roles()]

    def _runs(self) -> tuple[int, ...]:
        """Sizes of the runs of ranks among which model states are divided."""
        return tuple(dict.fromkeys((self.shards.weights, self.shards.optimizer)))

    def warnings(self) -> list[Problem]:
        """Warnings about settings that may have an unintended meaning, each with its setting."""
        found = [
            *self.cluster.warnings,
            *engine_warnings(self.engine, self.cluster.gpu_profiles, "training.engine"),
            *model_warnings(self.config.model, self.model),
            *self._put_off(),
            *self.doubts,
        ]
        published = self.model.quantization
        if published is None or self.config.model.huggingface is None:
            return found
        text = f"weights published in {published.text} are trained from {self.precision.compute}"
        return [*found, Problem(text, "model.huggingface")]

    def _put_off(self) -> list[Problem]:
        """What the memory lacks if gradients of weights are put off."""
        if not self.schedule.splits_backward or self.settings.activation_recompute == "none":
            return []
        text = "memory lacks recomputed activations between a backward pass and the put-off gradients of its weights"
        return [Problem(text, "training.activation_recompute")]

    def assumptions(self) -> list[str]:
        """Assumptions of the figures."""
        return [
            described(self.model),
            f"engine profile {self.engine.name}: {self.engine.per_layer * 1e6:g} us per layer",
            f"compute in {self.precision.compute}, gradients and optimizer states in fp32",
            f"{self.settings.attention} attention, activation recomputation: {self.settings.activation_recompute}",
            "MFU counts model FLOP with full, unmasked attention (PaLM, appendix B); HFU adds recomputation",
            f"collectives: {self.settings.communication_pattern}",
            *self._shared_gpu(),
            *iteration_assumptions(self.settings),
            *self.cluster.assumptions,
            *imperfections(self.config),
            *economic_assumptions(self.cluster, self.config.economics),
        ]

    def _shared_gpu(self) -> list[str]:
        share = self.engine.communication_share
        return [f"overlapped collectives slow concurrent computation by {share:.1%}"] if share else []

    def start(self, executor: Executor, *, observed: bool = False) -> Event:
        """Start the ranks that the executor simulates; if the run is `observed`, every iteration is simulated.

        Returns:
            An event that fires at the end of the last iteration.
        """
        module, options = self.data_parallel
        step: type[TrainingFramework] = FRAMEWORKS.get("training", TrainingFramework)
        frameworks = []
        for index in executor.ranks():
            rank = Rank(index, self.layout, executor)
            stage = self.layout.coordinates(index)["pipeline"]
            for name in STEADY_MEMORY:
                if nbytes := self.memory_by_stage[stage][name]:
                    rank.allocate(nbytes, name=name)
            plan = self.plans[0][stage]
            frameworks.append(step(rank, plan, module(rank, plan, options), self.schedule))
        loading = self.settings.data_loading
        loop = TrainingLoop(
            executor,
            frameworks,
            self._loop_phases([framework.rank for framework in frameworks]),
            prefetch=loading is not None and loading.prefetch,
            checkpoints=self.checkpoints(),
        )
        repeatable = module.same_every_step and not observed
        return executor.env.process(loop.run(self.settings.num_iterations, repeatable=repeatable))

    def _loop_phases(self, ranks: Sequence[Rank]) -> list[Phase]:
        """The phases with the plans of `ranks`; the loading time of a micro-batch is proportional to its samples."""
        loading = self.settings.data_loading
        sample_s = loading.time / self.settings.batch_size_per_gpu if loading is not None else 0.0
        stages = [self.layout.coordinates(rank.index)["pipeline"] for rank in ranks]
        return [
            Phase(phase.start, tuple(plans[stage] for stage in stages), phase.samples * sample_s)
            for phase, plans in zip(self.phases, self.plans, strict=True)
        ]


def training_job(config: SimulationConfig, cluster: Cluster, model: Model, engine: EngineProfile) -> TrainingJob:
    """Build a training scenario that breaks no rule from its parts.

    Args:
        config: The scenario.
        cluster: GPUs and links.
        model: The model, with the amounts of work for the level of detail.
        engine: The engine profile.
    """
    assert config.training is not None
    settings, parallelism = config.training, config.parallelism
    layout = Layout(
        tensor=parallelism.tp_degree,
        context=parallelism.cp_degree,
        data=parallelism.dp_degree or max(1, cluster.num_gpus // parallelism.shards),
        pipeline=parallelism.pp_stages,
        expert=parallelism.ep_degree,
        order=parallelism.axes,
        whole_experts=parallelism.whole_experts,
    )
    precision = training_precision(settings, cluster.spec)
    return TrainingJob(config, settings, cluster, model, engine, layout, precision)


def training_precision(settings: TrainingConfig, spec: DeviceSpec) -> Precision:
    """Mixed precision computes in bf16 where the GPU has it, else in fp16; weights are kept in fp32, too."""
    peaks = spec.peak_flop_per_s
    compute: str | None = settings.precision
    if compute is None:
        half = "bf16" if "bf16" in peaks else "fp16"
        compute = half if settings.mixed_precision else ("tf32" if "tf32" in peaks else "fp32")
    if compute in ("fp8", "fp4"):  # attention and head stay in 16 bit, and so do the weights that ranks exchange
        half = "bf16" if "bf16" in peaks else "fp16"
        return Precision(compute, weight_bytes=2.0, activation_bytes=2.0, plain_compute=half)
    if compute in ("fp16", "bf16"):
        return Precision(compute, weight_bytes=2.0, activation_bytes=2.0)
    return Precision(compute, weight_bytes=4.0, activation_bytes=4.0)

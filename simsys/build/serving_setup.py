"""A serving scenario, resolved: how the model is divided among GPUs and what these hold."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Self

from simsys.build.cluster import Cluster
from simsys.build.contexts import Contexts, at_lengths, requests_of
from simsys.build.resolved_serving import ResolvedServing
from simsys.config.engine_schema import CudaGraphs, EngineProfile
from simsys.config.experiment import SimulationConfig
from simsys.costs.launches import Launches
from simsys.errors import InfeasibleError, UsageError
from simsys.model.lora import with_adapters
from simsys.model.model import Model
from simsys.model.work import Precision
from simsys.parallel.layout import Group, Layout
from simsys.parallel.passes import ForwardPass
from simsys.parallel.replica import replica_stages
from simsys.parallel.segments import Experts
from simsys.parallel.serving_memory import kv_bytes_per_token, sequence_bytes, serving_memory, weight_bytes
from simsys.serving.requests import RequestTable
from simsys.sums import ordered_sum
from simsys.units import pretty_memory


@dataclass(frozen=True)
class ServingSetup:
    """A serving scenario, resolved.

    Args:
        config: The scenario.
        settings: Its serving section, with what the engine sets besides.
        cluster: GPUs and links.
        model: The model, without adapters.
        engine: What the software adds to the kernels.
        layout: The arrangement of all ranks.
        precision: What weights, activations and the KV cache are in.
        draft_model: The model that drafts tokens, if one does.
        first_rank: The first of its ranks.
        starts_s: When it starts; requests arrive from then on.
    """

    config: SimulationConfig
    settings: ResolvedServing
    cluster: Cluster
    model: Model
    engine: EngineProfile
    layout: Layout
    precision: Precision
    draft_model: Model | None = None
    first_rank: int = 0
    starts_s: float = 0.0

    @cached_property
    def requests(self) -> RequestTable:
        """The requests of the run, as clients send them."""
        return requests_of(self.config, self.starts_s)

    @cached_property
    def contexts(self) -> Contexts:
        """How long the contexts of the requests are."""
        return Contexts(self.requests)

    @cached_property
    def pools(self) -> tuple[Self, ...]:
        """Replicas that do the same: all of them, or those for prompts and those for tokens."""
        split = self.settings.disaggregated
        if split is None or self.first_rank:
            return (self,)
        tensor, decode_tensor = split.tp_degrees(self.layout.tensor)
        prefill = replace(self.layout, tensor=tensor, data=split.prefill_replicas)
        decode = replace(self.layout, tensor=decode_tensor, data=split.decode_replicas)
        return replace(self, layout=prefill), replace(self, layout=decode, first_rank=prefill.world_size)

    @property
    def num_gpus(self) -> int:
        """GPUs of all replicas."""
        return sum(pool.layout.world_size for pool in self.pools)

    @property
    def plan(self) -> ForwardPass:
        """One rank's share of the model, or of the first stage of a pipeline."""
        return self.stages[0]

    @cached_property
    def stages(self) -> list[ForwardPass]:
        """One rank's share of each pipeline stage."""
        return self._stages(self.adapted_model)

    @cached_property
    def adapted_model(self) -> Model:
        """The model with its adapters, if it has any."""
        lora, model = self.settings.lora, self._at_lengths(self.model)
        return model if lora is None else with_adapters(model, lora.adapters, lora.rank)

    def _at_lengths(self, model: Model) -> Model:
        """The model whose windows hold what the contexts of the requests leave in them."""
        return at_lengths(model, self.precision, self.layout.tensor, lambda window: self.contexts.in_window(window))

    @cached_property
    def draft(self) -> ForwardPass | None:
        """One rank's share of the model that drafts tokens, if there is one."""
        if self.draft_model is None:
            return None
        skew, model = self.engine.length_skew or 1.0, self._at_lengths(self.draft_model)
        return replica_stages(model, tensor=self.layout.tensor, length_skew=skew)[0]

    def _stages(self, model: Model) -> list[ForwardPass]:
        given = self.config.parallelism
        experts = Experts(given.ep_degree, given.expert_skew, over_tensor=True) if given.ep_degree > 1 else None
        return replica_stages(
            model,
            tensor=self.layout.tensor,
            stages=self.layout.pipeline,
            stage_layers=given.stage_layers,
            sequence_parallel=given.sequence_parallel,
            experts=experts,
            gather=given.scatter_gather,
            length_skew=self.engine.length_skew or 1.0,
        )

    def teams(self, replica: int) -> list[Group]:
        """The ranks of each stage of a replica."""
        return self._teams[replica]

    @cached_property
    def _teams(self) -> list[list[Group]]:
        return [[self._team_of(replica, stage) for stage in self.stage_numbers] for replica in range(self.layout.data)]

    def _team_of(self, replica: int, stage: int) -> Group:
        first = self.layout.rank_of({"tensor": 0, "context": 0, "data": replica, "pipeline": stage})
        group = self.layout.group(first, "tensor")
        if not self.first_rank:
            return group
        return Group(tuple(rank + self.first_rank for rank in group.ranks), group.axis)

    @property
    def stage_numbers(self) -> range:
        """The stages of a pipeline."""
        return range(self.layout.pipeline)

    def token_bytes(self, stage: int) -> float:
        """What a rank of a stage caches for each token of a mean context: of the token itself, and of its sequence."""
        plans = [self.stages[stage], *([] if self.draft is None else [self.draft])]
        each = ordered_sum(kv_bytes_per_token(plan, self.precision) for plan in plans)
        of_sequences = ordered_sum(map(sequence_bytes, plans))
        return each + of_sequences / self.contexts.mean_tokens if of_sequences else each

    @cached_property
    def fixed_by_stage(self) -> list[dict[str, float]]:
        """What a GPU of each stage holds besides the KV cache, by component."""
        tied = self.model.tied_parameters > 0.0
        plain = self.stages if self.settings.lora is None else self._stages(self._at_lengths(self.model))
        held = []
        for stage, without in zip(self.stages, plain, strict=True):
            parts = serving_memory(
                stage,
                self.precision,
                max_batched_tokens=self.settings.max_num_batched_tokens,
                max_num_seqs=self.settings.max_num_seqs,
                context_bytes=self.engine.memory_context,
                tied=tied,
            )
            adapters = parts["weights"] - weight_bytes(without, self.precision, tied=tied)
            if adapters:
                parts = {"weights": parts["weights"] - adapters, "adapters": adapters, **_without_weights(parts)}
            held.append(parts)
        if self.draft is not None and self.draft_model is not None:
            tied = self.draft_model.tied_parameters > 0.0
            held[0]["draft"] = weight_bytes(self.draft, self.precision, tied=tied)
        return held

    @property
    def fixed_bytes(self) -> dict[str, float]:
        """What a GPU of the stage with the least room for the KV cache holds besides it, by component."""
        return self.fixed_by_stage[self.fullest_stage]

    @cached_property
    def fullest_stage(self) -> int:
        """The stage with the least room for the KV cache."""
        room = [self._blocks(stage) for stage in range(len(self.stages))]
        return room.index(min(room))

    def block_bytes(self, stage: int) -> float:
        """Bytes of one block of the KV cache on a GPU of this stage.

        Raises:
            UsageError: If the model has no KV cache.
        """
        each = self.token_bytes(stage)
        if not each:
            raise UsageError(f"model {self.model.name} has no KV cache and cannot be served as a language model")
        return each * self.settings.block_size

    def _blocks(self, stage: int) -> int:
        """Blocks for which a stage has room, negative if not even all else has."""
        settings, free = self.settings, self.usable_bytes - ordered_sum(self.fixed_by_stage[stage].values())
        _, wanted = self.written_cache(stage)
        if wanted is None:
            return int(free * settings.free_gpu_memory_fraction // self.block_bytes(stage))
        if wanted > free:
            return -1
        return settings.num_gpu_blocks_override or int(wanted // self.block_bytes(stage))

    def written_cache(self, stage: int) -> tuple[str, float | None]:
        """The setting that says how large the KV cache is, and its bytes on a GPU of a stage; None if none does."""
        settings = self.settings
        if settings.num_gpu_blocks_override is not None:
            return "num_gpu_blocks_override", settings.num_gpu_blocks_override * self.block_bytes(stage)
        return "kv_cache_memory_bytes", settings.kv_cache_memory_bytes

    @property
    def usable_bytes(self) -> float:
        """Memory of a GPU that the engine may use."""
        return self.cluster.smallest.memory_bytes * self.settings.gpu_memory_utilization

    @cached_property
    def num_blocks(self) -> int:
        """KV-cache blocks of a replica: what memory is left on its fullest GPU, in whole blocks, or what is written.

        Each stage of a pipeline holds its layers' part of every block.

        Raises:
            InfeasibleError: If not even one block is left for each batch in flight.
        """
        blocks = self._blocks(self.fullest_stage)
        if blocks < self.layout.pipeline:
            raise InfeasibleError(self.shortage())
        return blocks

    @property
    def engine_blocks(self) -> int:
        """KV-cache blocks of each engine of a replica: it has one for each pipeline stage."""
        return self.num_blocks // self.layout.pipeline

    @property
    def memory_by_stage(self) -> list[dict[str, float]]:
        """What a GPU of each stage holds, by component."""
        return [
            {**fixed, "kv_cache": self.num_blocks * self.block_bytes(stage)}
            for stage, fixed in enumerate(self.fixed_by_stage)
        ]

    @property
    def memory_bytes(self) -> dict[str, float]:
        """What a GPU of the fullest stage holds, by component."""
        return self.memory_by_stage[self.fullest_stage]

    @property
    def max_context_tokens(self) -> int:
        """Longest prompt plus output; 0 for no limit."""
        return self.settings.max_model_len or self.model.max_context_tokens

    def shortage(self) -> str:
        """Why the model does not fit, or no cache as large as is written, for people."""
        parts = ", ".join(f"{name} {pretty_memory(size)}" for name, size in self.fixed_bytes.items())
        needed = pretty_memory(ordered_sum(self.fixed_bytes.values()))
        usable = pretty_memory(self.usable_bytes)
        return (
            f"{self.model.name} does not fit: {needed} are needed before any KV cache ({parts}), {usable} are usable"
            f"{self.cache_shortage()}"
        )

    def cache_shortage(self) -> str:
        """What is written of the KV cache where it does not fit, as the end of a sentence; empty if nothing is."""
        name, wanted = self.written_cache(self.fullest_stage)
        return "" if wanted is None else f", but {name} asks for {pretty_memory(wanted)} besides"

    @property
    def async_scheduling(self) -> bool:
        """Whether the host works beside a step, and not before it."""
        return self.settings.async_scheduling

    @property
    def launches(self) -> Launches:
        """How passes reach the GPU."""
        graphs = self.graphs
        tokens = 0.0 if graphs is None else float(graphs.max_tokens or "inf")
        speed = self.cluster.spec.host_speed
        per_layer_s = (self.engine.launch_per_layer or 0.0) / speed
        hand_over = self.engine.prompt_hand_over
        return Launches(
            per_layer_s,
            tokens,
            graphs is not None and graphs.prompts,
            self.engine.per_prompt_layer or 0.0,
            token_layer_s=self.hand_over_s / max(1, self.model.num_layers),
            above_tokens=0.0 if hand_over is None else float(hand_over.above),
        )

    @property
    def hand_over_s(self) -> float:
        """What handing one token of a long pass to all ranks besides the first takes."""
        hand_over, ranks = self.engine.prompt_hand_over, self.layout.tensor * self.layout.pipeline
        return 0.0 if hand_over is None else hand_over.per_token * (ranks - 1) / self.cluster.spec.host_speed

    @property
    def graphs(self) -> CudaGraphs | None:
        """Which steps are replayed as CUDA graphs, if any are."""
        graphs, most = self.engine.cuda_graphs, self.settings.max_cudagraph_capture_size
        if graphs is None or self.settings.cuda_graphs is False:
            return None
        if self.settings.cuda_graphs == "decode_only":
            graphs = graphs.model_copy(update={"prompts": False})
        return graphs if most is None else graphs.model_copy(update={"max_tokens": most})

    @property
    def api_s(self) -> float:
        """How long a request takes to reach the scheduler."""
        given = self.settings.api_overhead
        return self.engine.per_request if given is None else given


def _without_weights(parts: dict[str, float]) -> dict[str, float]:
    return {name: size for name, size in parts.items() if name != "weights"}

"""A serving scenario, resolved: the division of the model among GPUs, and the launch of passes on them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Self

from simsys.build.cluster import Cluster
from simsys.build.contexts import Contexts, at_lengths, requests_of
from simsys.build.encoder_setup import with_placed_tower
from simsys.build.expert_setup import ExpertSetup
from simsys.build.host_times import HostTimes
from simsys.build.images import with_image_tokens
from simsys.build.replayed_steps import ReplayedSteps, replayed_steps
from simsys.build.resolved_serving import ResolvedServing
from simsys.build.serving_precision import precision_of
from simsys.build.stage_layers import serving_stage_layers
from simsys.config.engine_schema import EngineProfile
from simsys.config.experiment import SimulationConfig
from simsys.config.experts import ExpertsConfig
from simsys.config.serving_options import PoolDegrees
from simsys.costs.launches import Launches
from simsys.model.lora import with_adapters
from simsys.model.model import Model
from simsys.model.work import Precision
from simsys.parallel.layout import Group, Layout
from simsys.parallel.lockstep import LockStep
from simsys.parallel.passes import ForwardPass, forward_pass
from simsys.parallel.replica import replica_stages
from simsys.parallel.serving_memory import expert_bytes
from simsys.parallel.stages import layer_count
from simsys.serving.api_server import ApiServer
from simsys.serving.prefix_cache import Chains, block_chains
from simsys.serving.requests import RequestTable

RANK_ORDER = ("tensor", "context", "pipeline", "data")
"""Consecutive ranks first share layers, then form the stages of a pipeline; a replica has consecutive ranks, as in
vLLM."""


@dataclass(frozen=True)
class ServingSetup:
    """A serving scenario, resolved.

    Args:
        config: The scenario.
        settings: Its serving section, with the defaults of the engine.
        cluster: GPUs and links.
        model: The model, without adapters.
        engine: Overheads of the software in addition to the kernels.
        layout: The arrangement of all ranks.
        precision: The precision of weights, activations and the KV cache.
        attention_dp: Data-parallel ranks of a replica that share their experts.
        expert_ranks: Expert-parallel degree.
        draft_model: The draft model, if there is one.
        first_rank: The first of its ranks.
        starts_s: Time at which it starts (s); requests arrive from then on.
        drawn_requests: The requests with arrivals for a start at time 0; None if they are not drawn yet.
    """

    config: SimulationConfig
    settings: ResolvedServing
    cluster: Cluster
    model: Model
    engine: EngineProfile
    layout: Layout
    precision: Precision
    attention_dp: int = 1
    expert_ranks: int = 1
    draft_model: Model | None = None
    first_rank: int = 0
    starts_s: float = 0.0
    drawn_requests: RequestTable | None = None

    @classmethod
    def of(
        cls,
        config: SimulationConfig,
        settings: ResolvedServing,
        cluster: Cluster,
        model: Model,
        engine: EngineProfile,
        draft: Model | None = None,
        requests: RequestTable | None = None,
    ) -> Self:
        """Make a setup of its parts.

        Args:
            config: The scenario.
            settings: Its serving section, with the defaults of the engine.
            cluster: GPUs and links.
            model: The model, with the amounts of work for the level of detail.
            engine: The engine profile.
            draft: The draft model, if there is one.
            requests: The requests, if they have been drawn or read already.
        """
        given = config.parallelism
        ranks = given.attention_dp * (given.dp_degree or max(1, cluster.num_gpus // given.shards))
        layout = Layout(tensor=given.tp_degree, pipeline=given.pp_stages, data=ranks, order=RANK_ORDER)
        precision = precision_of(settings, cluster.spec, model)
        degrees = given.attention_dp, given.ep_degree
        parts = config, settings, cluster, model, engine, layout, precision
        return cls(*parts, *degrees, draft_model=draft, drawn_requests=requests)

    @cached_property
    def requests(self) -> RequestTable:
        """The requests of the run, as clients send them."""
        table = requests_of(self.config, self.starts_s, self.drawn_requests)
        return with_image_tokens(table, self.config, self.model)

    @property
    def num_requests(self) -> int:
        """The number of requests; 0 if it is not known before they are drawn."""
        assert self.config.workload is not None
        return len(self.drawn_requests or ()) or self.config.workload.num_requests or 0

    @cached_property
    def contexts(self) -> Contexts:
        """The lengths of the contexts of the requests."""
        return Contexts(self.requests)

    @cached_property
    def pools(self) -> tuple[Self, ...]:
        """Pools of replicas with equal tasks: all replicas, or prefill replicas and decode replicas."""
        split = self.settings.disaggregated
        if split is None or self.first_rank:
            return (self,)
        prefill, decode = (self._pool(pool) for pool in split.pools(self.config.parallelism))
        first = split.first_decode_gpu(self.config.parallelism, self.cluster.gpus_per_node)
        return prefill, replace(decode, first_rank=first)

    def _pool(self, pool: PoolDegrees) -> Self:
        """A kind of replicas of disaggregated serving."""
        layout = replace(self.layout, tensor=pool.tp_degree, data=pool.replicas * pool.attention_dp)
        return replace(self, layout=layout, attention_dp=pool.attention_dp, expert_ranks=pool.ep_degree)

    @property
    def num_gpus(self) -> int:
        """GPUs of all replicas."""
        return sum(pool.layout.world_size for pool in self.pools)

    @property
    def only_decodes(self) -> bool:
        """Whether its replicas only decode, with the caches of prompts from prefill replicas."""
        return self.first_rank > 0

    @property
    def plan(self) -> ForwardPass:
        """One rank's share of the model, or of the first stage of a pipeline."""
        return self.stages[0]

    @cached_property
    def stages(self) -> list[ForwardPass]:
        """One rank's share of each pipeline stage."""
        return self._stages(self.adapted_model)

    @cached_property
    def plain_stages(self) -> list[ForwardPass]:
        """One rank's share of each pipeline stage, without adapters."""
        return self.stages if self.settings.lora is None else self._stages(self._at_lengths(self.model))

    @cached_property
    def adapted_model(self) -> Model:
        """The model with its adapters, if it has any."""
        lora, model = self.settings.lora, self._at_lengths(self.model)
        return model if lora is None else with_adapters(model, lora.adapters, lora.rank)

    def _at_lengths(self, model: Model) -> Model:
        """The model with the mean tokens of the requests in its windows."""
        return at_lengths(model, self.precision, self.layout.tensor, lambda window: self.contexts.in_window(window))

    @cached_property
    def draft(self) -> ForwardPass | None:
        """One rank's share of the model that drafts tokens, if there is one."""
        if self.draft_model is None:
            return None
        skew, model = self.engine.length_skew or 1.0, self._at_lengths(self.draft_model)
        experts = self.experts.division if self.attention_dp > 1 else None
        tensor, products = self.layout.tensor, self.experts.products(self.precision, self.engine, self.cluster.spec)
        return replica_stages(model, tensor=tensor, experts=experts, length_skew=skew, products=products)[0]

    def _stages(self, model: Model) -> list[ForwardPass]:
        given, factors = self.config.parallelism, self.engine.launch_factors
        model = with_placed_tower(model, self.settings.multimodal)
        return replica_stages(
            model,
            tensor=self.layout.tensor,
            stages=self.layout.pipeline,
            stage_layers=serving_stage_layers(given, self.engine, layer_count(forward_pass(model))),
            sequence_parallel=given.sequence_parallel,
            experts=self.experts.division,
            gather=given.scatter_gather,
            length_skew=self.engine.length_skew or 1.0,
            decoded_by=self._decode_kernels(model),
            launch_factors=factors.model_dump() if factors is not None else None,
            products=self.experts.products(self.precision, self.engine, self.cluster.spec),
        )

    def _decode_kernels(self, model: Model) -> str:
        """The kernels for decode attention of a model, if they have a curve of their own."""
        if not model.num_key_value_heads:
            return ""
        group = model.num_attention_heads // model.num_key_value_heads
        return self.engine.decodes_by(self.settings.release, self.cluster.gpu, group)

    @cached_property
    def experts(self) -> ExpertSetup:
        """The division of the routed experts, and how tokens reach them."""
        given = self.config.parallelism
        return ExpertSetup(
            given=self.settings.experts or ExpertsConfig(),
            model=self.model,
            ranks=self.expert_ranks,
            attention_dp=self.attention_dp,
            tensor=self.layout.tensor,
            gpus_per_node=self.cluster.gpus_per_node,
            skew=given.expert_skew,
            activation_bytes=self.precision.activation_bytes,
            decodes=self.only_decodes,
        )

    def teams(self, replica: int) -> list[Group]:
        """The ranks of each stage of a replica; each data-parallel rank of attention counts as one."""
        return self._teams[replica]

    def lockstep(self, replica: int) -> LockStep:
        """The data-parallel ranks that share their experts with this one, and their passes."""
        return self._locksteps[replica // self.attention_dp]

    @cached_property
    def _locksteps(self) -> list[LockStep]:
        size = self.attention_dp
        groups = [
            [self.teams(first + place)[0] for place in range(size)] for first in range(0, self.layout.data, size)
        ]
        moved_bytes = expert_bytes(self.plan, self.precision)
        if self.draft is not None:
            moved_bytes += expert_bytes(self.draft, self.precision)
        return self.experts.locksteps(self.plan, groups, moved_bytes, self.draft)

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

    @cached_property
    def chains(self) -> Chains:
        """The hashes of the blocks of each request, for prefix caching."""
        return block_chains(self.requests, self.settings.block_size)

    @property
    def max_context_tokens(self) -> int:
        """Longest prompt plus output; 0 for no limit."""
        return self.settings.max_model_len or self.model.max_context_tokens

    @property
    def launches(self) -> Launches:
        """The launch of passes on the GPU."""
        return self.host.launches(self.replayed, self.model.num_layers)

    @property
    def host(self) -> HostTimes:
        """Times of the host of a replica."""
        ranks, speed = self.layout.tensor * self.layout.pipeline, self.cluster.spec.host_speed
        return HostTimes(self.engine, ranks, speed, self.settings.stream_interval)

    @property
    def replayed(self) -> ReplayedSteps:
        """The steps that are replayed as CUDA graphs."""
        divided = self.attention_dp > 1 or self.layout.pipeline > 1
        return replayed_steps(self.engine, self.settings, self.model, self.cluster.gpu, divided=divided)

    @property
    def api_s(self) -> float:
        """Time of a request to reach the scheduler (s)."""
        given = self.settings.api_overhead
        return self.engine.per_request if given is None else given

    def api_server(self) -> ApiServer | None:
        """The processes that tokenise requests, before any arrives; None if they are no bottleneck."""
        given = self.settings.api_server
        if given is None:
            return None
        return ApiServer(given.count, given.per_request, given.per_prompt_token, self.requests.prompt_tokens)

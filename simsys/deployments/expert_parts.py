"""Correspondences of the experts of mixtures: data-parallel ranks of attention that share them, dispatch, and balance.

The options are those of vLLM (`vllm serve`), SGLang (server arguments) and TensorRT-LLM (`llm_args`). vLLM counts
data-parallel ranks beside tensor parallelism. SGLang and TensorRT-LLM give all GPUs of a replica as tensor-parallel
degree; SGLang divides limits of a step among its ranks.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from simsys.build.model import build_model
from simsys.config.experiment import SimulationConfig
from simsys.deployments.correspondence import Choice, Correspondence, InexpressibleError, Option, Options, Settings
from simsys.deployments.deployment import Deployment
from simsys.deployments.serving_parts import Replicas, WholeExperts

ATTENTION, EXPERTS, TENSOR = "parallelism.attention_dp", "parallelism.ep_degree", "parallelism.tp_degree"
REPLICAS, ROUTER = "parallelism.dp_degree", "serving.router"


def _degrees(settings: Settings) -> tuple[int, int, int]:
    """GPUs of a data-parallel rank, such ranks, and the expert-parallel degree."""
    return settings.get(TENSOR, 1), settings.get(ATTENTION, 1), settings.get(EXPERTS, 1)


def _check_one_replica(settings: Settings, deployment: Deployment, balancer: str) -> None:
    serving = deployment.config.serving
    if settings.get(REPLICAS, 1) > 1:
        message = "several replicas whose ranks share experts cannot be expressed; start each replica on its own"
        raise InexpressibleError(REPLICAS, message)
    if serving is not None and serving.router != balancer:
        message = f"{serving.router} cannot be expressed; requests are dealt to the ranks by {balancer}"
        raise InexpressibleError(ROUTER, message)


@dataclass(frozen=True)
class RanksBeside(Replicas):
    """Replicas of a dense model, or data-parallel ranks of a mixture, which share the experts (vLLM).

    Args:
        expert: The flag that gives each GPU whole experts.
        tensor: The option with the tensor-parallel degree.
    """

    expert: str = "enable-expert-parallel"
    tensor: str = "tensor-parallel-size"
    paths: ClassVar[tuple[str, ...]] = (REPLICAS, ROUTER, ATTENTION, EXPERTS)

    @property
    def _whole(self) -> WholeExperts:
        return WholeExperts(self.expert, self.tensor, is_flag=True)

    @property
    def options(self) -> tuple[str, ...]:
        """The number of ranks or replicas, and the flag."""
        return (*super().options, self.expert)

    def write(self, settings: Settings, deployment: Deployment) -> Options:
        """Ranks that share experts, or else replicas."""
        tensor, ranks, experts = _degrees(settings)
        if ranks == 1:
            return {**super().write(settings, deployment), **self._whole.write(settings, deployment)}
        _check_one_replica(settings, deployment, self.balancer)
        if experts not in (1, tensor * ranks):
            message = f"{experts} cannot be expressed; experts are divided by tensor parallelism (1) or whole"
            raise InexpressibleError(EXPERTS, f"{message} on all {tensor * ranks} GPUs")
        return {self.name: ranks, **({self.expert: True} if experts > 1 else {})}

    def read(self, options: Mapping[str, Any], like: SimulationConfig) -> dict[str, Any]:
        """Of a mixture, several ranks share the experts."""
        if self.name not in options or build_model(like.model, like.folder).experts == 1:
            return {**super().read(options, like), **self._whole.read(options, like)}
        ranks, tensor = options[self.name], options.get(self.tensor, 1)
        experts = {EXPERTS: ranks * tensor} if self.expert in options else {}
        return {REPLICAS: 1, ROUTER: self.balancer, ATTENTION: ranks, **experts}


@dataclass(frozen=True)
class RanksWithin(Correspondence):
    """Data-parallel ranks within the GPUs of a tensor-parallel group (SGLang, TensorRT-LLM).

    Args:
        tensor: The option with the GPUs of a replica.
        flag: The option that turns data-parallel attention on.
        expert: The option with the expert-parallel degree.
        ranks: The option with the number of ranks; empty if there are as many as GPUs.
        balancer: The router module that deals requests to ranks.
        whole: An option and its value with which every GPU has whole experts, whatever the degree.
    """

    tensor: str
    flag: str
    expert: str
    ranks: str = ""
    balancer: str = "round_robin"
    whole: tuple[str, Any] = ("", None)
    paths: ClassVar[tuple[str, ...]] = (TENSOR, ATTENTION, EXPERTS)

    @property
    def options(self) -> tuple[str, ...]:
        """The degrees and the flag."""
        return (self.tensor, self.flag, self.expert)

    def write(self, settings: Settings, deployment: Deployment) -> Options:
        """The GPUs of a replica, and how its ranks and experts are divided."""
        tensor, ranks, experts = _degrees(settings)
        if ranks == 1:
            written = {self.tensor: tensor} if TENSOR in settings else {}
            return {**written, **WholeExperts(self.expert, self.tensor, is_flag=False).write(settings, deployment)}
        _check_one_replica(settings, deployment, self.balancer)
        if tensor > 1 and not self.ranks:
            message = "with attention_dp each rank has one GPU; write tp_degree: 1"
            raise InexpressibleError(TENSOR, f"{tensor} cannot be expressed: {message}")
        own = {self.ranks: ranks} if self.ranks else {}
        divided = {self.expert: experts} if experts > 1 else {}
        return {self.tensor: tensor * ranks, **own, self.flag: True, **divided}

    def read(self, options: Mapping[str, Any], like: SimulationConfig) -> dict[str, Any]:
        """The degrees."""
        name, value = self.whole
        gpus = options.get(self.tensor, 1)
        experts = gpus if name and options.get(name) == value else options.get(self.expert)
        found = {} if experts is None else {EXPERTS: experts}
        if not options.get(self.flag):
            return {**({TENSOR: gpus} if self.tensor in options else {}), **found}
        ranks = options[self.ranks] if self.ranks else gpus
        return {TENSOR: gpus // ranks, ATTENTION: ranks, **found}


@dataclass(frozen=True)
class ReplicasOrRanks(Replicas):
    """Replicas, unless the option counts data-parallel ranks that share their experts.

    Args:
        flag: The option that says so.
    """

    flag: str = ""

    def read(self, options: Mapping[str, Any], like: SimulationConfig) -> dict[str, Any]:
        """One replica if the number is that of ranks."""
        return {REPLICAS: 1} if options.get(self.flag) else super().read(options, like)


@dataclass(frozen=True)
class OfAllRanks(Option):
    """A limit of each rank whose option is that of all data-parallel ranks together.

    Args:
        ranks: The option with the number of ranks.
        flag: The option that turns data-parallel attention on.
    """

    ranks: str = "dp-size"
    flag: str = "enable-dp-attention"

    def write(self, settings: Settings, deployment: Deployment) -> Options:
        """The sum over the ranks."""
        ranks = settings.get(ATTENTION, 1)
        return {name: value * ranks for name, value in super().write(settings, deployment).items()}

    def read(self, options: Mapping[str, Any], like: SimulationConfig) -> dict[str, Any]:
        """The share of a rank."""
        ranks = options.get(self.ranks, 1) if options.get(self.flag) else 1
        return {path: value // ranks for path, value in super().read(options, like).items()}


@dataclass(frozen=True)
class PromptsTogether(Correspondence):
    """Prompts that wait for those of the other ranks (TensorRT-LLM)."""

    paths: ClassVar[tuple[str, ...]] = ("serving.attention_dp_timeout_iters",)
    options: ClassVar[tuple[str, ...]] = tuple(
        f"attention_dp_config.{name}" for name in ("enable_balance", "timeout_iters", "batching_wait_iters")
    )

    def write(self, settings: Settings, deployment: Deployment) -> Options:
        """The longest wait; a batch does not wait for more prompts once every rank has one."""
        steps = settings.get(self.paths[0], 0)
        return dict(zip(self.options, (True, steps, 0), strict=True)) if steps else {}

    def read(self, options: Mapping[str, Any], like: SimulationConfig) -> dict[str, Any]:
        """The longest wait."""
        return {self.paths[0]: options[self.options[1]]} if options.get(self.options[0]) else {}


@dataclass(frozen=True)
class Eplb(Correspondence):
    """The balancer of experts, with one JSON object of settings (vLLM)."""

    paths: ClassVar[tuple[str, ...]] = tuple(
        f"serving.experts.{name}" for name in ("eplb", "redundant_experts", "rebalance_steps")
    )
    options: ClassVar[tuple[str, ...]] = ("enable-eplb", "eplb-config")
    keys: ClassVar[tuple[str, ...]] = ("num_redundant_experts", "step_interval")

    def write(self, settings: Settings, deployment: Deployment) -> Options:
        """The flag and the object."""
        if not settings.get(self.paths[0]):
            return {}
        given = {key: settings[path] for key, path in zip(self.keys, self.paths[1:], strict=True) if path in settings}
        return {"enable-eplb": True, **({"eplb-config": json.dumps(given)} if given else {})}

    def read(self, options: Mapping[str, Any], like: SimulationConfig) -> dict[str, Any]:
        """The settings of the object."""
        if "enable-eplb" not in options:
            return {}
        given = json.loads(options.get("eplb-config", "{}"))
        own = {path: given[key] for key, path in zip(self.keys, self.paths[1:], strict=True) if key in given}
        return {self.paths[0]: True, **own}


def dispatch(values: Mapping[str, Mapping[str, Any]]) -> Choice:
    """The way in which tokens reach their experts.

    Args:
        values: The options of each way.
    """
    return Choice("serving.experts.dispatch", values)


VLLM: tuple[Correspondence, ...] = (
    dispatch(
        {
            "all_gather": {"all2all-backend": "allgather_reducescatter"},
            "deepep_high_throughput": {"all2all-backend": "deepep_high_throughput"},
            "deepep_low_latency": {"all2all-backend": "deepep_low_latency"},
        }
    ),
    Choice("serving.experts.two_batch_overlap", {True: {"enable-dbo": True}}),
    Eplb(),
)
SGLANG: tuple[Correspondence, ...] = (
    dispatch(
        {
            "all_gather": {},
            "deepep_high_throughput": {"moe-a2a-backend": "deepep", "deepep-mode": "normal"},
            "deepep_low_latency": {"moe-a2a-backend": "deepep", "deepep-mode": "low_latency"},
        }
    ),
    Choice("serving.experts.two_batch_overlap", {True: {"enable-two-batch-overlap": True}}),
    Choice("serving.experts.eplb", {True: {"enable-eplb": True}}),
    Option("serving.experts.redundant_experts", "ep-num-redundant-experts"),
    Option("serving.experts.rebalance_steps", "eplb-rebalance-num-iterations"),
)
TRTLLM: tuple[Correspondence, ...] = (dispatch({"all_gather": {}}), PromptsTogether())
"""Correspondences of ``serving.experts``, and of what else experts need, of each engine."""

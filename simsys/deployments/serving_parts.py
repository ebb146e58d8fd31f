"""Correspondences that the serving targets share: checkpoints, replicas, experts and speculative decoding."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from simsys.config.experiment import SimulationConfig
from simsys.deployments.correspondence import Choice, Correspondence, InexpressibleError, Options, Settings
from simsys.deployments.deployment import Deployment, checkpoint_of_name, model_of_checkpoint

SECTIONS = ("model", "parallelism", "serving")
OUTSIDE = frozenset(
    {
        *("model.assume", "model.sequence_length", "parallelism.expert_skew"),
        *("serving.stepping", "serving.api_overhead"),
        *(f"serving.experts.{name}" for name in ("popularity_exponent", "counts", "dispatch_precision")),
        *(f"serving.speculative.{name}" for name in ("acceptance_rate", "acceptance_length", "acceptance_of")),
    }
)
"""Settings that describe the data or the simulation of serving; an engine has no options for them."""
QUANTISED = "weights of this precision come from a checkpoint: leave precision out, and name its model.huggingface"
"""Why no option of an engine gives weights some precisions."""
WEIGHTS = Choice(
    "serving.precision",
    {
        "fp32": {"dtype": "float32"},
        "fp16": {"dtype": "float16"},
        "bf16": {"dtype": "bfloat16"},
        "fp8": {"quantization": "fp8"},
    },
    QUANTISED,
)
"""Precisions of the weights that vLLM and SGLang can make of a checkpoint in 16 bit while they load it."""
POOLS = {
    "serving.disaggregated": "cannot be expressed, as one server does both",
    "serving.autoscaling": "cannot be expressed, as a server does not start others",
}
"""Why the command of one server expresses neither separate pools nor autoscaling."""


@dataclass(frozen=True)
class Checkpoint(Correspondence):
    """The weights, by path or Hugging Face id; the model DB relates ids to models.

    Args:
        name: The option.
    """

    name: str
    paths: ClassVar[tuple[str, ...]] = tuple(
        f"model.{name}"
        for name in (
            *("name", "huggingface", "model_type", "num_layers", "hidden_size", "num_attention_heads"),
            *("num_key_value_heads", "intermediate_size", "vocab_size", "layers"),
        )
    )

    @property
    def options(self) -> tuple[str, ...]:
        """The option."""
        return (self.name,)

    def write(self, settings: Settings, deployment: Deployment) -> Options:
        """The checkpoint."""
        if not deployment.checkpoint:
            path = "model.name" if "model.name" in settings else "model"
            raise InexpressibleError(path, f"no weights are known of {deployment.model.name}; give --checkpoint")
        return {self.name: deployment.checkpoint}

    def read(self, options: Mapping[str, Any], like: SimulationConfig) -> dict[str, Any]:
        """The model of the DB with this checkpoint, or else a folder; or the model of the given scenario."""
        checkpoint = options[self.name]
        if name := model_of_checkpoint(checkpoint):
            return {"model.name": name}
        if like.model.huggingface is not None:
            return {"model.huggingface": checkpoint}
        given = like.model.model_dump(exclude_none=True)
        return {path: given[path.removeprefix("model.")] for path in self.paths if path[len("model.") :] in given}


@dataclass(frozen=True)
class Replicas(Correspondence):
    """Equal replicas behind the balancer of the engine itself.

    Args:
        name: The option with their number.
        balancer: The router module that the engine's balancer corresponds to.
        balanced: Options that select this balancer.
        dense_only: Whether an engine with several replicas divides experts among all of them.
    """

    name: str
    balancer: str
    balanced: tuple[tuple[str, str], ...] = ()
    dense_only: bool = False
    paths: ClassVar[tuple[str, ...]] = ("parallelism.dp_degree", "serving.router")

    @property
    def options(self) -> tuple[str, ...]:
        """Their number and the balancer."""
        return (self.name, *(name for name, _ in self.balanced))

    def write(self, settings: Settings, deployment: Deployment) -> Options:
        """Nothing for one replica."""
        replicas = settings.get("parallelism.dp_degree", 1)
        router = deployment.config.serving.router if deployment.config.serving is not None else ""
        if replicas == 1:
            return {}
        if router != self.balancer:
            balancer = f"its balancer of {replicas} replicas is {self.balancer}"
            raise InexpressibleError("serving.router", f"{router} cannot be expressed; {balancer}")
        if self.dense_only and deployment.model.experts > 1:
            message = "several replicas would divide the experts among all of them; start each replica on its own"
            raise InexpressibleError("parallelism.dp_degree", f"{message}, with parallelism.dp_degree: 1")
        return {self.name: replicas, **dict(self.balanced)}

    def read(self, options: Mapping[str, Any], like: SimulationConfig) -> dict[str, Any]:
        """One replica, unless there is an option."""
        if self.name not in options:
            return {"parallelism.dp_degree": 1}
        return {"parallelism.dp_degree": options[self.name], "serving.router": self.balancer}


@dataclass(frozen=True)
class OneNode(Correspondence):
    """All replicas on one node, since one command starts the processes of one node."""

    paths: ClassVar[tuple[str, ...]] = ()
    options: ClassVar[tuple[str, ...]] = ()

    def write(self, settings: Settings, deployment: Deployment) -> Options:
        """No options; the degrees are checked."""
        gpus, replicas = deployment.world_size, settings.get("parallelism.dp_degree", 1)
        if gpus > deployment.gpus_per_node:
            path = "parallelism.dp_degree" if gpus // replicas <= deployment.gpus_per_node else "parallelism.tp_degree"
            message = f"{gpus} GPUs cannot be expressed, as one command starts one node of {deployment.gpus_per_node}"
            raise InexpressibleError(path, message)
        return {}

    def read(self, options: Mapping[str, Any], like: SimulationConfig) -> dict[str, Any]:
        """Nothing."""
        return {}


@dataclass(frozen=True)
class WholeExperts(Correspondence):
    """Whole experts on each tensor-parallel rank: a flag, or their degree.

    Args:
        name: The option.
        tensor: The option with the tensor-parallel degree.
        is_flag: Whether the option is a flag.
    """

    name: str
    tensor: str
    is_flag: bool
    paths: ClassVar[tuple[str, ...]] = ("parallelism.ep_degree",)

    @property
    def options(self) -> tuple[str, ...]:
        """The option."""
        return (self.name,)

    def write(self, settings: Settings, deployment: Deployment) -> Options:
        """The flag, or the degree."""
        degree, tensor = settings.get("parallelism.ep_degree", 1), settings.get("parallelism.tp_degree", 1)
        if degree > 1 and {tensor, settings.get("serving.disaggregated.prefill_tp_degree", tensor)} != {degree}:
            message = f"{degree} cannot be expressed; each tensor-parallel rank has whole experts, so write tp_degree"
            raise InexpressibleError(self.paths[0], message)
        return {} if degree == 1 else {self.name: True if self.is_flag else degree}

    def read(self, options: Mapping[str, Any], like: SimulationConfig) -> dict[str, Any]:
        """The degree, which is the tensor-parallel one."""
        if self.name not in options:
            return {}
        return {"parallelism.ep_degree": options[self.tensor] if self.is_flag else options[self.name]}


def draft_checkpoint(settings: Settings) -> str:
    """The weights of the draft model.

    Raises:
        InexpressibleError: None are known.
    """
    name = settings["serving.speculative.draft_model"]
    checkpoint = checkpoint_of_name(name)
    if not checkpoint:
        raise InexpressibleError("serving.speculative.draft_model", f"no weights are known of {name}")
    return checkpoint


def draft_of(checkpoint: str) -> str:
    """The draft model with these weights."""
    return model_of_checkpoint(checkpoint) or checkpoint


SPECULATIVE = tuple(
    f"serving.speculative.{name}" for name in ("draft_tokens", "draft_model", "draft_layers", "draft_cost")
)


def checked_speculative(settings: Settings) -> None:
    """Refuse ways of drafting that no engine has.

    Raises:
        InexpressibleError: Drafts that are a time, or that need several extra layers.
    """
    if settings.get("serving.speculative.draft_cost") is not None:
        message = "a time is no way to draft; write draft_model or draft_layers, or neither for n-gram look-up"
        raise InexpressibleError("serving.speculative.draft_cost", message)
    if settings.get("serving.speculative.draft_layers", 1) != 1:
        message = "the layers for drafting are those of the checkpoint, and used one after another; write 1"
        raise InexpressibleError("serving.speculative.draft_layers", message)


def differing(files: Sequence[tuple[str, Mapping[str, Any]]]) -> str:
    """Why files that hold the same options differ; empty if they do not."""
    (first, options), *others = files
    for name, other in others:
        for option in dict.fromkeys([*options, *other]):
            if options.get(option) != other.get(option):
                return f"{first} and {name} differ in {option}"
    return ""

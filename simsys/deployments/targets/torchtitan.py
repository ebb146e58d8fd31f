"""torchtitan: the `torchrun` line with overrides of a configuration that comes with it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from simsys.config.experiment import SimulationConfig
from simsys.deployments.correspondence import (
    Choice,
    Correspondence,
    Fixed,
    InexpressibleError,
    Option,
    Options,
    Settings,
)
from simsys.deployments.deployment import Deployment
from simsys.deployments.fsdp_mesh import fsdp_settings, fsdp_shards
from simsys.deployments.shell import command_words, options_of, script
from simsys.deployments.target import EmittedFile, Target
from simsys.deployments.training_parts import HEAD_NODE, OUTSIDE, SECTIONS

FLAVORS = {
    "Llama-3.1-8B": "8B",
    "Llama-3.1-70B": "70B",
    "Llama-3.1-405B": "405B",
    "Llama3-8B": "8B",
    "Llama3-70B": "70B",
}
"""Models of the DB that torchtitan has as ``llama3``, by size. Llama 3 and 3.1 have the same layers."""
PROGRAM = ["-m", "torchtitan.train"]
FILE = "train.sh"
NODES, PER_NODE = "nnodes", "nproc-per-node"
MODEL, FLAVOR, LENGTH = "model.name", "model.flavor", "training.seq_len"
LOCAL, GLOBAL = "training.local_batch_size", "training.global_batch_size"
REPLICATE, SHARD, TENSOR, CONTEXT, STAGES, EXPERT, SCHEDULE, PASS, CHUNK = (
    f"parallelism.{name}"
    for name in (
        *("data_parallel_replicate_degree", "data_parallel_shard_degree", "tensor_parallel_degree"),
        *("context_parallel_degree", "pipeline_parallel_degree", "expert_parallel_degree"),
        *("pipeline_parallel_schedule", "pipeline_parallel_microbatch_size", "pipeline_parallel_layers_per_stage"),
    )
)
UNMODELLED = {
    "job.config_file": "",
    "compile.enable": True,
    "parallelism.pipeline_parallel_first_stage_less_layers": 0,
    "parallelism.pipeline_parallel_last_stage_less_layers": 0,
    "rdzv-backend": "c10d",
    "rdzv-endpoint": HEAD_NODE,
}
"""Options that no setting corresponds to: layers are compiled, and stages have equally many."""


USUAL: dict[str, Any] = {
    "activation_checkpoint.mode": "none",
    "parallelism.fsdp_reshard_after_forward": "always",
    "checkpoint.enable": True,
}
"""Values that are the default of simsys, but not of torchtitan."""


@dataclass(frozen=True)
class LlamaFlavor(Correspondence):
    """The model, and the length of its training sequences."""

    paths: ClassVar[tuple[str, ...]] = ("model.name", "model.sequence_length")
    options: ClassVar[tuple[str, ...]] = (MODEL, FLAVOR, LENGTH)

    def write(self, settings: Settings, deployment: Deployment) -> Options:
        """The size of Llama 3."""
        name = settings.get("model.name")
        if name not in FLAVORS:
            path = "model.name" if name else "model"
            message = f"{deployment.model.name} cannot be expressed; possible: {', '.join(FLAVORS)}"
            raise InexpressibleError(path, message)
        length = settings.get("model.sequence_length", deployment.model.sequence_length)
        return {MODEL: "llama3", FLAVOR: FLAVORS[name], LENGTH: length}

    def read(self, options: Mapping[str, Any], like: SimulationConfig) -> dict[str, Any]:
        """The model of this size, preferably that of the given scenario."""
        names = [name for name, flavor in FLAVORS.items() if flavor == options[FLAVOR]]
        name = like.model.name if like.model.name in names else names[0]
        return {"model.name": name, "model.sequence_length": options[LENGTH]}


@dataclass(frozen=True)
class Mesh(Correspondence):
    """GPUs, and their division among replicas, shards, tensor- and context-parallel ranks, stages and experts."""

    paths: ClassVar[tuple[str, ...]] = (
        *("parallelism.dp_degree", "parallelism.strategy", "parallelism.tp_degree", "parallelism.sequence_parallel"),
        *("parallelism.cp_degree", "parallelism.ep_degree", "parallelism.pp_stages", "training.options.shard_size"),
    )
    options: ClassVar[tuple[str, ...]] = (NODES, PER_NODE, REPLICATE, SHARD, TENSOR, CONTEXT, STAGES, EXPERT)

    def write(self, settings: Settings, deployment: Deployment) -> Options:
        """The numbers of GPUs along each axis."""
        shared = settings.get("parallelism.cp_degree", 1) > 1  # context-parallel ranks share the weights, too
        shards = fsdp_shards(settings, deployment, kinds=("FSDP",) if shared else ("FSDP", "HSDP", "DDP"))
        world, per_node = deployment.world_size, min(deployment.world_size, deployment.gpus_per_node)
        if world % per_node:
            raise InexpressibleError("parallelism.dp_degree", f"{world} ranks do not fill nodes of {per_node} GPUs")
        mesh = {REPLICATE: settings["parallelism.dp_degree"] // shards, SHARD: shards}
        degrees = {TENSOR: "tp_degree", CONTEXT: "cp_degree", STAGES: "pp_stages", EXPERT: "ep_degree"}
        given = {name: settings.get(f"parallelism.{key}", 1) for name, key in degrees.items()}
        mesh |= {name: size for name, size in given.items() if size > 1}
        return {NODES: world // per_node, PER_NODE: per_node, **mesh}

    def read(self, options: Mapping[str, Any], like: SimulationConfig) -> dict[str, Any]:
        """The degrees, and the strategy that they mean."""
        others = {"CP": options.get(CONTEXT, 1), "EP": options.get(EXPERT, 1), "PP": options.get(STAGES, 1)}
        names = {"CP": "cp_degree", "EP": "ep_degree", "PP": "pp_stages"}
        found = fsdp_settings(options[REPLICATE], options[SHARD], options.get(TENSOR, 1), others)
        if others["CP"] > 1:
            found["parallelism.strategy"] = "_".join(
                [*found["parallelism.strategy"].removesuffix("_FSDP").split("_"), "FSDP"]
            )
        return {**found, **{f"parallelism.{names[kind]}": size for kind, size in others.items()}}


@dataclass(frozen=True)
class Batches(Correspondence):
    """Micro-batches: of a pipeline, which cuts the local batch, or else of gradient accumulation."""

    paths: ClassVar[tuple[str, ...]] = ("training.batch_size_per_gpu", "training.gradient_accumulation_steps")
    options: ClassVar[tuple[str, ...]] = (LOCAL, GLOBAL, PASS)

    def write(self, settings: Settings, deployment: Deployment) -> Options:
        """The local and the global batch."""
        samples, steps = settings[self.paths[0]], settings.get(self.paths[1], 1)
        everything = {GLOBAL: samples * steps * settings["parallelism.dp_degree"]}
        if settings.get("parallelism.pp_stages", 1) > 1:
            return {LOCAL: samples * steps, **everything, PASS: samples}
        return {LOCAL: samples, **everything}

    def read(self, options: Mapping[str, Any], like: SimulationConfig) -> dict[str, Any]:
        """Samples of a micro-batch, and their number."""
        samples = options.get(PASS, options[LOCAL])
        return dict(
            zip(self.paths, (samples, options[GLOBAL] // samples // options[REPLICATE] // options[SHARD]), strict=True)
        )


@dataclass(frozen=True)
class Schedule(Correspondence):
    """The order of micro-batches in the pipeline, and the layers of each chunk."""

    paths: ClassVar[tuple[str, ...]] = ("parallelism.schedule", "parallelism.virtual_stages")
    options: ClassVar[tuple[str, ...]] = (SCHEDULE, CHUNK)
    names: ClassVar[dict[str, str]] = {"1f1b": "1F1B", "gpipe": "GPipe", "interleaved": "Interleaved1F1B"}

    def write(self, settings: Settings, deployment: Deployment) -> Options:
        """The schedule, if there is a pipeline."""
        stages = settings.get("parallelism.pp_stages", 1)
        schedule, chunks = settings.get(self.paths[0], "1f1b"), settings.get(self.paths[1], 1)
        if stages == 1:
            return {}
        if schedule not in self.names or (chunks > 1) != (schedule == "interleaved"):
            message = f"{schedule} cannot be expressed with virtual_stages {chunks}"
            raise InexpressibleError(
                self.paths[0], f"{message}; possible: 1f1b, gpipe, or interleaved with more than 1"
            )
        layers, pieces = deployment.model.num_layers, stages * chunks
        if layers % pieces:
            raise InexpressibleError(
                "parallelism.pp_stages", f"{layers} layers cannot be divided among {pieces} pieces"
            )
        return {SCHEDULE: self.names[schedule], CHUNK: layers // pieces}

    def read(self, options: Mapping[str, Any], like: SimulationConfig) -> dict[str, Any]:
        """The schedule, and the chunks of a stage."""
        if SCHEDULE not in options:
            return {}
        schedule = next(name for name, known in self.names.items() if known == options[SCHEDULE])
        layers = {"8B": 32, "70B": 80, "405B": 126}[options[FLAVOR]]
        return dict(zip(self.paths, (schedule, layers // options[CHUNK] // options[STAGES]), strict=True))


TABLE: tuple[Correspondence, ...] = (
    Fixed("training.engine", "torchtitan"),
    LlamaFlavor(),
    Mesh(),
    Batches(),
    Schedule(),
    Choice("parallelism.tp_overlap", {True: {"parallelism.enable_async_tensor_parallel": True}}),
    Option("training.num_iterations", "training.steps", default=10),
    Choice("training.precision", {"fp32": {"training.mixed_precision_param": "float32"}, "bf16": {}}),
    Choice(
        "training.activation_recompute",
        {
            "full": {"activation_checkpoint.mode": "full"},
            "half": {"activation_checkpoint.mode": "selective", "activation_checkpoint.selective_ac_option": "op"},
        },
    ),
    Choice("training.fused_optimizer", {False: {"optimizer.implementation": "for-loop"}}),
    Choice(
        "training.options.reshard_after_forward",
        {False: {"parallelism.fsdp_reshard_after_forward": "never"}, True: {}},
    ),
    Choice("training.options.reduce_in_half", {True: {"training.mixed_precision_reduce": "bfloat16"}, False: {}}),
    Choice("training.options.offload", {"parameters": {"training.enable_cpu_offload": True}, "none": {}}),
    Option("training.checkpoint.interval", "checkpoint.interval"),
    Choice("training.checkpoint.asynchronous", {True: {"checkpoint.async_mode": "async"}}),
)


def _render(options: Options, deployment: Deployment) -> list[EmittedFile]:
    about = [
        f"torchtitan {deployment.release}, scenario {deployment.config.name}; written by simsys.",
        "Start it in the folder of torchtitan on each node, with HEAD_NODE set to the name of the first one.",
    ]
    launcher = {NODES: options[NODES], PER_NODE: options[PER_NODE]}
    launcher |= {name: UNMODELLED[name] for name in ("rdzv-backend", "rdzv-endpoint")}
    rest = {name: value for name, value in options.items() if name not in launcher}
    rest = {**{name: value for name, value in USUAL.items() if name != "checkpoint.enable"}, **rest}
    if "checkpoint.interval" in rest:
        rest["checkpoint.enable"] = True
    size = options[FLAVOR].lower()
    file = f"./torchtitan/models/llama3/train_configs/llama3_{size}.toml"
    others = {name: value for name, value in UNMODELLED.items() if name not in launcher}
    arguments = {**others, "job.config_file": file, **rest}
    return [EmittedFile(FILE, script(["torchrun"], launcher, about, program=PROGRAM, arguments=arguments))]


def _parse(files: Mapping[str, str]) -> dict[str, Any]:
    words = command_words(files[FILE])
    start = words.index(PROGRAM[1])
    found = {**options_of(words[1 : start - 1]), **options_of(words[start + 1 :])}
    return {
        name: value for name, value in found.items() if name not in UNMODELLED and (name, value) not in USUAL.items()
    }


TARGET = Target(
    name="torchtitan",
    tool="torchtitan",
    kind="training",
    releases=("0.2",),
    sources=(
        "https://rocm.docs.amd.com/projects/primus/en/latest/03-configuration-reference/torchtitan-parameters.html",
        "pytorch/torchtitan: torchtitan/config/job_config.py",
    ),
    table=TABLE,
    render=_render,
    parse=_parse,
    sections=SECTIONS,
    outside=OUTSIDE,
)

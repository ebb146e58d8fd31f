"""Megatron-LM: the `torchrun pretrain_gpt.py` line."""

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
    switch,
)
from simsys.deployments.deployment import Deployment
from simsys.deployments.megatron_launch import LAUNCH, LAUNCHER, MICRO, PROCESSES, WHOLE
from simsys.deployments.megatron_model import DecoderArguments
from simsys.deployments.shell import command_words, options_of, script
from simsys.deployments.target import EmittedFile, Target
from simsys.deployments.training_parts import HEAD_NODE, OUTSIDE, SECTIONS, Batch

MEETING = ("rdzv-backend", "rdzv-endpoint", "rdzv-id")
PROGRAM = "pretrain_gpt.py"
FILE = "train.sh"
UNMODELLED = {
    "use-mcore-models": True,
    "transformer-impl": "transformer_engine",
    "tokenizer-type": "NullTokenizer",
    "mock-data": True,
    "lr": 0.0003,
    "min-lr": 0.00003,
    "clip-grad": 1.0,
    "log-interval": 1,
    "log-throughput": True,
    "eval-iters": 0,
}
"""Options that every run needs and that no setting corresponds to: random data and usual values."""
SHARDING, FSDP = "data-parallel-sharding-strategy", "use-megatron-fsdp"


@dataclass(frozen=True)
class DataParallelism(Correspondence):
    """The kind of data parallelism, and whether gradients are exchanged during the backward pass.

    ``ZERO1`` is the distributed optimizer, ``ZERO2`` and ``FSDP`` are Megatron-FSDP, which overlaps by itself.
    """

    paths: ClassVar[tuple[str, ...]] = ("parallelism.strategy", "training.options.overlap")
    options: ClassVar[tuple[str, ...]] = (
        *("use-distributed-optimizer", "overlap-grad-reduce", "overlap-param-gather", FSDP, SHARDING),
    )
    sharded: ClassVar[dict[str, str]] = {"ZERO2": "optim_grads", "FSDP": "optim_grads_params"}

    def write(self, settings: Settings, deployment: Deployment) -> Options:
        """The options of the kind."""
        parts = deployment.config.parallelism.parts
        overlap = settings.get("training.options.overlap", True)
        found: Options = {}
        if "HSDP" in parts:
            raise InexpressibleError(
                "parallelism.strategy", "HSDP cannot be expressed; possible: DDP, ZERO1, ZERO2, FSDP"
            )
        if "ZERO1" in parts:
            found["use-distributed-optimizer"] = True
        if kind := next((kind for kind in self.sharded if kind in parts), None):
            if not overlap:
                raise InexpressibleError("training.options.overlap", "false cannot be expressed with ZERO2")
            sharded = {FSDP: True, SHARDING: self.sharded[kind], "use-distributed-optimizer": True}
            return {**sharded, "overlap-grad-reduce": True, "overlap-param-gather": True}
        if overlap and parts & {"DDP", "ZERO1"}:
            found["overlap-grad-reduce"] = True
        return found

    def is_usual(self, path: str, value: Any) -> bool:
        """Whether gradients are exchanged during the backward pass, which is the default of simsys."""
        return path == self.paths[1] and value is True

    def read(self, options: Mapping[str, Any], like: SimulationConfig) -> dict[str, Any]:
        """The strategy, of which the degrees give the other parts."""
        kinds = {"TP": "tensor-model-parallel-size", "CP": "context-parallel-size"}
        kinds |= {"EP": "expert-model-parallel-size", "PP": "pipeline-model-parallel-size"}
        parts = [kind for kind, name in kinds.items() if options.get(name, 1) > 1]
        ranks = PROCESSES.read(options, like)["parallelism.dp_degree"] * options.get("context-parallel-size", 1)
        if ranks == 1:
            return {"parallelism.strategy": "_".join(parts) or "None"}
        data = "ZERO1" if "use-distributed-optimizer" in options else "DDP"
        data = next((kind for kind, name in self.sharded.items() if options.get(SHARDING) == name), data)
        exposed = {"training.options.overlap": False} if "overlap-grad-reduce" not in options else {}
        return {"parallelism.strategy": "_".join([*parts, data]), **exposed}


@dataclass(frozen=True)
class Schedule(Correspondence):
    """The order of micro-batches: one forward, one backward, without or with several chunks per stage."""

    paths: ClassVar[tuple[str, ...]] = ("parallelism.schedule", "parallelism.virtual_stages")
    options: ClassVar[tuple[str, ...]] = ("num-virtual-stages-per-pipeline-rank",)

    def write(self, settings: Settings, deployment: Deployment) -> Options:
        """The chunks of a stage, if it has several."""
        schedule, chunks = settings.get(self.paths[0], "1f1b"), settings.get(self.paths[1], 1)
        if (schedule, chunks > 1) not in (("1f1b", False), ("interleaved", True)):
            message = f"{schedule} cannot be expressed with virtual_stages {chunks}"
            raise InexpressibleError(self.paths[0], f"{message}; possible: 1f1b with 1, interleaved with more")
        return {self.options[0]: chunks} if chunks > 1 else {}

    def read(self, options: Mapping[str, Any], like: SimulationConfig) -> dict[str, Any]:
        """Interleaved, if a stage has several chunks."""
        chunks = options.get(self.options[0], 1)
        return {self.paths[0]: "interleaved", self.paths[1]: chunks} if chunks > 1 else {}


@dataclass(frozen=True)
class StageLayers(Correspondence):
    """Layers of the first and the last stage, if they differ from those between."""

    paths: ClassVar[tuple[str, ...]] = ("parallelism.stage_layers",)
    options: ClassVar[tuple[str, ...]] = ("decoder-first-pipeline-num-layers", "decoder-last-pipeline-num-layers")

    def write(self, settings: Settings, deployment: Deployment) -> Options:
        """Layers of the two ends."""
        layers = settings.get(self.paths[0])
        if layers is None:
            return {}
        if len(set(layers[1:-1])) > 1 or settings.get("parallelism.virtual_stages", 1) > 1:
            message = "cannot be expressed; only the first and the last of plain stages may differ from the others"
            raise InexpressibleError(self.paths[0], message)
        return dict(zip(self.options, (layers[0], layers[-1]), strict=True))

    def read(self, options: Mapping[str, Any], like: SimulationConfig) -> dict[str, Any]:
        """Layers of all stages."""
        if self.options[0] not in options:
            return {}
        first, last = (options[name] for name in self.options)
        between = options["pipeline-model-parallel-size"] - 2
        each = [(options["num-layers"] - first - last) // between] * between if between else []
        return {self.paths[0]: [first, *each, last]}


@dataclass(frozen=True)
class Recomputation(Correspondence):
    """Recomputed activations: those of each layer, of the attention core, or of modules by name."""

    paths: ClassVar[tuple[str, ...]] = ("training.activation_recompute",)
    options: ClassVar[tuple[str, ...]] = tuple(
        f"recompute-{name}" for name in ("granularity", "method", "num-layers", "modules")
    )
    kinds: ClassVar[dict[str, tuple[Any, ...]]] = {
        "none": (),
        "selective": ("selective",),
        "full": ("full", "uniform", 1),
    }

    def write(self, settings: Settings, deployment: Deployment) -> Options:
        """The granularity, and what belongs to it."""
        given = settings.get(self.paths[0], "none")
        if not isinstance(given, str):
            return {self.options[0]: "selective", self.options[3]: list(given)}
        if given not in self.kinds:
            message = f"{given} cannot be expressed; possible: selective, full, or a list of modules"
            raise InexpressibleError(self.paths[0], message)
        return dict(zip(self.options, self.kinds[given], strict=False))

    def read(self, options: Mapping[str, Any], like: SimulationConfig) -> dict[str, Any]:
        """The kind, or the modules."""
        kind, modules = options.get(self.options[0]), options.get(self.options[3])
        if kind != "selective" or modules is None:
            return {self.paths[0]: kind} if kind in self.kinds else {}
        return {self.paths[0]: modules if isinstance(modules, list) else [modules]}


TABLE: tuple[Correspondence, ...] = (
    PROCESSES,
    DecoderArguments(),
    Fixed("training.engine", "megatron"),
    Option("parallelism.tp_degree", "tensor-model-parallel-size"),
    switch("parallelism.sequence_parallel", "sequence-parallel", None),
    switch("parallelism.tp_overlap", "tp-comm-overlap", None),
    Option("parallelism.cp_degree", "context-parallel-size"),
    Option("parallelism.ep_degree", "expert-model-parallel-size"),
    Option("parallelism.expert_tp_degree", "expert-tensor-parallel-size"),
    switch("parallelism.expert_overlap", "overlap-moe-expert-parallel-comm", None),
    switch("parallelism.shared_expert_overlap", "moe-shared-expert-overlap", None),
    Option("parallelism.expert_capacity_factor", "moe-expert-capacity-factor"),
    Option("parallelism.pp_stages", "pipeline-model-parallel-size"),
    switch("parallelism.scatter_gather", None, "no-scatter-gather-tensors-in-pipeline"),
    switch("parallelism.p2p_overlap", None, "no-overlap-p2p-communication"),
    Schedule(),
    StageLayers(),
    Choice("parallelism.order", {"tp-cp-ep-dp-pp": {}, "tp-cp-ep-pp-dp": {"use-tp-pp-dp-mapping": True}}),
    DataParallelism(),
    Batch(MICRO, WHOLE, PROCESSES),
    Option("training.num_iterations", "train-iters", default=10),
    Choice(
        "training.precision",
        {
            "fp8": {"fp8-format": "hybrid", "bf16": True},
            "bf16": {"bf16": True},
            "fp16": {"fp16": True},
            "fp32": {},
        },
        always=True,
    ),
    Choice("training.optimizer", {"adam": {}, "sgd": {"optimizer": "sgd"}}),
    Recomputation(),
    Choice(
        "training.attention",
        {"flash2": {"attention-backend": "flash"}, "unfused": {"attention-backend": "unfused"}},
    ),
    Option("training.mtp_layers", "mtp-num-layers"),
    Option("training.checkpoint.interval", "save-interval"),
    switch("training.checkpoint.asynchronous", "async-save", None),
    switch("training.options.reduce_in_half", "grad-reduce-in-bf16", None),
)


def _render(options: Options, deployment: Deployment) -> list[EmittedFile]:
    about = [
        f"Megatron-LM {deployment.release}, scenario {deployment.config.name}; written by simsys.",
        "Start it in the folder of Megatron-LM on each node, with HEAD_NODE set to the name of the first one.",
    ]
    return [EmittedFile(FILE, launch_script(options, about))]


def launch_script(options: Options, about: list[str]) -> str:
    """The script that starts the processes of one node."""
    launcher = {name: options[name] for name in LAUNCHER}
    meeting = {"rdzv-backend": "c10d", "rdzv-endpoint": HEAD_NODE}
    rest = {name: value for name, value in options.items() if name not in LAUNCHER}
    saved = {"save": "checkpoints"} if "save-interval" in options else {}
    arguments = {**rest, **saved, **UNMODELLED}
    return script(["torchrun"], {**launcher, **meeting}, about, program=[PROGRAM], arguments=arguments)


def launch_options(text: str) -> dict[str, Any]:
    """The options of such a script that settings correspond to."""
    words = command_words(text)
    start = words.index(PROGRAM)
    found = {**options_of(words[1:start]), **options_of(words[start + 1 :])}
    return {name: value for name, value in found.items() if name not in (*MEETING, *UNMODELLED, "save")}


TARGET = Target(
    name="torchrun-megatron",
    tool="Megatron-LM",
    kind="training",
    releases=("0.15", "0.14", "0.13"),
    sources=(
        "https://docs.nvidia.com/megatron-core/developer-guide/latest/user-guide/parallelism-guide.html",
        "https://docs.nvidia.com/megatron-core/developer-guide/latest/user-guide/training-examples.html",
        "NVIDIA/Megatron-LM: megatron/training/arguments.py",
    ),
    table=TABLE,
    render=_render,
    parse=lambda files: launch_options(files[FILE]),
    sections=SECTIONS,
    outside=OUTSIDE,
    launch=LAUNCH,
)

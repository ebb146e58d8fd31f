"""DeepSpeed: the JSON configuration of the engine. The program decides about the model and the number of steps."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from simsys.config.experiment import SimulationConfig
from simsys.deployments.correspondence import Choice, Correspondence, Fixed, InexpressibleError, Options, Settings
from simsys.deployments.deployment import Deployment
from simsys.deployments.nesting import flat, nested
from simsys.deployments.target import EmittedFile, Target
from simsys.deployments.training_parts import OUTSIDE, PROGRAM_DECIDES, PROGRAM_REASONS, SECTIONS

MICRO, STEPS, ALL = "train_micro_batch_size_per_gpu", "gradient_accumulation_steps", "train_batch_size"
STAGE, OVERLAP = "zero_optimization.stage", "zero_optimization.overlap_comm"
OPTIMIZER_DEVICE, PARAMETER_DEVICE = (
    f"zero_optimization.{name}.device" for name in ("offload_optimizer", "offload_param")
)
FILE = "ds_config.json"


@dataclass(frozen=True)
class ZeroStage(Correspondence):
    """The stage of ZeRO, and whether gradients are exchanged during the backward pass."""

    paths: ClassVar[tuple[str, ...]] = ("parallelism.strategy", "training.options.overlap")
    options: ClassVar[tuple[str, ...]] = (STAGE, OVERLAP)
    stages: ClassVar[dict[str, int]] = {"None": 0, "DDP": 0, "ZERO1": 1, "ZERO2": 2, "FSDP": 3}

    def write(self, settings: Settings, deployment: Deployment) -> Options:
        """The stage; stage 3 overlaps by itself."""
        strategy = settings["parallelism.strategy"]
        if strategy not in self.stages:
            message = f"{strategy} cannot be expressed; possible: {', '.join(self.stages)}"
            raise InexpressibleError("parallelism.strategy", message)
        stage, overlap = self.stages[strategy], settings.get("training.options.overlap", True)
        if stage == 0 and settings.get("training.options.offload", "none") != "none":
            raise InexpressibleError("training.options.offload", "cannot be expressed without ZeRO on several ranks")
        if stage not in (1, 2) and not overlap:
            raise InexpressibleError("training.options.overlap", "false can be expressed with ZERO1 and ZERO2 only")
        return {STAGE: stage, **({OVERLAP: overlap} if stage in (1, 2) else {})}

    def is_usual(self, path: str, value: Any) -> bool:
        """Whether gradients are exchanged during the backward pass, which is the default of simsys."""
        return path == self.paths[1] and value is True

    def read(self, options: Mapping[str, Any], like: SimulationConfig) -> dict[str, Any]:
        """The strategy of the stage."""
        alone = options[ALL] == options[MICRO] * options[STEPS]
        names = {stage: name for name, stage in self.stages.items() if name != "None"}
        strategy = "None" if alone else names[options[STAGE]]
        exposed = {"training.options.overlap": False} if options.get(OVERLAP) is False else {}
        return {"parallelism.strategy": strategy, **exposed}


@dataclass(frozen=True)
class Batches(Correspondence):
    """Samples of a micro-batch and of an iteration on all ranks, and micro-batches of an iteration."""

    paths: ClassVar[tuple[str, ...]] = (
        *("training.batch_size_per_gpu", "training.gradient_accumulation_steps", "parallelism.dp_degree"),
    )
    options: ClassVar[tuple[str, ...]] = (MICRO, STEPS, ALL)

    def write(self, settings: Settings, deployment: Deployment) -> Options:
        """All three, which DeepSpeed checks against each other."""
        samples, steps, degree = (settings.get(path, 1) for path in self.paths)
        return dict(zip(self.options, (samples, steps, samples * steps * degree), strict=True))

    def read(self, options: Mapping[str, Any], like: SimulationConfig) -> dict[str, Any]:
        """All three."""
        samples, steps, whole = (options[name] for name in self.options)
        return dict(zip(self.paths, (samples, steps, whole // samples // steps), strict=True))


TABLE: tuple[Correspondence, ...] = (
    Fixed("training.engine", "deepspeed"),
    Batches(),
    ZeroStage(),
    Choice(
        "training.options.offload",
        {
            "none": {},
            "parameters": {OPTIMIZER_DEVICE: "cpu", PARAMETER_DEVICE: "cpu"},
            "optimizer": {OPTIMIZER_DEVICE: "cpu"},
        },
    ),
    Choice(
        "training.precision",
        {"bf16": {"bf16.enabled": True}, "fp16": {"fp16.enabled": True}, "fp32": {}},
        always=True,
    ),
    Choice("training.optimizer", {"adam": {}, "sgd": {"optimizer.type": "SGD"}}),
)


def _render(options: Options, deployment: Deployment) -> list[EmittedFile]:
    optimizer = {} if "optimizer.type" in options else {"optimizer.type": "AdamW"}
    everything = {**options, **optimizer, "optimizer.params.lr": 0.0003}
    return [EmittedFile(FILE, json.dumps(nested(everything), indent=2) + "\n")]


def _parse(files: Mapping[str, str]) -> dict[str, Any]:
    options = flat(json.loads(files[FILE]))
    del options["optimizer.params.lr"]
    return {name: value for name, value in options.items() if (name, value) != ("optimizer.type", "AdamW")}


TARGET = Target(
    name="deepspeed",
    tool="DeepSpeed",
    kind="training",
    releases=("0.18", "0.17"),
    sources=("https://www.deepspeed.ai/docs/config-json/", "https://huggingface.co/docs/transformers/deepspeed"),
    table=TABLE,
    render=_render,
    parse=_parse,
    sections=SECTIONS,
    outside=OUTSIDE | PROGRAM_DECIDES,
    reasons=PROGRAM_REASONS,
)

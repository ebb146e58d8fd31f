"""The experiment file's `lab`: how a training scenario is carried out for real (`simsys lab`)."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, NonNegativeInt, PositiveInt, model_validator

from simsys.config.base import FrozenModel, invalid
from simsys.units import Seconds

Positive = Annotated[float, Field(strict=True, gt=0, le=1e6)]
NonNegative = Annotated[float, Field(strict=True, ge=0, le=1e6)]


class LabDataConfig(FrozenModel):
    """What the model is trained on.

    ``synthetic`` draws random tokens (or images). ``text`` takes the bytes of a `file` as tokens; the last tenth of
    the file is for evaluation.
    """

    kind: Literal["synthetic", "text"] = Field(default="synthetic", description="Random tokens, or bytes of a file")
    file: Annotated[str, Field(min_length=1)] | None = Field(
        default=None, description="File whose bytes are the tokens of text, relative to the experiment file"
    )

    @model_validator(mode="after")
    def _text_has_a_file(self) -> Self:
        if (self.kind == "text") != (self.file is not None):
            raise invalid("kind: text needs a file, and only text has one")
        return self


class LabConfig(FrozenModel):
    """How ``simsys lab`` carries a training scenario out; the simulation does not use it.

    `threads` are threads of each rank; left out, the processor cores divided by the ranks. `learning_rate` rises
    linearly during `warmup_iterations` and then follows `schedule` down to a tenth, or stays. Checkpoints are saved
    every `checkpoint_interval` iterations and at the end; the newest `keep_checkpoints` stay. A run that loses a rank
    starts again from the last checkpoint, `max_restarts` times at most.
    """

    device: Literal["auto", "cpu", "cuda"] = Field(
        default="auto", description="Device of the ranks; auto takes CUDA where there is any"
    )
    threads: PositiveInt | None = Field(
        default=None, description="Threads of each rank; by default the processor cores divided by the ranks"
    )
    oversubscribe: bool = Field(default=False, description="Allow more ranks than processor cores")
    port: Annotated[int, Field(strict=True, ge=1024, le=65535)] | None = Field(
        default=None, description="TCP port of the ranks' meeting point on the loopback; by default a free one"
    )
    timeout: Seconds = Field(default=60.0, description="Time after which a collective that waits for a rank fails")
    max_restarts: NonNegativeInt = Field(default=0, description="Restarts from the last checkpoint after a lost rank")
    learning_rate: Positive = Field(default=3e-4, description="Largest learning rate")
    warmup_iterations: NonNegativeInt = Field(default=0, description="Iterations in which the learning rate rises")
    schedule: Literal["constant", "linear", "cosine"] = Field(
        default="constant", description="Course of the learning rate after the warm-up"
    )
    weight_decay: NonNegative = Field(default=0.01, description="Weight decay of the optimizer")
    momentum: Annotated[float, Field(strict=True, ge=0, lt=1)] = Field(default=0.0, description="Momentum of sgd")
    max_grad_norm: Positive | None = Field(
        default=None, description="Norm to which gradients are clipped; left out, they are not"
    )
    data: LabDataConfig = Field(default=LabDataConfig(), description="What the model is trained on")
    evaluation_interval: PositiveInt | None = Field(
        default=None, description="Iterations from evaluation to evaluation; left out, there is none"
    )
    evaluation_batches: PositiveInt = Field(default=4, description="Micro-batches of an evaluation on each rank")
    checkpoint_interval: PositiveInt | None = Field(
        default=None, description="Iterations from checkpoint to checkpoint; left out, one at the end"
    )
    keep_checkpoints: PositiveInt = Field(default=2, description="Number of checkpoints that are kept")
    fsdp: Literal["fully_shard", "fsdp1"] = Field(
        default="fully_shard", description="PyTorch's implementation of FSDP: fully_shard (FSDP2) or fsdp1"
    )
    tensorboard: bool = Field(default=False, description="Write metrics for TensorBoard, too")

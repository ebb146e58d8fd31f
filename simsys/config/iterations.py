"""Settings of training iterations: batch sizes over the run, checkpoints, data loading and failures."""

from __future__ import annotations

import re
from collections.abc import Sequence
from decimal import Decimal
from typing import Annotated, Any, Self

from pydantic import BeforeValidator, Field, NonNegativeInt, PositiveFloat, PositiveInt, model_validator

from simsys.config.base import FrozenModel, invalid, invalid_at
from simsys.units import BytesPerSecond, NonNegativeSeconds, Seconds

_COUNT = re.compile(r"\s*(\d+\.?\d*|\.\d+)\s*([KMBT])\s*", re.ASCII)
_POWERS = {"K": 3, "M": 6, "B": 9, "T": 12}


def _in_full(given: Any) -> Any:
    """Read a number of tokens that is written in thousands to trillions."""
    found = _COUNT.fullmatch(given) if isinstance(given, str) else None
    return float(Decimal(found[1]).scaleb(_POWERS[found[2]])) if found else given


_Written = PositiveFloat | Annotated[str, Field(pattern=r"^[\d.]+ ?[KMBT]$")]
Tokens = Annotated[PositiveFloat, BeforeValidator(_in_full, json_schema_input_type=_Written)]
"""A number of tokens: ``15T``, ``300B``, or in full."""


class BatchScheduleEntry(FrozenModel):
    """The batch from an iteration on (counted from 0); settings that are left out keep their previous value.

    Megatron-LM has such a ramp as ``--rampup-batch-size``; Brown et al. 2020, appendix B, trained with one.
    """

    from_iteration: NonNegativeInt = Field(description="First iteration of this entry, counted from 0")
    gradient_accumulation_steps: PositiveInt | None = Field(
        default=None, description="Micro-batches of an iteration from then on"
    )
    batch_size_per_gpu: PositiveInt | None = Field(default=None, description="Samples of a micro-batch from then on")

    @model_validator(mode="after")
    def _changes_something(self) -> Self:
        if self.gradient_accumulation_steps is None and self.batch_size_per_gpu is None:
            raise invalid("an entry sets gradient_accumulation_steps, batch_size_per_gpu or both; this one sets none")
        return self


class CheckpointConfig(FrozenModel):
    """Weights and optimizer states are saved after every `interval`-th iteration.

    Training stops while every rank copies its share to the host, and while all of it is written; an `asynchronous`
    write continues in the background instead, and the next checkpoint waits for its end. `storage_bandwidth` is
    the bandwidth of the whole cluster.
    """

    interval: PositiveInt = Field(description="Iterations from checkpoint to checkpoint")
    storage_bandwidth: BytesPerSecond = Field(description="Bandwidth of the storage for the whole cluster")
    asynchronous: bool = Field(default=False, description="Write in the background while training continues")


class DataLoadingConfig(FrozenModel):
    """Time of a rank's data loader for a micro-batch of ``training.batch_size_per_gpu``, with all workers together.

    With `prefetch` it loads the batches of the next iteration while the current one computes.
    """

    time: NonNegativeSeconds = Field(description="Time to load a micro-batch on each rank")
    prefetch: bool = Field(default=True, description="Load the batches of the next iteration during the current one")


class FailuresConfig(FrozenModel):
    """How often hardware fails, and the time lost by a failure, during `duration` of wall-clock time.

    `gpu_mtbf`, `node_mtbf` and `link_mtbf` are the mean times between failures of one GPU, node or network card; a
    component without a value does not fail. A failure is noticed after `detection`, and training continues after
    `restart` and loading the last checkpoint.
    """

    duration: Seconds = Field(description='Wall-clock time that is simulated, such as "30 d"')
    gpu_mtbf: Seconds | None = Field(default=None, description="Mean time between failures of one GPU")
    node_mtbf: Seconds | None = Field(default=None, description="Mean time between failures of one node")
    link_mtbf: Seconds | None = Field(default=None, description="Mean time between failures of one network card")
    detection: NonNegativeSeconds = Field(default=0.0, description="Time until a failure is detected")
    restart: NonNegativeSeconds = Field(default=0.0, description="Time to restart before the checkpoint is loaded")

    @model_validator(mode="after")
    def _something_fails(self) -> Self:
        if self.gpu_mtbf is None and self.node_mtbf is None and self.link_mtbf is None:
            raise invalid("say what fails: gpu_mtbf, node_mtbf or link_mtbf, such as gpu_mtbf: 50000 h")
        return self


class TargetConfig(FrozenModel):
    """How long the whole training is, for its time, cost and energy; the run itself simulates `num_iterations`.

    It is over after `tokens`, or after `epochs` of `dataset_tokens`; for a model without sequences, a sample counts as
    a token.
    """

    tokens: Tokens | None = Field(default=None, description="Tokens of the whole training, such as 15T or 15e12")
    dataset_tokens: Tokens | None = Field(default=None, description="Tokens of an epoch, such as 300B or 300e9")
    epochs: PositiveFloat | None = Field(default=None, description="Epochs of the whole training")

    @model_validator(mode="after")
    def _one_length(self) -> Self:
        if self.tokens is None and self.dataset_tokens is None:
            raise invalid("give tokens, such as 300e9, or dataset_tokens, with epochs or without")
        if self.epochs is not None and self.dataset_tokens is None:
            raise invalid("epochs needs dataset_tokens, the tokens of an epoch")
        if self.epochs is not None and self.tokens is not None:
            raise invalid("the length of the training is given twice, by tokens and by epochs; drop one")
        return self

    @property
    def all_tokens(self) -> float | None:
        """Tokens of the whole training; None if only an epoch is given."""
        if self.epochs is not None and self.dataset_tokens is not None:
            return self.epochs * self.dataset_tokens
        return self.tokens


def check_batch_schedule(entries: Sequence[BatchScheduleEntry], num_iterations: int) -> None:
    """Raise if an entry does not begin after the previous one, or begins after the last iteration."""
    after = -1
    for index, entry in enumerate(entries):
        start, place = entry.from_iteration, ("batch_schedule", index, "from_iteration")
        if start <= after:
            raise invalid_at(place, f"must be above {after}, where the entry before begins, not {start}", start)
        if start >= num_iterations:
            message = f"iteration {start} is never reached: the last of {num_iterations} is {num_iterations - 1}"
            raise invalid_at(place, message, start)
        after = start


def check_checkpoint(checkpoint: CheckpointConfig | None, num_iterations: int) -> None:
    """Raise if there are too few iterations for any checkpoint."""
    if checkpoint is not None and (interval := checkpoint.interval) > num_iterations:
        message = f"no checkpoint is ever taken: there are {num_iterations} iterations, fewer than {interval}"
        raise invalid_at(("checkpoint", "interval"), message, interval)

"""The space of a search: degrees of parallelism, and the variants of each division of the ranks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from math import gcd
from typing import NamedTuple

from simsys.parallel.activations import RecomputeSetting
from simsys.parallel.stages import uneven_layers

INTERLEAVED = "interleaved"
PLAIN = "1f1b"
UNEVEN = 1.1
"""Layers of the largest stage over their mean, up to which unequal stages are tried."""


class Division(NamedTuple):
    """A division of the model and the batch among the ranks."""

    tensor: int
    context: int
    expert: int
    pipeline: int
    data: int
    sequence_parallel: bool

    @property
    def replicas(self) -> int:
        """Ranks with equal weights."""
        return self.context * self.data


class Variant(NamedTuple):
    """What differs between layouts of one division."""

    schedule: str
    virtual: int
    samples: int
    recompute: RecomputeSetting
    kind: str


@dataclass(frozen=True)
class Axes:
    """The values of each axis of the space.

    Args:
        tensor: Tensor-parallel degrees.
        context: Context-parallel degrees.
        expert: Expert-parallel degrees.
        pipeline: Numbers of pipeline stages.
        virtual: Numbers of chunks of a stage; None for all that divide the layers.
        schedules: Pipeline schedules.
        kinds: Kinds of data parallelism.
        samples: Sizes of micro-batches.
        recompute: Kinds of activation recomputation.
        sequence_parallel: Whether norms and dropout are divided by tokens; None for wherever possible.
        layers: Layers of the model.
        gpus_per_node: GPUs of a node; HSDP is FSDP where all replicas are in one.
        stage_layers: Whether the scenario gives the layers of each stage.
    """

    tensor: tuple[int, ...]
    context: tuple[int, ...]
    expert: tuple[int, ...]
    pipeline: tuple[int, ...]
    virtual: tuple[int, ...] | None
    schedules: tuple[str, ...]
    kinds: tuple[str, ...]
    samples: tuple[int, ...]
    recompute: tuple[RecomputeSetting, ...]
    sequence_parallel: tuple[bool, ...] | None
    layers: int
    gpus_per_node: int = 1
    stage_layers: bool = False

    def divisions(self, gpus: int, tokens: int) -> Iterator[Division]:
        """All divisions whose degrees multiply to the number of GPUs.

        Args:
            gpus: Number of GPUs.
            tokens: Tokens of a sample.
        """
        for tensor, context, pipeline in product(self.tensor, self.context, self.pipeline):
            data, rest = divmod(gpus, tensor * context * pipeline)
            if rest:
                continue
            fits = tensor > 1 and tokens % (tensor * context) == 0
            for divided in (fits,) if self.sequence_parallel is None else self.sequence_parallel:
                for expert in self.expert:
                    yield Division(tensor, context, expert, pipeline, data, divided)

    def orders(self, pipeline: int) -> list[tuple[str, int]]:
        """The schedules and numbers of chunks for a number of stages."""
        if pipeline == 1:
            return [(PLAIN, 1)]
        chunks = self._chunks(pipeline)
        found = []
        for schedule in self.schedules:
            if schedule in ONE_CHUNK:
                found += [(schedule, 1)] if 1 in chunks else []
            else:
                found += [(schedule, each) for each in chunks if each > 1 or schedule != INTERLEAVED]
        return found

    def _chunks(self, pipeline: int) -> Sequence[int]:
        if self.virtual is not None:
            return self.virtual
        if self.stage_layers or self.layers % pipeline:
            return (1,)
        return divisors(self.layers // pipeline)

    def kinds_of(self, division: Division) -> tuple[str, ...]:
        """The kinds of data parallelism of a division; one suffices where there is nothing to divide."""
        if division.replicas == 1:
            return self.kinds[:1]
        in_node = gcd(division.replicas, max(1, self.gpus_per_node // division.tensor))
        same = in_node == division.replicas and "FSDP" in self.kinds
        return tuple(kind for kind in self.kinds if kind != "HSDP") if same else self.kinds

    def size(self, division: Division) -> int:
        """Number of variants of a division."""
        orders, kinds = self.orders(division.pipeline), self.kinds_of(division)
        return len(orders) * len(kinds) * len(self.samples) * len(self.recompute)

    @cached_property
    def points(self) -> int:
        """Number of combinations of all values, whether the degrees fit the GPUs or not."""
        sides = (self.tensor, self.context, self.expert, self.pipeline, self.schedules, self.kinds, self.recompute)
        total = len(self.samples) * len(self.virtual or (1,)) * len(self.sequence_parallel or (1,))
        for side in sides:
            total *= len(side)
        return total


ONE_CHUNK = ("1f1b", "one_f_one_b", "gpipe", "zero_bubble")
"""Schedules with one chunk of layers per stage."""


def useful_stages(layers: int, gpus: int) -> tuple[int, ...]:
    """The numbers of pipeline stages with equal layers, and those whose largest stage has few more than the mean.

    Example:
        >>> useful_stages(61, 64), useful_stages(80, 64)
        ((1, 2, 4, 8, 16, 32), (1, 2, 4, 8, 16))
    """
    return tuple(
        stages
        for stages in divisors(gpus)
        if layers % stages == 0 or (stages < layers and max(uneven_layers(layers, stages)) * stages <= UNEVEN * layers)
    )


def divisors(number: int) -> tuple[int, ...]:
    """The divisors of a number, the smallest first.

    Example:
        >>> divisors(12)
        (1, 2, 3, 4, 6, 12)
    """
    small = [each for each in range(1, int(number**0.5) + 1) if number % each == 0]
    large = [number // each for each in reversed(small) if each * each != number]
    return (*small, *large)

"""Settings of imperfect hardware: GPUs that differ, vary or slow down, and weak links."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import Field, NonNegativeInt, model_validator

from simsys.config.base import FrozenModel, invalid, invalid_at
from simsys.units import NonNegativeSeconds, Seconds

Distribution = Literal["lognormal", "gamma"]


class SomeGpus(FrozenModel):
    """GPUs by their numbers in the cluster (`gpus`) or by the numbers of their nodes (`nodes`), from 0."""

    gpus: list[NonNegativeInt] = Field(default_factory=list, description="Numbers of the GPUs in the cluster, from 0")
    nodes: list[NonNegativeInt] = Field(
        default_factory=list, description="Numbers of nodes; all of their GPUs are selected"
    )

    @model_validator(mode="after")
    def _names_something(self) -> Self:
        if not self.gpus and not self.nodes:
            raise invalid("say which GPUs differ: gpus: [3] or nodes: [0]")
        return self


class SomeTime(FrozenModel):
    """A span of simulated time, `from` its beginning (0 by default) `until` its end (never by default)."""

    from_: NonNegativeSeconds = Field(default=0.0, alias="from", description="Beginning in simulated time")
    until: Seconds | None = Field(default=None, description="End in simulated time; never by default")

    @model_validator(mode="after")
    def _ends_after_it_begins(self) -> Self:
        if self.until is not None and self.until <= self.from_:
            message = f"must be later than 'from' ({self.from_:g} s), not {self.until:g} s"
            raise invalid_at(("until",), message, self.until)
        return self


class DeviceException(SomeGpus):
    """GPUs that differ from the rest during the whole run: slower by a `speed` below 1, or of another model."""

    speed: Annotated[float, Field(gt=0, le=100)] = Field(default=1.0, description="Speed relative to the other GPUs")
    gpu: str | dict[str, Any] | None = Field(default=None, description="GPU profile; replaces the GPU of the cluster")

    @model_validator(mode="after")
    def _differs(self) -> Self:
        if self.speed == 1.0 and self.gpu is None:
            raise invalid("say how they differ: speed: 0.8 or gpu: A100")
        return self


class Slowdown(SomeGpus, SomeTime):
    """GPUs that are slow for some time, such as those that throttle.

    Kernels run at `speed`, a share of the usual one. A computation keeps the speed that it began with. Where slowdowns
    of a GPU overlap, their shares multiply. A GPU that stands still is a failure: see ``training.failures``.
    """

    speed: Annotated[float, Field(le=1)] = Field(description="Share of the usual speed")

    @model_validator(mode="after")
    def _is_alive(self) -> Self:
        if self.speed <= 0.0:
            message = (
                f"must be above 0, the share that is left, not {self.speed:g}; for dead GPUs, use training.failures"
            )
            raise invalid_at(("speed",), message, self.speed)
        return self


class Jitter(FrozenModel):
    """Random variation of computation between ranks and between iterations (in serving, steps).

    `compute` is the coefficient of variation: standard deviation over mean. Each rank has a random stream of its own,
    and one factor of mean 1 for all computations of an iteration or step.
    """

    compute: Annotated[float, Field(gt=0, le=2)] = Field(description="Coefficient of variation of computation times")
    distribution: Distribution = Field(default="lognormal", description="Distribution of the random factors")


class LinkSelector(FrozenModel):
    """Links that meet all given conditions: their `kind`, an end in one of `nodes`, their ends by name, their `ids`.

    Kinds, names (``gpu 0 of node 1``, ``leaf 2``) and numbers are as in the report's table of links. `from` and `to`
    name one direction each; with only one of them, all links that leave or enter this vertex are selected.
    """

    kind: str | None = Field(default=None, description="Kind of the links, as in the table of links")
    nodes: list[NonNegativeInt] | None = Field(default=None, description="Nodes at one end of the links")
    from_: str | None = Field(default=None, alias="from", description="Vertex that the links leave")
    to: str | None = Field(default=None, description="Vertex that the links lead to")
    ids: list[NonNegativeInt] | None = Field(default=None, description="Numbers of the links in the table of links")

    @model_validator(mode="after")
    def _selects_something(self) -> Self:
        if all(value is None or value == [] for value in self.__dict__.values()):
            raise invalid("say which links: kind: nic, nodes: [3], from: and to: (names of vertices), or ids: [17]")
        return self


class Degradation(SomeTime):
    """Links that are weak for some time: only a share of their `bandwidth` is left, and latencies are multiplied.

    Where degradations of a link overlap, their factors multiply. With ``contention: fifo`` a transfer keeps the
    bandwidth that a link has when it begins there; with ``fair`` the rates of transfers in flight change.
    """

    links: LinkSelector = Field(description="Which links are weak")
    bandwidth: Annotated[float, Field(le=1)] = Field(default=1.0, description="Share of the bandwidth that is left")
    latency_factor: Annotated[float, Field(ge=1, le=1e6)] = Field(default=1.0, description="Factor of the latency")

    @model_validator(mode="after")
    def _weaker_and_alive(self) -> Self:
        if self.bandwidth <= 0.0:
            raise invalid_at(("bandwidth",), _must_be_left(self.bandwidth, "links"), self.bandwidth)
        if self.bandwidth == 1.0 and self.latency_factor == 1.0:
            raise invalid("say how weak they are: bandwidth: 0.5 (the share that is left) or latency_factor: 3")
        return self


def _must_be_left(share: float, what: str) -> str:
    return f"must be above 0, the share that is left, not {share:g}; for dead {what}, use training.failures"

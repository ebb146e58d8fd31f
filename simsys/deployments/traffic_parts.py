"""Correspondences that load generators share: lengths, numbers of requests, and units."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, ClassVar

from simsys.config.experiment import SimulationConfig
from simsys.deployments.correspondence import Correspondence, InexpressibleError, Options, Settings
from simsys.deployments.deployment import Deployment
from simsys.deployments.shell import command_words, options_of, script
from simsys.deployments.target import EmittedFile, Target

SECTIONS = ("model", "workload")
FILE = "bench.sh"
OUTSIDE = frozenset({"model.assume", "model.sequence_length", "workload.hash_block_size"})
"""Settings of the model and the traffic that a load generator has no option for, and that change no request."""
REASONS = {
    "workload.sessions": "cannot be expressed, as the requests are independent of each other",
    "workload.trace": "cannot be expressed; replay the trace with options of your own",
    "workload.duration": "cannot be expressed; give num_requests instead",
}
LENGTHS = ("prompt_tokens", "output_tokens")


@dataclass(frozen=True)
class Lengths(Correspondence):
    """Tokens of prompts or outputs: a number, or normally distributed ones if the tool has them.

    Args:
        path: The setting.
        mean: The option with the tokens, or their mean.
        std: The option with their standard deviation; empty if lengths can only be fixed.
        low: The option with the fewest tokens, of a tool that takes whole numbers alone; empty if there is none.
        high: The option with the most tokens; empty if there is none.
    """

    path: str
    mean: str
    std: str = ""
    low: str = ""
    high: str = ""

    @property
    def paths(self) -> tuple[str, ...]:
        """The setting."""
        return (self.path,)

    @property
    def options(self) -> tuple[str, ...]:
        """The options that the tool has."""
        return tuple(name for name in (self.mean, self.std, self.low, self.high) if name)

    def write(self, settings: Settings, deployment: Deployment) -> Options:
        """The length, or its distribution."""
        given = settings[self.path]
        if given["kind"] == "fixed":
            return {self.mean: given["tokens"]}
        usual = (given.get("min"), given.get("max")) == (1, 1_000_000)
        if given["kind"] != "normal" or not self.std or not (usual or self.low):
            possible = (
                "a number or {kind: normal}" + ("" if self.low else " without bounds") if self.std else "a number"
            )
            raise InexpressibleError(
                self.path, f"lengths of kind {given['kind']} cannot be expressed; write {possible}"
            )
        bounds = {} if usual else {self.low: given["min"], self.high: given["max"]}
        return {self.mean: self._number(given["mean"]), self.std: self._number(given["std"]), **bounds}

    def _number(self, value: float) -> float:
        """A number, without a fraction if it is whole."""
        if value == int(value):
            return int(value)
        if self.low:
            raise InexpressibleError(
                self.path, f"{value:g} cannot be expressed; the tool takes whole numbers of tokens"
            )
        return value

    def read(self, options: Mapping[str, Any], like: SimulationConfig) -> dict[str, Any]:
        """The length, or its distribution."""
        if not self.std or self.std not in options:
            return {self.path: {"kind": "fixed", "tokens": options[self.mean]}}
        found = {"kind": "normal", "mean": float(options[self.mean]), "std": float(options[self.std])}
        bounds = {key: options[name] for key, name in (("min", self.low), ("max", self.high)) if name in options}
        return {self.path: {**found, **bounds}}


@dataclass(frozen=True)
class Requests(Correspondence):
    """The number of requests, without which a load generator would choose one.

    Args:
        name: The option.
    """

    name: str
    paths: ClassVar[tuple[str, ...]] = ("workload.num_requests",)

    @property
    def options(self) -> tuple[str, ...]:
        """The option."""
        return (self.name,)

    def write(self, settings: Settings, deployment: Deployment) -> Options:
        """The number."""
        if self.paths[0] not in settings:
            raise InexpressibleError(self.paths[0], "cannot be left out; give the number of requests")
        return {self.name: settings[self.paths[0]]}

    def read(self, options: Mapping[str, Any], like: SimulationConfig) -> dict[str, Any]:
        """The number."""
        return {self.paths[0]: options[self.name]}


def load_generator(
    *,
    name: str,
    tool: str,
    releases: Sequence[str],
    sources: Sequence[str],
    table: Sequence[Correspondence],
    command: Sequence[str],
    unmodelled: Options,
    more_sections: Sequence[str] = (),
    pack: Callable[[Options], Options] = dict,
    unpack: Callable[[Options], Options] = dict,
) -> Target:
    """The target of a load generator, which one script starts; the first five arguments are those of `Target`.

    Args:
        name: The name.
        tool: The tool.
        releases: Its releases.
        sources: Where its options are documented.
        table: The correspondences.
        command: The first words of the command.
        unmodelled: Options that every run needs and that no setting corresponds to.
        more_sections: Sections of a scenario that it expresses in addition to model and workload.
        pack: Makes one option of several where the tool has them in one.
        unpack: The inverse of `pack`.
    """

    def render(options: Options, deployment: Deployment) -> list[EmittedFile]:
        about = [f"{tool} {deployment.release}, scenario {deployment.config.name}; written by simsys."]
        about.append("Start the server first.")
        return [EmittedFile(FILE, script(command, {**pack(options), **unmodelled}, about))]

    def parse(files: Mapping[str, str]) -> dict[str, Any]:
        found = options_of(command_words(files[FILE])[len(command) :])
        return unpack({name: value for name, value in found.items() if name not in unmodelled})

    return Target(
        name=name,
        tool=tool,
        kind="serving",
        releases=releases,
        sources=sources,
        table=table,
        render=render,
        parse=parse,
        sections=(*SECTIONS, *more_sections),
        outside=OUTSIDE,
        reasons=REASONS,
    )


def refused_arrivals(kind: str, possible: str) -> InexpressibleError:
    """The error of arrivals that a tool does not have."""
    return InexpressibleError(
        "workload.arrivals", f"arrivals of kind {kind} cannot be expressed; possible: {possible}"
    )


def per_second(rate: float) -> str:
    """A rate as text that is read as the same number."""
    return f"{rate!r} req/s"


def milliseconds(seconds: float) -> str:
    """A time in milliseconds, exactly."""
    return f"{(Decimal(repr(seconds)) * 1000).normalize():f}"

"""What a target is, and the targets by name: the modules of `simsys.deployments.targets`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from pkgutil import iter_modules
from typing import Any, Literal

from simsys.config.experiment import SimulationConfig
from simsys.deployments import targets
from simsys.deployments.correspondence import Correspondence, Options
from simsys.deployments.deployment import Deployment
from simsys.deployments.launch import Launch
from simsys.errors import UnknownNameError, UsageError


@dataclass(frozen=True, slots=True)
class EmittedFile:
    """A file for a tool.

    Args:
        name: Its name.
        text: Its content.
    """

    name: str
    text: str


@dataclass(frozen=True)
class Target:
    """A tool for which files are written.

    Args:
        name: The name on the command line.
        tool: The name of the tool, for people.
        kind: The kind of scenario that it runs.
        releases: The releases for which its options were looked up; the first is written by default. ``0.5`` covers
            ``0.5.3``.
        sources: Pages or files of the tool that state the options.
        table: The correspondences of settings and options.
        render: Makes the files of the options.
        parse: Reads the options of the files.
        sections: The sections of a scenario that it expresses; all others describe the hardware, the traffic or the
            simulation.
        outside: Settings that describe the data or the simulation, not the deployment; nothing expresses them, and
            reading takes them from a given scenario.
        reasons: Why a setting cannot be expressed, by its path, where there is more to say than that there is no
            option.
        engine_releases: Releases of the engine that it runs, for `serving.engine_release`; by default `releases`.
        choose: Returns the target for a scenario, where the table depends on it.
        launch: How people write its command; None if such commands are not read.
    """

    name: str
    tool: str
    kind: Literal["serving", "training"]
    releases: Sequence[str]
    sources: Sequence[str]
    table: Sequence[Correspondence]
    render: Callable[[Options, Deployment], list[EmittedFile]]
    parse: Callable[[Mapping[str, str]], dict[str, Any]]
    sections: Sequence[str]
    outside: frozenset[str] = frozenset()
    reasons: Mapping[str, str] = field(default_factory=dict)
    engine_releases: Sequence[str] = ()
    choose: Callable[[SimulationConfig], Target] | None = None
    launch: Launch | None = None

    def chosen(self, config: SimulationConfig) -> Target:
        """The target for a scenario."""
        return self if self.choose is None else self.choose(config)

    def covers(self, release: str) -> bool:
        """Whether the files are for this release of the tool."""
        return _among(release, self.releases)

    def runs(self, engine_release: str) -> bool:
        """Whether the files are for this release of the engine."""
        return _among(engine_release, self.engine_releases or self.releases)

    def checked_release(self, release: str | None) -> str:
        """The release for which to write.

        Raises:
            UsageError: The files are not for this release.
        """
        if release is not None and not self.covers(release):
            raise UsageError(
                f"the target {self.name} was written for {self.tool} {', '.join(self.releases)}, not for {release}; "
                "leave --release out, and check the options against the documentation of your release"
            )
        return release or self.releases[0]


def _among(release: str, releases: Sequence[str]) -> bool:
    return any(release == known or release.startswith(f"{known}.") for known in releases)


@cache
def _targets() -> dict[str, Target]:
    modules = (import_module(f"{targets.__name__}.{found.name}") for found in iter_modules(targets.__path__))
    return {module.TARGET.name: module.TARGET for module in modules}


def target_names() -> list[str]:
    """The names of all targets, sorted."""
    return sorted(_targets())


def target_of(name: str) -> Target:
    """The target with this name.

    Raises:
        UnknownNameError: There is none.
    """
    known = _targets()
    if name not in known:
        raise UnknownNameError("target", name, known)
    return known[name]

"""Writes the files of a target, and reads them back."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from simsys.config.experiment import SimulationConfig
from simsys.deployments.correspondence import InexpressibleError, Options
from simsys.deployments.deployment import Deployment, deployment_of
from simsys.deployments.settings import settings_of, with_settings
from simsys.deployments.target import EmittedFile, Target, target_of
from simsys.errors import ConfigError, Problem, UsageError


def emit(
    config: SimulationConfig, target: str, *, release: str | None = None, checkpoint: str | None = None
) -> list[EmittedFile]:
    """The files with which a tool runs a scenario.

    Args:
        config: A scenario of training or serving, which should pass `simsys check`.
        target: Name of the tool (`target_names`).
        release: Release of the tool; by default the one for which the target was written.
        checkpoint: Path or Hugging Face id of the weights; by default as the model states.

    Returns:
        The files, with names and content; nothing is written to disk.

    Raises:
        UnknownNameError: There is no such target.
        UsageError: The target is of another kind, or for other releases.
        ConfigError: With every setting that the tool cannot express.
    """
    tool = target_of(target)
    check_kind(tool, config)
    tool = tool.chosen(config)
    written_for = tool.checked_release(release)
    deployment = deployment_of(config, written_for, checkpoint)
    settings = canonical_settings(tool, deployment)
    return tool.render(_options(tool, settings, deployment), deployment)


def read_back(target: str, files: Iterable[EmittedFile], like: SimulationConfig) -> SimulationConfig:
    """The scenario of emitted files.

    Args:
        target: Name of the tool.
        files: Its files, as `emit` returns them.
        like: A scenario that supplies what describes the hardware, the traffic and the simulation.

    Raises:
        UsageError: A file has an option that no setting corresponds to.
    """
    tool = target_of(target).chosen(like)
    options = tool.parse({file.name: file.text for file in files})
    known = {name for each in tool.table for name in each.options}
    unknown = [name for name in options if name not in known]
    if unknown:
        raise UsageError(f"no setting corresponds to {', '.join(unknown)} of {tool.tool}")
    settings: dict[str, Any] = {}
    for each in tool.table:
        settings |= each.read(options, like)
    taken = settings_of(like, tool.sections, as_text=True)
    settings |= {path: value for path, value in taken.items() if path in tool.outside and path not in settings}
    return with_settings(like, tool.sections, settings)


def canonical_settings(tool: Target, deployment: Deployment) -> dict[str, Any]:
    """The settings of a scenario by dotted path, without those that are the tool's default too."""
    settings = settings_of(deployment.config, tool.sections)
    release = settings.get("serving.engine_release")
    if isinstance(release, str) and tool.runs(release):
        del settings["serving.engine_release"]
    usual = [path for path, value in settings.items() if any(each.is_usual(path, value) for each in tool.table)]
    return {path: value for path, value in settings.items() if path not in usual}


def check_kind(tool: Target, config: SimulationConfig) -> None:
    """Refuse a target of another kind.

    Raises:
        UsageError: It is for another kind of scenario, or the scenario has several jobs.
    """
    if config.kind == "jobs":
        raise UsageError(f"{config.name} is a shared cluster; write one of its jobs as a scenario of its own")
    if config.kind != tool.kind:
        raise UsageError(f"{tool.tool} is for {tool.kind}, and {config.name} is {config.kind}")


def _options(tool: Target, settings: Mapping[str, Any], deployment: Deployment) -> Options:
    """The options of all settings.

    Raises:
        ConfigError: With every setting that cannot be expressed.
    """
    options: Options = {}
    problems: list[Problem] = []
    label = f"{tool.tool} {deployment.release}"
    for each in tool.table:
        try:
            options |= each.write(settings, deployment)
        except InexpressibleError as error:
            problems.append(Problem(f"{label}: {error}", error.path))
    problems += [Problem(f"{label}: {reason}", path) for path, reason in _without_option(tool, settings).items()]
    if problems:
        raise ConfigError(problems)
    return options


def _without_option(tool: Target, settings: Mapping[str, Any]) -> dict[str, str]:
    """Reasons by path of settings, or of sections, that no correspondence covers."""
    known = {path for each in tool.table for path in each.paths} | tool.outside
    found: dict[str, str] = {}
    for path in settings:
        if path in known:
            continue
        if path == "serving.engine_release":
            found[path] = f"{settings[path]} cannot be expressed, as the target was written for {_listed(tool)}"
            continue
        place = next((known for known in tool.reasons if f"{path}.".startswith(f"{known}.")), path)
        found[place] = tool.reasons.get(place, "cannot be expressed, as there is no option for it")
    return found


def _listed(tool: Target) -> str:
    return " and ".join(tool.engine_releases or tool.releases)

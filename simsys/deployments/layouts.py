"""The best of several layouts of a scenario, such as the answers of a search, for each of several targets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from simsys.config.experiment import SimulationConfig
from simsys.deployments.correspondence import Fixed
from simsys.deployments.emission import check_kind, emit
from simsys.deployments.target import EmittedFile, Target, target_names, target_of
from simsys.errors import ConfigError, Problem, UsageError

ENGINES = ("serving.engine", "training.engine")


@dataclass(frozen=True)
class EmittedLayout:
    """The files of one layout for one target.

    Args:
        target: Name of the target.
        place: Place of the layout in the list, from 1.
        config: The scenario with the layout.
        files: The files.
    """

    target: str
    place: int
    config: SimulationConfig
    files: Sequence[EmittedFile]


@dataclass(frozen=True)
class InexpressibleLayout:
    """A layout that a target cannot express.

    Args:
        target: Name of the target.
        place: Place of the layout in the list, from 1.
        problems: Each setting that it cannot express, with the reason.
    """

    target: str
    place: int
    problems: Sequence[Problem]


def targets_for(config: SimulationConfig, names: Sequence[str] = ()) -> list[str]:
    """The targets that start the scenario's engine, or send its traffic.

    Args:
        config: The scenario.
        names: The targets that are wanted; all if empty.

    Raises:
        UnknownNameError: There is no such target.
        UsageError: A wanted target is of another kind or starts another engine, or no target starts the engine.
    """
    if names:
        for name in names:
            check_kind(target_of(name), config)
            if wanted := _other_engine(target_of(name), config):
                raise UsageError(f"--for {name}: {_own_engine(config)} cannot be expressed; write {wanted}")
        return list(dict.fromkeys(names))
    tools = [tool for tool in map(target_of, target_names()) if tool.kind == config.kind]
    other = {tool.name: _other_engine(tool, config) for tool in tools}
    starting = [tool for tool in tools if _engine_of(tool, config) is not None]
    if all(other[tool.name] for tool in starting):
        ways = "; ".join(f"{engine} ({', '.join(names)})" for engine, names in _by_engine(other).items())
        raise UsageError(f"no target starts {_own_engine(config)}; write one of: {ways}")
    return [name for name, wanted in other.items() if not wanted]


def emitted_layouts(
    config: SimulationConfig,
    layouts: Sequence[Mapping[str, Any]],
    targets: Sequence[str],
    *,
    number: int = 1,
    checkpoint: str | None = None,
) -> tuple[list[EmittedLayout], list[InexpressibleLayout]]:
    """For each target, the files of the first layouts that it can express.

    Args:
        config: The scenario.
        layouts: The settings of each layout by dotted path, the best layout first.
        targets: Names of the targets.
        number: Largest number of layouts for each target.
        checkpoint: Path or Hugging Face id of the weights; by default as the model states.

    Returns:
        The files, and the layouts before the last written one that a target cannot express.
    """
    plain = config.model_copy(update={"search": None, "sweep": None}).located_in(config.folder)
    configs = [plain.with_(settings) for settings in layouts]
    written: list[EmittedLayout] = []
    refused: list[InexpressibleLayout] = []
    for target in targets:
        left = number
        for place, layout in enumerate(configs, start=1):
            if not left:
                break
            try:
                written.append(EmittedLayout(target, place, layout, emit(layout, target, checkpoint=checkpoint)))
                left -= 1
            except ConfigError as error:
                refused.append(InexpressibleLayout(target, place, error.problems))
    return written, refused


def _by_engine(engines: Mapping[str, str]) -> dict[str, list[str]]:
    """Names of targets by the engine that they need; targets that need no other one are left out."""
    return {engine: [name for name in engines if engines[name] == engine] for engine in engines.values() if engine}


def _engine_of(tool: Target, config: SimulationConfig) -> Fixed | None:
    """The engine that a target starts; None if it only sends traffic."""
    table = tool.chosen(config).table
    return next((each for each in table if isinstance(each, Fixed) and each.path in ENGINES), None)


def _other_engine(tool: Target, config: SimulationConfig) -> str:
    """The engine that a target needs, as text, if the scenario has another one."""
    engine = _engine_of(tool, config)
    if engine is None or f"{engine.path}: {engine.value}" == _own_engine(config):
        return ""
    return f"{engine.path}: {engine.value}"


def _own_engine(config: SimulationConfig) -> str:
    part = config.training if config.training is not None else config.serving
    assert part is not None  # a target is for training or serving
    return f"{config.kind}.engine: {part.engine}"

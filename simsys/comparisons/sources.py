"""From what users name to the sides of a comparison."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple, TypeAlias

from simsys.check import sound
from simsys.comparisons.bench import read_bench
from simsys.comparisons.folder import read_folder
from simsys.comparisons.side import Side
from simsys.config.experiment import SimulationConfig
from simsys.errors import InfeasibleError, UsageError
from simsys.input_files import parse_json, read_text
from simsys.report.outcome import ScenarioPlan, plan_scenarios


class Change(NamedTuple):
    """A scenario with some settings changed.

    Args:
        source: Its file, ``FILE`` or ``FILE:SCENARIO``.
        assignments: Changed settings, such as ``hardware.gpu=H200-SXM``.
    """

    source: str
    assignments: Sequence[str]


Source: TypeAlias = str | Path | SimulationConfig | Change
"""A scenario, its file (``FILE`` or ``FILE:SCENARIO``), a folder of results, a result of ``vllm bench serve``, or a
changed scenario."""
SECTIONS = ("scenarios", "defaults", "hardware", "model", "training", "serving")
"""Keys by which a JSON file is an experiment."""


def read_sides(sources: Sequence[Source], limit_s: float = math.inf) -> list[Side]:
    """Read and check the sides of a comparison; nothing is simulated.

    Args:
        sources: What is compared; a file with several scenarios is as many sides.
        limit_s: Limit of the estimated processor time of a scenario.

    Raises:
        UsageError: Less than two sides, sides of different kinds, or a file or folder that cannot be read.
        ConfigError: With every problem of a file of scenarios.
        InfeasibleError: A scenario does not fit its hardware.
    """
    sides = _uniquely_labelled([side for source in sources for side in sides_of(source, limit_s)])
    if len(sides) < 2:
        raise UsageError("a comparison needs at least two scenarios, folders of results, or measurements")
    kinds = {side.kind: side for side in reversed(sides)}
    if len(kinds) > 1:
        listed = ", ".join(f"{side.label} is {kind}" for kind, side in reversed(kinds.items()))
        raise UsageError(f"only results of one kind can be compared: {listed}; FILE:SCENARIO is one of a file")
    return sides


def sides_of(source: Source, limit_s: float = math.inf) -> list[Side]:
    """What a source names: a scenario, the scenarios of a file, the results of a run, or a measurement.

    Args:
        source: The source.
        limit_s: Limit of the estimated processor time of a scenario.

    Raises:
        UsageError: If it cannot be read.
        ConfigError: With every problem of a file of scenarios.
        InfeasibleError: A scenario does not fit its hardware.
    """
    if isinstance(source, SimulationConfig):
        return [_scenario(ScenarioPlan(source, sound(source)), source.name)]
    if isinstance(source, Change):
        return _changed(source, limit_s)
    path, name = _place(str(source))
    if path.is_dir():
        return [read_folder(path)]
    if _is_json_result(path):
        return [read_bench(path)]
    plans = plan_scenarios(path, (), [name] if name else (), limit_s)
    return [_scenario(plan, f"{path}:{plan.name}") for plan in plans]


def _changed(change: Change, limit_s: float) -> list[Side]:
    """The scenarios of a file with settings changed; their labels are the changes."""
    path, name = _place(change.source)
    text = ", ".join(change.assignments)
    if path.is_dir() or _is_json_result(path):
        raise UsageError(f"{text}: {change.source} is no scenario file, so its settings cannot change")
    plans = plan_scenarios(path, change.assignments, [name] if name else (), limit_s)
    sides = [_scenario(plan, f"{path}:{plan.name}") for plan in plans]
    return [replace(side, label=text if len(sides) == 1 else f"{side.label}, {text}") for side in sides]


def _scenario(plan: ScenarioPlan, source: str) -> Side:
    if plan.shortage is not None:
        raise InfeasibleError(f"{source}: {plan.shortage.in_one_line}")
    return Side(plan.name, plan.config.kind, "scenario", source, plan.config, plan=plan)


def _place(text: str) -> tuple[Path, str]:
    """Return the path, and the scenario's name after a colon; empty if there is none.

    Raises:
        UsageError: There is no such file or folder.
    """
    path = Path(text)
    if path.exists():
        return path, ""
    file, colon, name = text.rpartition(":")
    if colon and name and Path(file).is_file():
        return Path(file), name
    raise UsageError(
        f"{file if colon else text}: no such file or folder; "
        "give FILE, FILE:SCENARIO, a folder that simsys run has written, or a result of vllm bench serve"
    )


def _is_json_result(path: Path) -> bool:
    """Whether a file is JSON without the sections of an experiment."""
    if path.suffix != ".json":
        return False
    try:
        found = parse_json(read_text(path))
    except (OSError, ValueError):
        return True  # its reader has the message
    return not (isinstance(found, dict) and any(section in found for section in SECTIONS))


def _uniquely_labelled(sides: Sequence[Side]) -> list[Side]:
    """Return the sides with unique labels: their sources where names are equal, then numbers."""
    for choose in (lambda side, _: side.source, lambda side, number: f"{side.label} #{number}"):
        count = Counter(side.label for side in sides)
        sides = [
            replace(side, label=choose(side, number)) if count[side.label] > 1 else side
            for number, side in enumerate(sides, 1)
        ]
    return list(sides)

"""The points of a sweep with their keys: digests of everything that a result depends on."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from simsys.build.profiles import profiles_of
from simsys.config.conditions import parse_condition
from simsys.config.experiment import SimulationConfig
from simsys.config.hardware import profile_files
from simsys.config.loader import validate
from simsys.config.validation import problem_at
from simsys.data import data_folders
from simsys.errors import ConfigError, SimsysError, UsageError
from simsys.sweeps.names import Names, holds
from simsys.sweeps.plan import SECTION, SEED, SweepPlan, with_settings
from simsys.sweeps.space import combinations
from simsys.version import __version__

_encode = json.JSONEncoder(sort_keys=True, separators=(",", ":"), default=str).encode
DIGITS = 32
"""Hexadecimal digits of a key: 128 bits."""
_FILES = (("workload", "trace"), ("workload", "trace", "path"), ("model", "huggingface"), ("network", "edges_file"))


@dataclass(frozen=True, slots=True)
class Point:
    """One run of a sweep.

    Args:
        position: Its place among the points, from 0.
        values: The values of the settings that vary, in the order of the plan's paths.
        seed: Its seed; None if there are no repeats.
        key: Digest of the settings, simsys' version, the profiles and files that they name, and the seed.
    """

    position: int
    values: tuple[Any, ...]
    seed: int | None
    key: str


def points_of(plan: SweepPlan) -> list[Point]:
    """The points of a sweep at which its conditions hold, in order; the repeats of a point follow each other.

    Raises:
        ConfigError: If a condition cannot be evaluated, or no point meets all of them.
    """
    try:
        found = list(_numbered(plan))
    except UsageError as error:
        raise ConfigError([problem_at(plan.source, (SECTION, "where"), str(error))]) from None
    if not found:
        message = f"no point meets the conditions: all {plan.config.count:,} are left out"
        raise ConfigError([problem_at(plan.source, (SECTION, "where"), message)])
    return found


def changes(plan: SweepPlan, point: Point) -> dict[str, Any]:
    """All settings of a point that differ from the scenario, with its seed, by path."""
    values = dict(zip(plan.paths, point.values, strict=True))
    return values if point.seed is None else {**values, SEED: point.seed}


def _numbered(plan: SweepPlan) -> Iterator[Point]:
    conditions = [parse_condition(text) for text in plan.config.conditions]
    names, keys, paths, position = Names(plan, conditions), Keys(plan.folder), plan.paths, 0
    seed = plan.first.simulation.seed
    seeds: Sequence[int | None] = range(seed, seed + plan.config.repeats) if plan.config.repeats > 1 else [None]
    for values in combinations(plan.axes):
        by_path = dict(zip(paths, values, strict=True))
        if conditions and not holds(conditions, names, by_path):
            continue
        data = plan.data(by_path)
        for each in seeds:
            seeded = data if each is None else with_settings(data, {SEED: each})
            yield Point(position, values, each, keys.of(seeded))
            position += 1


class Keys:
    """Makes the keys of scenarios.

    Args:
        folder: The folder from which relative paths start.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._models = _models_digest()
        self._profiles: dict[str, str] = {}
        self._of_files: dict[str, str] = {}

    def of(self, data: Mapping[str, Any]) -> str:
        """The key of a scenario.

        Args:
            data: Its settings before validation, without a section ``sweep``. Its name and description do not count.
        """
        counted = {name: value for name, value in data.items() if name not in ("name", "description")}
        files = [self._file(name) for name in _files(data)]
        parts = [__version__, self._models, self._profiles_digest(data), files, counted]
        return _digest(parts)

    def _file(self, name: str) -> str:
        """Digest of a file that a scenario names, read once."""
        if name not in self._of_files:
            self._of_files[name] = _digest_of(self._folder / Path(name).expanduser())
        return self._of_files[name]

    def _profiles_digest(self, data: Mapping[str, Any]) -> str:
        """Digest of the files of all profiles that a scenario names; of no file if the scenario is not valid."""
        engines = [data[name].get("engine") for name in ("training", "serving") if isinstance(data.get(name), Mapping)]
        named = canonical([data.get("hardware"), data.get("jobs"), engines])
        if named not in self._profiles:
            try:
                config = validate(data, SimulationConfig).located_in(self._folder)
                files = [
                    str(file)
                    for kind, given in profiles_of(config)
                    for file in profile_files(kind, given, config.profile_folders)
                ]
            except SimsysError:  # the reason is in the point's row
                files = []
            self._profiles[named] = _digest([_digest_of(Path(file)) for file in files])
        return self._profiles[named]


def canonical(data: Any) -> str:
    """JSON text that is equal for equal data."""
    return _encode(data)


def _files(data: Mapping[str, Any]) -> Iterator[str]:
    """Paths of the files that a scenario and its jobs name."""
    jobs = data.get("jobs")
    for part in (data, *(jobs if isinstance(jobs, list) else ())):
        for way in _FILES:
            inner: Any = part
            for key in way:
                inner = inner.get(key) if isinstance(inner, Mapping) else None
            if isinstance(inner, str):
                yield inner


def _digest_of(path: Path) -> str:
    """Digest of a file's content, or of the files right in a folder; empty if it cannot be read."""
    try:
        files = sorted(each for each in path.iterdir() if each.suffix == ".json") if path.is_dir() else [path]
        found = sha256()
        for file in files:
            found.update(file.read_bytes())
        return found.hexdigest()[:DIGITS]
    except OSError:
        return ""


def _models_digest() -> str:
    """Digest of the model DBs."""
    return _digest([_digest_of(folder) for folder in data_folders("model_db")])


def _digest(data: Any) -> str:
    """Digest of data."""
    return sha256(canonical(data).encode()).hexdigest()[:DIGITS]

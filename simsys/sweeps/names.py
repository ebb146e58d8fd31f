"""Values of settings by name, for conditions: ``tp_degree`` is ``parallelism.tp_degree``."""

from __future__ import annotations

import json
from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import Any

from pydantic import BaseModel

from simsys.build.sizes import num_gpus_of
from simsys.config.conditions import Condition
from simsys.config.experiment import SimulationConfig
from simsys.config.loader import validate
from simsys.errors import ConfigError, UsageError, did_you_mean
from simsys.sweeps.plan import SweepPlan

NUM_GPUS = "num_gpus"
"""The GPUs of the whole cluster, which no setting gives alone."""
_CLUSTER = ("hardware", "training.num_nodes")


def leaves(part: BaseModel, path: str = "") -> Iterator[tuple[str, Any]]:
    """All settings of a validated scenario by path, with sections before their parts."""
    for name in type(part).model_fields:
        value, here = getattr(part, name), f"{path}.{name}".removeprefix(".")
        yield here, value
        if isinstance(value, BaseModel):
            yield from leaves(value, here)


class Names:
    """Finds the values of names at the points of a sweep.

    A value is the validated one: a quantity is a number in base units. Values are looked up once for each value of the
    settings that they depend on.

    Args:
        plan: The sweep.
        conditions: Its conditions.

    Raises:
        UsageError: If a condition has an unknown or ambiguous name.
    """

    def __init__(self, plan: SweepPlan, conditions: Sequence[Condition]) -> None:
        self._plan = plan
        self._paths = {name: self._path(name, each.text) for each in conditions for name in each.names}
        self._needs = {name: self._needed(path) for name, path in self._paths.items()}
        self._known: dict[Hashable, Any] = {}

    def value(self, name: str, values: Mapping[str, Any]) -> Any:
        """The value of a name at a point.

        Args:
            name: A name in a condition.
            values: The values of the settings that vary, by path.

        Raises:
            UsageError: If the setting has no value at this point.
        """
        needed = [values[path] for path in self._needs[name]]
        key = name, *map(_distinct, needed)
        if key not in self._known:
            self._known[key] = self._found(name, dict(zip(self._needs[name], needed, strict=True)))
        found = self._known[key]
        if found is None:
            raise UsageError(f"{self._paths[name]} has no value at the point {dict(values)}")
        return found

    def _found(self, name: str, needed: Mapping[str, Any]) -> Any:
        config = self._config(needed)
        if self._paths[name] == NUM_GPUS:
            return num_gpus_of(config.hardware, config.profile_folders)
        return dict(leaves(config)).get(self._paths[name])

    def _config(self, needed: Mapping[str, Any]) -> SimulationConfig:
        """The scenario of the first point with other values of some settings."""
        firsts = {
            path: value for axis in self._plan.axes for path, value in zip(axis.paths, axis.rows[0], strict=True)
        }
        data = self._plan.data({**firsts, **needed})
        try:
            return validate(data, SimulationConfig).located_in(self._plan.folder)
        except ConfigError as error:
            raise UsageError(f"sweep.where cannot be evaluated at {dict(needed)}: {error}") from None

    def _path(self, name: str, text: str) -> str:
        """The path that a name means."""
        known = [path for path, value in leaves(self._plan.first) if not isinstance(value, BaseModel)]
        known = list(dict.fromkeys([*self._plan.paths, *known]))
        found = [path for path in known if path == name or path.rpartition(".")[2] == name]
        varied = [path for path in found if path in self._plan.paths]
        if name in found:
            return name
        if name == NUM_GPUS:
            return NUM_GPUS
        if len(varied) == 1 or len(found) == 1:
            return (varied or found)[0]
        if found:
            raise UsageError(f"{name!r} in {text!r} may be {' or '.join(found)}; write the whole path")
        names = [*(path.rpartition(".")[2] for path in known), NUM_GPUS]
        raise UsageError(f"{text!r}: unknown setting {name!r}{did_you_mean(name, names)}")

    def _needed(self, path: str) -> list[str]:
        """The settings that vary on which a value depends."""
        if path == NUM_GPUS:
            return [each for each in self._plan.paths if f"{each}.".startswith(tuple(f"{part}." for part in _CLUSTER))]
        return [each for each in self._plan.paths if f"{path}.".startswith(f"{each}.")]


def _distinct(value: Any) -> Hashable:
    """A key that is equal for equal values of one type; 1, 1.0 and true are three values."""
    if isinstance(value, bool | int | float | str):
        return type(value), value
    return json.dumps(value, sort_keys=True, default=str)


def holds(conditions: Sequence[Condition], names: Names, values: Mapping[str, Any]) -> bool:
    """Whether all conditions hold at a point.

    Raises:
        UsageError: If one cannot be evaluated.
        SimsysError: If the number of GPUs is needed and there is no such node profile.
    """
    return all(each.holds(lambda name: names.value(name, values)) for each in conditions)

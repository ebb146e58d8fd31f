"""The section ``sweep`` of an experiment: which settings vary, and how."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import AfterValidator, BeforeValidator, Field, NonNegativeInt, PositiveInt, model_validator

from simsys.config.base import FrozenModel, invalid, invalid_at
from simsys.config.conditions import parse_condition
from simsys.config.error_text import shown
from simsys.config.ranges import count_of, is_range, parse_range
from simsys.errors import UsageError

MOST_REPEATS = 1000
MOST_POINTS = 1_000_000
"""Most points of a sweep, before its conditions."""


def _values(given: Any) -> Any:
    if isinstance(given, list):
        if not given:
            raise invalid("the list has no values")
        for each in given:
            _check_range(each)
    elif isinstance(given, str) and ".." in given:
        _parse_range(given)
    else:
        message = f"write a list of values or a range (1..64 x2), not {shown(given)}"
        raise invalid(f"{message}; a single value is a list of one")
    return given


def _check_range(value: object) -> None:
    if is_range(value):
        _parse_range(str(value))


def _parse_range(text: str) -> None:
    try:
        found = parse_range(text)
    except UsageError as error:
        raise invalid(str(error)) from None
    if found.is_log:
        raise invalid(
            f"{text!r} is an interval to draw from, which belongs to sweep.sample.over; {'1..64 x2'!r} lists"
        )


def _intervals(given: Any) -> Any:
    if isinstance(given, str) and ".." in given:
        try:
            parse_range(given)
        except UsageError as error:
            raise invalid(str(error)) from None
        return given
    return _values(given)


def _path(given: str) -> str:
    if not all(part.strip() == part and part for part in given.split(".")):
        raise invalid(f"{given!r} is not the path of a setting; write e.g. parallelism.tp_degree")
    if given.split(".")[0] in ("sweep", "name"):
        raise invalid(f"{given.split('.')[0]} cannot vary")
    return given


def _conditions(given: Any) -> Any:
    return [given] if isinstance(given, str) else given


def _condition(given: str) -> str:
    try:
        parse_condition(given)
    except UsageError as error:
        raise invalid(str(error)) from None
    return given


SettingPath = Annotated[str, AfterValidator(_path)]
Values = Annotated[
    Annotated[list[Any], Field(min_length=1)] | str,
    BeforeValidator(_values),
]
Intervals = Annotated[Annotated[list[Any], Field(min_length=1)] | str, BeforeValidator(_intervals)]
Conditions = Annotated[
    list[Annotated[str, AfterValidator(_condition)]] | str,
    BeforeValidator(_conditions),
]


class SampleConfig(FrozenModel):
    """Points that are drawn. Each setting has a list, a range with steps, or an interval: ``1..64`` or ``1..64 log``.

    Intervals of whole numbers without a unit give whole numbers. ``random`` draws each point alone;
    ``latin_hypercube`` draws one value from each of as many equal parts of every interval as there are points.
    """

    kind: Literal["random", "latin_hypercube"] = Field(
        default="latin_hypercube", description="How points are drawn: independently, or as a Latin hypercube"
    )
    points: Annotated[PositiveInt, Field(le=MOST_POINTS)] = Field(description="Number of points")
    seed: NonNegativeInt = Field(default=0, description="Seed of the points")
    over: Annotated[dict[SettingPath, Intervals], Field(min_length=1)] = Field(
        description="Intervals, ranges or lists by the path of a setting"
    )


class SweepConfig(FrozenModel):
    """Points of a sweep: the product of `over`, of the columns in `zip`, and of `sample`, where `where` holds.

    Every key is the path of a setting of the scenario, such as ``parallelism.tp_degree``. Values are a list or a
    range: ``1..64 x2`` is 1, 2, 4 … 64, ``1..64 +8`` is 1, 9 … 57, and ``1..4`` is 1, 2, 3, 4.
    """

    other_names: ClassVar[Mapping[str, str]] = {"grid": "over", "samples": "sample", "seeds": "repeats"}

    over: dict[SettingPath, Values] = Field(
        default={}, description="Values by the path of a setting; all combinations are simulated"
    )
    zip: list[Annotated[dict[SettingPath, Values], Field(min_length=2)]] = Field(
        default=[], description="Groups of settings that vary together: the first values, the second values and so on"
    )
    sample: SampleConfig | None = Field(default=None, description="Points that are drawn")
    where: Conditions = Field(
        default=[],
        description="Conditions that a point has to meet, such as tp_degree * pp_stages <= num_gpus",
    )
    repeats: Annotated[PositiveInt, Field(le=MOST_REPEATS)] = Field(
        default=1, description="Runs of each point with consecutive seeds, for confidence intervals"
    )
    metrics: list[str] = Field(
        default=[], description="Metrics of the table; by default the headline of the scenario. simsys list metrics"
    )

    @property
    def conditions(self) -> list[str]:
        """The conditions, also if only one is given."""
        return [self.where] if isinstance(self.where, str) else list(self.where)

    @property
    def paths(self) -> list[str]:
        """The paths of all settings that vary, in the order of the columns of a table."""
        groups = [self.over, *self.zip, *([self.sample.over] if self.sample is not None else [])]
        return [path for group in groups for path in group]

    @property
    def count(self) -> int:
        """The number of points, repeats included, before the conditions; nothing is expanded."""
        counts = [count_of(values) for values in self.over.values()]
        counts += [count_of(next(iter(group.values()))) for group in self.zip]
        counts += [self.sample.points] if self.sample is not None else []
        return math.prod(counts) * self.repeats

    @model_validator(mode="after")
    def _as_long(self) -> Self:
        for index, group in enumerate(self.zip):
            lengths = {path: count_of(values) for path, values in group.items()}
            if len(set(lengths.values())) > 1:
                text = ", ".join(f"{path} has {length}" for path, length in lengths.items())
                raise invalid_at(
                    ("zip", index), f"settings that vary together need equal numbers of values: {text}", group
                )
        return self

    @model_validator(mode="after")
    def _not_too_many(self) -> Self:
        if self.count > MOST_POINTS:
            raise invalid(
                f"the sweep has {self.count:,} points, at most {MOST_POINTS:,} are allowed; use sample: to draw some"
            )
        return self

    @model_validator(mode="after")
    def _each_setting_once(self) -> Self:
        drawn = {} if self.sample is None else self.sample.over
        groups: list[tuple[tuple[str | int, ...], Mapping[str, Any]]] = [(("over",), self.over)]
        groups += [(("zip", index), group) for index, group in enumerate(self.zip)]
        groups += [(("sample", "over"), drawn)]
        seen: dict[str, None] = {}
        for place, group in groups:
            for path, values in group.items():
                self._check_apart(path, (*place, path), seen, values)
                seen[path] = None
        if not seen:
            raise invalid("nothing varies; give over, zip or sample")
        return self

    def _check_apart(self, path: str, place: tuple[str | int, ...], seen: Mapping[str, None], values: Any) -> None:
        """Refuse a setting that varies twice, or inside a section that varies."""
        for other in seen:
            if path == other:
                raise invalid_at(place, f"{path} varies twice", values)
            if f"{path}.".startswith(f"{other}.") or f"{other}.".startswith(f"{path}."):
                raise invalid_at(place, f"{path} and {other} vary, but one contains the other", values)
        if path == "simulation.seed" and self.repeats > 1:
            raise invalid_at(place, "repeats vary the seed; give either repeats or simulation.seed", values)

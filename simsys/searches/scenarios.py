"""The scenarios of a search: one for every combination of the settings without an axis of their own."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from itertools import product
from math import prod
from typing import Any

from simsys.config.experiment import SimulationConfig
from simsys.config.search import SearchConfig
from simsys.errors import ConfigError, UsageError, did_you_mean

AUTO = "auto"
OTHERS = "others"
"""The key of all settings of a layout or deployment that are neither written nor named in the question."""
SECTIONS = (
    *("hardware", "network", "model", "parallelism", "training", "serving", "workload", "slo"),
    *("economics", "simulation"),
)


def outer_settings(asked: SearchConfig, keys: Collection[str], follows: Mapping[str, str]) -> dict[str, list[Any]]:
    """The settings that vary and have no axis of their own, with their values.

    Args:
        asked: The question.
        keys: The settings with an axis.
        follows: Settings that cannot vary, with the reason.

    Raises:
        UsageError: If a setting cannot vary, or has no values.
    """
    if asked.over == AUTO or isinstance(asked.over, str):
        return {}
    found: dict[str, list[Any]] = {}
    for key, values in asked.over.items():
        if key in follows:
            raise UsageError(f"search.over: {key} cannot vary: {follows[key]}")
        if key in keys:
            continue
        if key.partition(".")[0] not in SECTIONS or "." not in key:
            raise UsageError(
                f"search.over: unknown setting {key!r}{did_you_mean(key, [*keys, 'hardware.gpu', OTHERS])}"
            )
        if isinstance(values, str):
            have = ", ".join(each for each in keys if each not in follows)
            raise UsageError(f"search.over: {key}: list the values of this setting; 'auto' finds those of {have}")
        found[key] = list(values)
    return found


def is_written(config: SimulationConfig, key: str) -> bool:
    """Whether the scenario writes a setting."""
    section, _, name = key.partition(".")
    return name in getattr(config, section).model_fields_set


def count_of(outer: Mapping[str, list[Any]]) -> int:
    """Number of scenarios."""
    return prod(map(len, outer.values()))


def scenarios(config: SimulationConfig, outer: Mapping[str, list[Any]]) -> Iterator[tuple[dict[str, Any], Any]]:
    """The scenarios with their settings, without a section ``search``.

    Raises:
        UsageError: If a value is not valid.
    """
    plain = config.model_copy(update={"search": None}).located_in(config.folder)
    for values in product(*outer.values()):
        settings = dict(zip(outer, values, strict=True))
        yield settings, with_settings(plain, settings) if settings else plain


def with_settings(config: SimulationConfig, settings: Mapping[str, Any]) -> SimulationConfig:
    """A validated copy of a scenario with some settings changed.

    Raises:
        UsageError: If a setting is unknown or a value is not valid.
    """
    try:
        return config.with_(settings)
    except ConfigError as error:
        changes = ", ".join(f"{path}: {value}" for path, value in settings.items())
        raise UsageError(f"search.over: {changes}: {error.problems[0]}") from None


def by_section(settings: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Settings by section and key.

    Example:
        >>> by_section({"parallelism.tp_degree": 4})
        {'parallelism': {'tp_degree': 4}}
    """
    found: dict[str, dict[str, Any]] = {}
    for path, value in settings.items():
        section, _, key = path.partition(".")
        found.setdefault(section, {})[key] = value
    return found

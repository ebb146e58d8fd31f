"""A scenario as settings by dotted path, without those that have their default, and back."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from pydantic import BaseModel

from simsys.config.experiment import SimulationConfig
from simsys.deployments.nesting import nested


def settings_of(config: SimulationConfig, sections: Iterable[str], *, as_text: bool = False) -> dict[str, Any]:
    """The settings of a scenario that differ from their defaults, by dotted path.

    Args:
        config: The scenario.
        sections: Sections of the scenario, such as ``serving``; a section that it does not have is skipped.
        as_text: Whether quantities are text with units, as in an experiment file, instead of numbers.
    """
    found: dict[str, Any] = {}
    for section in sections:
        part = getattr(config, section)
        if part is not None:
            found |= _changed(part, part.model_dump(mode="json") if as_text else None, section)
    return found


def _changed(part: BaseModel, texts: Mapping[str, Any] | None, path: str) -> Iterator[tuple[str, Any]]:
    for name, field in type(part).model_fields.items():
        value, here = getattr(part, name), f"{path}.{name}"
        text = value if texts is None else texts[name]
        if isinstance(value, BaseModel) and "kind" in type(value).model_fields:
            yield here, text if texts is not None else value.model_dump()
        elif isinstance(value, BaseModel):
            inner = list(_changed(value, None if texts is None else text, here))
            yield from inner or [(here, {})]
        elif isinstance(value, dict):
            yield from ((f"{here}.{key}", each) for key, each in text.items())
        elif field.is_required() or value != field.get_default(call_default_factory=True):
            yield here, text


def with_settings(config: SimulationConfig, sections: Iterable[str], settings: Mapping[str, Any]) -> SimulationConfig:
    """The scenario with these settings alone in some sections.

    Args:
        config: The scenario that supplies all other sections.
        sections: The sections.
        settings: Values by dotted path, as in an experiment file.

    Raises:
        pydantic.ValidationError: A value does not fit the schema.
    """
    data = nested(settings)
    parts = {
        section: type(part).model_validate(data.get(section, {}))
        for section in sections
        if (part := getattr(config, section)) is not None
    }
    return config.model_copy(update=parts)

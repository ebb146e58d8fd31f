"""Copies of a scenario with other settings."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

from pydantic import BaseModel

from simsys.config.base import FrozenModel
from simsys.config.places import key_path
from simsys.config.setting import with_setting
from simsys.config.validation import validate

LONGEST = 800
"""Characters of a scenario that Python prints: ten lines."""


class Changeable(FrozenModel, ABC):
    """A scenario, of which copies with other settings can be made."""

    def with_(self, settings: Mapping[str, Any] | None = None, **sections: Any) -> Self:
        """A copy with other settings, validated as a file is.

        Args:
            settings: Values as in a file, by path: ``{"parallelism.tp_degree": 4, "slo.ttft": "500 ms"}``.
            **sections: Settings of a section, of which the others stay: ``training={"batch_size_per_gpu": 8}``; a
                whole section: ``training=TrainingConfig(...)``; or a setting outside of sections: ``name="other"``.

        Raises:
            ConfigError: If a setting does not exist or has a wrong value.
            UsageError: If a path leads through a value.
        """
        data = self.model_dump(mode="json", exclude_unset=True, by_alias=True)
        for path, value in {**(settings or {}), **_by_path(sections)}.items():
            data = with_setting(data, key_path(path), value, path)
        return validate(data, type(self)).located_in(self.folder)

    def __repr__(self) -> str:
        text = super().__repr__()
        return text if len(text) <= LONGEST else f"{text[: LONGEST - 2]}…)"

    def __str__(self) -> str:
        return repr(self)

    @property
    @abstractmethod
    def folder(self) -> Path:
        """The folder from which relative paths in the scenario start."""

    @abstractmethod
    def located_in(self, folder: Path) -> Self:
        """This scenario with relative paths that start from `folder`."""


def _by_path(sections: Mapping[str, Any]) -> dict[str, Any]:
    """Settings of sections by path; a section itself, and what is no section, as it is."""
    found: dict[str, Any] = {}
    for name, value in sections.items():
        if isinstance(value, Mapping) and value:
            found |= {f"{name}.{key}": each for key, each in value.items()}
        else:
            found[name] = value.model_dump(mode="json", exclude_unset=True) if isinstance(value, BaseModel) else value
    return found

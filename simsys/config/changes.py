"""Copies of a scenario with other settings."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

from simsys.config.base import FrozenModel
from simsys.config.places import key_path
from simsys.config.setting import with_setting
from simsys.config.validation import validate


class Changeable(FrozenModel, ABC):
    """A scenario, of which copies with other settings can be made."""

    def with_(self, settings: Mapping[str, Any]) -> Self:
        """A copy with other settings, validated as a file is.

        Args:
            settings: Values as in a file, by path: ``{"parallelism.tp_degree": 4, "slo.ttft": "500 ms"}``.

        Raises:
            ConfigError: If a setting does not exist or has a wrong value.
            UsageError: If a path leads through a value.
        """
        data = self.model_dump(mode="json", exclude_unset=True, by_alias=True)
        for path, value in settings.items():
            data = with_setting(data, key_path(path), value, path)
        return validate(data, type(self)).located_in(self.folder)

    @property
    @abstractmethod
    def folder(self) -> Path:
        """The folder from which relative paths in the scenario start."""

    @abstractmethod
    def located_in(self, folder: Path) -> Self:
        """This scenario with relative paths that start from `folder`."""

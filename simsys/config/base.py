"""The bases of configuration models and of classes that have one."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class FrozenModel(BaseModel):
    """Settings: immutable, and an unknown key is an error."""

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True, protected_namespaces=())


class Configurable:
    """A class with settings of its own: a nested ``Options`` model, filled from the experiment file."""

    class Options(FrozenModel):
        """Settings; none by default."""

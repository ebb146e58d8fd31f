"""The bases of configuration models and of classes that have one."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic_core import InitErrorDetails, PydanticCustomError

CommunicationPattern = Annotated[str, Field(min_length=1)]
"""``auto``, a collective algorithm by name, or one of the user's own as ``package.module:Class``."""


class FrozenModel(BaseModel):
    """Settings: immutable, and an unknown key is an error."""

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True, protected_namespaces=())


class Configurable:
    """A class with settings of its own: a nested ``Options`` model, filled from the experiment file."""

    class Options(FrozenModel):
        """Settings; none by default."""


def invalid(message: str) -> PydanticCustomError:
    """The error of a validator: what is wrong, in words."""
    return PydanticCustomError("invalid", "{message}", {"message": message})


def invalid_at(path: tuple[str | int, ...], message: str, value: Any) -> ValidationError:
    """The error of a validator about a value further inside, at `path` from what it validates."""
    return ValidationError.from_exception_data(
        "settings", [InitErrorDetails(type=invalid(message), loc=path, input=value)]
    )

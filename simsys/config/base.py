"""The bases of configuration models and of classes that have one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType, UnionType
from typing import Annotated, Any, ClassVar, Union, get_args, get_origin

from pydantic import BaseModel, ConfigDict, Field, ValidationError, ValidationInfo, field_validator
from pydantic_core import InitErrorDetails, PydanticCustomError

from simsys.units import Quantity

CommunicationPattern = Annotated[str, Field(min_length=1)]
"""``auto``, a collective algorithm by name, or one of the user's own as ``package.module:Class``."""


class FrozenModel(BaseModel):
    """Base of all settings: immutable, and an unknown key is an error.

    `other_names` maps keys of other programs, such as Megatron-LM, to the keys of simsys; messages suggest these.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True, protected_namespaces=())
    other_names: ClassVar[Mapping[str, str]] = MappingProxyType({})

    def __repr_args__(self) -> Iterator[tuple[str | None, Any]]:
        """The settings that are given; all others have their defaults."""
        return ((name, value) for name, value in super().__repr_args__() if name in self.model_fields_set)

    @field_validator("*", mode="before")
    @classmethod
    def _true_is_no_number(cls, value: Any, info: ValidationInfo) -> Any:
        if isinstance(value, bool) and info.field_name is not None:
            field = cls.model_fields[info.field_name]
            kinds = set(_kinds(Annotated[field.annotation, *field.metadata] if field.metadata else field.annotation))
            if kinds & {int, float} and bool not in kinds:
                raise invalid(f"a number is needed, not {str(value).lower()}")
        return value


def _kinds(annotation: Any) -> Iterator[Any]:
    """The types that a setting may have. Types of quantities write their own error messages."""
    if get_origin(annotation) is Annotated:
        kind, *metadata = get_args(annotation)
        if not any(isinstance(each, Quantity) for each in metadata):
            yield from _kinds(kind)
    elif get_origin(annotation) in (Union, UnionType):
        for kind in get_args(annotation):
            yield from _kinds(kind)
    else:
        yield annotation


class Configurable:
    """A class with settings of its own: a nested ``Options`` model, filled from the experiment file."""

    class Options(FrozenModel):
        """Settings; none by default."""


def invalid(message: str) -> PydanticCustomError:
    """The error of a validator, with a message for people."""
    return PydanticCustomError("invalid", "{message}", {"message": message})


def invalid_at(path: tuple[str | int, ...], message: str, value: Any) -> ValidationError:
    """The error of a validator about a nested value; `path` is relative to the validated value."""
    return ValidationError.from_exception_data(
        "settings", [InitErrorDetails(type=invalid(message), loc=path, input=value)]
    )

"""Settings of several kinds: mappings in which ``kind`` selects one of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, get_args

from pydantic import BaseModel, ConfigDict, Field

from simsys.config.base import invalid
from simsys.errors import did_you_mean
from simsys.units import LARGEST

PositiveFloat = Annotated[float, Field(strict=True, gt=0, le=LARGEST, allow_inf_nan=False)]
"""A number above 0 whose sums and products are finite."""


class Part(BaseModel):
    """Settings of one ``kind``, or a part of the workload."""

    model_config = ConfigDict(frozen=True, extra="forbid")


def known_kind(noun: str, expected: str, union: Any) -> Callable[[Any], Any]:
    """Make a check that lists the allowed values, with a clearer message than the errors of a tagged union."""
    kinds = [part.model_fields["kind"].default for part in get_args(union)]

    def check(value: Any) -> Any:
        if isinstance(value, BaseModel):
            return value
        if not isinstance(value, dict) or "kind" not in value:
            raise invalid(f"{expected} is expected here")
        if value["kind"] not in kinds:
            raise invalid(f"unknown kind {value['kind']!r} of {noun}{did_you_mean(value['kind'], kinds)}")
        return value

    return check

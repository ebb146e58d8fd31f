"""Facts that tables of measurements leave out, as data: YAML files with sources in ``experiments/measured``."""

from __future__ import annotations

import re
from functools import cache
from typing import Annotated, Any, ClassVar, TypeVar

from pydantic import BeforeValidator

from simsys.config.base import FrozenModel, invalid
from simsys.config.document import read_document
from simsys.config.validation import validate
from simsys.data import shipped_folder


class Facts(FrozenModel):
    """The content of one file.

    Args:
        source: Where the facts come from, unless an entry names its own source.
    """

    filename: ClassVar[str]
    source: str


F = TypeVar("F", bound=Facts)


def facts(kind: type[F]) -> F:
    """Return the content of the shipped file of a kind, read once.

    Raises:
        ConfigError: With every problem of the file, each at its line.
    """
    found = _read(kind)
    assert isinstance(found, kind)
    return found


@cache
def _read(kind: type[Facts]) -> Facts:
    return validate(read_document(shipped_folder("experiments") / "measured" / kind.filename), kind)


def _compiled(text: Any) -> re.Pattern[str]:
    if not isinstance(text, str):
        raise invalid("a regular expression is needed")
    try:
        return re.compile(text, re.IGNORECASE)
    except re.error as error:
        raise invalid(f"not a regular expression: {error}") from None


Pattern = Annotated[re.Pattern[str], BeforeValidator(_compiled)]
"""A regular expression that is searched for in a cell; upper and lower case are the same."""

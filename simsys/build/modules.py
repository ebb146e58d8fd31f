"""Framework modules by name, with their options validated."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from simsys.config.base import Configurable
from simsys.config.validation import validate
from simsys.errors import ConfigError, Problem
from simsys.framework import FRAMEWORKS

Module = TypeVar("Module", bound=Configurable)
SCHEDULER_LIMITS = ("max_num_seqs", "max_num_batched_tokens")
"""Engine settings that schedulers take as options."""


def module_options(name: str, base: type[Module], given: Mapping[str, Any], place: str) -> tuple[type[Module], Any]:
    """The module called `name` and its ``Options`` filled from `given`.

    Args:
        name: As in the experiment file.
        base: What the module must be a subclass of.
        given: Its options as written.
        place: Where they stand in the file, for messages.

    Raises:
        UnknownNameError: If there is no such module.
        ConfigError: If an option is unknown or out of range.
    """
    module = FRAMEWORKS.get(name, base)
    try:
        return module, validate(dict(given), module.Options)
    except ConfigError as error:
        problems = [Problem(f"{p.message} (of {name})", f"{place}.{p.path}".rstrip(".")) for p in error.problems]
        raise ConfigError(problems) from None

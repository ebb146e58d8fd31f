"""Framework modules by name, with validated options."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from simsys.config.base import Configurable
from simsys.config.serving import ServingConfig
from simsys.config.validation import validate
from simsys.errors import ConfigError, Problem
from simsys.framework import FRAMEWORKS

Module = TypeVar("Module", bound=Configurable)
SCHEDULER_LIMITS = ("max_num_seqs", "max_num_batched_tokens")
"""Engine settings that schedulers have as options."""


def routers_of(settings: ServingConfig) -> list[str]:
    """The name of the router, and that of the router that it passes requests on to, if it does."""
    inner = settings.router_options.get("router")
    return [settings.router, inner] if isinstance(inner, str) else [settings.router]


def module_options(name: str, base: type[Module], given: Mapping[str, Any], place: str) -> tuple[type[Module], Any]:
    """The module with this name, and its ``Options`` filled from `given`.

    Args:
        name: As in the experiment file.
        base: The required base class of the module.
        given: Its options as written.
        place: Path of the options in the file, for messages.

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

"""Correspondences between settings of simsys and options of a tool, each usable in both directions."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, ClassVar, TypeAlias

from simsys.config.experiment import SimulationConfig
from simsys.deployments.deployment import Deployment
from simsys.errors import SimsysError

Settings: TypeAlias = Mapping[str, Any]
"""Values by dotted path of the setting."""
Options: TypeAlias = dict[str, Any]
"""Values by name of the tool's option; a flag without a value is True."""


class InexpressibleError(SimsysError):
    """A setting that a target has no option for.

    Args:
        path: Dotted path of the setting.
        reason: Why, and what is possible instead.
    """

    exit_code = 2

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(reason)
        self.path = path


class Correspondence(ABC):
    """Some settings and the options that express them."""

    @property
    @abstractmethod
    def paths(self) -> tuple[str, ...]:
        """Dotted paths of the settings."""

    @property
    @abstractmethod
    def options(self) -> tuple[str, ...]:
        """Names of the options."""

    @abstractmethod
    def write(self, settings: Settings, deployment: Deployment) -> Options:
        """The options of these settings; empty if all have their defaults.

        Raises:
            InexpressibleError: The tool has no option for a value.
        """

    @abstractmethod
    def read(self, options: Mapping[str, Any], like: SimulationConfig) -> dict[str, Any]:
        """The settings of these options.

        Args:
            options: All options that were read, as numbers, booleans, text or lists.
            like: A scenario that supplies what no option states.
        """

    def is_usual(self, path: str, value: Any) -> bool:
        """Whether a value of a setting is what the tool does anyway, without an option."""
        return False


@dataclass(frozen=True)
class Option(Correspondence):
    """One setting and one option with equal values, or with values that two functions convert.

    Args:
        path: The setting.
        name: The option.
        write_value: Converts the setting's value; raises ValueError with the reason if it cannot be expressed.
        read_value: Converts it back.
        default: A value of the setting that is written although it is the default of simsys, because the tool has
            another one; None if the tool has the same.
    """

    path: str
    name: str
    write_value: Callable[[Any], Any] = lambda value: value
    read_value: Callable[[Any], Any] = lambda value: value
    default: Any = None

    @property
    def paths(self) -> tuple[str, ...]:
        """The setting."""
        return (self.path,)

    @property
    def options(self) -> tuple[str, ...]:
        """The option."""
        return (self.name,)

    def write(self, settings: Settings, deployment: Deployment) -> Options:
        """The option with its value."""
        value = settings.get(self.path, self.default)
        if value is None:
            return {}
        try:
            return {self.name: self.write_value(value)}
        except ValueError as error:
            raise InexpressibleError(self.path, str(error)) from None

    def read(self, options: Mapping[str, Any], like: SimulationConfig) -> dict[str, Any]:
        """The setting with its value."""
        return {self.path: self.read_value(options[self.name])} if self.name in options else {}


@dataclass(frozen=True)
class Choice(Correspondence):
    """One setting with a few values, each of which is a set of options.

    Args:
        path: The setting.
        values: The options of each value; no options for what the tool does anyway.
        reason: What to do about any other value; empty to list the possible ones.
        always: Whether the setting always has a value; a value without options is then what is read without options.
    """

    path: str
    values: Mapping[Any, Mapping[str, Any]]
    reason: str = ""
    always: bool = False

    @property
    def paths(self) -> tuple[str, ...]:
        """The setting."""
        return (self.path,)

    @property
    def options(self) -> tuple[str, ...]:
        """The options of all values."""
        return tuple(dict.fromkeys(name for options in self.values.values() for name in options))

    def write(self, settings: Settings, deployment: Deployment) -> Options:
        """The options of the value."""
        if self.path not in settings:
            return {}
        value = settings[self.path]
        for known, options in self.values.items():
            if _same(known, value):
                return dict(options)
        possible = ", ".join(str(known).lower() if isinstance(known, bool) else str(known) for known in self.values)
        raise InexpressibleError(self.path, f"{value} cannot be expressed; {self.reason or f'possible: {possible}'}")

    def read(self, options: Mapping[str, Any], like: SimulationConfig) -> dict[str, Any]:
        """The value whose options are all there."""
        for value, wanted in self.values.items():
            if (wanted or self.always) and all(
                name in options and options[name] == each for name, each in wanted.items()
            ):
                return {self.path: value}
        return {}

    def is_usual(self, path: str, value: Any) -> bool:
        """Whether the value needs no options."""
        return (
            path == self.path
            and not self.always
            and any(_same(known, value) for known, options in self.values.items() if not options)
        )


@dataclass(frozen=True)
class Fixed(Correspondence):
    """A setting whose only possible value needs no option.

    Args:
        path: The setting.
        value: The value.
    """

    path: str
    value: Any

    @property
    def paths(self) -> tuple[str, ...]:
        """The setting."""
        return (self.path,)

    options: ClassVar[tuple[str, ...]] = ()

    def write(self, settings: Settings, deployment: Deployment) -> Options:
        """No options; the value is checked."""
        given = settings[self.path] if self.path in settings else attrgetter(self.path)(deployment.config)
        if given != self.value:
            raise InexpressibleError(self.path, f"{given} cannot be expressed; write {self.value}")
        return {}

    def read(self, options: Mapping[str, Any], like: SimulationConfig) -> dict[str, Any]:
        """The only possible value."""
        return {self.path: self.value}


def _same(one: Any, other: Any) -> bool:
    """Whether two values are equal, where True is not 1."""
    return type(one) is type(other) and bool(one == other)


def switch(path: str, on: str | None, off: str | None) -> Choice:
    """A boolean setting.

    Args:
        path: The setting.
        on: The flag for true; None if the tool does it anyway.
        off: The flag for false; None if the tool does it anyway.
    """
    return Choice(path, {True: {on: True} if on else {}, False: {off: True} if off else {}})


def whole(value: float) -> int:
    """A whole number.

    Raises:
        ValueError: The value has a fraction.
    """
    if value != int(value):
        raise ValueError(f"{value:g} cannot be expressed; the option takes whole numbers")
    return int(value)

"""The options of a command that starts a tool, as people write them."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from itertools import pairwise
from pathlib import Path
from typing import Any

import yaml

from simsys.deployments.nesting import flat
from simsys.deployments.shell import plain
from simsys.errors import UsageError
from simsys.input_files import path_from, read_text, unreadable

_NUMBER = re.compile(r"(\d+(?:\.\d+)?)([kKmMgG])")
_SIZES = {"k": 10**3, "m": 10**6, "g": 10**9, "K": 2**10, "M": 2**20, "G": 2**30}
_OPTION = re.compile(r"--?[A-Za-z][^=\s]*")
UNSET = ("auto", "None", "none")
"""Values with which an option is as if it were left out."""


@dataclass(frozen=True)
class Launch:
    """How people write the command of a tool.

    Args:
        starts: The words with which it starts, each way; ``*`` stands for any characters.
        positional: The option that is given by the first word; empty if there is none.
        other_names: Names of options that the tool has, too, without dashes.
        other_values: Values that mean the same, by option.
        without_effect: Options that change no time and no memory; ``*`` stands for any characters.
        defaults: Values of options that are left out, where they differ from those of simsys.
        hides: Options that have no effect beside an option, by that option.
        only: The values of an option for which the others can be read.
        complete: Adds options that the tool derives from others.
        model: The section ``model`` of the options, where they describe the model instead of naming a checkpoint, and
            what it assumes.
        config: Options that name YAML files of options.
        sizes: Whether numbers may end with ``k`` (1000) or ``K`` (1024).
        nested: Whether keys of a JSON option may be options of their own, such as ``--option.key value``.
    """

    starts: tuple[tuple[str, ...], ...]
    positional: str = ""
    other_names: Mapping[str, str] = field(default_factory=dict)
    other_values: Mapping[str, Mapping[Any, Any]] = field(default_factory=dict)
    without_effect: frozenset[str] = frozenset()
    defaults: Mapping[str, Any] = field(default_factory=dict)
    hides: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    only: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    complete: Callable[[dict[str, Any]], dict[str, Any]] = dict
    model: Callable[[Mapping[str, Any]], tuple[dict[str, Any], list[str]]] | None = None
    config: tuple[str, ...] = ()
    sizes: bool = False
    nested: bool = False

    def arguments(self, command: Sequence[str]) -> list[str] | None:
        """The words after the start of a command; None if another tool is started."""
        for start in self.starts:
            for place in range(len(command) - len(start) + 1):
                words = command[place : place + len(start)]
                if all(_is_program(word, wanted) for word, wanted in zip(words, start, strict=True)):
                    return list(command[place + len(start) :])
        return None

    def options(self, words: Sequence[str], known: Iterable[str], folder: Path) -> dict[str, Any]:
        """Options by the names in a table, else as they are written, without dashes.

        Args:
            words: The words after the start of the command.
            known: Names of the options of the table.
            folder: Where files of options are looked for.

        Raises:
            UsageError: A word belongs to no option, a value is not JSON, or a file of options cannot be read.
        """
        names = {_key(name): name for name in known} | {_key(name): to for name, to in self.other_names.items()}
        found: dict[str, Any] = {}
        for name, value in self._given(words):
            name = names.get(_key(name), name)
            if name in self.config:
                written = flat(_file_options(path_from(folder, str(value))))
                found = {**{names.get(_key(inner), inner): each for inner, each in written.items()}, **found}
            else:
                found[name] = value
        for name, possible in self.only.items():
            if found.get(name, possible[0]) not in possible:
                listed = ", ".join(map(str, possible))
                raise UsageError(f"--{name} {found[name]} cannot be read; possible: {listed}")
        found = self._settled(found, frozenset(names.values()))
        hidden = {name for by, hidden in self.hides.items() if by in found for name in hidden}
        return self.complete({**self.defaults, **{key: value for key, value in found.items() if key not in hidden}})

    def changes_nothing(self, name: str) -> bool:
        """Whether an option changes no time and no memory."""
        plain_name = name.replace("_", "-").removeprefix("no-")
        return any(fnmatchcase(plain_name, pattern) for pattern in self.without_effect)

    def _given(self, words: Sequence[str]) -> Iterator[tuple[str, Any]]:
        """Yield the options in the order in which they are given."""
        places = [place for place, word in enumerate(words) if _OPTION.match(word)]
        before = [word for word in (words[: places[0]] if places else words) if not word.endswith(".py")]
        if before and self.positional:
            yield self.positional, before.pop(0)
        if before:
            raise UsageError(f"{before[0]!r} belongs to no option")
        for place, after in pairwise([*places, len(words)]):
            name, sign, value = words[place].lstrip("-").partition("=")
            values = [*([value] if sign else []), *words[place + 1 : after]]
            values = [each for each in values if not each.endswith(".py")]  # the program that a launcher starts
            yield name, self._value(values)

    def _value(self, values: Sequence[str]) -> Any:
        """The value of an option: True without any, a list of several."""
        found = [self._plain(value) for value in values]
        return True if not found else found[0] if len(found) == 1 else found

    def _plain(self, word: str) -> Any:
        size = _NUMBER.fullmatch(word) if self.sizes else None
        if size is not None:
            return int(float(size[1]) * _SIZES[size[2]])
        return plain(word.lower() if word in ("True", "False") else word)

    def _settled(self, options: Mapping[str, Any], known: frozenset[str]) -> dict[str, Any]:
        """Options with usual spellings of their values, without those that are as if left out."""
        found: dict[str, Any] = {}
        parts: dict[str, dict[str, Any]] = {}
        for name, given in options.items():
            value = self.other_values.get(name, {}).get(given, given) if _hashable(given) else given
            whole, dot, key = name.partition(".")
            if self.nested and dot:
                parts.setdefault(whole, {})[key] = value
            elif value is False and f"no-{name}" in known:
                found[f"no-{name}"] = True
            elif value not in UNSET:
                found[name] = value
        found |= {name: json.dumps(own) for name, own in parts.items()}
        return {name: _as_json(name, value) for name, value in found.items()}


def _is_program(word: str, wanted: str) -> bool:
    return fnmatchcase(word, wanted) or fnmatchcase(word.rpartition("/")[2], wanted)


def _key(name: str) -> str:
    return name.replace("_", "-")


def _hashable(value: Any) -> bool:
    return not isinstance(value, list | dict)


def _as_json(name: str, value: Any) -> Any:
    """A JSON object in its usual form, other values as they are."""
    if isinstance(value, Mapping):
        return json.dumps(value)
    if not isinstance(value, str) or not value.startswith("{"):
        return value
    try:
        return json.dumps(json.loads(value))
    except ValueError as error:
        raise UsageError(f"--{name} {value}: no JSON, {error}") from None


def _file_options(path: Path) -> dict[str, Any]:
    """The content of a YAML file of options."""
    try:
        found = yaml.safe_load(read_text(path))
    except (OSError, ValueError) as error:
        raise UsageError(unreadable(path, error)) from None
    except yaml.YAMLError as error:
        raise UsageError(f"{path}: no YAML: {str(error).splitlines()[0]}") from None
    if not isinstance(found, dict):
        raise UsageError(f"{path}: options are needed, with their values")
    return {str(name): value for name, value in found.items()}

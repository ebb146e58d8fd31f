"""Shell scripts of one command, with quoted words, and their words read back."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from contextlib import suppress
from itertools import pairwise
from typing import Any

import yaml


def script(command: Sequence[str], options: Mapping[str, Any], comments: Sequence[str]) -> str:
    """A POSIX shell script that becomes one command.

    Args:
        command: Its first words.
        options: Values by name without dashes; True for a flag without a value, a list for several values.
        comments: Lines above the command.
    """
    lines = [" ".join(map(shlex.quote, command)), *(_line(name, value) for name, value in options.items())]
    head = ["#!/bin/sh", *(f"# {comment}" for comment in comments), "set -eu"]
    return "\n".join([*head, "exec " + " \\\n  ".join(lines)]) + "\n"


def _line(name: str, value: Any) -> str:
    values = [] if value is True else value if isinstance(value, list) else [value]
    return " ".join([f"--{name}", *(shlex.quote(str(each)) for each in values)])


def command_words(text: str) -> list[str]:
    """The words of the command of a script."""
    start = next(line for line in text.splitlines() if line.startswith("exec "))
    body = text[text.index(start) + len("exec ") :]
    return shlex.split(body.replace(" \\\n", " "))


def options_of(words: Sequence[str]) -> dict[str, Any]:
    """Options of a command line by name without dashes.

    Args:
        words: The words after the command: ``--name value``, ``--name`` alone, or ``--name`` with several values.
    """
    found: dict[str, Any] = {}
    names = [index for index, word in enumerate(words) if word.startswith("--")]
    for index, after in pairwise([*names, len(words)]):
        values = [plain(word) for word in words[index + 1 : after]]
        found[words[index][2:]] = True if not values else values[0] if len(values) == 1 else values
    return found


def plain(word: str) -> Any:
    """A number or boolean as such, everything else as text."""
    if word in ("true", "false"):
        return word == "true"
    for kind in (int, float):
        with suppress(ValueError):
            return kind(word)
    return word


def yaml_file(options: Mapping[str, Any], comments: Sequence[str]) -> str:
    """Options as YAML, below comments."""
    body = yaml.safe_dump(dict(options), sort_keys=False, width=110)
    return "".join(f"# {comment}\n" for comment in comments) + (body if options else "{}\n")

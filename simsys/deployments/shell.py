"""Shell scripts of one command, with quoted words, and their words read back."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import pairwise
from typing import Any

import yaml


class Raw(str):
    """A word of a script that the shell expands; it is not quoted."""

    __slots__ = ()


def script(
    command: Sequence[str],
    options: Mapping[str, Any],
    comments: Sequence[str],
    *,
    program: Sequence[str] = (),
    arguments: Mapping[str, Any] | None = None,
) -> str:
    """A POSIX shell script that becomes one command.

    Args:
        command: Its first words.
        options: Values by name without dashes; True for a flag without a value, a list for several values.
        comments: Lines above the command.
        program: Words of a program that the command starts, if any.
        arguments: Options of this program.
    """
    lines = [" ".join(map(shlex.quote, command)), *_lines(options)]
    if program:
        lines += [" ".join(map(shlex.quote, program)), *_lines(arguments or {})]
    head = ["#!/bin/sh", *(f"# {comment}" for comment in comments), "set -eu"]
    return "\n".join([*head, "exec " + " \\\n  ".join(lines)]) + "\n"


def _lines(options: Mapping[str, Any]) -> Iterator[str]:
    for name, value in options.items():
        values = [] if value is True else value if isinstance(value, list) else [value]
        yield " ".join([f"--{name}", *(each if isinstance(each, Raw) else shlex.quote(str(each)) for each in values)])


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


def script_options(text: str, before: str) -> dict[str, Any]:
    """Options in comments of a script, such as ``#SBATCH --nodes=4``.

    Args:
        text: The script.
        before: What precedes an option in its line.
    """
    found: dict[str, Any] = {}
    for line in text.splitlines():
        if line.startswith(f"{before}--"):
            name, _, value = line.removeprefix(f"{before}--").partition("=")
            found[name] = plain(value) if value else True
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

"""What a command has printed with ``--json``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from simsys.errors import UsageError
from simsys.input_files import parse_json, read_text, unreadable

KEYS: Mapping[str, set[str]] = {
    "compare": {"comparison"},
    "lod": {"scenarios", "machine"},
    "search": {"best", "considered"},
    "validate": {"validation"},
}
"""By command, the keys by which its output is known."""


@dataclass(frozen=True)
class Printed:
    """The output of a command.

    Args:
        command: The command.
        data: Its output, or the part of it that has the answer.
        name: What it is about.
    """

    command: str
    data: Mapping[str, Any]
    name: str = ""


def printed(command: str, found: Mapping[str, Any]) -> Printed:
    """The output of a command as content; of `compare` and `validate` its single part."""
    part = next(iter(KEYS[command])) if len(KEYS[command]) == 1 else ""
    return Printed(command, found[part] if part else found, str(found.get("name") or command))


def read_printed(path: Path) -> Printed:
    """Read a file with the output of a command.

    Raises:
        UsageError: It cannot be read, or no command has printed it.
    """
    try:
        found = parse_json(read_text(path))
    except (OSError, ValueError) as error:
        raise UsageError(unreadable(path, error)) from None
    keys = set(found) if isinstance(found, dict) else set()
    command = next((command for command, known in KEYS.items() if known <= keys), None)
    if command is None:
        raise UsageError(f"{path}: not what one of these commands prints with --json: {', '.join(KEYS)}")
    return printed(command, found)

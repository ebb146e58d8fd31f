"""What a command has printed with ``--json``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from simsys.errors import UsageError
from simsys.input_files import parse_json, read_text, unreadable

SCHEMA_VERSION = 1
"""Version of the JSON output of commands; incremented by changes that could break a reader."""
KEYS: Mapping[str, set[str]] = {
    "analyze": {"analyses"},
    "compare": {"comparison"},
    "lod": {"scenarios", "machine"},
    "search": {"best", "considered"},
    "scale": {"studies", "kind"},
    "validate": {"validation"},
}
"""By command, the keys by which its output is known."""
PARTS = {"compare": "comparison", "validate": "validation"}
"""By command, the part of its output that has the answer, if that is not the whole."""


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
    """The output of a command as content."""
    data = found[PARTS[command]] if command in PARTS else found
    return Printed(command, data, str(found.get("name") or command))


def read_printed(path: Path) -> Printed:
    """Read a file with the output of a command.

    Raises:
        UsageError: It cannot be read, or no command has printed it.
    """
    try:
        found = parse_json(read_text(path))
    except (OSError, ValueError) as error:
        raise UsageError(unreadable(path, error)) from None
    if isinstance(found, dict) and len(found.get("scenarios", ())) == 1 and "studies" in found["scenarios"][0]:
        found = found["scenarios"][0]  # as `simsys scale` prints several scenarios
    keys = set(found) if isinstance(found, dict) else set()
    command = next((command for command, known in KEYS.items() if known <= keys), None)
    if command is None:
        raise UsageError(f"{path}: not what one of these commands prints with --json: {', '.join(KEYS)}")
    version = found.get("schema_version", SCHEMA_VERSION)
    if version != SCHEMA_VERSION:
        raise UsageError(f"{path}: format {version!r} of the output of simsys {command}; this is {SCHEMA_VERSION}")
    return printed(command, found)

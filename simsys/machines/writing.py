"""Writes node profiles where experiments find them."""

from __future__ import annotations

import re
from pathlib import Path

from simsys.errors import UsageError
from simsys.machines.profile import ImportedProfile
from simsys.report.files import write_files

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


def profile_name(given: str | None, file: Path) -> str:
    """The name of a profile: the given one, or that of the file.

    Raises:
        UsageError: If it cannot be the name of a file.
    """
    name = file.name.partition(".")[0] if given is None else given
    if _NAME.fullmatch(name) is None:
        advice = "" if given is not None else "; give --name"
        raise UsageError(f"{name!r} is no name of a profile: letters, digits, '.', '_' and '-' are allowed{advice}")
    return name


def write_profile(profile: ImportedProfile, folder: Path) -> Path:
    """Write a profile to ``nodes/<name>.yaml`` in a folder, where experiments in that folder find it.

    Raises:
        OutputError: If it could not be written.
    """
    return write_files(folder / "nodes", {f"{profile.name}.yaml": lambda file: file.write(profile.text())})[0]

"""When and with what results were made: a file beside them, since they are the same bytes at any time."""

from __future__ import annotations

import platform
import shlex
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from simsys.metrics.result import RunResult
from simsys.report.export import json_text
from simsys.report.files import write_files
from simsys.version import __version__


def provenance(result: RunResult) -> dict[str, Any]:
    """Date, command, versions, and the digests of the profiles that were read."""
    return {
        "schema_version": 1,
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "command": shlex.join(["simsys", *sys.argv[1:]]),
        "simsys_version": __version__,
        "python_version": platform.python_version(),
        "machine": f"{platform.system()} {platform.machine()}",
        "profiles": dict(result.profiles),
    }


def write_provenance(result: RunResult, folder: Path) -> list[Path]:
    """Write ``<name>_provenance.json`` beside the results of a run; return it.

    Raises:
        OutputError: If it cannot be written.
    """
    text = json_text(provenance(result))
    return write_files(folder, {f"{result.name}_provenance.json": lambda file: file.write(text)})

"""What every script that writes committed files does: write them, or check that they are up to date."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path


def write_or_check(what: str, texts: Mapping[str, str], folder: Path, arguments: Sequence[str] | None = None) -> int:
    """Write the files, or with `--check` only compare them.

    Args:
        what: what the files are, for `--help`.
        texts: their contents by file name.
        folder: where they are committed; `--folder` names another.
        arguments: the command line; that of the process by default.

    Returns:
        The exit code: 1 where `--check` finds a file missing or out of date.
    """
    parser = argparse.ArgumentParser(description=f"Write {what}, or check that they are up to date.")
    parser.add_argument("--check", action="store_true", help="only compare; exit 1 if a file is out of date")
    parser.add_argument("--folder", type=Path, default=folder, help="where the files are (default: %(default)s)")
    options = parser.parse_args(arguments)
    stale = {name: text for name, text in texts.items() if _read(options.folder / name) != text}
    if options.check:
        for name in stale:
            print(f"{options.folder / name} is out of date; run {Path(sys.argv[0]).name}", file=sys.stderr)
        return 1 if stale else 0
    for name, text in stale.items():
        (options.folder / name).write_text(text, encoding="utf-8", newline="\n")
    return 0


def _read(file: Path) -> str | None:
    return file.read_text(encoding="utf-8") if file.is_file() else None

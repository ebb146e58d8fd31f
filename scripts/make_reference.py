"""Write the reference pages on settings, commands, profiles and Python, or check that they are up to date.

Usage: python scripts/make_reference.py [--check]
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from scripts.generated import write_or_check  # noqa: E402
from scripts.reference import api, commands, profiles, settings  # noqa: E402

FOLDER = ROOT / "docs" / "reference"
PAGES: dict[str, Callable[[], str]] = {
    "api.md": api.page_text,
    "cli.md": commands.page_text,
    "profiles.md": profiles.page_text,
    "settings.md": settings.page_text,
}


def main() -> int:
    """Write or check the files; return the exit code."""
    return write_or_check("the reference", {name: make() for name, make in PAGES.items()}, FOLDER)


if __name__ == "__main__":
    sys.exit(main())

"""Write the events of the quick scenarios of the levels of detail, or check that they are up to date.

Usage: python scripts/make_level_of_detail_counts.py [--check]
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from scripts.generated import write_or_check  # noqa: E402
from tests.helpers.level_of_detail_suite import COUNTS, QUICK, count  # noqa: E402


def main(arguments: Sequence[str] | None = None) -> int:
    """Write or check the file; return the exit code."""
    text = json.dumps({name: count(name)[0] for name in QUICK}, indent=2) + "\n"
    return write_or_check("the event counts of the levels of detail", {COUNTS.name: text}, COUNTS.parent, arguments)


if __name__ == "__main__":
    sys.exit(main())

"""Write the JSON schema of experiment files, or check that it is up to date.

Usage: python scripts/make_schema.py [--check]
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from scripts.generated import write_or_check  # noqa: E402
from simsys.config.json_schema import experiment_schema  # noqa: E402

SCHEMA = ROOT / "experiments" / "experiment.schema.json"


def schema_text() -> str:
    """Return the schema as JSON text."""
    return json.dumps(experiment_schema(), indent=1, ensure_ascii=False) + "\n"


def main() -> int:
    """Write or check the file; return the exit code."""
    return write_or_check("the JSON schema of experiment files", {SCHEMA.name: schema_text()}, SCHEMA.parent)


if __name__ == "__main__":
    sys.exit(main())

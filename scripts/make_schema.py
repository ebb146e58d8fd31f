"""Write the JSON schema of experiment files, or check that it is up to date.

Usage: python scripts/make_schema.py [--check]
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from simsys.config.json_schema import experiment_schema  # noqa: E402

SCHEMA = ROOT / "experiments" / "experiment.schema.json"


def schema_text() -> str:
    """Return the schema as JSON text."""
    return json.dumps(experiment_schema(), indent=1, ensure_ascii=False) + "\n"


def main() -> int:
    """Write or check the file; return the exit code."""
    parser = argparse.ArgumentParser(description="Write the JSON schema of experiment files.")
    parser.add_argument("--check", action="store_true", help="only compare; exit 1 if the file is out of date")
    parser.add_argument("--path", type=Path, default=SCHEMA, help="the file")
    arguments = parser.parse_args()
    text = schema_text()
    if not arguments.check:
        arguments.path.write_text(text, encoding="utf-8")
        return 0
    if arguments.path.is_file() and arguments.path.read_text(encoding="utf-8") == text:
        return 0
    print(f"{arguments.path} is out of date; run python scripts/make_schema.py", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())

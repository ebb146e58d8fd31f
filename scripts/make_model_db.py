"""Write the shipped model DB from model_db/architectures.yaml, or check that it is up to date.

Usage: python scripts/make_model_db.py [--check]
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from scripts.generated import write_or_check  # noqa: E402
from simsys.config.architectures import listed_models  # noqa: E402
from simsys.model.cnn import build_resnet50  # noqa: E402
from simsys.model.model_db import FILENAME  # noqa: E402
from simsys.model.model_entry import entry_from_model  # noqa: E402
from simsys.model.transformer import build_transformer  # noqa: E402

DATABASE = ROOT / "model_db" / FILENAME
SCHEMA = "model_characteristics_db.schema.json"


def database_text() -> str:
    """Return the model DB as JSON text, sorted by name."""
    entries = {
        listed.architecture.name: entry_from_model(
            build_transformer(listed.architecture),
            aliases=listed.aliases,
            quantization_config=listed.quantization_config,
        )
        for listed in listed_models()
    }
    resnet = build_resnet50()
    entries = dict(sorted({**entries, resnet.name: entry_from_model(resnet)}.items()))
    return json.dumps({"$schema": SCHEMA, **entries}, indent=1, ensure_ascii=False) + "\n"


def main() -> int:
    """Write or check the file; return the exit code."""
    return write_or_check("the shipped model DB", {DATABASE.name: database_text()}, DATABASE.parent)


if __name__ == "__main__":
    sys.exit(main())

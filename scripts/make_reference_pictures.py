"""Write the pictures of tests/plots/test_reference_pictures.py; look at them before they are committed."""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from tests.helpers.reference_pictures import FOLDER, PICTURES, png  # noqa: E402

if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for name in PICTURES:
        (FOLDER / f"{name}.png").write_bytes(png(name))

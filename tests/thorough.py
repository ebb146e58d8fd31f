"""How many random cases a test plays: a quarter of them by default, all in `make test-all`."""

from __future__ import annotations

import os

THOROUGH = bool(os.environ.get("SIMSYS_THOROUGH"))


def cases(count: int) -> int:
    """So many random cases, or a quarter."""
    return count if THOROUGH else max(1, count // 4)

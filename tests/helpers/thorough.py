"""How many random cases a test plays: a part of them by default, all in `make test-all`."""

from __future__ import annotations

import os

THOROUGH = bool(os.environ.get("SIMSYS_THOROUGH"))


def cases(count: int, part: int = 4) -> int:
    """So many random cases, or one of `part`, which is larger where a case takes long."""
    return count if THOROUGH else max(1, count // part)

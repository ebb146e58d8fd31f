"""Named random streams: one seed per scenario, one independent generator per purpose.

Each stream is seeded by the scenario's seed and the name's CRC-32, so a new stream moves no other, and
the numbers do not depend on the order in which streams are made nor on Python's string hashing.
"""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from numpy.random import Generator


def stream(seed: int, name: str) -> Generator:
    """Return a fresh generator for one purpose of one scenario.

    Args:
        seed: The scenario's seed, zero or positive.
        name: Purpose of the numbers, such as ``"arrivals"``.

    Returns:
        A NumPy generator at the start of its stream; equal arguments give equal numbers.

    Raises:
        ValueError: If the seed is negative.

    Example:
        >>> stream(42, "arrivals").random() == stream(42, "arrivals").random()
        True
        >>> stream(42, "arrivals").random() == stream(42, "prompt_tokens").random()
        False
    """
    from numpy.random import SeedSequence, default_rng

    return default_rng(SeedSequence([seed, zlib.crc32(name.encode())]))

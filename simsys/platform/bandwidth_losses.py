"""Time that transfers lose to each other on links with shared bandwidth, even if these are not full on average."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np

_ROUNDS = 12
"""Of the fixed point; each brings the error down by about the share of time in which transfers meet."""
_NODES = 8
"""Of the quadrature, which is exact for products of up to 15 factors."""


def losses(busy: np.ndarray, rates: np.ndarray) -> np.ndarray:
    """Slow-down of each occupant by other occupants, as a share of its time on idle links.

    An occupant transmits for the share `q` of its time for which its busiest link is busy, and meanwhile needs the
    share `u` of another link's bandwidth, less if it is slowed anyway. Two occupants that transmit at once on a link
    too narrow for both get half of it each, or the rest if the other needs less. The times of transmission are assumed
    to be independent. With `N` others transmitting on a link, an occupant gets the mean of `1 / (1 + N)` of it: the
    integral from 0 to 1 of the product of `1 - q + q x` over the others. Their `q` grows with their own losses.

    Args:
        busy: For every occupant a row and for every link a column: the share of its time on idle links for which it
            keeps the link busy.
        rates: Largest rates on links that are full on average.
    """
    import numpy as np

    transmitting, occupants = np.maximum.reduce(busy, axis=1), len(busy)
    most = np.where(transmitting > 0.0, transmitting, 1.0)
    needs = busy / most[:, None]
    mine, theirs = needs[:, None], (needs * np.minimum(1.0, rates / most)[:, None])[None]
    narrow = mine + theirs > 1.0
    narrow.reshape(occupants**2, -1)[:: occupants + 1] = False  # each with itself
    fair = np.divide(np.maximum(0.5, 1.0 - theirs), mine, out=np.ones(narrow.shape), where=narrow)
    lost_share = 2.0 * (1.0 - np.minimum(1.0, fair))  # 1 where two halve a link
    worn = np.logical_or.reduce(lost_share, axis=(0, 1))
    lost = np.zeros(occupants)
    if not worn.any():
        return lost
    # The others come first, since numpy is fastest to multiply whole arrays with each other.
    lost_share = np.ascontiguousarray(lost_share[:, :, worn].swapaxes(0, 1))[:, None]
    idle, weights = _quadrature()
    for _ in range(_ROUNDS):
        present = np.minimum(1.0, (transmitting + lost) / (1.0 + lost))
        met = lost_share * present[:, None, None, None]
        left = np.multiply.reduce(1.0 - met * idle)
        rates = np.add.reduce(weights * left)
        before, lost = lost, transmitting * (1.0 / np.minimum.reduce(rates, axis=1) - 1.0)
        if before.tolist() == lost.tolist():
            break
    return lost


@cache
def _quadrature() -> tuple[np.ndarray, np.ndarray]:
    """Nodes and weights of the quadrature, each with axes for occupants and links."""
    import numpy as np

    nodes, weights = np.polynomial.legendre.leggauss(_NODES)
    return ((1.0 - nodes) / 2.0)[:, None, None], (weights / 2.0)[:, None, None]

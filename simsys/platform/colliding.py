"""What transfers lose to each other on links that share bandwidth, also where these are not full on average."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np

_ROUNDS = 8
"""Of the fixed point; each brings the error down by the share of time in which transfers meet."""


def losses(busy: np.ndarray) -> np.ndarray:
    """How much longer each occupant takes because of the others, as a share of its time on idle links.

    An occupant transmits for the share `q` of its time for which its busiest link is busy, and meanwhile needs the
    share `u` of another link's bandwidth. Two that transmit at once on a link that is too narrow for both get half of
    it each, or what the other leaves. When they transmit is taken to be independent, so that of the time in which one
    transmits, the other does so too for its own share `q`; this share grows with what it loses itself.

    Args:
        busy: For every occupant a row and for every link a column: the share of its time on idle links for which it
            keeps the link busy.
    """
    import numpy as np

    transmitting = busy.max(axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        needs = np.where(busy > 0.0, busy / transmitting[:, None], 0.0)
        mine, theirs = needs[:, None], needs[None]
        fair = np.minimum(1.0, np.maximum(0.5, 1.0 - theirs) / mine)
        rates = np.where((mine > 0.0) & (theirs > 0.0) & (mine + theirs > 1.0), fair, 1.0).min(axis=2, initial=1.0)
    np.fill_diagonal(rates, 1.0)
    lost = np.zeros(len(busy))
    for _ in range(_ROUNDS):
        present = np.minimum(1.0, (transmitting + lost) / (1.0 + lost))
        met = np.minimum((1.0 - rates) @ present, 1.0 - 1.0 / len(busy))
        lost = transmitting * (1.0 / (1.0 - met) - 1.0)
    return lost

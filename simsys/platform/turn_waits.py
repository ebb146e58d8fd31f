"""Time that transfers wait for each other on links that serve in turn, even if these are not full."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np


def waiting(busy: np.ndarray, paces: np.ndarray, duty_cycles: np.ndarray) -> np.ndarray:
    """Wait of each occupant for other occupants, as a share of its time on idle links.

    One takes a step every `c` seconds, in which it keeps a link busy for `s`; another one has `C` and `S`. An occupant
    that finds the link busy waits for it, and then has it until the other one needs it again. If both do not fit into
    one cycle, it waits for `s + S - c` in every step of the other. So the rates of both are `r = 1 - (s + S - c) / C *
    R` and analogous for `R`. No rate is below that of permanent alternation, `c / (s + S)`. They contend only while
    both communicate; times of communication are assumed independent.

    Args:
        busy: For every occupant a row and for every link a column: the share of time that it keeps it busy.
        paces: Steps/s of every occupant.
        duty_cycles: The share of time in which it takes these steps.
    """
    import numpy as np

    service = (busy / paces[:, None])[:, None]
    cycle = np.maximum((duty_cycles / paces)[:, None, None], service)  # alone, by link
    theirs, their_cycle = service.transpose(1, 0, 2), cycle.transpose(1, 0, 2)
    both = service + theirs
    with np.errstate(divide="ignore", invalid="ignore"):
        held = np.maximum(0.0, both - cycle) / their_cycle
        rates = (1.0 - held) / (1.0 - held * held.transpose(1, 0, 2))
        turns = np.minimum(1.0, cycle / both)
        slower = np.where((service > 0.0) & (theirs > 0.0), 1.0 / np.fmax(rates, turns) - 1.0, 0.0).max(axis=2)
    np.fill_diagonal(slower, 0.0)
    waits: np.ndarray = duty_cycles * (slower @ duty_cycles)
    return waits

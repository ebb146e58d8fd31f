"""Equal steps of a collective that follow one another, as one step with the bytes of all.

On links that are shared evenly, what transfers get in a time does not depend on how they are divided into steps, as
long as they are under way. So a step with the bytes of several equal ones, and after it a pause for the latencies and
pauses of all of them, ends when the last of them would: exactly if nothing else is on its links, and else but for what
others do differently in the pauses, which come at the end and not in between. That costs one event where a ring of N
ranks has 2 (N - 1) steps.
"""

from __future__ import annotations

from collections.abc import Sequence

from simsys.executors.mirrors import AnyNetwork
from simsys.platform.network import LockStep


def joined(network: AnyNetwork, steps: Sequence[LockStep]) -> list[LockStep]:
    """The same steps, of which equal ones are one.

    Links that serve whole messages in turn would keep others waiting for longer, and where links change, the pauses
    change with them: there steps stay as they are.

    Args:
        network: Carries the transfers.
        steps: In order.
    """
    if network.in_turn or network.changes_s:
        return list(steps)
    return [_as_one(network, *step) if step[2] > 1 else step for step in steps]


def _as_one(
    network: AnyNetwork, pairs: Sequence[tuple[int, int]], nbytes: float, repeat: int, pause_s: float
) -> LockStep:
    transfers = network.prepare(pairs)
    each_s, whole_s = (network.step_seconds(transfers, size) for size in (nbytes, repeat * nbytes))
    return pairs, repeat * nbytes, 1, max(0.0, repeat * (each_s + pause_s) - whole_s)

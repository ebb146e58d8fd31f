"""Whether an iteration leaves its ranks and links as it found them, so that the next one takes the same course."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import isinf
from typing import NamedTuple

from simsys.executors.core import Core


class RankState(NamedTuple):
    """What a rank carries over to the next iteration if nothing is under way.

    Args:
        memory_bytes: Memory in use by name.
        lost_s: Delay of its next computation by overlapped collectives.
    """

    memory_bytes: Mapping[str, int]
    lost_s: float


def rank_states(core: Core, ranks: Sequence[int]) -> list[RankState]:
    """The states of ranks between two iterations."""
    devices = [core.platform.devices[rank] for rank in ranks]
    return [RankState({name: n for name, n in each.memory.held.items() if n}, each.lost_s) for each in devices]


def at_rest(core: Core, now_s: float) -> bool:
    """Whether no computation, transfer, message or work of hosts is under way at a time, nor waits for its begin."""
    if not isinf(core.env.peek()) or core.mail.open or any(each.held_up for each in core.streams.values()):
        return False
    for each in core.communicators():
        if each.turns or each.meetings.under_way or each.free_at_s > now_s:
            return False
    lanes = [lane for device in core.platform.devices for lane in device.host.values()]
    return all(lane.free_at_s <= now_s for lane in lanes)

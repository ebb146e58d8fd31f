"""Work of hosts, equal at all levels of detail: a channel serves one rank, so ends are known at the beginning."""

from __future__ import annotations

from simpy.events import Event

from simsys.executors.streams import Stream
from simsys.ops import HostChannel, HostWork
from simsys.platform.environment import executors_clock
from simsys.platform.events import At
from simsys.platform.partition import Hardware
from simsys.probes import Probes


class Hosts:
    """Work on the channels of each rank's host.

    Args:
        platform: The ranks' devices.
        probes: Observers.
    """

    def __init__(self, platform: Hardware, probes: Probes) -> None:
        self._platform = platform
        self._probes = probes
        self._streams: dict[tuple[int, HostChannel], Stream] = {}

    def issue(self, op: HostWork, ready_s: float, after: Event | None) -> Event:
        """Queue work on its channel.

        Args:
            op: The work.
            ready_s: When its rank is ready for it.
            after: Another event that must have fired.

        Returns:
            An event that fires at its end.
        """
        env = executors_clock(self._platform.env)
        if not op.nbytes:
            return env.done if after is None else after
        key = op.rank, op.channel
        if key not in self._streams:
            self._streams[key] = Stream(env, self._begin)
        return self._streams[key].issue(op, ready_s, after)

    def _begin(self, op: HostWork, ready_s: float) -> Event:
        start_s, end_s = self._platform.devices[op.rank].host[op.channel].carry(ready_s, op.nbytes)
        for hook in self._probes.operation:
            hook(op, start_s, end_s)
        return At(self._platform.env, end_s)

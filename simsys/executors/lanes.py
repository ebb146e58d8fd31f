"""Durations of concurrent messages between ranks of equal roles."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from simpy.events import Event

from simsys.executors.images import Images
from simsys.executors.meets import Meets
from simsys.executors.mirrors import AnyNetwork, interfering, out_of_step, shifted
from simsys.executors.uses import Use
from simsys.parallel.layout import Group
from simsys.platform.network import Pairs


class Lanes:
    """Messages on links shared with their mirrors only.

    Args:
        network: The network.
        images: Finds the mirrors of a message.
    """

    def __init__(self, network: AnyNetwork, images: Images) -> None:
        self._network, self._images = network, images
        self._messages: dict[tuple[int, int], Any] = {}
        self._between: dict[tuple[Group, Group], Any] = {}
        self._carried: dict[tuple[int, int], Any] = {}
        self._uses: dict[tuple[int, int], Use] = {}
        self._pairs: dict[tuple[int, int], Pairs] = {}

    def message_s(self, src: int, dst: int, nbytes: float, start_s: float) -> float:
        """Duration of a message between two ranks that departs at `start_s` together with its mirrors."""
        found = self._messages.get((src, dst))
        if found is None:
            shifts = interfering(self._network, [(src, dst)], self._images.shifts((src, dst)))
            found = self._messages[src, dst] = self._network.prepare(shifted([(src, dst)], shifts))
        return self._network.step_seconds(found, nbytes, start_s)

    def use(self, src: int, dst: int, meets: Meets) -> Use:
        """The shares of links that messages from one rank to another need."""
        found = self._uses.get((src, dst))
        if found is None:
            shifts = self._images.shifts((src, dst))
            steps = [([(src, dst)], 1.0, 1, 0.0)]
            apart = interfering(self._network, [(src, dst)], shifts) is not shifts
            splits = not apart and out_of_step(self._network, steps, shifts, 0.0)
            transfers = [([(src, dst)], 1.0)]
            found = self._uses[src, dst] = meets.use(
                "messages", transfers, shifts, user=(src, dst), waits=dst, splits=splits
            )
        return found

    def carry(self, src: int, dst: int, nbytes: float) -> Event:
        """Put a message and all of its mirrors on the links."""
        if not nbytes:
            return self._network.carry(self._all(src, dst), nbytes)
        found = self._carried.get((src, dst))
        if found is None:
            found = self._carried[src, dst] = self._network.prepare(self._all(src, dst))
        return self._network.begin(found, nbytes)

    def _all(self, src: int, dst: int) -> Pairs:
        """A message and all of its mirrors."""
        found = self._pairs.get((src, dst))
        if found is None:
            found = self._pairs[src, dst] = shifted([(src, dst)], self._images.shifts((src, dst)))
        return found

    def between_s(
        self, source: Group, target: Group, pairs: Sequence[tuple[int, int]], nbytes: float, start_s: float
    ) -> float:
        """Duration of simultaneous messages between the ranks of two teams, from `start_s`."""
        found = self._between.get((source, target))
        if found is None:
            found = self._between[source, target] = self._network.prepare(pairs)
        return self._network.step_seconds(found, nbytes, start_s)

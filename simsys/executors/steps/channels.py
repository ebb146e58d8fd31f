"""Channels between the stages of serving pipelines: each serves one message at a time."""

from __future__ import annotations

from simsys.parallel.layout import Group


class Channel:
    """A channel from one stage to the next: messages in order, as in one NCCL stream."""

    __slots__ = ("busy_s", "free_at_s")

    def __init__(self) -> None:
        self.free_at_s = 0.0
        """When the last message has arrived."""
        self.busy_s = 0.0
        """For how long messages have been under way in all."""

    def arrival_s(self, ready_s: float, seconds: float) -> float:
        """Arrival of a message that is ready at a time and has a duration."""
        self.free_at_s = max(ready_s, self.free_at_s) + seconds
        self.busy_s += seconds
        return self.free_at_s


class Channels:
    """The channels of all serving pipelines."""

    def __init__(self) -> None:
        self._known: dict[tuple[Group, Group], Channel] = {}

    def between(self, source: Group, target: Group) -> Channel:
        """The one from a stage to the next."""
        return self._known.setdefault((source, target), Channel())

    def most_busy_s(self) -> float:
        """For how long messages have been under way in the busiest one."""
        return max((channel.busy_s for channel in self._known.values()), default=0.0)

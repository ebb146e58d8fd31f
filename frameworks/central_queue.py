"""One queue for all replicas: a request goes to whichever can admit it first."""

from __future__ import annotations

from typing import Any

from simsys.framework import Replica, Router, SharedQueue, register


@register("central_queue")
class CentralQueue(Router):
    """First come, first served over all replicas, instead of the queue that each would have."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        queue = SharedQueue(self.notice)
        for replica in self.replicas:
            replica.scheduler.waiting = queue

    def notice(self, request: int) -> None:
        """Another request has become the next one."""
        for replica in self.replicas:
            replica.notice(request)

    def route(self, request: int) -> Replica:
        """Any will do, since they share the queue."""
        return self.replicas[0]

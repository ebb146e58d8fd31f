"""One queue for all replicas: a request goes to whichever can admit it first."""

from __future__ import annotations

from typing import Any

from simsys.framework import Engine, Router, SharedQueue, register


@register("central_queue")
class CentralQueue(Router):
    """The queue of the first replica's scheduler, in its order, instead of one for each."""

    scales = False

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        queue = SharedQueue(self.replicas[0].scheduler.waiting, self.notice)
        for replica in self.replicas:
            replica.scheduler.waiting = queue

    def notice(self, request: int) -> None:
        """Another request has become the next one."""
        for replica in self.replicas:
            replica.notice(request)

    def route(self, request: int) -> Engine:
        """Any will do, since they share the queue."""
        return self.replicas[0]

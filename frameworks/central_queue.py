"""One queue for all replicas: a request goes to whichever can admit it first."""

from __future__ import annotations

from heapq import heappop, heappush, heapreplace
from math import inf
from typing import Any

from simsys.framework import Engine, Router, SharedQueue, register


@register("central_queue")
class CentralQueue(Router):
    """One queue for all replicas, in the order of the first replica's scheduler.

    The next request is offered to idle replicas first, then to the others in the order of the ends of their steps. The
    multi-step runs of replicas without an offer continue.
    """

    scales = False

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.queue = SharedQueue(self.replicas[0].scheduler.waiting, self.notice)
        for replica in self.replicas:
            replica.scheduler.waiting = self.queue
            replica.passed_on = self.passed_on
        self.offered = -1  # the next request
        self.asked = set[int]()  # ranks of replicas that have not admitted it
        self.ends = [(-inf, place) for place in range(len(self.replicas))]  # of the steps under way, if still to come

    def route(self, request: int) -> Engine:
        """Any will do, since they share the queue."""
        return self.replicas[0]

    def notice(self, request: int) -> None:
        """A request has come in: offer it if it is the next one; else every replica says whether it wants it."""
        if self.queue[0] == request:
            self.offered = request
            self.asked.clear()
            self.offer()
        else:
            self.tell_all(request)

    def passed_on(self, replica: Engine) -> None:
        """A replica has chosen, and requests wait all the same."""
        if self.queue[0] != self.offered:
            self.offered = self.queue[0]
            self.asked.clear()
        self.asked.add(replica.rank)
        self.offer()

    def tell_all(self, request: int) -> None:
        """Let every replica ask its scheduler at the end of the step under way if that wants the request."""
        for replica in self.replicas:
            replica.notice(request)

    def offer(self) -> None:
        """Wake the replica that can call its scheduler first; idle replicas can do so now.

        Replicas whose caches are being copied call it after the first step that follows.
        """
        idle = [replica for replica in self.replicas if not replica.left and replica.rank not in self.asked]
        for replica in idle:
            replica.notice(self.offered)
        until_s = inf if all(replica.copying for replica in idle) else self.replicas[0].now_s
        later = list[tuple[float, int]]()
        while self.ends and self.bring_up_to_date():
            end_s, place = self.ends[0]
            replica = self.replicas[place]
            if end_s > until_s:
                break
            fresh = replica.left and replica.rank not in self.asked
            if fresh and replica.scheduler.wants(self.offered, replica.tokens):
                replica.notice(self.offered)
                break
            later.append(heappop(self.ends))
        for each in later:
            heappush(self.ends, each)

    def bring_up_to_date(self) -> bool:
        """Let the first end be one to come, or of a replica that does no steps; False if ends are not known."""
        now_s = self.replicas[0].now_s
        while True:
            end_s, place = self.ends[0]
            replica = self.replicas[place]
            if end_s > now_s or not replica.left:
                return True
            found_s = replica.stepper.next_s()
            if found_s is None:
                self.tell_all(self.offered)
                return False
            if found_s == end_s:
                return True
            heapreplace(self.ends, (found_s, place))

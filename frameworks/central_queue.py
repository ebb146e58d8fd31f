"""One queue for all replicas: a request goes to whichever can admit it first."""

from __future__ import annotations

from heapq import heappop, heappush, heapreplace
from math import inf
from typing import Any

from simsys.framework import Engine, Router, SharedQueue, register


@register("central_queue")
class CentralQueue(Router):
    """One queue for all replicas, in the order of the first replica's scheduler.

    The next request is offered to idle replicas first, one after another, then to the others in the order of the ends
    of their steps. The multi-step runs of replicas without an offer continue.
    """

    scales = False
    shares_queue = True

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.queue = SharedQueue(self.replicas[0].scheduler.waiting, self.notice)
        for replica in self.replicas:
            replica.scheduler.waiting = self.queue
            replica.passed_on = self.passed_on
        wants = [replica.scheduler.wants for replica in self.replicas]
        self.wants_first_only = all(getattr(each, "of_first_only", False) for each in wants)
        self.offered = -1  # the next request
        self.asked = set[int]()  # ranks of replicas that have not admitted it
        self.resting = list(range(len(self.replicas)))  # places of replicas that did no steps when last looked at
        self.ends = list[tuple[float, int]]()  # of the others: when a step ends, or earlier; and the place

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
        replicas = self.replicas
        if self.wants_first_only and self.queue[0] != request:
            replicas = [replica for replica in replicas if not replica.left]  # those that may begin now
        for replica in replicas:
            replica.notice(request)

    def offer(self) -> None:
        """Wake the replica that can call its scheduler first; an idle replica can do so now.

        Replicas whose caches are being copied call it after the first step that follows.
        """
        if not self.bring_up_to_date():
            self.tell_all(self.offered)
            return
        until_s = self.replicas[0].now_s if self.resting and self.wake_one() else inf
        later, ends = list[tuple[float, int]](), self.ends
        while ends and ends[0][0] <= until_s:
            replica = self.replicas[ends[0][1]]
            if replica.rank not in self.asked and replica.scheduler.wants(self.offered, replica.tokens):
                replica.notice(self.offered)
                break
            later.append(heappop(ends))
            if not self.bring_up_to_date():
                self.tell_all(self.offered)
                break
        for each in later:
            heappush(ends, each)

    def wake_one(self) -> bool:
        """Offer the request to the first idle replica, which passes it on if it cannot admit it; False if none is.

        Replicas whose caches are being copied hear of it too.
        """
        for place in self.resting:
            replica = self.replicas[place]
            if replica.rank not in self.asked:
                replica.notice(self.offered)
                if not replica.copying:
                    return True
        return False

    def bring_up_to_date(self) -> bool:
        """Sort out who rests, and let the first end be one to come; False if ends are not known."""
        replicas, ends, now_s = self.replicas, self.ends, self.replicas[0].now_s
        if self.resting:
            begun = [place for place in self.resting if replicas[place].left]
            if begun:
                self.resting = [place for place in self.resting if not replicas[place].left]
                for place in begun:
                    heappush(ends, (-inf, place))
        rested = False
        while ends:
            end_s, place = ends[0]
            if end_s > now_s:
                break
            replica = replicas[place]
            if replica.left:
                found_s = replica.stepper.next_s()
                if found_s is None:
                    return False
                if found_s == end_s:
                    break
                heapreplace(ends, (found_s, place))
            else:
                heappop(ends)
                self.resting.append(place)
                rested = True
        if rested:
            self.resting.sort()
        return True

"""Transfers in flight over links that serve first come, first served."""

from __future__ import annotations

from collections.abc import Iterable
from heapq import heappop, heappush

import simpy
from simpy.events import Event

from simsys.platform.calendar_link import Route
from simsys.platform.events import LATE, At, Callback, fire_at

_Arrival = tuple[Route, int, float]
"""A transfer at the entrance of ``route[hop]``: route, hop, when the tail comes in (s)."""


class Flight:
    """Transfers that start together and are complete when the last one has arrived.

    Transfers that reach their next link at the same moment share one event, so a step of a collective over
    equal links costs one event per hop, whatever the number of ranks.

    Args:
        env: The environment.
        nbytes: Size of each transfer.
        pause_s: Time from the last arrival to the completion.
    """

    __slots__ = ("_end_s", "_env", "_in_flight", "_nbytes", "_pause_s", "event")

    def __init__(self, env: simpy.Environment, nbytes: float, pause_s: float = 0.0) -> None:
        self.event = Event(env)
        """Fires when every transfer has arrived, and the pause after that is over."""
        self._env, self._nbytes, self._pause_s = env, nbytes, pause_s
        self._end_s = 0.0
        self._in_flight = 0

    def start(self, routes: Iterable[Route]) -> None:
        """Send one transfer over each of `routes`, now; holders of links on the way give way at once."""
        now = self._env._now
        arrivals: list[_Arrival] = [(route, 0, now) for route in routes]
        for route, _, _ in arrivals:
            for hop in route:
                for link in hop.members:
                    if link.holder is not None:
                        link.holder.give_way()
        self._announce(arrivals)
        self._end_s = now
        self._expect(self._enter(arrivals, now))

    def resume(self, routes: Iterable[Route], started_s: float) -> None:
        """Continue transfers that began at `started_s` on exclusive links, from their present position."""
        waiting = self._replay(routes, started_s, self._env._now)
        for head_s, _, group in waiting:
            At(self._env, head_s, self._make_entry(group))
        self._in_flight = len(waiting)
        if not waiting:
            self._finish()

    def rehearse(self, routes: Iterable[Route]) -> float:
        """Carry transfers out on idle links from time 0; return the last arrival (s)."""
        self._replay(routes, 0.0, float("inf"))
        return self._end_s

    def _replay(
        self, routes: Iterable[Route], started_s: float, until_s: float
    ) -> list[tuple[float, int, list[_Arrival]]]:
        """Carry out all arrivals at links up to and including `until_s`; return the later ones, in order.

        Arrivals at that moment belong to the past: the holder of links is served before newcomers.
        """
        arrivals: list[_Arrival] = [(route, 0, started_s) for route in routes]
        self._announce(arrivals)
        self._end_s = started_s
        onward = self._enter(arrivals, started_s)
        waiting: list[tuple[float, int, list[_Arrival]]] = []
        serial = 0
        while True:
            for head_s, group in onward.items():
                heappush(waiting, (head_s, serial, group))
                serial += 1
            if not waiting or waiting[0][0] > until_s:
                return sorted(waiting)
            head_s, _, group = heappop(waiting)
            onward = self._enter(group, head_s)

    def _announce(self, arrivals: list[_Arrival]) -> None:
        """Announce the transfers to their next links."""
        for route, _, _ in arrivals:
            if len(route) > 1:
                for hop in route[1:]:
                    hop.expected += 1

    def _enter(self, arrivals: list[_Arrival], now: float) -> dict[float, list[_Arrival]]:
        """Let transfers enter their next link now; return the arrivals at further links, by time."""
        nbytes = self._nbytes
        onward: dict[float, list[_Arrival]] = {}
        while arrivals:
            at_once = []
            for route, place, tail_s in arrivals:
                hop = route[place]
                if place:
                    hop.expected -= 1
                if hop.turns:
                    self._wait(route, place, tail_s)
                    continue
                head_s, tail_s = hop.enter(now, tail_s, nbytes)
                place += 1
                if place == len(route):
                    if tail_s > self._end_s:
                        self._end_s = tail_s
                elif head_s == now:
                    at_once.append((route, place, tail_s))
                elif head_s in onward:
                    onward[head_s].append((route, place, tail_s))
                else:
                    onward[head_s] = [(route, place, tail_s)]
            arrivals = at_once
        return onward

    def _wait(self, route: Route, place: int, tail_s: float) -> None:
        """Let a transfer wait for its turn on a hop that was requested.

        Replays never come here: a request ends the claim on the links before it queues.
        """
        self._in_flight += 1

        def entered(head_s: float, tail_s: float) -> None:
            self._in_flight -= 1
            after = place + 1
            if after == len(route):
                self._end_s = max(self._end_s, tail_s)
                self._expect({})
            else:
                self._expect({max(head_s, self._env._now): [(route, after, tail_s)]})

        route[place].enter_in_turn(self._env._now, tail_s, self._nbytes, entered)

    def _expect(self, onward: dict[float, list[_Arrival]]) -> None:
        """Schedule what comes next."""
        self._in_flight += len(onward)
        for head_s, group in onward.items():
            At(self._env, head_s, self._make_entry(group))
        if not self._in_flight:
            self._finish()

    def _make_entry(self, group: list[_Arrival]) -> Callback:
        def enter(_: Event) -> None:
            self._in_flight -= 1
            self._expect(self._enter(group, self._env._now))

        return enter

    def _finish(self) -> None:
        """Schedule the user's own event at the end: no extra event for the completion.

        Its priority is late: transfers that reach a link at the same moment come first. That is common, because the
        head of the next transfer on a link directly follows this one's tail.
        """
        end_s = max(self._end_s + self._pause_s, self._env._now)  # replays may differ from closed forms by a rounding
        fire_at(self._env, end_s, self.event, priority=LATE)

"""A replica's steps in one loop (`express_loop.py`): when it is open, and what others may ask of it."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from simpy.events import Event

from simsys.executors.steps.express_loop import loop
from simsys.executors.steps.signals import CLOSE, GROWN, LEFT, NEVER_AGAIN
from simsys.platform.environment import Recurring
from simsys.serving.kv_cache import PagedKVCache
from simsys.serving.prefix_cache import PrefixCache
from simsys.serving.queues import OrderedQueue
from simsys.serving.replica import Replica
from simsys.serving.source import Source, inlined

if TYPE_CHECKING:
    from simsys.executors.steps.steppers import Jump

QUEUES, CACHES = (deque, OrderedQueue), (PagedKVCache, PrefixCache)


def express(jump: Jump, replica: Replica, source: Source) -> Express | None:
    """The loop for a replica, if all its parts are known here."""
    scheduler, kv = replica.scheduler, replica.kv
    if type(replica) is not Replica or replica.hand_over is not None or replica._refuses is not None:
        return None
    if type(kv) not in CACHES or scheduler.swap is not None or type(scheduler.waiting) not in QUEUES:
        return None
    known = all(map(inlined, (scheduler, scheduler.prefill, scheduler.decode)))
    return Express(jump, replica, source) if known else None


def _ignore(event: object) -> int:
    """Nothing is under way."""
    return 0


class Express:
    """Runs of steps of a replica, with its stepper and the source of all requests.

    While its loop is open, nothing of the replica's work is known elsewhere but its queues and its free blocks; who
    wants to know more lets it `settle`, who wants to change anything lets it `leave`.
    """

    def __init__(self, jump: Jump, replica: Replica, source: Source) -> None:
        self.jump, self.replica, self.source = jump, replica, source
        self.delivers = source.delivers_only_to(replica)
        self.tick = Recurring(jump._env, self._ends)
        self.tick.callbacks = self.tick.actions
        self.decode_costs: dict[int, tuple[float, ...]] = {}
        """What `costs_of` has found."""
        self._send: Callable[[Any], int] = _ignore

    @property
    def open(self) -> bool:
        """Whether the loop goes on."""
        return self.replica.express is not None

    def fits(self) -> bool:
        """Whether the run that is due now may be ended here."""
        jump = self.jump
        return (not self.replica._chunks or jump._host_s == NEVER_AGAIN) and not jump._probes.operation

    def costs_of(self, sequences: int) -> tuple[float, ...]:
        """What steps of so many sequences cost.

        Returns:
            From a context on, a constant, and what each cached token adds; what each step adds to the one before; host
            time before each, and with communication; the least duration of a step; and host time, be it before a step
            or beside it.
        """
        jump, replica = self.jump, self.replica
        steepest_from, fixed_s, per_token_s, exchange_s = jump._costs_of(sequences)
        host_s = replica._per_step_s + replica._per_sequence_s * sequences
        before_s, least_s = (0.0, host_s) if jump._beside else (host_s, 0.0)
        costs = (
            *(steepest_from, fixed_s, per_token_s, per_token_s * sequences),
            *(before_s, exchange_s + before_s, least_s, host_s),
        )
        self.decode_costs[sequences] = costs
        return costs

    def go(self) -> bool:
        """End the run that is due now, and those that follow.

        Returns:
            Whether the loop goes on by itself: not if others have to, with a run that they have begun, or at rest.
        """
        self._send = loop(self).send
        self.replica.express = self
        return self._send(None) != LEFT

    def submit(self, request: int) -> None:
        """A request arrives."""
        self._send(request)

    def grown_blocks(self) -> int:
        """Blocks that decoding sequences have taken since the run began."""
        return self._send(GROWN)

    def settle(self) -> None:
        """Let everybody know how far the replica has come."""
        self._send(None)

    def leave(self) -> None:
        """Let others go on with what is under way."""
        if not self.open:
            return
        self._send(CLOSE)
        self.close()
        jump = self.jump
        if jump._from == jump._to:
            self.replica._busy = False
        else:
            jump._tick.arm(jump._due_s, jump._priority)

    def end(self) -> None:
        """Nothing more is to come: let everybody know, and the probes too."""
        self.leave()
        self.jump._log.tell()

    def close(self) -> None:
        """The loop has ended."""
        self.replica.express, self._send = None, _ignore

    def _ends(self, tick: Event) -> None:
        """A run is due, unless it was cut."""
        tick.callbacks = self.tick.actions
        if self._send(tick) == LEFT:
            self.jump.follow()

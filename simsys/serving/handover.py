"""Disaggregated serving: some replicas process prompts, others generate tokens, and KV caches go from those to these.

As in DistServe (Zhong et al. 2024, §3) and Splitwise (Patel et al. 2024, §4). A request has its first token where its
prompt was processed. Its cache stays there until the replica that is to decode has room for it and has fetched it,
each rank from the rank at the same place. If it is preempted after that, it is computed again where it decodes.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from simsys.probes import Probes
from simsys.serving.replica import Replica
from simsys.serving.router import Router
from simsys.serving.scheduler import Scheduler

if TYPE_CHECKING:
    from simsys.platform.environment import Environment

KV_TRANSFER = "kv_transfer"
"""The name of the transfers, for observers."""


class FetchingScheduler(Scheduler):
    """A scheduler for replicas that decode: subclass it and `fetch` in `schedule`."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.elsewhere: Container[int] = ()
        """Waiting requests whose caches other replicas hold; none unless serving is disaggregated."""
        self.start_fetch: Callable[[int], None] | None = None
        """Lets the cache of one of them come."""
        self.fetching: dict[int, None] = {}
        """Requests whose caches are under way. They run, as they hold blocks, but neither decode nor have a prompt."""

    def fetch(self, request: int) -> bool:
        """Take blocks for the cache of a waiting request and let it come; False if that must wait, as in `admit`."""
        tokens = self.sequences.computed_tokens[request]
        if self.start_fetch is None or self.preempted or not self.kv.grow(request, tokens):
            return False
        self.waiting.remove(request)
        self.running[request] = self.fetching[request] = None
        self.start_fetch(request)
        return True

    def victim(self) -> int:
        """The running request admitted last, but for those whose caches are under way."""
        return next(request for request in reversed(self.running) if request not in self.fetching)


class DecodingReplica(Replica):
    """A replica that goes on with requests of others.

    Args:
        scheduler: The policy.
        given: Whatever else a `Replica` is given.
        named: Likewise.
    """

    def __init__(self, scheduler: FetchingScheduler, *given: Any, **named: Any) -> None:
        super().__init__(scheduler, *given, **named)
        self.fetching_scheduler = scheduler
        self._arrived: list[int] = []

    def fetched(self, request: int) -> None:
        """The cache of a request has arrived: it decodes from the next step on."""
        self._arrived.append(request)
        self.ask_again()

    def _next(self) -> None:
        for request in self._arrived:
            del self.fetching_scheduler.fetching[request]
            self._decode.add(request)
        self._arrived.clear()
        super()._next()


class Handover:
    """Takes requests from replicas that process prompts to replicas that decode.

    Args:
        prefilling: The former.
        decoding: The latter.
        router: Chooses among the latter.
        env: The environment.
        probes: Observers.
        token_bytes: What each rank caches for a token.
    """

    def __init__(
        self,
        prefilling: Sequence[Replica],
        decoding: Sequence[DecodingReplica],
        router: Router,
        env: Environment,
        probes: Probes,
        token_bytes: float,
    ) -> None:
        self._router, self._env, self._probes, self._token_bytes = router, env, probes, token_bytes
        self._holders: dict[int, Replica] = {}
        for source in prefilling:
            source.hand_over = partial(self._leave, source)
        for target in decoding:
            target.fetching_scheduler.elsewhere = self._holders
            target.fetching_scheduler.start_fetch = partial(self._start, target)

    def _leave(self, source: Replica, request: int) -> None:
        """A request has its first token: it waits where it is to decode, and keeps its cache here."""
        self._holders[request] = source
        target = self._router.route(request)
        target.scheduler.waiting.append(request)
        target.notice(request)

    def _start(self, target: DecodingReplica, request: int) -> None:
        source, started_s = self._holders.pop(request), self._env.now
        nbytes = source.sequences.computed_tokens[request] * self._token_bytes

        def arrived(_: object) -> None:
            source.give_back(request)
            target.fetched(request)
            for hook in self._probes.kv_transferred:
                hook(request, started_s, self._env.now, nbytes * source.team.group.size)

        source.team.send(target.team, nbytes, name=KV_TRANSFER).callbacks.append(arrived)

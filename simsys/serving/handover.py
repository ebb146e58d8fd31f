"""Disaggregated serving: prefill replicas, decode replicas, and transfers of KV caches.

As in DistServe (Zhong et al. 2024, §3) and Splitwise (Patel et al. 2024, §4). A request gets its first token on the
prefill replica. Its cache stays there until the decode replica has room and has fetched it, each rank its part. With
prefix caching on the decode replica, only what it lacks is fetched, as with vLLM's NIXL connector and SGLang's
``--disaggregation-decode-enable-radix-cache`` (sgl-project/sglang, pull request 19746). If a request is preempted
afterwards, it is recomputed on the decode replica, or copied back from its host.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from operator import mul
from typing import TYPE_CHECKING

from simsys.probes import Probes
from simsys.serving.engine import Engine
from simsys.serving.fetching import FetchingScheduler
from simsys.serving.router import Router
from simsys.serving.run_length import grown_blocks
from simsys.sums import ordered_sum

if TYPE_CHECKING:
    from simsys.platform.environment import Environment

KV_TRANSFER = "kv_transfer"
"""The name of the transfers, for observers."""


class Handover:
    """Moves requests from prefill replicas to decode replicas.

    Args:
        prefilling: Engines of prefill replicas.
        decoding: Engines of decode replicas.
        router: Selects the decode replica.
        env: The environment.
        probes: Observers.
        token_bytes: By pipeline stage, KV bytes per token on each rank of a decode replica.
        answers_later: Whether decode replicas answer with the first token, once they have the cache.
    """

    def __init__(
        self,
        prefilling: Sequence[Engine],
        decoding: Sequence[Engine],
        router: Router,
        env: Environment,
        probes: Probes,
        token_bytes: Sequence[float],
        *,
        answers_later: bool = False,
    ) -> None:
        self._answers_later = answers_later
        self._router, self._env, self._probes, self._token_bytes = router, env, probes, token_bytes
        self._holders: dict[int, Engine] = {}
        self._sizes = {target: [group.size for group in target.team.groups] for target in decoding}
        for source in prefilling:
            source.hand_over, source.answers_later = partial(self._leave, source), answers_later
        for target in decoding:
            scheduler = target.scheduler
            assert isinstance(scheduler, FetchingScheduler)
            scheduler.elsewhere = self._holders
            scheduler.start_fetch = partial(self._start, target, scheduler)
            scheduler.end_hold = lambda request: self._holders.pop(request).give_back(request)

    def _leave(self, source: Engine, request: int) -> None:
        """A request has its first token: it waits where it is to decode, and keeps its cache here."""
        self._holders[request] = source
        target = self._router.route(request)
        target.scheduler.waiting.append(request)
        target.notice(request)

    def _start(self, target: Engine, scheduler: FetchingScheduler, request: int) -> None:
        source, started_s = self._holders.pop(request), self._env._now
        tokens = source.sequences.computed_tokens[request] - self._reused(target, scheduler, request)
        nbytes = [tokens * each for each in self._token_bytes]

        def arrived(_: object) -> None:
            self._arrived(source, target, request)
            for hook in self._probes.kv_transferred:
                hook(request, started_s, self._env._now, self._whole(target, nbytes))

        if tokens:
            source.team.send(target.team, nbytes, name=KV_TRANSFER).callbacks.append(arrived)
        else:
            self._env.at(started_s, arrived)

    def _reused(self, target: Engine, scheduler: FetchingScheduler, request: int) -> int:
        """Tokens of a request that the replica that decodes has, and that are not sent."""
        found = scheduler.reused_tokens.pop(request)
        if target.kv.looks_up:
            for hook in self._probes.kv_reused:
                hook(request, found, target.sequences.prompt_tokens[request])
        return found

    def _whole(self, target: Engine, nbytes: Sequence[float]) -> float:
        """Bytes on all ranks, of those of each rank of a stage."""
        return ordered_sum(map(mul, nbytes, self._sizes[target]))

    def _arrived(self, source: Engine, target: Engine, request: int) -> None:
        """The cache of a request is where it decodes: it can be found there, and is released elsewhere."""
        source.give_back(request)
        if target.kv.shares:
            target.kv.foresee(grown_blocks(target))
            target.kv.grow(request, target.sequences.computed_tokens[request])
        target.join(request)
        if self._answers_later and source.sequences.generated_tokens[request] == 1:
            for first in self._probes.request_first_token:
                first(request, self._env.now)

"""A router that sends requests where their beginning is cached, as SGLang's cache-aware router does.

A busy replica is spared: if the one with the longest prefix has clearly more requests than the one with the fewest,
the request goes to the latter.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, NonNegativeInt

from simsys.framework import Replica, Router, register


@register("prefix_affinity")
class PrefixAffinity(Router):
    """The replica with the longest cached prefix; of several, the one with the fewest requests."""

    inlined = True

    class Options(Router.Options):
        """How much busier than the least loaded replica that one may be.

        It is passed over if it has more than `balance_abs_threshold` requests more, and also more than
        `balance_rel_threshold` times as many. Both are names and defaults of SGLang's router.
        """

        balance_abs_threshold: NonNegativeInt = 32
        balance_rel_threshold: Annotated[float, Field(ge=1)] = 1.1

    def route(self, request: int) -> Replica:
        """Compare what they have cached, then how busy they are."""
        replicas, options = self.replicas, self.options
        found = [replica.cached_tokens(request) for replica in replicas]
        loads = [replica.outstanding for replica in replicas]
        longest, idlest = max(found), min(loads)
        load = min(load for load, tokens in zip(loads, found, strict=True) if tokens == longest)
        busy = load > options.balance_rel_threshold * idlest
        if busy and load - idlest > options.balance_abs_threshold:
            return replicas[loads.index(idlest)]
        return replicas[list(zip(loads, found, strict=True)).index((load, longest))]

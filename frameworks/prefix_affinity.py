"""A router that sends requests where their beginning is cached, as SGLang's cache-aware router does.

A busy replica is spared: if the one with the longest prefix has clearly more requests than the one with the fewest,
the request goes to the latter.
"""

from __future__ import annotations

from sys import maxsize
from typing import Annotated

from pydantic import Field, NonNegativeInt

from simsys.framework import Engine, Router, register


@register("prefix_affinity")
class PrefixAffinity(Router):
    """The replica with the longest cached prefix; on a tie, the one with the fewest requests."""

    needs_prefix_caching = True

    class Options(Router.Options):
        """Allowed imbalance of load.

        The replica is skipped if it has more than `balance_abs_threshold` requests more than the least loaded one, and
        more than `balance_rel_threshold` times as many. Both are names and defaults of SGLang's router.
        """

        balance_abs_threshold: NonNegativeInt = 32
        balance_rel_threshold: Annotated[float, Field(ge=1)] = 1.1

    def route(self, request: int) -> Engine:
        """Compare cached prefixes, then load."""
        options, longest, least, idlest = self.options, -1, 0, maxsize
        for replica in self.replicas:
            tokens, load = replica.cached_tokens(request), replica.outstanding
            if tokens > longest or (tokens == longest and load < least):
                chosen, longest, least = replica, tokens, load
            if load < idlest:
                idle, idlest = replica, load
        busy = least > options.balance_rel_threshold * idlest
        return idle if busy and least - idlest > options.balance_abs_threshold else chosen

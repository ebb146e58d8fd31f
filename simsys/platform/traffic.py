"""The communication graph: bytes by sender and receiver, kept as sums until requested."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from simsys.platform.routing import Hop, Way
from simsys.sums import ordered_sum

Shares = Callable[[], Iterable[tuple[int, int, float]]]
"""Returns transfers: source and destination GPU, and the share of some bytes."""


class Account:
    """Transfers with common bytes, such as the transfers of a collective.

    Args:
        shares: The transfers, each with its share of the bytes counted here.
    """

    __slots__ = ("nbytes", "shares")

    def __init__(self, shares: Shares) -> None:
        self.shares = shares
        self.nbytes = 0.0
        """Bytes counted so far: add to it."""


class Traffic:
    """Bytes from GPU to GPU."""

    def __init__(self) -> None:
        self._accounts: list[Account] = []
        self._between: dict[tuple[int, int], Account] = {}

    def account(self, shares: Shares) -> Account:
        """Open an account for transfers with common bytes."""
        account = Account(shares)
        self._accounts.append(account)
        return account

    def between(self, src: int, dst: int) -> Account:
        """The account of single transfers from `src` to `dst`."""
        key = src, dst
        found = self._between.get(key)
        if found is None:
            found = self._between[key] = self.account(lambda: [(src, dst, 1.0)])
        return found

    def counted(self) -> list[float]:
        """The bytes of every account so far, in the order of their opening."""
        return [account.nbytes for account in self._accounts]

    def repeat(self, nbytes: Sequence[float], times: int) -> None:
        """Count further bytes in each of the accounts, a number of times."""
        for account, each in zip(self._accounts, nbytes, strict=False):  # later ones had nothing to count then
            account.nbytes += times * each

    def columns(self) -> dict[str, list[Any]]:
        """The graph as columns ``src``, ``dst`` and ``nbytes``: one row per pair that sent anything, in order."""
        total: dict[tuple[int, int], float] = {}
        for account in self._accounts:
            if account.nbytes:
                for src, dst, share in account.shares():
                    total[src, dst] = total.get((src, dst), 0.0) + share * account.nbytes
        pairs = sorted((src, dst) for src, dst in total if src != dst)
        return {
            "src": [src for src, _ in pairs],
            "dst": [dst for _, dst in pairs],
            "nbytes": [total[pair] for pair in pairs],
        }


def payload_bytes(graph: Mapping[str, Sequence[Any]], way: Callable[[int, int], Way]) -> dict[int, float]:
    """Bytes that GPUs sent over each link, without overhead of protocols.

    Args:
        graph: A communication graph, as `Traffic.columns` has it.
        way: The links from one GPU to another, hop by hop, with their shares of the bytes.

    Returns:
        The bytes by link; links that nothing was sent over are left out.
    """
    found: dict[int, float] = {}
    spread: dict[int, tuple[Hop, list[float]]] = {}  # transfers that spread over the same links share a hop
    for src, dst, nbytes in zip(graph["src"], graph["dst"], graph["nbytes"], strict=True):
        for hop in way(src, dst):
            if len(hop) == 1:
                link, share = hop[0]
                found[link] = found.get(link, 0.0) + share * nbytes
            else:
                spread.setdefault(id(hop), (hop, []))[1].append(nbytes)
    for hop, sent_bytes in spread.values():
        total_bytes = ordered_sum(sent_bytes)
        for link, share in hop:
            found[link] = found.get(link, 0.0) + share * total_bytes
    return found

"""Who sends how much to whom: the communication graph, kept as sums until somebody asks for it."""

from __future__ import annotations

from collections.abc import Callable, Iterable

Transfers = Iterable[tuple[int, int, float]]
"""Source and destination GPU, and a number of bytes."""


class Account:
    """Transfers that always go together, such as those of a collective.

    Args:
        shares: Answers with the transfers, each with its share of the `nbytes` that are counted.
    """

    __slots__ = ("nbytes", "shares")

    def __init__(self, shares: Callable[[], Transfers]) -> None:
        self.shares = shares
        self.nbytes = 0.0
        """The bytes counted so far; add to it."""


class Traffic:
    """Bytes from GPU to GPU."""

    def __init__(self) -> None:
        self._sent: dict[tuple[int, int], float] = {}
        self._accounts: list[Account] = []

    def add(self, src: int, dst: int, nbytes: float) -> None:
        """Count a transfer."""
        key = src, dst
        self._sent[key] = self._sent.get(key, 0.0) + nbytes

    def account(self, shares: Callable[[], Transfers]) -> Account:
        """Open an account of transfers that go together, so that counting them costs one addition."""
        account = Account(shares)
        self._accounts.append(account)
        return account

    def columns(self) -> dict[str, list[int] | list[float]]:
        """The graph as columns ``src``, ``dst`` and ``nbytes``, one row per pair that sent anything, in order."""
        total = dict(self._sent)
        for account in self._accounts:
            if account.nbytes:
                for src, dst, share in account.shares():
                    total[src, dst] = total.get((src, dst), 0.0) + share * account.nbytes
        pairs = sorted(pair for pair, nbytes in total.items() if nbytes and pair[0] != pair[1])
        return {
            "src": [src for src, _ in pairs],
            "dst": [dst for _, dst in pairs],
            "nbytes": [total[pair] for pair in pairs],
        }

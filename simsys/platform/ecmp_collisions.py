"""ECMP collisions: hashes put transfers on the same links although other paths are free."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from simsys.platform.routing import Routing, link_loads
from simsys.platform.topology import Topology

COSTLY = 1.05
"""The least slow-down by a collision that is reported."""


@dataclass(frozen=True)
class Collision:
    """Transfers that start together and share a link because of their hashes.

    Args:
        link: Its name, for people.
        transfers: The number of transfers on it; a queue pair counts as its share of a transfer.
        slower: Bandwidth of the slowest transfer if all paths were used evenly, over its bandwidth now.
    """

    link: str
    transfers: float
    slower: float

    def __str__(self) -> str:
        return (
            f"hashes (routing: ecmp) put {self.transfers:.3g} of them on {self.link}, so the slowest "
            f"has {self.slower:.2g} times less bandwidth than with evenly used paths (routing: adaptive)"
        )


def collision(topology: Topology, pairs: Sequence[tuple[int, int]]) -> Collision | None:
    """The worst collision of transfers between pairs of GPUs; None if none costs anything.

    Args:
        topology: The links and the routing.
        pairs: Source and destination of transfers that start together.
    """
    if topology.routing.kind != "ecmp":
        return None
    spread = replace(topology, routing=Routing("per_packet"))
    loads = [link_loads(each.way(*pair) for pair in pairs) for each in (topology, spread)]
    seconds = [{link: load / topology.links[link].bytes_per_s for link, load in each.items()} for each in loads]
    worst = max(seconds[0], key=seconds[0].__getitem__)
    hashed_s, even_s = seconds[0][worst], max(seconds[1].values())
    if hashed_s <= COSTLY * even_s:
        return None
    return Collision(topology.link_name(worst), loads[0][worst], hashed_s / even_s)

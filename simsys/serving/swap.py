"""Host memory for the KV cache of preempted requests, and the copies that a step waits for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from simsys.teams import Team

if TYPE_CHECKING:
    from simpy.events import Event


class SwapSpace:
    """Blocks of a replica that fit into its hosts' memory.

    Args:
        num_blocks: How many; each rank keeps its part of every block.
        team: The ranks.
        block_bytes: By rank, its part of a block.
    """

    def __init__(self, num_blocks: int, team: Team, block_bytes: Mapping[int, float]) -> None:
        self.num_blocks = self.free_blocks = num_blocks
        self._team, self._block_bytes = team, block_bytes
        self._out = self._back = 0

    def bind(self, engine: Any) -> None:
        """Copies are for this engine from now on."""

    def prepare(self) -> None:
        """The policy is asked next, with room made for the sequences that decode."""

    def gives_way(self) -> bool:
        """Nothing can run although requests wait; True if blocks have become free, and the policy is to be asked."""
        return False

    def forget(self, request: int) -> None:
        """A waiting request does not come again."""

    def put(self, blocks: int) -> bool:
        """Copy blocks to the hosts before the next step; False, and nothing happens, if they do not fit."""
        if blocks > self.free_blocks:
            return False
        self.free_blocks -= blocks
        self._out += blocks
        return True

    def drop(self, blocks: int) -> None:
        """Free a number of blocks."""
        self.free_blocks += blocks

    def get(self, blocks: int) -> None:
        """Copy blocks back before the next step; their room on the hosts is free again."""
        self.drop(blocks)
        self._back += blocks

    def copies(self, chunks: Sequence[tuple[int, int]]) -> Event | None:
        """Start the copies that the next step waits for, first to the hosts, then back; None if there are none.

        Args:
            chunks: The prompt chunks of this step: requests and tokens.
        """
        out, back = self._out, self._back
        self._out = self._back = 0
        event = self._team.to_host(self._parts(out)) if out else None
        return self._team.from_host(self._parts(back), after=event) if back else event

    def _parts(self, blocks: int) -> dict[int, float]:
        return {rank: blocks * nbytes for rank, nbytes in self._block_bytes.items()}

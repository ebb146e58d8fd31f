"""A tier below the memory of the GPUs: chunks of KV cache in order of use, and its two channels.

Chunks are evicted in LRU order, as in vLLM's offloading manager (``eviction_policy: lru``) and in LMCache
(``cache_policy: LRU``). Of a prompt, later chunks are older, so that a prefix loses its end first.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from simsys.platform.environment import Environment

TIER_KINDS = ("cpu", "ssd", "remote")
"""Kinds of tiers, the fastest one first."""


@dataclass(frozen=True)
class TierSpec:
    """What an instance of a tier is like.

    Args:
        kind: ``cpu``, ``ssd`` or ``remote``.
        chunks: Chunks that fit.
        chunk_bytes: Size of a chunk on all ranks of a replica together.
        read_bytes_per_s: Bandwidth towards the GPUs.
        write_bytes_per_s: Bandwidth towards the tier.
        latency_s: Time before the first byte of a read or write.
        shared: ``replica``, ``node`` or ``cluster``.
        writes_back: Whether chunks are written when the level above evicts them, not when they are computed.
    """

    kind: str
    chunks: int
    chunk_bytes: float
    read_bytes_per_s: float
    write_bytes_per_s: float
    latency_s: float = 0.0
    shared: str = "replica"
    writes_back: bool = False


class Read:
    """A read from a tier: waiting, under way, or ended."""

    __slots__ = ("arrived", "begun_s", "ended", "nbytes")

    def __init__(self, nbytes: float, arrived: Callable[[], None]) -> None:
        self.nbytes, self.arrived = nbytes, arrived
        self.begun_s = -1.0
        """When its first byte was asked for; below 0 while it waits for its turn."""
        self.ended = False
        """Whether it has arrived or was cancelled."""


class ReadChannel:
    """Reads take turns in the order of their starts; the latency of one overlaps with the next one.

    Args:
        env: The environment.
        bytes_per_s: Bandwidth.
        latency_s: Time before the first byte.
    """

    def __init__(self, env: Environment, bytes_per_s: float, latency_s: float) -> None:
        self._env, self._bytes_per_s, self._latency_s = env, bytes_per_s, latency_s
        self._reads: deque[Read] = deque()

    def start(self, nbytes: float, arrived: Callable[[], None]) -> Read:
        """Read bytes; `arrived` is called when the last one is there."""
        read = Read(nbytes, arrived)
        self._reads.append(read)
        if len(self._reads) == 1:
            self._begin(self._env._now)
        return read

    def seconds(self, read: Read) -> float:
        """Time of a read from its first byte to its last one, without other reads (s)."""
        return read.nbytes / self._bytes_per_s

    def comes_s(self, read: Read) -> float:
        """When the last byte of a read is there, if no earlier read is cut short."""
        if read.begun_s >= 0.0:
            return read.begun_s + (self._latency_s + self.seconds(read))
        begins_s = self._reads[0].begun_s
        for each in self._reads:
            if each is read:
                break
            begins_s += self.seconds(each)
        return begins_s + (self._latency_s + self.seconds(read))

    def cancel(self, read: Read) -> float:
        """End a read before it has arrived, and return the bytes that have."""
        came = 0.0
        if read.begun_s >= 0.0:
            came = max(0.0, (self._env._now - read.begun_s - self._latency_s) * self._bytes_per_s)
        read.ended = True
        if read in self._reads:
            was_first = self._reads[0] is read
            self._reads.remove(read)
            if was_first and self._reads:
                self._begin(self._env._now)
        return min(came, read.nbytes)

    def _begin(self, now_s: float) -> None:
        read = self._reads[0]
        read.begun_s = now_s
        self._env.at(now_s + self.seconds(read), lambda _: self._sent(read))

    def _sent(self, read: Read) -> None:
        """The last byte has left: the next one's turn."""
        if read.ended:
            return
        self._reads.popleft()
        if self._latency_s:
            self._env.at(self.comes_s(read), lambda _: self._arrive(read))
        if self._reads:
            self._begin(self._env._now)
        if not self._latency_s:
            self._arrive(read)

    @staticmethod
    def _arrive(read: Read) -> None:
        if not read.ended:
            read.ended = True
            read.arrived()


class Tier:
    """One instance of a tier.

    Args:
        spec: What it is like.
        env: The environment.
        below: The next tier, or None.
        moved: Called with the kind, whether bytes are read, and their number, whenever some move.
    """

    def __init__(
        self,
        spec: TierSpec,
        env: Environment,
        below: Tier | None = None,
        moved: Sequence[Callable[[str, bool, float], None]] = (),
    ) -> None:
        self.spec, self.below = spec, below
        self.held: OrderedDict[Hashable, float] = OrderedDict()
        """Chunks, the least recently used one first, each with the time (s) at which it is written."""
        self._env, self._hooks = env, moved
        self.reads = ReadChannel(env, spec.read_bytes_per_s, spec.latency_s)
        self._writes_until_s = 0.0

    def write(self, keys: Sequence[Hashable]) -> None:
        """Write the chunks at the beginning of a prompt that are missing, and use all of them."""
        held, now_s = self.held, self._env._now
        missing = sum(key not in held for key in keys)
        written_s = self._write_s(missing) if missing else now_s
        for key in reversed(keys):
            if key in held:
                held.move_to_end(key)
            else:
                held[key] = written_s
        self._evict()

    def _write_s(self, chunks: int) -> float:
        """Start to write a number of chunks, after earlier writes; return when they are written."""
        nbytes, now_s = chunks * self.spec.chunk_bytes, self._env._now
        self._moved(False, nbytes)
        self._writes_until_s = max(now_s, self._writes_until_s) + nbytes / self.spec.write_bytes_per_s
        return self._writes_until_s + self.spec.latency_s

    def take_evicted(self, key: Hashable) -> None:
        """The level above has evicted a chunk: write it back, unless it is here. It can be read at once."""
        held = self.held
        if key in held:
            return
        self._moved(False, self.spec.chunk_bytes)
        held[key] = 0.0
        self._evict()

    def take_promoted(self, keys: Sequence[Hashable]) -> None:
        """Chunks have come from a tier below on their way to the GPUs: keep them here, too."""
        held, now_s = self.held, self._env._now
        missing = sum(key not in held for key in keys)
        if missing:
            self._moved(False, missing * self.spec.chunk_bytes)
        for key in reversed(keys):
            if key not in held:
                held[key] = now_s
            held.move_to_end(key)
        self._evict()

    def use(self, keys: Sequence[Hashable]) -> None:
        """Chunks at the beginning of a prompt are used now."""
        held = self.held
        for key in reversed(keys):
            if key in held:
                held.move_to_end(key)

    def read(self, nbytes: float, arrived: Callable[[], None]) -> Read:
        """Read bytes after earlier reads."""
        self._moved(True, nbytes)
        return self.reads.start(nbytes, arrived)

    def cancel(self, read: Read) -> float:
        """End a read before it has arrived, and return the bytes that have."""
        came = self.reads.cancel(read)
        self._moved(True, came - read.nbytes)
        return came

    def _moved(self, reads: bool, nbytes: float) -> None:
        for hook in self._hooks:
            hook(self.spec.kind, reads, nbytes)

    def _evict(self) -> None:
        held, most, below = self.held, self.spec.chunks, self.below
        while len(held) > most:
            key, _ = held.popitem(last=False)
            if below is not None and below.spec.writes_back:
                below.take_evicted(key)

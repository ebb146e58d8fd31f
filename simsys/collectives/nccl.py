"""NCCL's tuning model: costs of protocols by pattern, hardware and GPU generation.

Constants: NVIDIA/nccl 2.28, src/graph/tuning.cc (``baseLat``, ``hwLat``, ``llMaxBws``, ``perChMaxRingLL128Bws``,
``perChMaxTreeBws``, ``perChMaxTreeLL128Bws``, ``ncclNvlsEfficiency`` and the refinements in ``ncclTopoTuneModel``).

The protocols trade latency for bandwidth. LL sends a flag with every four bytes and needs no fences: half of the
bandwidth or less. LL128 sends eight bytes of flags in every 128, over NVLink. Simple sends bytes only, and fences.

NCCL's latency of a step is from one GPU to the next, including the wire. So a step has the larger of this and the
latency of the path, not the sum. If only some transfers of a step leave the node, the mean counts, since a chunk
passes them one after another.

`RAMP` and `CALL_S` are not from NCCL. `RAMP` is the weight of the square root in `CollectivePlan`; without it,
messages of 1 to 64 MiB are too fast, since their chunks are too few to fill the links. `CALL_S` is a fixed time of a
call. Both were set on 296 published nccl-tests figures of A100 to B200 systems, 1 to 8 nodes. Median error below 1
MiB, up to 64 MiB and beyond: 40, 26 and 12 % without both; 26, 16 and 7 % with a weight of 0.7, 24, 17 and 7 % with 4
us in addition, which reduces the mean error below 1 MiB from 34 to 27 %; 20, 19 and 5 % with a weight of 1.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from simsys.collectives.base import Path
from simsys.errors import UsageError

Generation: TypeAlias = Literal["volta", "ampere", "hopper", "blackwell"]
Inside: TypeAlias = Literal["nvlink", "pci"]

PROTOCOLS = ("LL", "LL128", "Simple")
RAMP = 0.7
CALL_S = 4e-6

BASE_S = {
    "ring": {"LL": 6.6e-6, "LL128": 14.0e-6, "Simple": 8.4e-6},
    "tree": {"LL": 6.8e-6, "LL128": 14.0e-6, "Simple": 8.4e-6},
    "nvls": {"Simple": 0.0},
    "nvls_tree": {"Simple": 8.4e-6},  # as for trees, like its steps; NCCL lists it with the steps
    "collnet": {"Simple": 8.4e-6},  # as for trees; NCCL lists it with the steps
}
"""``baseLat``: seconds per call, the launch of the kernel included, by pattern and protocol."""

STEP_S = {
    "nvlink": {
        "ring": {"LL": 0.6e-6, "LL128": 1.9e-6, "Simple": 3.4e-6},
        "tree": {"LL": 0.6e-6, "LL128": 1.25e-6, "Simple": 4.0e-6},
        "nvls": {"Simple": 12.5e-6},  # NCCL's 25 us are for an all-reduce, which is two steps here
        "collnet": {"Simple": 12.8e-6},
    },
    "pci": {
        "ring": {"LL": 1.0e-6, "LL128": 2.5e-6, "Simple": 5.7e-6},
        "tree": {"LL": 1.0e-6, "LL128": 1.9e-6, "Simple": 4.0e-6},
        "collnet": {"Simple": 12.8e-6},
    },
    "net": {
        "ring": {"LL": 2.7e-6, "LL128": 4.0e-6, "Simple": 14.0e-6},
        "tree": {"LL": 5.0e-6, "LL128": 8.5e-6, "Simple": 14.0e-6},
        "collnet": {"Simple": 12.8e-6},  # NCCL's 31 us of the network and twice 3.7 us inside are three steps here
    },
}
"""``hwLat``: seconds per step, by hardware, pattern and protocol."""

SHARE = {
    "ring": {"LL": 0.5, "LL128": 0.92, "Simple": 1.0},
    "tree": {"LL": 0.92 / 3.8, "LL128": 0.92 * 120 / 128, "Simple": 0.92},
    "collnet": {"Simple": 1.0},
}
"""Share of the wire's bandwidth, by pattern and protocol; for in-switch reduction see `NVLS_SHARE`."""

NVLS_SHARE: dict[Generation, float] = {"hopper": 0.85, "blackwell": 0.74}
"""``ncclNvlsEfficiency``; generations that are not here have no in-switch reduction."""

LL_LIMIT: dict[Generation, tuple[float, float, float]] = {
    "volta": (39.0e9, 39.0e9, 20.4e9),
    "ampere": (87.7e9, 22.5e9, 19.0e9),
    "hopper": (141.0e9, 45.0e9, 35.0e9),
    "blackwell": (282.0e9, 90.0e9, 70.0e9),
}
"""``llMaxBws``: bytes/s of a ring with LL per GPU in one node, and per node in two and in more nodes."""

CHANNEL_LIMIT: dict[tuple[str, str], dict[Generation, tuple[float, float, float]]] = {
    ("ring", "LL128"): {
        "volta": (20.0e9, 20.0e9, 20.0e9),
        "ampere": (20.0e9, 20.0e9, 20.0e9),
        "hopper": (36.7e9, 36.7e9, 36.7e9),
        "blackwell": (40.0e9, 40.0e9, 40.0e9),
    },
    ("tree", "LL128"): {
        "volta": (20.0e9, 20.0e9, 20.0e9),
        "ampere": (20.0e9, 20.0e9, 20.0e9),
        "hopper": (36.7e9, 36.7e9, 29.0e9),
        "blackwell": (55.6e9, 31.67e9, 20.0e9),
    },
    ("tree", "Simple"): {
        "volta": (26.5e9, 18.5e9, 10.0e9),
        "ampere": (24.0e9, 23.6e9, 17.8e9),
        "hopper": (38.7e9, 41.4e9, 36.0e9),
        "blackwell": (70.0e9, 42.8e9, 24.0e9),
    },
}
"""Bytes/s of one channel by (pattern, protocol), generation, and one, two or more nodes."""

CHANNELS: dict[Generation, int] = {"volta": 16, "ampere": 24, "hopper": 16, "blackwell": 16}
"""Channels that NCCL opens on the eight-GPU nodes of the generation."""


@dataclass(frozen=True)
class NcclTuning:
    """NCCL on one kind of cluster.

    Args:
        generation: GPU generation; equal compute capabilities share constants.
        inside: Interconnect of the GPUs of a node.
        in_switch_reduction: Whether the switches of the node reduce.
        across: The protocols that the transport between nodes allows.
        in_network_reduction: Whether the switches between nodes reduce (SHARP).
    """

    generation: Generation
    inside: Inside = "nvlink"
    in_switch_reduction: bool = False
    across: tuple[str, ...] = PROTOCOLS
    in_network_reduction: bool = False

    def __post_init__(self) -> None:
        if self.in_switch_reduction and self.generation not in NVLS_SHARE:
            raise UsageError(f"switches reduce for {' and '.join(NVLS_SHARE)} GPUs, not for {self.generation}")

    @property
    def protocols(self) -> tuple[str, ...]:
        """The protocols available here; LL128 needs NVLink."""
        return PROTOCOLS if self.inside == "nvlink" else ("LL", "Simple")

    def offers(self, pattern: str, protocol: str, nodes: int = 1) -> bool:
        """Whether a pattern can use a protocol here, in a group on this number of nodes."""
        if nodes > 1 and protocol not in self.across:
            return False
        if pattern == "collnet":
            return protocol == "Simple" and self.in_network_reduction
        if pattern in ("nvls", "nvls_tree"):
            return protocol == "Simple" and self.in_switch_reduction
        return protocol in self.protocols

    def overhead_s(self, pattern: str, protocol: str) -> float:
        """Launch time of a call in seconds."""
        return CALL_S + BASE_S[pattern][protocol]

    def over(self, path: Path, protocol: str, nodes: int) -> Path:
        """The path as seen by a protocol, in a group on this number of nodes.

        NVLS has one protocol, even if other phases of an algorithm use another.
        """
        way = path.way
        if way.pattern == "nvls":
            latency_s = STEP_S["nvlink"]["nvls"]["Simple"]
            bytes_per_s = path.bytes_per_s * NVLS_SHARE[self.generation]
        else:
            inside_s = STEP_S[self.inside][way.pattern][protocol]
            across_s = STEP_S["net"][way.pattern][protocol]
            latency_s = way.crossing * across_s + (1.0 - way.crossing) * inside_s
            limit = self._limit(way.pattern, protocol, nodes if way.crossing else 1) / way.lanes
            bytes_per_s = min(path.bytes_per_s * SHARE[way.pattern][protocol], limit)
        return Path(max(path.latency_s, latency_s), bytes_per_s, way)

    def _limit(self, pattern: str, protocol: str, nodes: int) -> float:
        """Bytes/s that all channels of a GPU, or of a node where `nodes` is more than one, carry at most."""
        column = min(nodes, 3) - 1
        if (pattern, protocol) == ("ring", "LL"):
            return LL_LIMIT[self.generation][column]
        each = CHANNEL_LIMIT.get((pattern, protocol))
        return each[self.generation][column] * CHANNELS[self.generation] if each else float("inf")

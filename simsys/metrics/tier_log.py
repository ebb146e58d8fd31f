"""What moved between the GPUs and the tiers of the KV cache below them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from simsys.sums import ordered_sum


class TierLog:
    """Loads of prefixes, and bytes by kind of tier."""

    def __init__(self) -> None:
        self.read_bytes: dict[str, float] = {}
        self.written_bytes: dict[str, float] = {}
        self.hit_tokens: dict[str, int] = {}
        """Tokens that were loaded for requests, as in vLLM not after a preemption."""
        self.loads_s: list[float] = []
        """How long each load took, from its start to the last byte."""

    def moved(self, kind: str, reads: bool, nbytes: float) -> None:
        """Bytes are read from a tier or written to it."""
        for each in (self.read_bytes, self.written_bytes):
            each.setdefault(kind, 0.0)
        (self.read_bytes if reads else self.written_bytes)[kind] += nbytes

    def loaded(self, tokens: Mapping[str, int], seconds: float, *, again: bool) -> None:
        """A prefix has been loaded, for a request that is scheduled for the first time or `again`."""
        self.loads_s.append(seconds)
        if not again:
            for kind, count in tokens.items():
                self.hit_tokens[kind] = self.hit_tokens.get(kind, 0) + count

    def metrics(self, query_tokens: int, mean_ttft_ms: float | None, requests: int) -> dict[str, Any]:
        """Figures; none if nothing moved.

        Args:
            query_tokens: Prompt tokens that were looked up.
            mean_ttft_ms: The mean time to first token; None if there is none.
            requests: Completed requests, which this is the mean of.
        """
        if not self.written_bytes and not self.read_bytes:
            return {}
        found: dict[str, Any] = {}
        for kind in self.read_bytes:
            found[f"kv_hit_share_{kind}"] = self.hit_tokens.get(kind, 0) / query_tokens if query_tokens else 0.0
            found[f"kv_read_bytes_{kind}"] = self.read_bytes[kind]
            found[f"kv_written_bytes_{kind}"] = self.written_bytes[kind]
        found["kv_loads"] = len(self.loads_s)
        total_ms = 1e3 * ordered_sum(self.loads_s)
        found["mean_kv_load_ms"] = total_ms / len(self.loads_s) if self.loads_s else None
        found["max_kv_load_ms"] = 1e3 * max(self.loads_s) if self.loads_s else None
        if mean_ttft_ms:
            found["kv_load_share_of_ttft"] = total_ms / (mean_ttft_ms * requests)
        return found

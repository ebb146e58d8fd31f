"""The times of completed requests, with the definitions of vLLM.

Of ``vllm bench serve`` (vllm/benchmarks/serve.py): TTFT is from arrival to first token, E2E from arrival to last
token, TPOT ``(E2E - TTFT) / (output tokens - 1)``. Of vLLM's server (docs/design/metrics.md): the queue ends when a
request is scheduled first, prefill with the first token, decode with the last; inference is both. Preemptions count
into the interval they fall in.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class Latencies:
    """Arrays with an element for each completed request, seconds; made when asked for.

    Args:
        rows: The table of requests, by column.
        api_s: How long each needs from its arrival to the scheduler, which is no part of the queue.
    """

    def __init__(self, rows: Mapping[str, Sequence[Any]], api_s: float = 0.0) -> None:
        import numpy as np

        self._rows, self._api_s = rows, api_s
        self._columns: dict[str, NDArray[np.float64]] = {}  # those that were asked for
        self._done = np.isfinite(np.asarray(rows["finished_s"], dtype=float))
        self.completed = int(self._done.sum())
        """Number of requests."""

    def column(self, name: str) -> NDArray[np.float64]:
        """A column of the table, not to be written to."""
        import numpy as np

        if name not in self._columns:
            values = np.asarray(self._rows[name], dtype=float)
            self._columns[name] = values if self.completed == values.size else values[self._done]
        return self._columns[name]

    @property
    def arrival_s(self) -> NDArray[np.float64]:
        """Times of arrival in seconds."""
        return self.column("arrival_s")

    @property
    def first_token_s(self) -> NDArray[np.float64]:
        """When they had their first token."""
        return self.column("first_token_s")

    @property
    def finished_s(self) -> NDArray[np.float64]:
        """When they had their last token."""
        return self.column("finished_s")

    @property
    def output_tokens(self) -> NDArray[np.float64]:
        """Numbers of output tokens."""
        return self.column("output_tokens")

    @property
    def ttft_s(self) -> NDArray[np.float64]:
        """Time to first token."""
        return self.first_token_s - self.arrival_s

    @property
    def e2el_s(self) -> NDArray[np.float64]:
        """End-to-end latencies in seconds."""
        return self.finished_s - self.arrival_s

    @property
    def tpot_s(self) -> NDArray[np.float64]:
        """Time per output token after the first; 0 for a request with only one, as vLLM counts for its goodput."""
        import numpy as np

        return self.decode_s / np.maximum(self.output_tokens - 1.0, 1.0)

    @property
    def several_tpot_s(self) -> NDArray[np.float64]:
        """The requests with more than one output token."""
        several = self.output_tokens > 1
        return self.tpot_s if several.all() else self.tpot_s[several]

    @property
    def queue_s(self) -> NDArray[np.float64]:
        """From the arrival at the scheduler until scheduled for the first time."""
        return self.column("admitted_s") - (self.arrival_s + self._api_s)

    @property
    def prefill_s(self) -> NDArray[np.float64]:
        """From then until the first token."""
        return self.first_token_s - self.column("admitted_s")

    @property
    def decode_s(self) -> NDArray[np.float64]:
        """From the first to the last token."""
        return self.finished_s - self.first_token_s

    @property
    def inference_s(self) -> NDArray[np.float64]:
        """Time of prefill and decode in seconds."""
        return self.finished_s - self.column("admitted_s")

"""What happened to the requests of a serving run, in columns indexed by request."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator, Mapping, MutableSequence, Sequence
from functools import cached_property
from itertools import compress
from operator import eq
from typing import TYPE_CHECKING, Any, TypeVar, overload

from simsys.metrics.step_log import StepLog
from simsys.metrics.token_gaps import Lost, TokenGaps
from simsys.serving.requests import RequestTable

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from simsys.serving.engine_log import EngineLog
    from simsys.serving.kv_cache import PagedKVCache

T = TypeVar("T", covariant=True)

COMPLETED, REJECTED, IN_FLIGHT, NOT_SENT = "completed", "rejected", "in flight", "not sent"
"""State of a request; not sent are requests of clients that still waited at the end of a timed run."""


class Made(Sequence[T]):
    """A column with elements created on access; equal to a list of them."""

    __hash__ = None  # type: ignore[assignment]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Sequence):
            return NotImplemented
        return len(self) == len(other) and all(map(eq, self, other))


class Times(Made[float | None]):
    """A column of times as a table shows it: None where a column of numbers says -1 for not yet."""

    def __init__(self, seconds: Sequence[float]) -> None:
        self._seconds = seconds

    @overload
    def __getitem__(self, place: int) -> float | None: ...
    @overload
    def __getitem__(self, place: slice) -> list[float | None]: ...
    def __getitem__(self, place: int | slice) -> float | list[float | None] | None:
        if isinstance(place, slice):
            return list(Times(self._seconds[place]))
        seconds = self._seconds[place]
        return seconds if seconds >= 0.0 else None

    def __iter__(self) -> Iterator[float | None]:
        return (seconds if seconds >= 0.0 else None for seconds in self._seconds)

    def __len__(self) -> int:
        return len(self._seconds)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        """As numpy has it: NaN where there is no time."""
        import numpy as np

        seconds = np.array(self._seconds, dtype=float)
        seconds[seconds < 0.0] = np.nan
        return seconds if dtype is None else seconds.astype(dtype, copy=False)


class Texts(Made[str]):
    """A column of texts that are made when they are looked at.

    Args:
        count: How many.
        text: Makes one, by its place.
    """

    def __init__(self, count: int, text: Callable[[int], str]) -> None:
        self._places, self._text = range(count), text

    @overload
    def __getitem__(self, place: int) -> str: ...
    @overload
    def __getitem__(self, place: slice) -> list[str]: ...
    def __getitem__(self, place: int | slice) -> str | list[str]:
        if isinstance(place, slice):
            return list(map(self._text, self._places[place]))
        return self._text(self._places[place])

    def __iter__(self) -> Iterator[str]:
        return map(self._text, self._places)

    def __len__(self) -> int:
        return len(self._places)


class ServingLog:
    """Records of each request, in preallocated columns indexed by request, and of all requests together.

    Plain columns of numbers: a table of a million requests takes 28 MB, and reading them costs no conversion.

    Args:
        requests: All requests of the run, with the times at which clients send them.
        api_s: Time of each request from its arrival to the scheduler.
        starts_s: Start of the run.
    """

    def __init__(self, requests: RequestTable, api_s: float = 0.0, starts_s: float = 0.0) -> None:
        self.requests = requests
        self.api_s, self.starts_s = api_s, starts_s
        self.arrival_s: MutableSequence[float] = requests.arrival_s
        """Known in advance, unless arrivals depend on the end of other requests."""
        if requests.after or requests.concurrency:
            self.arrival_s = array("d", [-1.0]) * len(requests)
        self.admitted_s = array("d", [-1.0]) * len(requests)
        """When each was scheduled for the first time; -1 for not yet, as in the columns that follow."""
        self.first_token_s = array("d", [-1.0]) * len(requests)
        self.finished_s = array("d", [-1.0]) * len(requests)
        self.preemptions = array("I", [0]) * len(requests)
        self.rejected: dict[int, str] = {}
        """Why requests were not served."""
        self.rejected_s: list[float] = []
        self.preempted_s: list[float] = []
        """When requests lost their KV cache."""
        self.readmitted_s: list[float] = []
        """When such requests were scheduled again."""
        self.steps = StepLog()
        self.lost: list[Lost] = []
        """Requests that lost their KV cache after their first token and had a further one."""
        self.joined: dict[int, tuple[int, float]] = {}
        """Requests with a transferred cache, the first rank of the target, and the start of decoding there."""
        self._losing: dict[int, tuple[float, float]] = {}  # time of their last reported token, and of the loss
        self._token_s: dict[int, float] = {}  # that token, if it is not the first one
        self.engine_logs: dict[int, EngineLog] = {}
        """Records of the KV cache of each engine, by its first rank."""
        self.stopped_s: float | None = None
        """When the run ended, if it did before all requests had."""
        self.generated_tokens: list[int] = []
        """Tokens generated by each request at the end."""
        self.lookups = array("d")
        """Three numbers for each time: when, how many tokens were there, and how many were looked up."""

    def preempted(self, request: int, now_s: float) -> None:
        """A request has lost its cache."""
        self.preemptions[request] += 1
        self.preempted_s.append(now_s)
        first_s = self.first_token_s[request]
        if first_s >= 0.0 and request not in self._losing:
            joined = self.joined.get(request)
            if joined is not None and joined[1] == now_s:  # before its first step there
                del self.joined[request]
                self._losing[request] = first_s, first_s
            else:
                self._losing[request] = self._token_s.get(request, first_s), now_s

    def resumed(self, request: int, now_s: float) -> None:
        """A request that had lost its cache has a token again."""
        self.lost.append(Lost(request, *self._losing.pop(request), now_s))
        self._token_s[request] = now_s

    @cached_property
    def gaps(self) -> TokenGaps:
        """Gaps between tokens that are not just one step long; to be asked for when the run has ended."""
        first_s = self.first_token_s
        moved = [(rank, first_s[request], joined_s) for request, (rank, joined_s) in self.joined.items()]
        return TokenGaps(self.steps, self.engine_logs, self.lost, moved)

    @property
    def decode_steps(self) -> int:
        """Steps times the sequences that decoded in them."""
        return sum(int((runs.count * runs.decode_tokens).sum()) for runs in self.steps.together())

    @cached_property
    def tokens_per_sequence(self) -> float:
        """Mean tokens of a decoding sequence per step: more than 1 with accepted drafts.

        It is 1 if the token counts of some requests are unknown.
        """
        steps, outputs = self.decode_steps, self.requests.output_tokens
        known = self.stopped_s is not None or not self.in_flight
        if not steps or not known:
            return 1.0
        completed = self.completed
        tokens = sum(outputs if completed.all() else compress(outputs, completed)) - int(completed.sum())
        going_on = (self.generated_tokens[request] for request in self.in_flight if self.generated_tokens)
        return (tokens + sum(max(0, each - 1) for each in going_on) - len(self.lost)) / steps

    @property
    def arrived_s(self) -> NDArray[np.float64]:
        """`arrival_s` as an array."""
        import numpy as np

        return np.asarray(self.arrival_s, dtype=float)

    @property
    def completed(self) -> NDArray[np.bool_]:
        """Indices of completed requests."""
        import numpy as np

        done: NDArray[np.bool_] = np.asarray(self.finished_s) >= 0.0
        return done

    @cached_property
    def in_flight(self) -> list[int]:
        """Requests that have arrived and not ended; to be asked for when the run has ended."""
        import numpy as np

        rest = np.flatnonzero(~self.completed & (self.arrived_s >= 0.0))
        return [request for request in rest.tolist() if request not in self.rejected]

    @property
    def in_flight_tokens(self) -> int:
        """Known numbers of generated tokens of these requests."""
        return sum(self.generated_tokens[request] for request in self.in_flight) if self.generated_tokens else 0

    @property
    def prefix_hits(self) -> int:
        """Tokens that were found in prefix caches; lookups after a preemption do not count."""
        return sum(map(int, self.lookups[1::3]))

    @property
    def prefix_queries(self) -> int:
        """Tokens that were looked up in prefix caches; lookups after a preemption do not count."""
        return sum(map(int, self.lookups[2::3]))

    @property
    def caches(self) -> dict[int, PagedKVCache]:
        """The KV cache of each engine, by its first rank."""
        return {rank: log.cache for rank, log in self.engine_logs.items()}

    @property
    def kv_blocks(self) -> int:
        """KV-cache blocks of all replicas."""
        return sum(cache.num_blocks for cache in self.caches.values())

    @property
    def ended_s(self) -> float:
        """When the run ended: at its time, or with the last request or the last step."""
        if self.stopped_s is not None:
            return self.stopped_s
        return max(max(self.finished_s, default=0.0), self.steps.ended_s, self.starts_s)

    def rows(self) -> Mapping[str, Sequence[Any]]:
        """One row per request, with empty cells for stages not reached; with tenant and session if known."""
        requests = self.requests
        of = {name: getattr(requests, name) for name in ("priority", "session", "turn") if getattr(requests, name)}
        if requests.tenant:
            of["tenant"] = Texts(len(requests), requests.tenant_name)
        return {
            "request": range(len(self.requests)),
            "arrival_s": Times(self.arrival_s),
            "prompt_tokens": self.requests.prompt_tokens,
            "output_tokens": self.requests.output_tokens,
            "admitted_s": Times(self.admitted_s),
            "first_token_s": Times(self.first_token_s),
            "finished_s": Times(self.finished_s),
            "preemptions": self.preemptions,
            "state": Texts(len(self.requests), self._state),
            "reason": Texts(len(self.requests), self._reason),
            **of,
        }

    def _state(self, request: int) -> str:
        if self.finished_s[request] >= 0.0:
            return COMPLETED
        if request in self.rejected:
            return REJECTED
        return IN_FLIGHT if self.arrival_s[request] >= 0.0 else NOT_SENT

    def _reason(self, request: int) -> str:
        return self.rejected.get(request, "")

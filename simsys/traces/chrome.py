"""Events of the Chrome trace format as text, as Kineto writes them, and the file around them.

Times are microseconds with three decimals. The format is described in pytorch/kineto
(`libkineto/src/output_json.cpp`); Perfetto, chrome://tracing, HolisticTraceAnalysis and simsys read it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any, TextIO

if TYPE_CHECKING:
    import numpy as np

SCHEMA_VERSION = 1
"""Version of Kineto's format."""
_TOGETHER = 10_000  # events that are written in one go


def micros(nanoseconds: int) -> str:
    """A time as the format has it.

    Example:
        >>> micros(1_234_567)
        '1234.567'
    """
    return f"{nanoseconds // 1000}.{nanoseconds % 1000:03d}"


def text_of(value: Any) -> str:
    """A value as compact JSON in ASCII."""
    return json.dumps(value, separators=(",", ":"), allow_nan=False)


def named_process(pid: int, name: str, labels: str = "") -> Iterator[str]:
    """Name a process, with labels beside it if there are any; processes are shown in order of their numbers."""
    yield _about(pid, 0, "process_name", {"name": name})
    if labels:
        yield _about(pid, 0, "process_labels", {"labels": labels})
    yield _about(pid, 0, "process_sort_index", {"sort_index": pid})


def named_lane(pid: int, tid: int, name: str, place: int) -> Iterator[str]:
    """Name a lane of a process and give it a place."""
    yield _about(pid, tid, "thread_name", {"name": name})
    yield _about(pid, tid, "thread_sort_index", {"sort_index": place})


def counter(pid: int, name: str, series: str, start_ns: Sequence[int], values: Iterable[float]) -> Iterator[str]:
    """Values over time, each from its start on; values that do not change are left out.

    Args:
        pid: The process.
        name: What is counted; viewers show counters of one name together.
        series: The unit, or which part of it is counted; viewers show it after the name.
        start_ns: When each value begins.
        values: The values.
    """
    head, before = f'{{"ph":"C","name":{text_of(name)},"pid":{pid},"ts":', ""
    key = text_of(series)
    for start, value in zip(start_ns, values, strict=True):
        shown = f"{value:.6g}"
        if shown != before:
            yield f'{head}{micros(start)},"args":{{{key}:{shown}}}}}'
            before = shown


def rates(start_ns: np.ndarray, end_ns: np.ndarray, nbytes: np.ndarray) -> tuple[list[int], list[float]]:
    """Sum of the rates of concurrent transfers in GB/s, and since when."""
    import numpy as np

    moves = end_ns > start_ns
    start_ns, end_ns, nbytes = start_ns[moves], end_ns[moves], nbytes[moves]
    rate = nbytes / (end_ns - start_ns)  # bytes per nanosecond are GB/s
    times, back = np.unique(np.concatenate([start_ns, end_ns]), return_inverse=True)
    level = np.cumsum(np.bincount(back.ravel(), np.concatenate([rate, -rate])))
    level[np.abs(level) < 1e-6] = 0.0
    return times.tolist(), level.tolist()


def request_begins(pid: int, request: int, name: str, start_ns: int, args: Any = None) -> str:
    """The beginning of an asynchronous slice of a request.

    Slices are nested in the order of their events, also of those at one time. The id belongs to the process, so that
    viewers show requests there and keep those of several jobs apart.
    """
    more = "" if args is None else f',"args":{text_of(args)}'
    return f'{{"ph":"b",{_of_request(pid, request, name)},"ts":{micros(start_ns)}{more}}}'


def request_ends(pid: int, request: int, name: str, end_ns: int) -> str:
    """The end of an asynchronous slice of a request."""
    return f'{{"ph":"e",{_of_request(pid, request, name)},"ts":{micros(end_ns)}}}'


def write_events(file: TextIO, about: Mapping[str, Any], events: Iterable[str]) -> int:
    """Write a trace.

    Args:
        file: Where to.
        about: Keys of the document before the events.
        events: The events as text.

    Returns:
        The number of events.
    """
    head = text_of({"schemaVersion": SCHEMA_VERSION, **about})
    file.write(f'{head[:-1]},"displayTimeUnit":"ms","traceEvents":[')
    count, events = 0, iter(events)
    while some := list(islice(events, _TOGETHER)):
        file.write(",\n" if count else "\n")
        file.write(",\n".join(some))
        count += len(some)
    file.write("\n]}\n")
    return count


def _of_request(pid: int, request: int, name: str) -> str:
    return f'"cat":"request","id2":{{"local":"{request}"}},"pid":{pid},"tid":0,"name":{text_of(name)}'


def _about(pid: int, tid: int, name: str, args: Mapping[str, Any]) -> str:
    return text_of({"ph": "M", "name": name, "pid": pid, "tid": tid, "ts": 0, "args": args})

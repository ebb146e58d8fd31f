"""What a Kineto trace says about an iteration: its collectives in order, its phases, its memory."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from math import inf, prod
from pathlib import Path
from typing import Any

from simsys.traces.kineto_names import kind_named

DISPATCH = "c10d::"
"""Beginning of the names of the operators with which PyTorch dispatches collectives."""
ELEMENT_BYTES = {"float": 4, "c10::BFloat16": 2, "c10::Half": 2, "double": 8, "long int": 8, "int": 4}
"""Bytes by the name of a type in a trace; lists of tensors have none, and those of training are in 32 bit."""
CARRIED_OUT = ("gloo:", "nccl:", "ncclDevKernel")
"""Beginnings of the names of events that carry a collective out."""
MICRO = 1e-6


@dataclass(frozen=True)
class CollectiveCall:
    """A collective of a real iteration.

    Args:
        kind: As in `simsys.collectives`.
        nbytes: Full buffer in bytes, as nccl-tests counts it.
        started_s: When it was called, from the beginning of the trace.
        phase: Phase of the iteration in which it was called; empty if it was called on another thread.
    """

    kind: str
    nbytes: float
    started_s: float
    phase: str

    def as_dict(self) -> dict[str, Any]:
        """As data for JSON."""
        return asdict(self)


class Trace:
    """A Kineto trace of one iteration.

    Args:
        events: The events of the file.
    """

    def __init__(self, events: Sequence[Mapping[str, Any]]) -> None:
        self._events = events
        self._phases = [
            (str(each["name"]).removeprefix("lab::"), float(each["ts"]), float(each["dur"]), each["tid"])
            for each in events
            if str(each.get("name", "")).startswith("lab::") and each.get("ph") == "X" and "dur" in each
        ]

    @classmethod
    def read(cls, file: Path) -> Trace:
        """Read a trace that PyTorch has written."""
        return cls(json.loads(file.read_text(encoding="utf-8"))["traceEvents"])

    def phase_s(self) -> dict[str, float]:
        """Time of each phase."""
        found: dict[str, float] = {}
        for name, _, duration, _ in self._phases:
            found[name] = found.get(name, 0.0) + duration * MICRO
        return found

    def collectives(self) -> list[CollectiveCall]:
        """The collectives in the order of their calls; those of one number are no data and left out."""
        return sorted(self._collectives(), key=lambda each: each.started_s)

    def _collectives(self) -> Iterator[CollectiveCall]:
        for each in self._events:
            name = str(each.get("name"))
            kind = kind_named(name.removeprefix(DISPATCH)) if name.startswith(DISPATCH) else None
            if kind is None:
                continue
            tensors = list(_tensors(each["args"].get("Input Dims", []), each["args"].get("Input type", [])))
            if not tensors or max(elements for elements, _ in tensors) <= 1:
                continue
            nbytes = max(elements * size for elements, size in tensors)
            yield CollectiveCall(kind, float(nbytes), float(each["ts"]) * MICRO, self._phase_at(float(each["ts"])))

    def _phase_at(self, time_us: float) -> str:
        return next((name for name, start, length, _ in self._phases if start <= time_us <= start + length), "")

    def peak_growth_bytes(self) -> int:
        """The greatest growth of allocated memory since the beginning of the trace."""
        current, most = 0, 0
        for _, nbytes in sorted(self._memory_changes()):
            current += nbytes
            most = max(most, current)
        return most

    def _memory_changes(self) -> Iterator[tuple[float, int]]:
        """Time and bytes of each allocation and free.

        The profiler does not record what gloo's own threads free. A buffer that a collective allocates ends with that
        collective, and any other one at the latest when its address is allocated again.
        """
        held: dict[Any, tuple[float, int]] = {}
        changes = (each for each in self._events if each.get("name") == "[memory]")
        for each in sorted(changes, key=lambda each: float(each["ts"])):
            time, nbytes, place = float(each["ts"]), int(each["args"]["Bytes"]), each["args"].get("Addr")
            before = held.pop(place, None)
            if before and nbytes > 0:
                yield self._end_of_exchange(before[0], time), -before[1]
            if place is not None and nbytes > 0:
                held[place] = (time, nbytes)
            yield time, nbytes
        for time, nbytes in held.values():
            if (end := self._end_of_exchange(time, inf)) < inf:
                yield end, -nbytes

    def _end_of_exchange(self, time: float, otherwise: float) -> float:
        """The end of the collective that was being called at a time; `otherwise` if none was."""
        spans = [each for each in self._events if each.get("ph") == "X" and "dur" in each]
        calls = (each for each in spans if str(each.get("name", "")).startswith(DISPATCH))
        if not any(float(each["ts"]) <= time <= float(each["ts"]) + float(each["dur"]) for each in calls):
            return otherwise
        carried_out = (each for each in spans if str(each.get("name", "")).startswith(CARRIED_OUT))
        ends = (float(each["ts"]) + float(each["dur"]) for each in carried_out)
        return min((end for end in ends if end >= time), default=otherwise)

    def exchange_s(self, phase: str) -> float:
        """Time of a phase in which a collective is carried out, several at once counted once."""
        found, last = 0.0, 0.0
        spans = sorted(
            (float(each["ts"]), float(each["ts"]) + float(each.get("dur", 0.0)))
            for each in self._events
            if str(each.get("name", "")).startswith(CARRIED_OUT) and each.get("ph") == "X"
        )
        for name, start, length, _ in self._phases:
            if name == phase:
                last = start
                for began, ended in spans:
                    found += max(0.0, min(ended, start + length) - max(began, last))
                    last = max(last, ended)
        return found * MICRO


def _tensors(dims: Sequence[Any], types: Sequence[str]) -> Iterator[tuple[int, int]]:
    """Elements, and bytes of an element, of the tensors of an operator; one entry may be a list of tensors."""
    for size, kind in zip(dims, types, strict=False):
        if kind == "TensorList":
            yield from ((prod(each), ELEMENT_BYTES["float"]) for each in size)
        elif kind in ELEMENT_BYTES and size:
            yield prod(size), ELEMENT_BYTES[kind]

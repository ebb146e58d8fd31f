"""Traces of PyTorch's profiler (Kineto), of real runs: kernels, collectives, copies and steps of each GPU.

Format of pytorch/kineto (`libkineto/src/output_json.cpp`). Kernels belong to the step that launched them: the work of
a step begins with its first kernel and ends where that of the next step begins.
"""

from __future__ import annotations

import json
import math
import re
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from simsys.errors import TraceError
from simsys.traces.kineto_names import kind_of
from simsys.traces.packed import beginning, read_whole
from simsys.traces.step_times import Step

_HEAD = 1 << 16
_GPU = {
    "kernel": "kernel",
    "gpu_memcpy": "gpu_memcpy",
    "memcpy": "gpu_memcpy",
    "gpu_memset": "kernel",
    "memset": "kernel",
}
"""Categories of activities of GPUs, of old traces, too, and what they are."""
_LAUNCHES = ("cuda_runtime", "cuda_driver", "runtime", "hip_runtime", "privateuse1_runtime")
_STEP = re.compile(r"ProfilerStep#(\d+)$")
_DOCUMENT = re.compile(r'"(traceEvents|deviceProperties|schemaVersion)"\s*:')
_US = 1e-6


class Activity(NamedTuple):
    """Something that a GPU does.

    Args:
        started_s: Start, from the first activity of the file.
        ended_s: End.
        kind: Computation, copy, or the kind of a collective (`kineto_names.kind_of`).
        name: Of the kernel.
        launch: Number that the launch on the host shares with it; -1 if unknown.
    """

    started_s: float
    ended_s: float
    kind: str
    name: str
    launch: int


@dataclass
class Gpu:
    """Activities and steps of one GPU.

    Args:
        rank: The rank.
        activities: In order of their starts.
        steps: In order; empty if the profiler was not given steps.
    """

    rank: int
    activities: list[Activity]
    steps: list[Step] = field(default_factory=list)


@dataclass(frozen=True)
class KinetoTrace:
    """The contents of a file.

    Args:
        file: Path as given by the user.
        gpus: The GPUs with activities, by rank.
        world_size: Ranks of the run; 0 if unknown.
        skipped: Number of activities without a valid time.
    """

    file: str
    gpus: Sequence[Gpu]
    world_size: int
    skipped: int


def is_kineto(path: Path) -> bool:
    """Whether a file begins like a trace of PyTorch's profiler: a document or a list of events."""
    text = beginning(path, _HEAD).lstrip()
    if text.startswith("{"):
        return _DOCUMENT.search(text) is not None
    return text.startswith("[") and re.match(r'\[\s*\{[^}]*"ph"\s*:', text) is not None


def read_kineto(path: Path) -> KinetoTrace:
    """Read a trace.

    Args:
        path: The file, compressed or not.

    Raises:
        TraceError: If it cannot be read, is cut off, or holds no activity of a GPU.
    """
    document = _document(path)
    events = document if isinstance(document, list) else document.get("traceEvents")
    if not isinstance(events, list):
        raise TraceError(f"{path}: no list of events under the key traceEvents; this is no trace of a profiler")
    about = document.get("distributedInfo") if isinstance(document, dict) else None
    about = about if isinstance(about, dict) else {}
    complete = [each for each in events if isinstance(each, dict) and each.get("ph") == "X"]
    timed = [each for each in complete if _is_timed(each)]
    first_us = min((each["ts"] for each in timed if _category(each) in _GPU), default=None)
    if first_us is None:
        raise TraceError(
            f"{path}: no kernel of a GPU among its {len(events)} events (category 'kernel'){_hint(timed)}"
        )
    devices: dict[int, list[Activity]] = {}
    called = {_external(each): _args(each) for each in timed if each.get("name") == "record_param_comms"}
    for each in timed:
        if _category(each) in _GPU:
            devices.setdefault(_whole(each.get("pid")), []).append(_activity(each, first_us, called))
    marks = _Marks(timed, first_us)
    rank = _whole(about.get("rank"))
    gpus = [_gpu(pid if len(devices) > 1 else max(rank, 0), pid, devices[pid], marks) for pid in sorted(devices)]
    skipped = sum(_category(each) in _GPU and not _is_timed(each) for each in complete)
    return KinetoTrace(str(path), gpus, max(0, _whole(about.get("world_size"))), skipped)


def _document(path: Path) -> Any:
    text = read_whole(path)
    if not text.strip():
        raise TraceError(f"{path}:1: the file is empty")
    try:
        found = json.loads(text)
    except RecursionError:
        raise TraceError(f"{path}: nested too deeply; this is no trace of a profiler") from None
    except ValueError as error:
        place = getattr(error, "pos", 0)
        line, cut = getattr(error, "lineno", 1), len(text.rstrip()) - place < 2
        reason = "cut off" if cut or "Unterminated" in str(error) else getattr(error, "msg", str(error))
        raise TraceError(f"{path}:{line}: not valid JSON: {reason}") from None
    if not isinstance(found, dict | list):
        raise TraceError(f"{path}: neither a document nor a list of events; this is no trace of a profiler")
    return found


class _Marks:
    """Annotations of steps, and launches on hosts.

    Args:
        events: All events with times.
        first_us: Start of the first activity.
    """

    def __init__(self, events: Sequence[Mapping[str, Any]], first_us: float) -> None:
        self.host: dict[int, list[Step]] = {}
        self.gpu: dict[int, list[Step]] = {}
        self.launches: dict[int, float] = {}
        for each in events:
            category = _category(each)
            if category in _LAUNCHES:
                self.launches[_whole(_args(each).get("correlation"))] = (each["ts"] - first_us) * _US
                continue
            found = _STEP.search(each["name"]) if isinstance(each.get("name"), str) else None
            if found is not None:
                start_s = (each["ts"] - first_us) * _US
                step = Step(int(found[1]), start_s, start_s + each["dur"] * _US)
                kept = self.gpu if category == "gpu_user_annotation" else self.host
                kept.setdefault(_whole(each.get("pid")), []).append(step)
        for table in (self.host, self.gpu):
            for steps in table.values():
                steps.sort(key=lambda step: step.started_s)
        self.launches.pop(-1, None)


def _gpu(rank: int, pid: int, activities: list[Activity], marks: _Marks) -> Gpu:
    activities.sort(key=lambda each: each.started_s)
    steps = marks.host.get(pid) or next(iter(marks.host.values()), [])
    spans = _launched(activities, steps, marks.launches)
    if not spans:
        of_gpu = marks.gpu.get(pid) or next(iter(marks.gpu.values()), [])
        spans = {step.number: (step.started_s, step.ended_s) for step in of_gpu}
    if spans:
        ordered = sorted((*span, number) for number, span in spans.items())
        ends = [*(start_s for start_s, _, _ in ordered[1:]), ordered[-1][1]]
        steps = [Step(number, start_s, end_s) for (start_s, _, number), end_s in zip(ordered, ends, strict=True)]
    return Gpu(rank, activities, [step for step in steps if step.ended_s > step.started_s])


def _launched(
    activities: Sequence[Activity], steps: Sequence[Step], launches: Mapping[int, float]
) -> dict[int, tuple[float, float]]:
    """Start of the first kernel that each step has launched, and end of the last; empty without launches."""
    starts = [step.started_s for step in steps]
    found: dict[int, tuple[float, float]] = {}
    for each in activities:
        launched_s = launches.get(each.launch)
        if launched_s is None:
            continue
        place = bisect_right(starts, launched_s) - 1
        if place >= 0 and launched_s < steps[place].ended_s:
            first_s, last_s = found.get(steps[place].number, (each.started_s, each.ended_s))
            found[steps[place].number] = first_s, max(last_s, each.ended_s)
    return found


def _activity(event: Mapping[str, Any], first_us: float, called: Mapping[int, Mapping[str, Any]]) -> Activity:
    """An activity; `called` has the arguments of PyTorch's calls of collectives, by external id."""
    args, name = _args(event), str(event.get("name", ""))
    start_s = (event["ts"] - first_us) * _US
    external = _external(event)
    about = args if "Collective name" in args or external < 0 else called.get(external, args)
    kind = kind_of(_GPU[_category(event)], name, about)
    return Activity(start_s, start_s + event["dur"] * _US, kind, name, _whole(args.get("correlation")))


def _external(event: Mapping[str, Any]) -> int:
    """The number that an operation of PyTorch shares with its kernels; -1 if there is none."""
    args = _args(event)
    return _whole(args.get("External id", args.get("external id")))


def _category(event: Mapping[str, Any]) -> str:
    return str(event.get("cat", "")).lower()


def _args(event: Mapping[str, Any]) -> Mapping[str, Any]:
    args = event.get("args")
    return args if isinstance(args, dict) else {}


def _is_timed(event: Mapping[str, Any]) -> bool:
    """Whether an event has a time and a duration."""
    numbers = event.get("ts"), event.get("dur")
    return all(isinstance(each, int | float) and math.isfinite(each) for each in numbers) and event["dur"] >= 0


def _whole(value: Any) -> int:
    """A whole number, also as text; -1 for anything else."""
    try:
        return int(value)
    except (TypeError, ValueError, OverflowError):
        return -1


def _hint(events: Sequence[Mapping[str, Any]]) -> str:
    """What a trace without activities of a GPU holds."""
    kinds = list(_categories(events))
    return f"; it has events of {', '.join(kinds)}" if kinds else ""


def _categories(events: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """The first few categories."""
    yield from list(dict.fromkeys(filter(None, map(_category, events))))[:5]

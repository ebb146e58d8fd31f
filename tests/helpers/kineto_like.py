"""Traces as PyTorch's profiler writes them, of runs that never were."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

Kernel = tuple[str, str, float, float, float]
"""Category, name, time of launch, start and duration, in microseconds."""


def document(kernels: Iterable[Kernel], steps: Iterable[tuple[int, float, float]], **about: Any) -> dict[str, Any]:
    """A trace of one rank: activities on its GPU, their launches on the host, and steps with start and duration."""
    events: list[dict[str, Any]] = [
        {"ph": "X", "cat": "user_annotation", "name": f"ProfilerStep#{number}", "pid": 4711, "tid": 1}
        | {"ts": start, "dur": dur}
        for number, start, dur in steps
    ]
    for number, (category, name, launch, start, dur) in enumerate(kernels, start=1):
        args: dict[str, Any] = {"correlation": number, "stream": 7, "device": 0}
        runtime = {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 4711, "tid": 1}
        events.append({**runtime, "ts": launch, "dur": 3.0, "args": {"correlation": number}})
        events.append(
            {"ph": "X", "cat": category, "name": name, "pid": 0, "tid": 7, "ts": start, "dur": dur, "args": args}
        )
    return {
        "schemaVersion": 1,
        "deviceProperties": [],
        "distributedInfo": {"backend": "nccl", "rank": 0, "world_size": 4, **about},
        "traceEvents": events,
    }


def two_steps(rank: int = 0) -> dict[str, Any]:
    """Two steps of 100 us, launched by the host 50 us ahead of the GPU.

    In each, 60 us of computation, an all-reduce of 40 us of which 30 us are exposed, a copy of 5 us, and 5 us of idle
    time.
    """
    kernels: list[Kernel] = []
    for start in (1000.0, 1100.0):
        kernels += [
            ("kernel", "gemm", start - 50, start, 60.0),
            ("kernel", "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(...)", start - 40, start + 50, 40.0),
            ("gpu_memcpy", "Memcpy DtoH (Device -> Pinned)", start - 30, start + 90, 5.0),
        ]
    kernels.append(("kernel", "gemm", 1150.0, 1200.0, 60.0))
    steps = [(number, 940.0 + 100 * number, 95.0) for number in range(3)]
    return document(kernels, steps, rank=rank)


def write(path: Path, content: Any) -> Path:
    """Write a document, compressed if its name says so."""
    data = content if isinstance(content, bytes) else json.dumps(content).encode()
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path

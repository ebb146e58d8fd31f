"""What was measured, as a table and as data."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from simsys.lab.measure.profiles import UPDATE_BYTES, Measured
from simsys.lab.measure.run import Measurement
from simsys.lab.measure.shapes import LARGE_BYTES, MEDIUM_BYTES, WEIGHTS

RULE = (
    "time of a kernel: the median of samples that no other program disturbed, else the median processor time; "
    "of a collective: the median of the fastest quarter"
)


def rows_of(measured: Measured) -> Iterator[tuple[str, str, Mapping[str, Any]]]:
    """What was measured: name, rate in words, and timing."""
    kernels = measured.kernels
    for dtype in ("fp32", "bf16"):
        rows = [row for row in kernels["gemm"] if row["dtype"] == dtype]
        best = max(rows, key=lambda row: row["m"] * row["n"] * row["k"] / row["seconds"])
        rate = 2 * best["m"] * best["n"] * best["k"] / best["seconds"] / 1e9
        yield f"fastest product, {dtype}", f"{rate:,.0f} GFLOP/s", best
    sizes = {"triad": 3 * LARGE_BYTES, "copy": 2 * LARGE_BYTES, "sum": 3 * MEDIUM_BYTES, "buffers": 2 * MEDIUM_BYTES}
    for name, nbytes in {**sizes, "update": UPDATE_BYTES * WEIGHTS}.items():
        yield name, f"{nbytes / kernels[name]['seconds'] / 1e9:.1f} GB/s", kernels[name]
    for name in ("attention", "norm", "activation"):
        for dtype, timing in kernels[name].items():
            yield f"{name}, {dtype}", f"{timing['seconds'] * 1e3:.3g} ms", timing
    yield "loss", f"{kernels['loss']['seconds'] * 1e3:.3g} ms", kernels["loss"]
    yield "launch", f"{kernels['launch']['seconds'] * 1e6:.3g} us", kernels["launch"]
    if measured.exchanges is not None:
        for kind, timings in measured.exchanges["collectives"].items():
            for timing in timings[::2]:
                yield f"{kind}, {timing['nbytes'] / 1024:,.0f} KiB", f"{timing['seconds'] * 1e3:.3g} ms", timing


def measurement_text(found: Measurement) -> str:
    """The measurement as a table."""
    measured = found.measured
    lines = [
        f"{measured.name}: {measured.ranks} ranks of {measured.threads} threads, torch {measured.device['torch']}, "
        f"{found.seconds:.0f} s",
        "",
        f"{'measured':28} {'result':>14} {'spread':>7} {'samples':>8} {'switches':>9}",
    ]
    for name, rate, timing in rows_of(measured):
        mark = "  disturbed" if timing["disturbed"] else ""
        count = len(timing["samples_s"])
        lines.append(f"{name:28} {rate:>14} {timing['spread']:>7.0%} {count:>8} {timing['preempted']:>9}{mark}")
    if measured.exchanges is not None:
        lines.append(f"{'share of collectives':28} {measured.exchanges['share']:>14.0%}")
    over = measured.device["overheads"]
    lines.append(f"{'overhead of a layer':28} {over['per_layer_s'] * 1e6:>11.0f} us")
    return "\n".join([*lines, "", RULE, f"all samples are in {found.raw}"])


def measurement_dict(found: Measurement) -> dict[str, Any]:
    """The measurement as data for JSON."""
    measured = found.measured
    return {
        "name": measured.name,
        "ranks": measured.ranks,
        "threads": measured.threads,
        "seconds": found.seconds,
        "device": measured.device,
        "exchanges": measured.exchanges,
        "files": [str(file) for file in found.files],
    }

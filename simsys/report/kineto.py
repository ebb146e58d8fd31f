"""Summary of a trace of PyTorch's profiler, and its comparison with a prediction, as text, data and tables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from simsys.errors import UsageError
from simsys.report.csv_table import write_csv
from simsys.report.files import write_files
from simsys.report.text import WIDTH, number, percent, wrap
from simsys.sums import ordered_sum
from simsys.traces.kineto_file import Gpu, KinetoTrace
from simsys.traces.prediction import Comparison
from simsys.traces.step_times import Step, StepTimes, mean_of, mean_times, times_of_each

KERNELS = 10
"""Kernels that are listed, those with the longest total time."""
GPUS = 8
"""GPUs that are listed one by one."""


@dataclass(frozen=True)
class KinetoAnswer:
    """A trace that was read.

    Args:
        trace: Its contents.
    """

    trace: KinetoTrace

    @cached_property
    def notes(self) -> list[str]:
        """What to know about the figures, as sentences."""
        notes = []
        if not all(gpu.steps for gpu in self.trace.gpus):
            notes.append("no steps (annotations 'ProfilerStep#…'): the whole trace counts as one step")
        if self.trace.skipped:
            notes.append(f"{self.trace.skipped} activities without a valid time are skipped")
        return notes

    def as_dict(self) -> dict[str, Any]:
        """The answer for programs; times in seconds, means of a step."""
        gpus = [
            {
                "rank": gpu.rank,
                "activities": len(gpu.activities),
                "steps": len(gpu.steps),
                "mean_step": _times_dict(mean_times(steps, _pieces(gpu))),
                "kernels": [dict(zip(_KERNEL, row, strict=True)) for row in _kernels(gpu)[:KERNELS]],
            }
            for gpu, steps in self._gpus()
        ]
        return {
            "file": self.trace.file,
            "format": "kineto",
            "world_size": self.trace.world_size or None,
            "gpus": gpus,
            "notes": self.notes,
        }

    def text(self) -> str:
        """The answer for people."""
        trace = self.trace
        ranks = f", of {trace.world_size} ranks" if trace.world_size else ""
        gpus = f"{len(trace.gpus)} GPU{'s' if len(trace.gpus) > 1 else ''}{ranks}"
        lines = [f"{trace.file}: trace in the format of PyTorch's profiler, {gpus}"]
        lines += [line for note in self.notes for line in wrap(note, "note: ", "  ")]
        for gpu, steps in list(self._gpus())[:GPUS]:
            lines += ["", *_step_lines(gpu, steps), "", *_kernel_lines(gpu)]
        rest = len(trace.gpus) - GPUS
        return "\n".join([*lines, *([f"\n{rest} further GPUs: --json or --out"] if rest > 0 else [])])

    def write(self, out: Path) -> list[Path]:
        """Write one row per GPU and step as a CSV file; return the file.

        Raises:
            UsageError: If it is the trace itself.
            OutputError: If it cannot be written.
        """
        if out.resolve() == Path(self.trace.file).resolve():
            raise UsageError(f"{out} is the trace itself; write to another file")
        rows = [
            {"rank": gpu.rank, "step": step.number, **_flat(times)}
            for gpu, steps in self._gpus()
            for step, times in zip(steps, times_of_each(steps, _pieces(gpu)), strict=True)
        ]
        names = list(dict.fromkeys(name for row in rows for name in row))
        table = [[row.get(name, 0.0) for name in names] for row in rows]
        return write_files(out.parent, {out.name: lambda file: write_csv(file, names, table)})

    def _gpus(self) -> Iterator[tuple[Gpu, Sequence[Step]]]:
        """The GPUs with their steps, or all of the trace as one."""
        for gpu in self.trace.gpus:
            first_s, last_s = gpu.activities[0].started_s, max(each.ended_s for each in gpu.activities)
            yield gpu, gpu.steps or [Step(0, first_s, last_s)]


@dataclass(frozen=True)
class StepComparisons:
    """Measured and predicted steps.

    Args:
        scenario: Name of the simulated scenario.
        found: The comparison of each GPU.
    """

    scenario: str
    found: Sequence[Comparison]

    @property
    def warnings(self) -> list[str]:
        """Reasons to doubt the comparison, as sentences."""
        texts = [
            f"{each.file} is of a run with {each.world_sizes[0]} ranks, and {self.scenario} has {each.world_sizes[1]}"
            for each in self.found
            if each.world_sizes[0] not in (0, each.world_sizes[1])
        ]
        return list(dict.fromkeys(texts))

    def as_dict(self) -> dict[str, Any]:
        """The comparison for programs; times in seconds."""
        gpus = [
            {
                "file": each.file,
                "rank": each.rank,
                "steps": each.steps,
                "measured": _times_dict(each.measured),
                "predicted": _times_dict(each.predicted),
                "causes": [
                    {"cause": cause, "measured_s": measured_s, "predicted_s": predicted_s}
                    for cause, measured_s, predicted_s in causes(each)
                ],
            }
            for each in self.found
        ]
        return {"scenario": self.scenario, "warnings": self.warnings, "gpus": gpus}

    def text(self) -> str:
        """The comparison for people: each cause with its share of the error of the step."""
        blocks = ["\n".join(wrap(text, "warning: ", "  ")) for text in self.warnings]
        for each in self.found:
            head = f"{each.file}: rank {each.rank}, mean of {each.steps} steps, beside {self.scenario}"
            lines = [
                *wrap(head, "", "  "),
                f"{'':<32}{'measured':>11}{'predicted':>11}{'difference':>12}{'of step':>9}",
            ]
            step_s = each.measured.step_s
            for cause, measured_s, predicted_s in causes(each):
                difference_s = predicted_s - measured_s
                shown = f"{_rounded(1e3 * difference_s, 3):>+9.3f} ms{_rounded(difference_s / step_s, 3):>+9.1%}"
                lines.append(f"  {cause:<30}{_ms(measured_s):>11}{_ms(predicted_s):>11}{shown}")
            overlap = (percent(times.overlap) for times in (each.measured, each.predicted))
            lines.append(f"  {'communication overlapped':<30}{next(overlap):>11}{next(overlap):>11}")
            blocks.append("\n".join(lines))
        return "\n\n".join(blocks)

    def write(self, out: Path) -> list[Path]:
        """Write one row per GPU and cause as a CSV file; raises OutputError if that fails."""
        names = ("file", "rank", "cause", "measured_s", "predicted_s")
        rows = [(each.file, each.rank, *cause) for each in self.found for cause in causes(each)]
        return write_files(out.parent, {out.name: lambda file: write_csv(file, names, rows)})


def causes(each: Comparison) -> list[tuple[str, float, float]]:
    """What a step consists of, measured and predicted in seconds: the step, then parts with this sum."""
    measured, predicted = each.measured, each.predicted
    kinds = sorted({*measured.exposed_s, *predicted.exposed_s})
    return [
        ("step", measured.step_s, predicted.step_s),
        ("computation", measured.compute_s, predicted.compute_s),
        *(
            (f"exposed {kind}", measured.exposed_s.get(kind, 0.0), predicted.exposed_s.get(kind, 0.0))
            for kind in kinds
        ),
        ("idle", measured.idle_s, predicted.idle_s),
    ]


_KERNEL = ("name", "kind", "count", "total_s", "mean_s")


def _kernels(gpu: Gpu) -> list[tuple[str, str, int, float, float]]:
    """Name, kind, number, total and mean duration of each kernel, the longest total first."""
    spans: dict[tuple[str, str], list[float]] = {}
    for each in gpu.activities:
        spans.setdefault((each.name, each.kind), []).append(each.ended_s - each.started_s)
    rows = [(*key, len(all_s), ordered_sum(all_s), ordered_sum(all_s) / len(all_s)) for key, all_s in spans.items()]
    return sorted(rows, key=lambda row: (-row[3], row[:2]))


def _kernel_lines(gpu: Gpu) -> list[str]:
    rows = _kernels(gpu)
    width = WIDTH - 37
    lines = [f"{'kernels':<{width}}{'count':>9}{'total':>14}{'mean':>14}"]
    for name, kind, count, total_s, mean_s in rows[:KERNELS]:
        shown = name if len(name) <= width - 16 else name[: width - 17] + "…"
        lines.append(f"  {shown:<{width - 15}}{kind:<13}{count:>9,}{_ms(total_s):>14}{_ms(mean_s):>14}")
    rest = len(rows) - KERNELS
    return [*lines, *([f"  and {rest:,} more"] if rest > 0 else [])]


def _step_lines(gpu: Gpu, steps: Sequence[Step]) -> list[str]:
    each = times_of_each(steps, _pieces(gpu))
    mean = mean_of(each, [step.count for step in steps])
    named = "step" if len(steps) == 1 else "steps"
    lines = [f"{f'rank {gpu.rank}: {len(steps)} {named}':<32}{'mean':>12}{'min':>12}{'max':>12}{'of step':>10}"]
    parts = [_parts(times) for times in each]
    for name, mean_s in _parts(mean).items():
        all_s = [part.get(name, 0.0) for part in parts]
        span = f"{_ms(mean_s):>12}{_ms(min(all_s)):>12}{_ms(max(all_s)):>12}"
        lines.append(f"  {name:<30}{span}{percent(mean_s / mean.step_s):>10}")
    lines.append(f"  {'communication overlapped':<30}{percent(mean.overlap):>12}")
    gaps = f"{number(mean.gaps)} per step, longest {_ms(mean.longest_gap_s)}"
    return [*lines, f"  {'gaps':<30}{gaps:>12}"]


def _parts(times: StepTimes) -> dict[str, float]:
    exposed = {f"exposed {kind}": seconds for kind, seconds in times.exposed_s.items()}
    return {"step": times.step_s, "computation": times.compute_s, **exposed, "idle": times.idle_s}


def _times_dict(times: StepTimes) -> dict[str, Any]:
    return {name: dict(value) if isinstance(value, Mapping) else value for name, value in vars(times).items()}


def _flat(times: StepTimes) -> dict[str, float]:
    """The parts of a step as columns."""
    exposed = {f"exposed_{kind}_s": seconds for kind, seconds in times.exposed_s.items()}
    total = {f"{kind}_s": seconds for kind, seconds in times.communication_s.items()}
    parts = {"step_s": times.step_s, "compute_s": times.compute_s, "idle_s": times.idle_s}
    gaps = {"overlap": times.overlap, "gaps": times.gaps, "longest_gap_s": times.longest_gap_s}
    return {**parts, **gaps, **total, **exposed}


def _pieces(gpu: Gpu) -> list[tuple[float, float, str]]:
    return [(each.started_s, each.ended_s, each.kind) for each in gpu.activities]


def _rounded(value: float, digits: int) -> float:
    """Rounded, without a minus sign of zero."""
    return round(value, digits) + 0.0


def _ms(seconds: float) -> str:
    return f"{1e3 * seconds:.3f} ms" if seconds < 10 else f"{1e3 * seconds:.0f} ms"

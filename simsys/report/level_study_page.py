"""The documentation page on the levels of detail, written from the data of a comparison."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from simsys.level_study.peers import MACHINE, PEERS
from simsys.report.level_study import attribution_lines, blocks, table
from simsys.report.prose import wrapped
from simsys.report.text import number

HEAD = """\
# Levels of detail

Every scenario can be simulated at two levels. At **high**, every rank is a process, every layer an event and every
collective its steps on links. At **medium**, one representative rank is simulated for all ranks that behave alike.
The computation of a pass is one *macro operation*, and a collective is one event whose time is a *closed form*.
Repeated work (decode steps of an unchanged batch, passes of a pipeline, equal micro-batches, equal iterations) is
skipped in *jumps*.
`simulation.lod` or `--lod` selects the level; nothing else changes.

This page is written by `{command}`, which runs the scenarios of
[experiments/level_of_detail.yaml](../../experiments/level_of_detail.yaml) at both levels with the same workload and
seed. `simsys lod FILE` compares the levels on any experiment file.
"""

SECTIONS = {
    "speed": (
        "Speed and error",
        "Times include building the scenario but not imports. They are medians of the repeats; each level runs in a "
        "separate process. Differences of `~0` are below 1e-9 of the figure.",
    ),
    "reasons": ("Why not faster, why not equal", ""),
    "attribution": (
        "What each abstraction is worth",
        "Each variant simulates the beginning of the scenario, about two seconds of high. *Macro operations* combine "
        "the computation of a pass into one event and simulate the steps of collectives; *analytical collectives* do "
        "the reverse. *Both* simulates every pass; *both and runs of steps* is medium on idle links. Uncontended "
        "collectives are one event at high, too, so closed forms save few events on such links. There, layers cost "
        "most.",
    ),
    "breakdown": (
        "Where the time goes",
        "cProfile, by package. Built-in functions count for their callers, the event loop of simsys for SimPy. In "
        "brackets: the number of profiled requests or iterations.",
    ),
    "figures": ("Figures", ""),
    "cost": (
        "Cost",
        "`n` repeats, their median and half of their range in seconds; memory is the growth of the process.",
    ),
}


def page_text(data: Mapping[str, Any], command: str, picture: str) -> str:
    """The page in Markdown.

    Args:
        data: See `simsys.level_study.study`; ``naive`` has the times of plain SimPy.
        command: The command that writes the page.
        picture: The file name of the plot, beside the page.
    """
    return wrapped("\n".join(_parts(data, command, picture)))


def _parts(data: Mapping[str, Any], command: str, picture: str) -> Iterator[str]:
    machine, parts = data["machine"], blocks(data)
    yield HEAD.format(command=command)
    yield (
        f"Measured on {machine['cpus']} cores ({machine['architecture']}, {machine['system']}) of a shared machine, "
        f"with Python {machine['python']} and SimPy {machine['simpy']}. Ratios hold on other machines, times do not.\n"
    )
    yield "## Conclusion\n"
    yield from (f"- {text}" for text in data["conclusion"])
    yield ""
    for name, (title, text) in SECTIONS.items():
        if not parts[name]:
            continue
        yield f"## {title}\n"
        if text:
            yield f"{text}\n"
        yield from _fenced(parts[name])
        if name == "speed":
            yield f"![Speed-up against error, one point per scenario]({picture})\n"
    yield from _naive(data.get("naive", ()))
    yield from _peers(data["scenarios"])


def _fenced(lines: Sequence[str]) -> list[str]:
    return ["```text", *lines, "```\n"]


def _naive(found: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    if not found:
        return
    yield "## High against plain SimPy\n"
    yield (
        "High avoids events: GPUs and links are calendars instead of `simpy.Resource`s with a process per kernel and "
        "transfer. The plain version is in `tests/helpers/reference_executor.py`; its results are the same.\n"
    )
    yield from _fenced([line for each in found for line in attribution_lines(each)][:-1])


def _peers(rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Published speeds of other simulators on the same work."""
    ours = {row["name"]: row for row in rows}
    cells = [["simulator", "work", "from", "to", "unit"]]
    for name in dict.fromkeys(peer.scenario for peer in PEERS):
        theirs = [peer for peer in PEERS if peer.scenario == name]
        if name not in ours:
            continue
        for peer in theirs:
            cells.append([peer.name, name, number(peer.least), number(peer.most), peer.unit])
        for level in ("medium", "high"):
            values = sorted(_ours(ours[name], level, theirs[0].unit))
            cells.append([f"simsys, {level}", name, number(values[0]), number(values[-1]), theirs[0].unit])
    if len(cells) == 1:
        return
    yield "## Other simulators\n"
    yield (
        f"Equal work: Llama 2 7B on A100s, 512 and 128 tokens, Poisson arrivals at 6 req/s. Other simulators were "
        f"measured once on {MACHINE} and are not run here, so their figures are orders of magnitude.\n"
    )
    yield from _fenced(table([[*row[:1], *row[2:]] for row in cells], 28))


def _ours(row: Mapping[str, Any], level: str, unit: str) -> list[float]:
    """Speeds of simsys in the unit of the others, over all repeats."""
    each = row["whole"] if level == "medium" and "whole" in row else row["levels"][level]
    count = each.get("amount", row["amount"])
    return [count / seconds if unit.startswith("requests") else seconds for seconds in each["cpu_s"]]

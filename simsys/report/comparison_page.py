"""The page that documents what the levels of detail are worth, written from the data of a comparison."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from simsys.comparison.peers import MACHINE, PEERS
from simsys.report.comparison import attribution_lines, blocks, table
from simsys.report.text import number

HEAD = """\
# Levels of detail

Every scenario can be simulated at two levels. At **high**, every rank is a process, every layer an event and every
collective its steps on links. At **medium**, one rank stands for all that do the same, the computation of a pass is
one *macro operation*, a collective is one event at the end of a *closed form*, and what repeats (decode steps of an
unchanged batch, passes of a pipeline, equal iterations) is *jumped* over. `simulation.lod` or `--lod` chooses; nothing
else changes.

This page is written by `{command}`, which runs the scenarios of
[experiments/level_of_detail.yaml](../experiments/level_of_detail.yaml) at both levels with the same workload and seed.
`simsys lod FILE` does the same with any experiment file.
"""

SECTIONS = {
    "speed": (
        "Speed and error",
        "Times are from the scenario to its figures, building included, imports not; the median of the repeats, each "
        "level in a process of its own. Differences of `~0` are below 1e-9 of the figure.",
    ),
    "reasons": ("Why not faster, why not equal", ""),
    "attribution": (
        "What each abstraction is worth",
        "Each variant simulates the beginning of the scenario, about two seconds of high. *Macro operations* fold the "
        "computation of a pass into one event and leave collectives to their steps on links; *analytical collectives* "
        "do the reverse; *both* still carries out every pass, *both and jumps* is medium on idle links. At high, too, "
        "a collective that nobody disturbs is one event, which is why closed forms save few events on quiet links: "
        "there, layers are what is dear.",
    ),
    "breakdown": (
        "Where the time goes",
        "cProfile, by package; built-in functions count for those that call them, the event loop of simsys for SimPy. "
        "In brackets, how many requests or iterations were profiled.",
    ),
    "figures": ("Figures", ""),
    "cost": (
        "Cost",
        "`n` repeats, their median and half of their range in seconds; memory is what the process grew by.",
    ),
}


def page_text(data: Mapping[str, Any], command: str, picture: str) -> str:
    """The page in Markdown.

    Args:
        data: See `simsys.comparison.study`; ``naive`` is what high is compared with.
        command: What writes the page.
        picture: The file name of the plot, beside the page.
    """
    return "\n".join(_parts(data, command, picture))


def _parts(data: Mapping[str, Any], command: str, picture: str) -> Iterator[str]:
    machine, parts = data["machine"], blocks(data)
    yield HEAD.format(command=command)
    yield (
        f"Measured on {machine['cpus']} cores ({machine['architecture']}, {machine['system']}) that others use too, "
        f"with Python {machine['python']} and SimPy {machine['simpy']}. Ratios hold elsewhere, times do not.\n"
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
        "High itself avoids events: GPUs and links are calendars, not `simpy.Resource`s with a process per kernel and "
        "transfer. The plain version is kept in `tests/reference_executor.py`; its figures are the same.\n"
    )
    yield from _fenced([line for each in found for line in attribution_lines(each)][:-1])


def _peers(rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Others beside us, where they do the same work."""
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
    yield "## Beside others\n"
    yield (
        f"The same work: Llama 2 7B on A100s, 512 and 128 tokens, Poisson arrivals at 6 req/s. Figures of others are "
        f"constants, measured once on {MACHINE}; they are not run here, so read them as orders of magnitude.\n"
    )
    yield from _fenced(table([[*row[:1], *row[2:]] for row in cells], 28))


def _ours(row: Mapping[str, Any], level: str, unit: str) -> list[float]:
    """Our own figures in the unit of the others, of all repeats."""
    each = row["whole"] if level == "medium" and "whole" in row else row["levels"][level]
    count = each.get("amount", row["amount"])
    return [count / seconds if unit.startswith("requests") else seconds for seconds in each["cpu_s"]]

"""Runs of the lab as text and as data."""

from __future__ import annotations

from statistics import median
from typing import Any

from simsys.lab.clock import is_disturbed
from simsys.lab.train import LabRun

WARM_UP = 2
"""First iterations that are left out of times: memory is allocated, DDP orders its buckets."""


def timed_rows(run: LabRun, rank: int = 0) -> list[dict[str, Any]]:
    """The iterations that count for times: all after the warm-up, if there are any."""
    rows = list(run.rows[rank])
    return rows[WARM_UP:] or rows


def run_dict(run: LabRun) -> dict[str, Any]:
    """A run as data for JSON."""
    rows = timed_rows(run)
    wall_s = [row["wall_s"] for row in rows]
    return {
        "name": run.name,
        "ranks": run.ranks,
        "threads": run.threads,
        "iterations": run.rows[0][-1]["iteration"] if run.rows[0] else 0,
        "losses": run.losses,
        "iteration_s": median(wall_s) if wall_s else None,
        "shortest_iteration_s": min(wall_s, default=None),
        "cpu_s": median([row["cpu_s"] for row in rows]) if rows else None,
        "preempted": sum(row["preempted"] for row in rows),
        "disturbed": run_is_disturbed(run),
        "tokens_per_s": run.ranks * rows[0]["tokens"] / median(wall_s) if rows else None,
        "restarts": run.restarts,
        "folder": str(run.folder),
        "checkpoint": str(run.checkpoint) if run.checkpoint else None,
    }


def run_is_disturbed(run: LabRun) -> bool:
    """Whether other programs took the processor for a good part of the time."""
    rows = timed_rows(run)
    if not rows:
        return False
    return is_disturbed(median([row["wall_s"] for row in rows]), median([row["cpu_s"] for row in rows]) / run.threads)


def run_text(run: LabRun) -> str:
    """A run in a few lines."""
    facts = run_dict(run)
    if not run.rows[0]:
        return f"{run.name}: nothing left to do; the last checkpoint is {run.checkpoint}"
    lines = [
        f"{run.name}: {facts['iterations']} iterations on {run.ranks} rank{'s' * (run.ranks > 1)}, "
        f"loss {facts['losses'][0]:.4f} to {facts['losses'][-1]:.4f}",
        f"iteration {facts['iteration_s']:.4f} s (median; shortest {facts['shortest_iteration_s']:.4f} s, "
        f"CPU {facts['cpu_s']:.4f} s), {facts['tokens_per_s']:,.0f} tokens/s",
    ]
    if facts["disturbed"]:
        lines.append(f"disturbed: other programs took the processor ({facts['preempted']} involuntary switches)")
    lines.append(f"metrics in {run.folder}, checkpoint {run.checkpoint}")
    return "\n".join(lines)

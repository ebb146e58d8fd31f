"""The parts of a training iteration by cause, from the tables of a run."""

from __future__ import annotations

from simsys.report.export import Tables
from simsys.sums import ordered_sum


def iteration_parts_s(tables: Tables) -> dict[str, dict[str, float]]:
    """The parts of an iteration in seconds, on the first rank of each pipeline stage.

    Computation is divided into passes and optimizer, where the table of passes has their times.
    """
    ranks = tables["ranks"]
    parts = [name for name in ranks if name.endswith("_s") and name not in ("compute_s", "optimizer_s")]
    bars: dict[str, dict[str, float]] = {}
    for place, (rank, stage) in enumerate(zip(ranks["rank"], ranks["stage"], strict=True)):
        optimizer_s = ranks["optimizer_s"][place] if "optimizer_s" in ranks else 0.0
        own = _passes(tables, rank, ranks["compute_s"][place] - optimizer_s)
        own |= {"optimizer": optimizer_s}
        own |= {name.removesuffix("_s").replace("_", " "): ranks[name][place] for name in parts}
        bars[f"stage {stage}, rank {rank}"] = own
    return bars


def _passes(tables: Tables, rank: int, compute_s: float) -> dict[str, float]:
    """Computation without the optimizer, by kind of pass; whole if the kinds are unknown."""
    table = tables.get("passes", {})
    seconds = {
        name: each_s
        for of, name, each_s in zip(*(table.get(key, ()) for key in ("rank", "name", "seconds")), strict=True)
        if of == rank and name != "optimizer"
    }
    total_s = ordered_sum(seconds.values())
    if not total_s:
        return {"compute": compute_s}
    return {name: compute_s * each_s / total_s for name, each_s in seconds.items()}

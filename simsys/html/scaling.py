"""The page of scaling studies: throughput and efficiency by size, and what follows from them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from simsys.html.blocks import Block, Page, Picture, Section, Table
from simsys.html.charts import curves
from simsys.version import __version__

CONCLUSIONS = {
    "base_nodes": "smallest size, to which others are compared (nodes)",
    "breakdown_nodes": "efficiency below 70 % from (nodes)",
    "largest_efficient_nodes": "largest size before that (nodes)",
    "best_for_time_nodes": "fastest (nodes)",
    "best_for_cost_nodes": "cheapest tokens (nodes)",
}


def scaling_page(found: Mapping[str, Any]) -> Page:
    """Lay out the studies of a scenario, as ``simsys scale`` writes them."""
    studies = found["studies"]
    sections = [Section(f"{study['mode']} scaling", list(_study(study))) for study in studies]
    lost = [
        f"{study['mode']} scaling, {nodes} nodes: {problem}"
        for study in studies
        for nodes, problem in zip(study["rows"]["nodes"], study["rows"]["problem"], strict=True)
        if problem
    ]
    modes = " and ".join(study["mode"] for study in studies)
    return Page(str(found["name"]), f"{modes} scaling", lost, sections, [f"simsys {__version__}"])


def _study(study: Mapping[str, Any]) -> Iterator[Block]:
    rows = study["rows"]
    for name, unit, factor in (("samples_per_s", "samples/s", 1.0), ("efficiency", "%", 100.0)):
        points = [(gpus, factor * value) for gpus, value in zip(rows["gpus"], rows[name], strict=True) if value]
        if len(points) > 1:
            caption = f"{name.replace('_', ' ')} by number of GPUs"
            yield Picture(caption, curves(caption, {name: points}, "GPUs", unit, log=True))
    yield Table("Sizes", list(rows), list(zip(*rows.values(), strict=True)))
    known = [[text, study[key]] for key, text in CONCLUSIONS.items() if study.get(key) is not None]
    fits = [[f"{law}: {name.replace('_', ' ')}", value] for law, fit in (study.get("fits") or {}).items()
            for name, value in fit.items() if isinstance(value, int | float)]  # fmt: skip
    if known or fits:
        yield Table("Conclusions", ["conclusion", "value"], [*known, *fits])

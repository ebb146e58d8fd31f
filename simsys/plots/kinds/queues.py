"""Waiting at links: for how long transfers queued, and how busy the links were."""

from __future__ import annotations

from typing import TYPE_CHECKING

from simsys.contents.run import RunContent
from simsys.plots.drawing import BLUE, ORANGE, new_figure, shortened, time_unit, titled
from simsys.plots.kind import kind, needs

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MOST = 24
"""Links of a picture: those with the longest waits."""
_HAS_LINKS = needs((), "links", hint="transfers are on links at high detail, and at medium where they meet")


def _lacks(run: RunContent) -> str:
    if missing := _HAS_LINKS(run):
        return missing
    if "queued_s" not in run.tables["links"] or not any(run.tables["links"]["queued_s"]):
        return f"has nothing to show: no transfer of {run.name} waited for a link"
    return ""


@kind("queues", "how long transfers waited for each link", RunContent, _lacks)
def queues(run: RunContent) -> Figure:
    """Waiting time by link, the longest first, beside the busy share of the link."""
    table = run.tables["links"]
    rows = sorted(range(len(table["src"])), key=lambda row: -table["queued_s"][row])
    waited = [row for row in rows if table["queued_s"][row] > 0]
    shown = waited[:MOST]
    scale, unit = time_unit(table["queued_s"][shown[0]])
    height_in = max(1.0, 0.26 * len(shown))
    figure, (waits, busy) = new_figure(
        9.0, height_in + 1.3, columns=2, sharey=True, gridspec_kw={"width_ratios": [2, 1]}
    )
    places = range(len(shown))
    waits.barh(places, [scale * table["queued_s"][row] for row in shown], color=ORANGE)
    busy.barh(places, [100 * table["utilization"][row] for row in shown], color=BLUE, hatch="..", edgecolor="white")
    names = [f"{shortened(table['from'][row], 26)} → {shortened(table['to'][row], 26)}" for row in shown]
    waits.set_yticks(places, names, fontsize=8.0)
    waits.invert_yaxis()
    waits.set_xlabel(f"waiting, all transfers together ({unit})")
    busy.set(xlabel="link busy (% of the time)")
    rest = f"; {len(waited) - len(shown):,} more not shown" if len(waited) > len(shown) else ""
    titled(figure, run.name, f"{len(waited):,} links at which transfers waited{rest}")
    return figure

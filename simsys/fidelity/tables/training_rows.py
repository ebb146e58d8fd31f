"""Rows of measured training runs: one configuration with its time per iteration each."""

from __future__ import annotations

import math

from simsys.fidelity.case import Case, Unsupported
from simsys.fidelity.scenario_run import ScenarioRun
from simsys.fidelity.tables.engine_names import engine_of
from simsys.fidelity.tables.table import Row, Table
from simsys.fidelity.tables.training_scenario import scenario_of

COLUMNS = (
    "id",
    "model",
    "gpu",
    "gpus",
    "strategy",
    "seq_len",
    "tp",
    "pp",
    "dp",
    "micro_batch",
    "global_batch",
    "precision",
    "iter_time_s_derived",
    "group",
)
_SAME = (
    *("group", "model", "layers", "hidden", "ffn", "heads", "kv_heads", "vocab", "gpu", "gpus"),
    *("seq_len", "global_batch", "precision", "attn_kernel"),
)
"""Columns that are equal for rows that differ only in their layout."""


def cases(table: Table) -> list[Case]:
    """Return the cases of a table."""
    return [_case(row) for row in table.rows]


def _case(row: Row) -> Case:
    run, reason, measured = None, "", math.nan
    arch = "moe" if row.text("arch") == "moe" else "dense"
    if row.text("iter_time_s_derived"):
        measured = row.number("iter_time_s_derived")
        try:
            run = ScenarioRun.of(scenario_of(row), memory_limit=False)
        except Unsupported as unsupported:
            reason = str(unsupported)
    else:
        reason = "no time of an iteration was measured"
    return Case(
        id=row.text("id"),
        family="training",
        group=row.text("group"),
        metric="iteration_s",
        unit="s",
        measured=measured,
        tags={
            "strategy": row.text("strategy"),
            "gpu": row.text("gpu"),
            "engine": engine_of(row.text("engine"), row.text("group"), row.text("source")),
            "model": row.text("model"),
            "arch": arch,
            "quality": f"{arch}, {row.text('quality') or 'unstated'}",
            "precision": row.text("precision"),
        },
        layouts="|".join(row.text(column) for column in _SAME),
        run=run,
        figure="mean_iteration_s",
        reason=reason,
    )

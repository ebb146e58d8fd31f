"""Sweeps from Python and notebooks."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from simsys.config.experiment import SimulationConfig
from simsys.config.loader import validate
from simsys.config.sweep import SweepConfig
from simsys.shown import Shown
from simsys.sweeps.plan import plan_in_python
from simsys.sweeps.run import Summary, local, run_sweep
from simsys.sweeps.store import Store
from simsys.sweeps.table import table_of

if TYPE_CHECKING:
    import pandas


@dataclass(frozen=True, repr=False)
class SweepResult(Shown):
    """The result of a sweep.

    Args:
        name: The scenario's name.
        summary: Numbers of points by state.
        columns: The table: settings, state, metrics and costs, one row for each point.
    """

    name: str
    summary: Summary
    columns: Mapping[str, Sequence[Any]]

    def __repr__(self) -> str:
        """In one line."""
        return f"<SweepResult {self.name!r} {self.summary.text()}>"

    def table(self) -> pandas.DataFrame:
        """The table of `simsys.sweeps.table.table_of`."""
        import pandas

        return pandas.DataFrame(dict(self.columns))


def sweep(
    config: SimulationConfig,
    over: Mapping[str, Any] | None = None,
    *,
    folder: str | Path | None = None,
    jobs: int | None = None,
    point_timeout_s: float = math.inf,
    retry: bool = False,
    **section: Any,
) -> SweepResult:
    """Simulate variants of a scenario on worker processes.

    Modules that the scenario names are imported in the processes, so they have to be files or installed; what a
    notebook registers itself is not known there.

    Args:
        config: The scenario.
        over: Values by the path of a setting, such as ``{"parallelism.tp_degree": [1, 2, 4]}`` or ``"1..4 x2"``.
        folder: Folder of the store, with which an interrupted sweep resumes; by default nothing is kept.
        jobs: Number of processes; by default one per processor.
        point_timeout_s: Longest time of a point.
        retry: Whether points that crashed or timed out are run again.
        **section: Further keys of the section ``sweep``: ``where``, ``zip``, ``sample``, ``repeats``, ``metrics``.

    Raises:
        ConfigError: With everything that is wrong with the section or its values.
        UsageError: If the folder has the store of another sweep.

    Examples:
        >>> from simsys import SimulationConfig
        >>> config = SimulationConfig(
        ...     hardware={"gpu": "H100-SXM"},
        ...     model={"name": "GPT2-Small"},
        ...     training={"batch_size_per_gpu": 8, "num_iterations": 2},
        ... )
        >>> sweep(config, over={"training.batch_size_per_gpu": "4..8 x2"}, jobs=1)
        <SweepResult 'experiment' 2 points: 2 ok>
    """
    plan = plan_in_python(config, validate({"over": dict(over or {}), **section}, SweepConfig))
    with ExitStack() as stack:
        place = Path(folder) if folder is not None else Path(stack.enter_context(tempfile.TemporaryDirectory()))
        summary = run_sweep(plan, place, local(jobs, point_timeout_s), retry=retry)
        store = stack.enter_context(Store(place))
        return SweepResult(plan.name, summary, table_of(store))

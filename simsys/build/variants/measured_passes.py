"""Forward passes as measured, such as by the profiler of an engine, in place of the costs of kernels."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from math import ceil
from pathlib import Path
from statistics import median

from simsys.build.rules.findings import Findings
from simsys.build.rules.registry import Parts, rule
from simsys.build.serving_memory import ServingMemory
from simsys.build.variants.variant import Variant, variant
from simsys.config.csv_table import at_setting
from simsys.config.experiment import SimulationConfig
from simsys.config.pass_table import read_passes
from simsys.config.serving import ServingConfig
from simsys.costs.measured_passes import MeasuredPass, MeasuredPasses
from simsys.errors import ConfigError, Problem
from simsys.input_files import path_from

PASSES = ("serving", "passes")

WHAT = {"max_num_seqs": "sequences", "max_num_batched_tokens": "tokens"}


@variant
class MeasuredPassesVariant(Variant):
    """The times of a table replace the costs of kernels and collectives in forward passes."""

    place = PASSES
    regime = "measured passes"

    def on(self, settings: ServingConfig) -> bool:
        """Whether a table is given."""
        return settings.passes is not None

    def assumptions(self, setup: ServingMemory) -> Iterator[str]:
        """The table, and how well it predicts its own rows when they are left out."""
        table = self.passes(setup)
        errors = sorted(table.errors())
        tested = "too few rows to leave any out, so the error of interpolation is unknown"
        if errors:
            nine = errors[ceil(0.9 * len(errors)) - 1]
            tested = f"{len(errors)} predicted from the others: median error {median(errors):.1%}, p90 {nine:.1%}"
        yield f"forward passes from {setup.settings.passes}, {len(table.rows)} measured kinds of passes; {tested}"
        yield "a measured pass is all computation: its collectives load no links"

    def passes(self, setup: ServingMemory) -> MeasuredPasses:
        """The measured passes."""
        return measured(setup.config)


def measured(config: SimulationConfig) -> MeasuredPasses:
    """The passes of the table of a scenario.

    Raises:
        ConfigError: With every problem of the table, each at its line.
    """
    assert config.serving is not None
    assert config.serving.passes is not None
    path = path_from(config.folder, config.serving.passes)
    try:
        stamp = path.stat().st_mtime_ns
    except (OSError, ValueError):
        stamp = 0
    try:
        return _read(path, stamp)
    except ConfigError as error:
        raise at_setting(error, path, PASSES) from None


@lru_cache(maxsize=8)
def _read(path: Path, stamp: int) -> MeasuredPasses:
    """The passes of a file as of a time."""
    rows, _ = read_passes(path)
    try:
        return MeasuredPasses(
            MeasuredPass(row.sequences, row.new_tokens, row.context_tokens, row.seconds) for row in rows
        )
    except ValueError as error:
        raise ConfigError([Problem(str(error), file=str(path))]) from None


@rule("serving.passes")
def fits_the_table(parts: Parts, found: Findings) -> None:
    """The table covers all steps that the engine may make, and describes a whole replica."""
    config, settings = parts.config, parts.serving
    if config.serving is None or config.serving.passes is None:
        return
    if config.parallelism.pp_stages > 1:
        found.error(PASSES, "a table has the times of whole passes, without stages; use pp_stages: 1 or remove passes")
    if config.serving.speculative is not None:
        found.error(PASSES, "a table does not say what drafts cost; remove speculative or passes")
    split = config.serving.disaggregated
    pools = split.pools(config.parallelism) if split is not None else ()
    if config.parallelism.attention_dp > 1 or any(pool.attention_dp > 1 for pool in pools):
        found.error(
            PASSES, "a table does not say what ranks wait for each other; use attention_dp: 1 or remove passes"
        )
    if len({(pool.tp_degree, pool.ep_degree) for pool in pools}) > 1:
        found.error(PASSES, "a table describes one layout; give prefill and decode replicas the same degrees")
    table = found.attempt(PASSES, lambda: measured(config))
    if settings is None or table is None:
        return
    for name, most in {"max_num_seqs": table.max_sequences, "max_num_batched_tokens": table.max_tokens}.items():
        if getattr(settings, name) > most:
            found.error(
                ("serving", name),
                f"a step may have {getattr(settings, name):,} {WHAT[name]}, but the largest measured one of "
                f"{config.serving.passes} has {most:,}; write {name}: {most} or measure more",
            )

"""Known tables of measurements, recognised by their headers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from simsys.data import shipped_folder
from simsys.errors import UsageError
from simsys.fidelity.case import Case
from simsys.fidelity.tables import collective_rows, serving_rows, training_rows
from simsys.fidelity.tables.nccl_tests import is_nccl_tests, nccl_tests_cases, nccl_tests_warnings
from simsys.fidelity.tables.reading import Reading
from simsys.fidelity.tables.repeated import without_repeats
from simsys.fidelity.tables.table import Table, read_table
from simsys.fidelity.tables.vllm_differences import vllm_warnings
from simsys.fidelity.tables.vllm_result import is_vllm_result, vllm_cases
from simsys.input_files import read_text


@dataclass(frozen=True)
class Schema:
    """One kind of table.

    Args:
        name: Its name.
        columns: The columns by which it is recognised.
        read: Returns a case for each row of a table; problems of cells are added to the rows.
    """

    name: str
    columns: Sequence[str]
    read: Callable[[Table], list[Case]]


SCHEMAS = (
    Schema("training", training_rows.COLUMNS, training_rows.cases),
    Schema("serving", serving_rows.COLUMNS, serving_rows.cases),
    Schema("collectives", collective_rows.COLUMNS, collective_rows.cases),
)


def read_measurements(path: Path, scenario: Mapping[str, Any] | None = None) -> Reading:
    """Read the measurements of a file: a table, a result of ``vllm bench serve``, or output of nccl-tests.

    Args:
        path: The file.
        scenario: The experiment of the measurement, as nested mappings; results of vLLM need one.

    Raises:
        UsageError: It cannot be read, or its kind is not known.
        ConfigError: A column is missing, or none of its rows can be read.
    """
    text = _beginning(path)
    if path.suffix.lower() == ".csv":
        return measurements_of(read_table(path))
    if is_nccl_tests(text):
        hardware = None if scenario is None else scenario.get("hardware")
        return Reading(
            str(path), nccl_tests_cases(path, hardware=hardware), warnings=nccl_tests_warnings(path, hardware)
        )
    if is_vllm_result(text):
        if scenario is None:
            raise UsageError(f"{path}: does not say on what it was measured; name an experiment with --on")
        return Reading(str(path), vllm_cases(path, scenario), warnings=vllm_warnings(path, scenario))
    return measurements_of(read_table(path))


def measurements_of(table: Table) -> Reading:
    """Return the measurements of a table; raises as `read_measurements`."""
    schema = _recognised(table)
    table.require(schema.columns)
    found = schema.read(table)
    _check_unique(table)
    cases = [case for row, case in zip(table.rows, found, strict=True) if not row.problems]
    if not cases:
        table.check()
    unused = ", ".join(table.unused)
    warnings = [f"{table.file}: columns that are not used: {unused}"] if unused else []
    distinct = without_repeats(cases)
    if repeats := len(cases) - len(distinct):
        warnings.append(
            f"{table.file}: rows that repeat the measurement of an earlier row and do not count: {repeats:,}"
        )
    return Reading(table.file, distinct, table.all_problems, warnings)


def shipped_tables() -> list[Path]:
    """Return the shipped tables of published figures."""
    folder = shipped_folder("experiments") / "measured"
    return sorted(folder.glob("*.csv"))


def _beginning(path: Path) -> str:
    """Return a text file's content; empty for other files, whose problems the reader of tables reports."""
    try:
        return read_text(path)
    except (OSError, ValueError):
        return ""


def _recognised(table: Table) -> Schema:
    """Return the schema with the largest share of its columns in the table."""
    best = max(SCHEMAS, key=lambda schema: _share(schema, table))
    if _share(best, table) < 0.5:
        kinds = "; ".join(f"{schema.name}: {', '.join(schema.columns)}" for schema in SCHEMAS)
        raise UsageError(f"{table.file}:1: no known table of measurements; known by these columns are {kinds}")
    return best


def _share(schema: Schema, table: Table) -> float:
    return sum(column in table.columns for column in schema.columns) / len(schema.columns)


def _check_unique(table: Table) -> None:
    seen: dict[str, int] = {}
    for row in table.rows:
        first = seen.setdefault(row.text("id"), row.line)
        if first != row.line:
            row.wrong("id", f"{row.text('id')!r} is in line {first} already")

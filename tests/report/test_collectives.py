"""The table of collectives: sizes, what is chosen for them, and bandwidths, for people and as JSON."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from simsys.cli import cli
from simsys.collectives import CollectiveKind
from simsys.errors import UsageError
from simsys.report.collectives import collective_tables, sizes_between

SCENARIOS = """\
scenarios:
  - name: two
    hardware: {profile: dgx-h100, num_nodes: 2}
    model: {name: GPT2-Small}
    parallelism: {strategy: DDP}
    training: {batch_size_per_gpu: 1}
  - name: single
    hardware: {gpu: H100}
    model: {name: GPT2-Small}
    training: {batch_size_per_gpu: 1}
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "experiment.yaml"
    path.write_text(SCENARIOS, encoding="utf-8")
    return path


def run(*arguments: object) -> Any:
    return CliRunner().invoke(cli, ["collectives", *map(str, arguments)])


def test_the_table_says_size_algorithm_protocol_time_and_bandwidths(file: Path) -> None:
    result = run(file, "--scenario", "two", "--sizes", "4KiB..8KiB")
    assert result.exit_code == 0
    head, _, titles, *rows = result.stdout.splitlines()
    assert head.startswith("two: all_reduce among 16 GPUs, ")
    assert titles.split() == ["size", "algorithm", "protocol", "time", "(us)", "algbw", "(GB/s)", "busbw", "(GB/s)"]
    assert [row.split()[:2] for row in rows] == [["4", "KiB"], ["8", "KiB"]]
    assert all(len(line) <= 80 for line in result.stdout.splitlines())


def test_the_figures_fit_each_other(file: Path) -> None:
    result = run(file, "--scenario", "two", "--op", "all_gather", "--gpus", 8, "--sizes", "1MiB..1GiB", "--json")
    (table,) = json.loads(result.stdout)["scenarios"]
    assert (table["op"], table["gpus"], len(table["rows"])) == ("all_gather", 8, 11)
    for row in table["rows"]:
        assert row["algbw_bytes_per_s"] == pytest.approx(row["nbytes"] / row["seconds"])
        assert row["busbw_bytes_per_s"] == pytest.approx(7 / 8 * row["algbw_bytes_per_s"])
    assert table["rows"][-1]["algorithm"] == "ring"


def test_a_single_gpu_has_nothing_to_communicate(file: Path) -> None:
    (table,) = collective_tables(file, [], ["single"], op="all_reduce", sizes="1KiB")
    assert table.rows == []
    assert table.text() == "single: one GPU, no communication"


@pytest.mark.parametrize("kind", CollectiveKind)
def test_every_kind_can_be_asked_for(file: Path, kind: CollectiveKind) -> None:
    (table,) = collective_tables(file, [], ["two"], op=kind, sizes="1MiB")
    assert table.rows[0].seconds > 0.0


def test_the_scenarios_pattern_and_tuning_hold(file: Path) -> None:
    (pattern,) = collective_tables(
        file, ["training.communication_pattern=ring/double_tree"], ["two"], op="all_reduce", sizes="1GiB"
    )
    assert pattern.rows[0].algorithm == "ring/double_tree*1"
    (links,) = collective_tables(file, ["network.tuning=none"], ["two"], op="all_reduce", sizes="1GiB")
    assert (links.rows[0].algorithm, links.rows[0].protocol) == ("ring/ring", "-")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--op", "all_redce"], "unknown collective 'all_redce', did you mean 'all_reduce'?"),
        (["--sizes", "4KiB..8"], "'4KiB..8' is not a range of sizes such as 1KiB..1GiB: 8 has no unit"),
        (["--sizes", "4KiB..1KiB"], "is positive and ascending"),
        (["--gpus", "17"], "--gpus is from 2 to the 16 GPUs of two, not 17"),
        (["--gpus", "1"], "--gpus is from 2 to the 16 GPUs of two, not 1"),
        (["--set", "training.communication_pattern=rings"], "did you mean 'ring'"),
        (
            ["--set", "training.communication_pattern=nvls", "--set", "hardware.profile=dgx-a100"],
            "nvls needs switches that reduce",
        ),
    ],
)
def test_mistakes_are_explained(file: Path, arguments: list[str], message: str) -> None:
    result = run(file, "--scenario", "two", *arguments)
    assert result.exit_code == 2
    assert message in result.stderr


def test_sizes_double_up_to_the_last() -> None:
    assert sizes_between("3MB") == [3e6]
    assert sizes_between("1KiB..5KiB") == [1024.0, 2048.0, 4096.0]
    with pytest.raises(UsageError, match="more than 64 sizes"):
        sizes_between("1e-9 B..1EB")

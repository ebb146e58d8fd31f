"""The runs of a table."""

from __future__ import annotations

from simsys.lab.bench import variants


def test_buckets_vary_only_where_there_are_any() -> None:
    made = [*variants([4], [1, 2], ["ddp", "fsdp"], ["1 MiB", "25 MiB"])]
    strategies = [
        setting.removeprefix("parallelism.strategy=") for each in made for setting in each if "strategy" in setting
    ]
    assert strategies == ["None", "DDP", "DDP", "FSDP"]
    assert [sum("bucket" in setting for setting in each) for each in made] == [0, 2, 2, 0]


def test_without_variation_a_scenario_runs_as_written() -> None:
    assert [*variants([], [], [], [])] == [[]]

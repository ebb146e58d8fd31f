"""Results of ``vllm bench serve`` as sides."""

from __future__ import annotations

from pathlib import Path

import pytest

from simsys.comparisons.bench import read_bench
from simsys.errors import UsageError
from tests.helpers.compare_toys import BENCH, written


def test_rates_latencies_and_further_percentiles_are_read(tmp_path: Path) -> None:
    side = read_bench(Path(written(tmp_path / "b.json", {**BENCH, "model_id": "m", "p90_itl": [1]})))
    assert (side.kind, side.given, side.config) == ("serving", "measurement", None)
    assert side.metrics == BENCH


def test_files_of_simsys_have_a_folder(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"give its folder, .* which has the settings too"):
        read_bench(Path(written(tmp_path / "b.json", {**BENCH, "backend": "simsys"})))

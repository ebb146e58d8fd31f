from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from simsys import ConfigError, SimulationConfig, sweep
from tests.helpers.sweeps import BASE

SCRIPT = """
from simsys import SimulationConfig
from simsys import sweep
config = SimulationConfig(**{base!r})
print(sweep(config, over={{"parallelism.tp_degree": [1, 2]}}, jobs=2))
"""


def test_a_sweep_in_python_is_a_table(tmp_path: Path) -> None:
    config = SimulationConfig(**BASE)
    section: dict[str, Any] = {"where": "tp_degree <= 4", "metrics": ["bubble_s"], "folder": tmp_path}
    found = sweep(config, over={"parallelism.tp_degree": "1..8 x2"}, jobs=1, **section)
    assert repr(found) == "<SweepResult 'experiment' 3 points: 3 ok>"
    table = found.table()
    assert list(table["parallelism.tp_degree"]) == [1, 2, 4]
    assert "bubble_s" in table
    again = sweep(config, {"parallelism.tp_degree": "1..8 x2"}, **section)
    assert again.summary.simulated == 0
    assert again.columns == found.columns


def test_a_wrong_key_is_refused() -> None:
    with pytest.raises(ConfigError, match="did you mean 'tp_degree'"):
        sweep(SimulationConfig(**BASE), over={"parallelism.tp_degre": [1]})
    with pytest.raises(ConfigError, match="unknown key 'wher'"):
        sweep(SimulationConfig(**BASE), over={"parallelism.tp_degree": [1]}, wher="x")


@pytest.mark.slow
def test_a_script_without_a_main_guard_is_not_run_again(tmp_path: Path) -> None:
    path = tmp_path / "script.py"
    path.write_text(SCRIPT.format(base=dict(BASE)), encoding="utf-8")
    done = subprocess.run([sys.executable, str(path)], capture_output=True, text=True, check=True)
    assert done.stdout == "<SweepResult 'experiment' 2 points: 2 ok>\n"

from __future__ import annotations

from pathlib import Path

import pytest

from simsys import ConfigError, SimulationConfig

CONFIG = SimulationConfig(
    hardware={"gpu": "H100-SXM", "num_nodes": 4},
    model={"name": "GPT2-Small"},
    training={"batch_size_per_gpu": 8, "num_iterations": 2},
).located_in(Path("somewhere"))


def test_a_copy_has_other_settings_and_the_same_folder() -> None:
    changed = CONFIG.with_({"parallelism.tp_degree": 4, "network.base_latency": "5 us"})
    assert changed.parallelism.tp_degree == 4
    assert changed.network.base_latency == 5e-6
    assert changed.hardware == CONFIG.hardware
    assert changed.folder == Path("somewhere")
    assert CONFIG.parallelism.tp_degree == 1


def test_a_wrong_setting_is_refused_with_a_suggestion() -> None:
    with pytest.raises(ConfigError, match="did you mean 'tp_degree'"):
        CONFIG.with_({"parallelism.tp_degre": 4})

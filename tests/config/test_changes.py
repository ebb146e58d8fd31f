from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from simsys import ConfigError, SimulationConfig, TrainingConfig, UsageError

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


def test_keywords_are_sections_of_which_the_other_settings_stay() -> None:
    changed = CONFIG.with_(name="other", training={"batch_size_per_gpu": 4}, network={"base_latency": "5 us"})
    assert (changed.name, changed.network.base_latency, changed.folder) == ("other", 5e-6, CONFIG.folder)
    assert changed.training == CONFIG.training.model_copy(update={"batch_size_per_gpu": 4})  # type: ignore[union-attr]
    assert CONFIG.with_({"training.batch_size_per_gpu": 4}, name="other") == CONFIG.with_(
        name="other", training={"batch_size_per_gpu": 4}
    )
    own = TrainingConfig(batch_size_per_gpu=16)
    assert CONFIG.with_(training=own).training == own, "a section of Python replaces the whole section"


@pytest.mark.parametrize(
    ("sections", "message"),
    [
        ({"trainign": {"num_iterations": 3}}, "unknown key 'trainign', did you mean 'training'"),
        ({"training": {"num_iteration": 3}}, "did you mean 'num_iterations'"),
        ({"training": {"num_iterations": -3}}, r"training\.num_iterations"),
        ({"name": {"first": "a"}}, "name: text is needed, not a mapping"),
    ],
)
def test_wrong_keywords_are_refused(sections: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        CONFIG.with_(**sections)


def test_a_scenario_prints_the_settings_that_are_given() -> None:
    text = repr(CONFIG)
    assert text == str(CONFIG)
    assert text.startswith("SimulationConfig(hardware=HardwareConfig(gpu='H100-SXM', num_nodes=4), model=")
    assert "topology_type" not in text
    layers = [{"name": f"layer{index}", "parameters": 1e6} for index in range(200)]
    assert len(str(CONFIG.with_({"model": {"layers": layers}}))) <= 10 * 80

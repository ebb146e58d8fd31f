"""Memory, computation and communication of a GPU."""

from __future__ import annotations

import pytest

from simsys.compat import HardwareConfig, ResourceManager
from simsys.errors import UsageError


def test_key_methods() -> None:
    resources = ResourceManager(HardwareConfig(gpu_model="A100", num_nodes=2))
    assert resources.allocate_memory("weights", 70.0) is True
    assert resources.allocate_memory("activations", 20.0) is False
    assert resources.get_statistics()["memory_in_use_gb"] == pytest.approx(70.0)
    assert resources.free_memory("weights") is True
    assert resources.free_memory("weights") is False
    computed_s = resources.compute_execution_time(312e12)
    assert 1.0 < computed_s < 2.0, "a second at the peak"
    sent_s = resources.communication_time(25.0)
    assert 0.5 < sent_s < 2.5
    statistics = resources.get_statistics()
    assert statistics["simulated_s"] == pytest.approx(computed_s + sent_s)
    assert statistics["peak_memory_gb"] == pytest.approx(70.0)
    assert sum(statistics["links"]["nbytes"]) >= 25e9
    busy = resources.get_utilization()
    assert busy["compute"] + busy["network"] == pytest.approx(1.0)
    assert busy["memory"] == 0.0


def test_gpus_of_a_node_are_faster_than_nodes() -> None:
    inside = ResourceManager(HardwareConfig(profile="dgx-h100"))
    across = ResourceManager(HardwareConfig(profile="dgx-h100", num_nodes=2))
    assert inside.communication_time(1.0) < across.communication_time(1.0)


def test_the_first_half_precision_of_the_gpu_counts() -> None:
    assert ResourceManager(HardwareConfig(gpu_model="V100-SXM-32GB")).compute_execution_time(125e12) > 1.0


def test_one_gpu_sends_nothing() -> None:
    resources = ResourceManager(HardwareConfig(gpu_model="A100"))
    assert resources.get_utilization()["compute"] == 0.0
    with pytest.raises(UsageError, match="one GPU alone"):
        resources.communication_time(1.0)

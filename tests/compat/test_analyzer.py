"""Analyses with methods of one's own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from simsys.compat import DistributedAISimulator, SimulationAnalyzer, create_small_scale_config


class OwnAnalyzer(SimulationAnalyzer):
    """Another metric."""

    def analyze_my_metric(self, resource_stats: Mapping[str, Any]) -> float:
        # Calculate custom metric
        metric_value: float = resource_stats["samples_per_s"] / resource_stats["num_gpus"]
        return metric_value


def test_a_new_analysis_metric() -> None:
    config = create_small_scale_config()
    config.training.num_iterations = 2
    simulator = DistributedAISimulator(config)
    result = simulator.run()
    found = OwnAnalyzer(result).perform_full_analysis()
    assert found["my_metric"] == result.metrics["samples_per_s"] / 8
    assert found["bottlenecks"] == simulator.analyze()

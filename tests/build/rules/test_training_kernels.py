"""Kernels of a training step that cannot do what the settings say are refused at their lines."""

from __future__ import annotations

from typing import Any

import pytest

from simsys.build.job import build_job
from simsys.config.experiment import SimulationConfig
from simsys.errors import ConfigError


def training(**settings: Any) -> SimulationConfig:
    return SimulationConfig(
        hardware={"gpu": "H100-SXM", "num_nodes": 1, "gpus_per_node": 1},
        model={"name": "GPT2-Small", "sequence_length": 512},
        training={"batch_size_per_gpu": 1, **settings},
    )


def test_unfused_attention_skips_no_blocks() -> None:
    with pytest.raises(ConfigError, match=r"attention_block has no effect with attention eager"):
        build_job(training(attention_block=128, attention="eager"))
    build_job(training(attention_block=128))

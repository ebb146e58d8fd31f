"""The optimizer's update: what each implementation reads and writes for a weight."""

from __future__ import annotations

import pytest

from simsys.build.job import build_job
from simsys.config.experiment import SimulationConfig
from simsys.model.operators import OperatorKind
from simsys.parallel.optimizer import update_work

PARAMETERS = 1e6


@pytest.mark.parametrize(
    ("optimizer", "fused", "half_copy", "nbytes_each", "kernels"),
    [
        ("adam", True, False, 28.0, 1),
        ("adam", True, True, 30.0, 1),
        ("adam", False, False, 72.0, 7),
        ("adam", False, True, 78.0, 8),  # the weights are read once more
        ("sgd", True, False, 20.0, 1),
        ("sgd", True, True, 22.0, 1),
        ("sgd", False, False, 32.0, 3),
        ("sgd", False, True, 38.0, 4),
    ],
)
def test_traffic_and_kernels(optimizer: str, fused: bool, half_copy: bool, nbytes_each: float, kernels: int) -> None:
    work = update_work(optimizer, PARAMETERS, fused=fused, half_copy=half_copy)
    assert work.nbytes == pytest.approx(nbytes_each * PARAMETERS)
    assert len(work.kernels) == kernels
    assert {kernel.kind for kernel in work.kernels} == {OperatorKind.MEMORY}
    assert work.flop == work.layers == 0.0


@pytest.mark.parametrize(("strategy", "shards"), [("DDP", 1), ("ZERO1", 8)])
def test_a_scenario_chooses_it_and_shards_divide_it(strategy: str, shards: int) -> None:
    def update(**settings: bool) -> float:
        config = SimulationConfig(
            hardware={"profile": "dgx-a100"},
            model={"name": "GPT2-Small"},
            parallelism={"strategy": strategy},
            training={"batch_size_per_gpu": 1, **settings},
        )
        job = build_job(config)
        return job.plans[0][0].optimizer.nbytes / job.model.parameters

    assert update() == update(fused_optimizer=True) == pytest.approx(30.0 / shards)
    assert update(fused_optimizer=False) == pytest.approx(78.0 / shards)

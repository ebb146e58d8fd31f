"""A script of a user with annotations passes mypy, and wrong types in it are found."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import simsys
from tests.helpers.places import ROOT

SCRIPT = """\
from pathlib import Path

from simsys import (
    ConfigError,
    DistributedAISimulator,
    HardwareConfig,
    ModelConfig,
    Probe,
    RunResult,
    ScalingResult,
    ScalingStudyRunner,
    SimulationConfig,
    TrainingConfig,
    VirtualHardwarePlatform,
    create_small_scale_config,
    load_config,
)


class Marks(Probe):
    def __init__(self) -> None:
        self.names: list[str] = []

    def mark(self, rank: int, name: str, now_s: float) -> None:
        self.names.append(name)


def fastest(path: Path) -> tuple[int, float]:
    found: dict[int, float] = {}
    for degree in (1, 2, 4):
        config: SimulationConfig = load_config(path).with_({"parallelism.tp_degree": degree})
        try:
            result: RunResult = DistributedAISimulator(config, probes=[Marks()]).run()
        except ConfigError as error:
            print(error.problems[0].path)
            continue
        found[degree] = float(result.metrics["mean_iteration_s"])
    best = min(found, key=lambda degree: found[degree])
    return best, found[best]


study: ScalingResult = ScalingStudyRunner(create_small_scale_config()).run_scaling_study([1, 2], mode="weak")
pictures: list[Path] = DistributedAISimulator(create_small_scale_config()).visualize("results")
config = SimulationConfig(
    hardware=HardwareConfig(gpu="H100-SXM"),
    model=ModelConfig(name="GPT2-Small"),
    training=TrainingConfig(batch_size_per_gpu=8),
)
gpus: int = len(VirtualHardwarePlatform.from_profile("dgx-h100", nodes=2).devices)

DistributedAISimulator("experiment.yaml")  # type: ignore[arg-type]
ScalingStudyRunner(config).run_scaling_study([1], mode="none")  # type: ignore[arg-type]
TrainingConfig(batch_size_per_gpu="eight")  # type: ignore[arg-type]
days: str = study.best_for_time.nodes  # type: ignore[assignment]
"""
"""Its last lines are wrong on purpose: strict mypy reports a comment that ignores nothing."""


@pytest.mark.slow  # without the cache of `make lint`, it reads all of simsys
def test_strict_mypy_accepts_a_script_and_finds_wrong_types(tmp_path: Path) -> None:
    script = tmp_path / "user_script.py"
    script.write_text(SCRIPT, encoding="utf-8")
    settings = ["--strict", "--config-file", "pyproject.toml", "--follow-imports", "silent"]
    command = [sys.executable, "-m", "mypy", *settings, str(script)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_public_names_are_few_and_each_can_be_used() -> None:
    assert len(simsys.__all__) <= 40
    assert simsys.__all__ == sorted(simsys.__all__)
    for name in simsys.__all__:
        assert getattr(simsys, name) is not None

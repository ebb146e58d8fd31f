"""Slurm: a batch script that starts the launch script of a training target on each node."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from simsys.config.experiment import SimulationConfig
from simsys.deployments.correspondence import Options
from simsys.deployments.deployment import Deployment
from simsys.deployments.shell import script_options
from simsys.deployments.target import EmittedFile, Target
from simsys.deployments.targets import torchrun_megatron, torchtitan
from simsys.errors import UsageError

LAUNCHED = {"torchtitan": torchtitan.TARGET}
"""The target whose launch script is started, by engine; Megatron-LM's for all others."""
FILE, LAUNCH = "job.sbatch", "train.sh"
NODES, PER_NODE = "nnodes", "nproc-per-node"


def _choose(config: SimulationConfig) -> Target:
    """The launch target of the scenario's engine, with a batch script around its launch script."""
    engine = config.training.engine if config.training is not None else ""
    launched = LAUNCHED.get(engine, torchrun_megatron.TARGET)

    def render(options: Options, deployment: Deployment) -> list[EmittedFile]:
        return [EmittedFile(FILE, _batch_script(options, deployment)), *launched.render(options, deployment)]

    def parse(files: Mapping[str, str]) -> dict[str, Any]:
        options = launched.parse(files)
        asked = script_options(files[FILE], "#SBATCH ")
        if (asked["nodes"], asked["gpus-per-node"]) != (options[NODES], options[PER_NODE]):
            raise UsageError(f"{FILE} and {LAUNCH} differ in their numbers of nodes or GPUs")
        return options

    return replace(
        launched, name=TARGET.name, sources=(*TARGET.sources, *launched.sources), render=render, parse=parse
    )


def _batch_script(options: Options, deployment: Deployment) -> str:
    asked = {
        "job-name": deployment.config.name,
        "nodes": options[NODES],
        "ntasks-per-node": 1,
        "gpus-per-node": options[PER_NODE],
        "exclusive": True,
    }
    lines = [f"#SBATCH --{name}" + ("" if value is True else f"={value}") for name, value in asked.items()]
    return "\n".join(
        [
            "#!/bin/bash",
            f"# Scenario {deployment.config.name}; written by simsys. Submit it beside {LAUNCH}: sbatch {FILE}",
            "# Add --account, --partition and --time as your cluster needs.",
            *lines,
            "set -eu",
            'HEAD_NODE=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)',
            "export HEAD_NODE",
            f"srun sh {LAUNCH}",
            "",
        ]
    )


TARGET = Target(
    name="slurm",
    tool="Slurm",
    kind="training",
    releases=(),
    sources=("https://slurm.schedmd.com/sbatch.html",),
    table=(),
    render=torchrun_megatron.TARGET.render,
    parse=torchrun_megatron.TARGET.parse,
    sections=torchrun_megatron.TARGET.sections,
    choose=_choose,
)

"""Hugging Face Accelerate: the YAML configuration of FSDP2. The program decides about model, batches and steps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import yaml

from simsys.config.experiment import SimulationConfig
from simsys.deployments.correspondence import Choice, Correspondence, Fixed, Options, Settings
from simsys.deployments.deployment import Deployment
from simsys.deployments.fsdp_mesh import fsdp_settings, fsdp_shards
from simsys.deployments.nesting import flat, nested
from simsys.deployments.shell import yaml_file
from simsys.deployments.target import EmittedFile, Target
from simsys.deployments.training_parts import OUTSIDE, PROGRAM_DECIDES, PROGRAM_REASONS, SECTIONS

REPLICATE, SHARD, TENSOR = (
    f"parallelism_config.parallelism_config_{name}_size" for name in ("dp_replicate", "dp_shard", "tp")
)
MACHINES, PROCESSES = "num_machines", "num_processes"
UNMODELLED = {
    "compute_environment": "LOCAL_MACHINE",
    "distributed_type": "FSDP",
    "fsdp_config.fsdp_version": 2,
    "fsdp_config.fsdp_auto_wrap_policy": "TRANSFORMER_BASED_WRAP",
    "fsdp_config.fsdp_cpu_ram_efficient_loading": True,
    "fsdp_config.fsdp_state_dict_type": "SHARDED_STATE_DICT",
    "main_training_function": "main",
    "rdzv_backend": "c10d",
    "same_network": True,
}
"""Keys that every file needs and that no setting corresponds to."""
FILE = "fsdp2.yaml"


@dataclass(frozen=True)
class Mesh(Correspondence):
    """GPUs, and their division among replicas, shards and tensor-parallel ranks."""

    paths: ClassVar[tuple[str, ...]] = (
        *("parallelism.dp_degree", "parallelism.strategy", "parallelism.tp_degree"),
        *("parallelism.sequence_parallel", "training.options.shard_size"),
    )
    options: ClassVar[tuple[str, ...]] = (MACHINES, PROCESSES, REPLICATE, SHARD, TENSOR)

    def write(self, settings: Settings, deployment: Deployment) -> Options:
        """The numbers of GPUs along each axis."""
        degree, tensor = settings["parallelism.dp_degree"], settings.get("parallelism.tp_degree", 1)
        shards = fsdp_shards(settings, deployment, kinds=("FSDP", "HSDP"))
        world, per_node = deployment.world_size, min(deployment.world_size, deployment.gpus_per_node)
        machines = {MACHINES: -(-world // per_node), PROCESSES: world}
        mesh = {REPLICATE: degree // shards, SHARD: shards, TENSOR: tensor}
        return {**machines, **mesh}

    def read(self, options: Mapping[str, Any], like: SimulationConfig) -> dict[str, Any]:
        """The degrees, and the strategy that they mean."""
        return fsdp_settings(options[REPLICATE], options[SHARD], options[TENSOR], {})


TABLE: tuple[Correspondence, ...] = (
    Fixed("training.engine", "pytorch-fsdp"),
    Mesh(),
    Choice(
        "training.options.reshard_after_forward",
        {False: {"fsdp_config.fsdp_reshard_after_forward": False}, True: {}},
    ),
    Choice("training.options.offload", {"parameters": {"fsdp_config.fsdp_offload_params": True}, "none": {}}),
    Choice("training.activation_recompute", {"full": {"fsdp_config.fsdp_activation_checkpointing": True}}),
    Choice(
        "training.precision",
        {"bf16": {"mixed_precision": "bf16"}, "fp16": {"mixed_precision": "fp16"}, "fp32": {"mixed_precision": "no"}},
    ),
)


def _render(options: Options, deployment: Deployment) -> list[EmittedFile]:
    about = [
        f"Accelerate {deployment.release}, scenario {deployment.config.name}; written by simsys.",
        f"Use: accelerate launch --config_file {FILE} --machine_rank RANK --main_process_ip ADDRESS PROGRAM",
    ]
    return [EmittedFile(FILE, yaml_file(nested({**UNMODELLED, **options}), about))]


def _parse(files: Mapping[str, str]) -> dict[str, Any]:
    return {name: value for name, value in flat(yaml.safe_load(files[FILE])).items() if name not in UNMODELLED}


TARGET = Target(
    name="accelerate",
    tool="Accelerate",
    kind="training",
    releases=("1.12", "1.11", "1.10"),
    sources=(
        "https://huggingface.co/docs/accelerate/usage_guides/fsdp",
        "https://huggingface.co/docs/accelerate/concept_guides/fsdp1_vs_fsdp2",
        "huggingface/accelerate: src/accelerate/parallelism_config.py",
    ),
    table=TABLE,
    render=_render,
    parse=_parse,
    sections=SECTIONS,
    reasons=PROGRAM_REASONS,
    outside=OUTSIDE
    | PROGRAM_DECIDES
    | {"training.batch_size_per_gpu", "training.gradient_accumulation_steps", "training.optimizer"},
)

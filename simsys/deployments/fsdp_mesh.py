"""The division of data-parallel ranks into groups that share the weights (FSDP2)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from simsys.deployments.correspondence import InexpressibleError, Settings
from simsys.deployments.deployment import Deployment


def fsdp_shards(settings: Settings, deployment: Deployment, kinds: Sequence[str]) -> int:
    """Data-parallel ranks that share the weights.

    Args:
        settings: The settings by dotted path.
        deployment: The scenario.
        kinds: Kinds of data parallelism that the tool has.

    Raises:
        InexpressibleError: The strategy is no kind of FSDP, or tensor parallelism is without sequence parallelism.
    """
    parts, degree = deployment.config.parallelism.parts, settings["parallelism.dp_degree"]
    if settings.get("parallelism.tp_degree", 1) > 1 and not settings.get("parallelism.sequence_parallel", False):
        message = "false cannot be expressed, as FSDP2 with tensor parallelism divides norms too; write true"
        raise InexpressibleError("parallelism.sequence_parallel", message)
    if degree * settings.get("parallelism.cp_degree", 1) == 1:
        return 1
    if not parts & set(kinds):
        message = (
            f"{settings['parallelism.strategy']} cannot be expressed; kinds of data parallelism: {', '.join(kinds)}"
        )
        raise InexpressibleError("parallelism.strategy", message)
    size = "training.options.shard_size"
    if size in settings and ("DDP" in parts or settings.get("parallelism.cp_degree", 1) > 1):
        raise InexpressibleError(size, "cannot be expressed with DDP or context parallelism")
    if "DDP" in parts:
        return 1
    shards = settings.get(size, degree if "FSDP" in parts else None)
    if shards is None:
        raise InexpressibleError(
            "parallelism.strategy", "HSDP cannot be expressed without training.options.shard_size"
        )
    if degree % shards or (shards == degree) != ("FSDP" in parts):
        message = (
            f"{shards} of {degree} data-parallel ranks cannot be expressed with {settings['parallelism.strategy']}"
        )
        raise InexpressibleError(size, message)
    return int(shards)


def fsdp_settings(replicas: int, shards: int, tensor: int, others: Mapping[str, int]) -> dict[str, Any]:
    """The settings of a mesh.

    Args:
        replicas: Groups of ranks with all weights.
        shards: Ranks of such a group.
        tensor: Tensor-parallel ranks.
        others: Degrees of other kinds of parallelism, by name of the kind.
    """
    kinds = [kind for kind, size in {"TP": tensor, **others}.items() if size > 1]
    settings: dict[str, Any] = {"parallelism.dp_degree": replicas * shards, "parallelism.tp_degree": tensor}
    if tensor > 1:
        settings["parallelism.sequence_parallel"] = True
    if replicas > 1 and shards > 1:
        kinds.append("HSDP")
        settings["training.options.shard_size"] = shards
    elif replicas > 1 or shards > 1:
        kinds.append("FSDP" if shards > 1 else "DDP")
    return {**settings, "parallelism.strategy": "_".join(kinds) or "None"}

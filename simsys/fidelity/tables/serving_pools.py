"""The layout of a row of measured disaggregated serving: replicas for prefill and for decode.

A data-parallel rank of attention has ``*_tp`` GPUs; a replica (worker) has ``*_tp`` x ``*_dp`` x ``*_pp`` of them.
"""

from __future__ import annotations

import re
from typing import Any

from simsys.config.parallelism import ParallelismConfig
from simsys.config.serving_options import DisaggregatedConfig
from simsys.fidelity.case import Unsupported
from simsys.fidelity.tables.hardware_names import hardware_of, machine_of, node_of
from simsys.fidelity.tables.table import Row

POOLS = ("prefill", "decode")
COLUMNS = tuple(f"{pool}_{name}" for pool in POOLS for name in ("workers", "gpus", "tp"))
"""Columns of which a value in any means separate replicas for prefill and decode."""
STATED = ("", "source", "inferencex config")
"""How a layout is known: by its source, or from the configuration of that day; of others only totals are known."""


REDUNDANT_EXPERTS = 32
"""Replicas of experts in SGLang's recipes for many ranks (NVIDIA/srt-slurm, recipes/gb200-fp4 and gb200-fp8:
``ep-num-redundant-experts``)."""
USUAL_NODE, TRAY = 8, 4
"""GPUs of a usual node, and of one where NVLink joins nodes; replicas with more of them have experts on many GPUs."""
_BATCH = re.compile(r"_batch(\d+)_")
"""Most sequences of a decode rank, in names of TensorRT-LLM's recipes (NVIDIA/srt-slurm, recipes/trtllm)."""


def is_disaggregated(row: Row) -> bool:
    """Whether a row has separate replicas for prefill and decode."""
    return any(row.text(column) for column in COLUMNS) or row.text("notes").casefold().startswith("disaggregated")


def pools_of(row: Row) -> dict[str, int]:
    """Return the ``serving.disaggregated`` of a row.

    Raises:
        Unsupported: The layout is not stated, contradicts itself, or cannot be simulated.
    """
    if row.text("layout_source").casefold() not in STATED:
        raise Unsupported(f"how pools were divided is not known ({row.text('layout_source')})")
    if not row.text("prefill_tp") or not row.text("decode_tp"):
        raise Unsupported("separate replicas for prefill and decode, without their layouts")
    found: dict[str, int] = {}
    for pool in POOLS:
        found |= _pool(row, pool)
    most, least = (pick(found["prefill_tp_degree"], found["decode_tp_degree"]) for pick in (max, min))
    if most % least:
        raise Unsupported(f"a cache on {most} GPUs sent to {least}, of which neither is a multiple")
    return found


def _pool(row: Row, pool: str) -> dict[str, int]:
    tensor, data = row.whole(f"{pool}_tp"), row.whole(f"{pool}_dp", 1)
    experts, workers = max(1, row.whole(f"{pool}_ep", 1)), row.whole(f"{pool}_workers", 1)
    if row.whole(f"{pool}_pp", 1) > 1:
        raise Unsupported("pools with pipeline stages")
    gpus = row.whole(f"{pool}_gpus_per_worker", tensor * data)
    if gpus != tensor * data:
        raise Unsupported(f"{pool}_gpus_per_worker is not {pool}_tp x {pool}_dp")
    if data == 1 and experts not in (1, tensor):
        raise Unsupported("experts divided among other ranks than tensor parallelism has")
    return {
        f"{pool}_replicas": workers,
        f"{pool}_tp_degree": tensor,
        f"{pool}_attention_dp": data,
        f"{pool}_ep_degree": experts,
    }


def hardware_of_pools(row: Row, pools: dict[str, int]) -> dict[str, Any]:
    """Return the ``hardware`` of an experiment with the GPUs of all replicas.

    Nodes are filled evenly where replicas do; otherwise decode replicas begin on a node of their own.

    Raises:
        Unsupported: There is no profile of the GPU, or a replica would begin in the middle of a node and leave it.
    """
    split, gpu = DisaggregatedConfig.model_validate(pools), row.text("gpu")
    sizes = [(pool.gpus, pool.replicas) for pool in split.pools(ParallelismConfig())]
    gpus, domain = sum(size * count for size, count in sizes), machine_of(gpu).domain
    if gpus <= domain:
        return node_of(gpu, gpus)
    nodes = -(-gpus // domain)
    if gpus % nodes == 0 and _fits(split, gpus // nodes):
        return hardware_of(gpu, gpus, nodes, "")
    if not _fits(split, domain):
        raise Unsupported("replicas of pools that do not fill nodes evenly")
    end = split.first_decode_gpu(ParallelismConfig(), domain) + sizes[1][0] * sizes[1][1]
    nodes = -(-end // domain)
    return hardware_of(gpu, nodes * domain, nodes, "")


def _fits(split: DisaggregatedConfig, per_node: int) -> bool:
    """Whether each replica is inside a node, or on whole nodes, if nodes have this number of GPUs."""
    prefill, decode = split.pools(ParallelismConfig())
    begins = {"prefill": 0, "decode": split.first_decode_gpu(ParallelismConfig(), per_node)}
    for pool in (prefill, decode):
        for number in range(pool.replicas):
            first = begins[pool.name] + number * pool.gpus
            inside = first // per_node == (first + pool.gpus - 1) // per_node
            if not inside and (first % per_node or pool.gpus % per_node):
                return False
    return True


def dispatch_of(row: Row, engine: str, pools: dict[str, int], experts: int) -> dict[str, Any]:
    """Return the ``serving.experts`` of a row: engines send tokens to whole experts on many GPUs, each in its way.

    TensorRT-LLM sends them over NVLink where it joins nodes (MNNVL, its blog on wide expert parallelism); recipes of
    SGLang have DeepEP, the kernels for high throughput on prefill and those of low latency on decode replicas (LMSYS
    on DeepSeek on GB200 NVL72). Otherwise all GPUs gather all tokens.

    Args:
        row: The row.
        engine: The engine profile.
        pools: The layout.
        experts: Routed experts of a layer.
    """
    sharing = [pool for pool in POOLS if pools[f"{pool}_attention_dp"] > 1]
    gpus = {pool: pools[f"{pool}_tp_degree"] * pools[f"{pool}_attention_dp"] for pool in sharing}
    if not sharing or any(pools[f"{pool}_ep_degree"] != gpus[pool] for pool in sharing):
        return {}
    joined = machine_of(row.text("gpu")).joins_nodes
    if engine == "tensorrt-llm" and joined:
        return {"dispatch": "all_to_all"}
    if engine == "sglang" and max(gpus.values()) > (TRAY if joined else USUAL_NODE):
        kernels = {"dispatch": "deepep_high_throughput", "decode_dispatch": "deepep_low_latency"}
        return {**kernels, "dispatch_precision": "fp8", **_replicas(pools, experts)}
    return {}


def _replicas(pools: dict[str, int], experts: int) -> dict[str, Any]:
    """Return the redundant experts without which ranks would have unequal numbers of them."""
    degrees = [pools[f"{pool}_ep_degree"] for pool in POOLS]
    if all(experts % degree == 0 for degree in degrees):
        return {}
    return {"eplb": True, "redundant_experts": REDUNDANT_EXPERTS}


def batch_of(row: Row, drafts: int) -> dict[str, int]:
    """Return the limits of a decode rank that the name of a recipe of TensorRT-LLM states.

    Args:
        row: The row.
        drafts: Drafted tokens of a step, by which the largest graph is larger.
    """
    stated = _BATCH.search(row.text("recipe"))
    if stated is None or not row.text("engine").startswith("TensorRT"):
        return {}
    sequences = int(stated[1])
    return {"max_num_seqs": sequences, "max_cudagraph_capture_size": sequences * (1 + drafts)}

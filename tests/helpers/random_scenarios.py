"""Random scenarios: training, serving and shared clusters on all kinds of nodes, networks and contention."""

from __future__ import annotations

import random
from typing import Any

MODELS = ("GPT2-Small", "GPT2-Medium", "BERT-Large", "ResNet-50", "T5-Large", "Llama3-8B", "Mixtral-8x7B")
NETWORKS: dict[str, dict[str, Any]] = {
    "switch": {},
    "full_mesh": {},
    "ring": {},
    "tree": {},
    "torus_2d": {},
    "torus_3d": {},
    "fat_tree": {"leaf_size": (1, 2, 3), "oversubscription": (1.0, 2.0, 4.0), "radix": (16, 64)},
    "rail_optimized": {"leaf_size": (1, 2), "oversubscription": (1.0, 2.0), "pxn": (True, False)},
    "dragonfly": {"nodes_per_router": (1, 2), "routers_per_group": (2,), "global_links_per_router": (1, 2)},
}
PROFILES = {
    "dgx-h100": 8,
    "dgx-a100": 8,
    "dgx-v100": 8,
    "dgx-v100-cube": 8,
    "mi250-8": 8,
    "mi300x-platform": 8,
    "pcie-a100-8": 8,
    "pcie-tree-l40s-8": 8,
    "gb200-nvl72": 72,
}


def scenario(seed: int) -> dict[str, Any]:
    """A scenario as an experiment file would hold it; many do not pass the check."""
    kind = random.Random(f"kind {seed}").random()
    if kind < 0.7:
        return training_scenario(seed)
    return serving_scenario(seed) if kind < 0.92 else cluster_scenario(seed)


def training_scenario(seed: int) -> dict[str, Any]:
    """One training job that has the cluster for itself."""
    r = random.Random(seed)
    nodes, per_node = r.choice([1, 2, 2, 3, 4, 4]), r.choice([1, 2, 4, 4, 8, 8])
    if nodes * per_node == 1:
        nodes = 4
    model = r.choice(MODELS)
    parallelism, training = _strategy(r, nodes * per_node, model)
    return {
        "name": f"random-{seed}",
        "hardware": _hardware(r, nodes, per_node),
        "network": _network(r),
        "model": {"name": model},
        "parallelism": parallelism,
        "training": training,
        "simulation": {"seed": seed},
    }


def serving_scenario(seed: int) -> dict[str, Any]:
    """Replicas of one or two pools, whose teams lie in nodes or across them."""
    r = random.Random(seed)
    nodes, per_node = r.choice([1, 2, 4, 4]), r.choice([1, 2, 4])
    world = max(nodes * per_node, 2)
    nodes = world // per_node
    degrees = [each for each in (1, 2, 4, 8) if world % each == 0]
    tensor = r.choice(degrees)
    stages = r.choice([1, 1, 1, *(each for each in (2, 4) if (world // tensor) % each == 0)])
    parallelism: dict[str, Any] = {"tp_degree": tensor, "pp_stages": stages}
    if r.random() < 0.3:
        r.choice(["dp-tp-pp", "pp-tp-dp", "tp-pp-dp"])  # once an order of ranks: the scenarios of seeds stay the same
    serving: dict[str, Any] = {}
    replicas = world // tensor // stages
    if replicas > 1 and stages == 1 and r.random() < 0.4:
        prefill = r.randrange(1, replicas)
        serving["disaggregated"] = {"prefill_replicas": prefill, "decode_replicas": replicas - prefill}
    rate = r.choice(["0.2 req/s", "2 req/s", "20 req/s"])
    return {
        "name": f"random-{seed}",
        "hardware": _hardware(r, nodes, per_node),
        "network": _network(r),
        "model": {"name": r.choice(["Llama3-8B", "Llama2-7B", "Mixtral-8x7B"])},
        "parallelism": parallelism,
        "serving": serving,
        "workload": {
            "arrivals": {"kind": r.choice(["poisson", "constant"]), "rate": rate},
            "prompt_tokens": r.choice([128, 1024, 4000]),
            "output_tokens": r.choice([4, 32, 128]),
            "num_requests": 24,
        },
        "simulation": {"seed": seed},
    }


def cluster_scenario(seed: int) -> dict[str, Any]:
    """Two or three training jobs on the links of one cluster."""
    r = random.Random(seed)
    nodes, per_node = r.choice([2, 4, 4, 8]), r.choice([2, 4, 8])
    gpus = [each for each in (2, 4, 8, 16) if each <= nodes * per_node // 2]
    jobs = []
    for index in range(r.choice([2, 2, 3])):
        model, world = r.choice(MODELS[:5]), r.choice(gpus)
        parallelism, training = _strategy(r, world, model)
        job = {"name": f"job-{index}", "gpus": world, "parallelism": parallelism, "training": training}
        jobs.append({**job, "model": {"name": model}, "arrival": r.choice(["0 s", "0 s", "10 ms"])})
    return {
        "name": f"random-{seed}",
        "hardware": _hardware(r, nodes, per_node),
        "network": _network(r),
        "model": {"name": MODELS[0]},
        "training": {"batch_size_per_gpu": 1},
        "scheduling": {"placement": r.choice(["packed", "spread", "random"])},
        "jobs": jobs,
        "simulation": {"seed": seed},
    }


def _hardware(r: random.Random, nodes: int, per_node: int) -> dict[str, Any]:
    hardware: dict[str, Any]
    if r.random() < 0.3:
        cards = r.choice([1, 1, 2, per_node])
        hardware = {
            "gpu": r.choice(["H100-SXM", "A100-SXM-80GB", "MI300X", "L40S"]),
            "num_nodes": nodes,
            "gpus_per_node": per_node,
            "network_bandwidth": r.choice(["12 GB/s", "25 GB/s", "50 GB/s", "400 GB/s"]),
            "nics_per_node": min(cards, per_node),
        }
    else:
        hardware = {"profile": r.choice(list(PROFILES)), "num_nodes": nodes, "gpus_per_node": per_node}
    if r.random() < 0.1:
        hardware["exceptions"] = [{"gpus": [r.randrange(nodes * per_node)], "speed": r.choice([0.5, 0.9])}]
    if r.random() < 0.08:
        hardware["jitter"] = {"compute": 0.1}
    return hardware


def _network(r: random.Random) -> dict[str, Any]:
    kind = r.choice(list(NETWORKS))
    network: dict[str, Any] = {"topology_type": kind}
    for key, choices in NETWORKS[kind].items():
        if r.random() < 0.6:
            network[key] = r.choice(choices)
    if r.random() < 0.25:
        network |= {"switching": "store_and_forward", "contention": "fifo"}
    elif r.random() < 0.6:
        network["contention"] = r.choice(["fair", "fifo"])
    if r.random() < 0.3:
        network["link_bandwidth"] = r.choice(["12 GB/s", "50 GB/s", "200 GB/s"])
    if r.random() < 0.15:
        network["tuning"] = "none"
    return network


def _strategy(r: random.Random, world: int, model: str) -> tuple[dict[str, Any], dict[str, Any]]:
    parallelism: dict[str, Any] = {}
    training: dict[str, Any] = {"batch_size_per_gpu": r.choice([1, 2, 4, 8]), "num_iterations": r.choice([1, 2])}
    left, kinds = world, []
    for key, kind in (("tp_degree", "TP"), ("pp_stages", "PP"), ("cp_degree", "CP")):
        if r.random() < (0.2 if kind == "CP" else 0.45):
            degree = r.choice([each for each in (1, 2, 3, 4, 8) if left % each == 0])
            if degree > 1:
                parallelism[key] = degree
                left //= degree
                kinds.append(kind)
    if "pp_stages" in parallelism:
        parallelism["schedule"] = r.choice(["1f1b", "gpipe", "interleaved", "zero_bubble"])
        if parallelism["schedule"] == "interleaved":
            parallelism["virtual_stages"] = 2
        training["gradient_accumulation_steps"] = r.choice([2, 4, 8])
        parallelism["scatter_gather"] = r.random() < 0.5
        parallelism["p2p_overlap"] = r.random() < 0.5
    elif r.random() < 0.3:
        training["gradient_accumulation_steps"] = 2
    if "tp_degree" in parallelism:
        parallelism["sequence_parallel"] = r.random() < 0.5
        parallelism["tp_overlap"] = r.random() < 0.2 and parallelism["sequence_parallel"]
    if model == "Mixtral-8x7B" and left > 1 and r.random() < 0.8:
        parallelism["ep_degree"] = r.choice([each for each in (2, 4, 8) if left % each == 0] or [1])
        if parallelism["ep_degree"] > 1:
            kinds.append("EP")
        if "tp_degree" in parallelism:
            parallelism["sequence_parallel"] = True
    if left > 1 or "CP" in kinds:
        kinds.append(r.choice(["DDP", "DDP", "ZERO1", "ZERO2", "FSDP", "FSDP", "HSDP"]))
        if kinds[-1] == "HSDP" and left > 1:
            training["options"] = {"shard_size": r.choice([each for each in (2, 4, 8) if left % each == 0] or [left])}
    parallelism["strategy"] = "_".join(kinds) or "None"
    if r.random() < 0.2:
        parallelism["order"] = r.choice(["tp-cp-ep-dp-pp", "tp-pp-dp", "dp-tp-pp", "pp-tp-dp"])
    if r.random() < 0.2:
        training["engine"] = r.choice(["pytorch", "megatron", "deepspeed"])
    if r.random() < 0.25:
        patterns = ["ring", "tree", "hierarchical", "direct", "halving_doubling", "double_tree"]
        training["communication_pattern"] = r.choice(patterns)
    return parallelism, training

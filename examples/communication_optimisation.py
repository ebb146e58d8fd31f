# %% [markdown]
# # Communication optimisation
#
# DDP of a model with large gradients on slow links. Which of overlap, buckets, compression, accumulation and
# sharding helps, and how much?

# %%
import pandas as pd

from simsys import DistributedAISimulator, SimulationConfig

config = SimulationConfig(
    name="bert",
    hardware={"profile": "pcie-a6000-4", "num_nodes": 4},
    model={"name": "BERT-Large"},
    parallelism={"strategy": "DDP"},
    training={"batch_size_per_gpu": 8, "num_iterations": 3},
)
VARIANTS = {
    "as PyTorch has it": {},
    "no overlap": {"training.options": {"overlap": False}},
    "buckets of 100 MB": {"training.options": {"bucket_size": "100 MB"}},
    "gradients in bf16": {"training.options": {"compression": "bf16"}},
    "PowerSGD, rank 4": {"training.options": {"compression": "powersgd", "powersgd_rank": 4}},
    "4 micro-batches": {"training.gradient_accumulation_steps": 4},
    "FSDP": {"parallelism.strategy": "FSDP"},
}


def figures(settings: dict) -> dict:
    metrics = DistributedAISimulator(config.with_(settings)).run().metrics
    return {
        "iteration ms": metrics["mean_iteration_s"] * 1e3,
        "samples/s": metrics["samples_per_s"],
        "exposed": f"{metrics['exposed_communication_ratio']:.1%}",
    }


pd.DataFrame({name: figures(settings) for name, settings in VARIANTS.items()}).T

# %% [markdown]
# The algorithm of the all-reduce: `auto` follows NCCL's tuning model. On these nodes, whose four GPUs share one
# network card, hierarchical rings would be faster.

# %%
pd.DataFrame(
    {name: figures({"training.communication_pattern": name}) for name in ("auto", "ring", "tree", "hierarchical")}
).T

# %% [markdown]
# And the network itself: what would faster cards gain? `simsys analyze` asks this for all kinds of remedies.

# %%
from simsys import sweep

METRICS = ["mean_iteration_s", "samples_per_s", "exposed_communication_ratio"]
BANDWIDTHS = ["25 Gb/s", "50 Gb/s", "100 Gb/s", "200 Gb/s"]
found = sweep(config, over={"hardware.nic.bandwidth": BANDWIDTHS}, metrics=METRICS, jobs=1)
found.table()[["hardware.nic.bandwidth", *METRICS]]

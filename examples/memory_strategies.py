# %% [markdown]
# # Memory strategies
#
# A 13B model on one node of eight A100 with 80 GB. Which strategies fit, what do they hold in memory, and what do
# they cost in time?

# %%
import pandas as pd

from simsys import DistributedAISimulator, InfeasibleError, SimulationConfig

config = SimulationConfig(
    name="llama2-13b",
    hardware={"profile": "dgx-a100"},
    model={"name": "Llama-2-13B"},
    parallelism={"strategy": "DDP"},
    training={"batch_size_per_gpu": 1, "gradient_accumulation_steps": 8, "num_iterations": 2},
)
try:
    DistributedAISimulator(config).run()
except InfeasibleError as error:
    print(error)

# %%
STRATEGIES = {
    "ZeRO-1": {"parallelism.strategy": "ZERO1"},
    "ZeRO-2": {"parallelism.strategy": "ZERO2"},
    "FSDP": {"parallelism.strategy": "FSDP"},
    "FSDP, full recomputation": {"parallelism.strategy": "FSDP", "training.activation_recompute": "full"},
    "ZeRO-1, optimizer on the host": {"parallelism.strategy": "ZERO1", "training.options": {"offload": "optimizer"}},
    "FSDP, optimizer on the host": {"parallelism.strategy": "FSDP", "training.options": {"offload": "optimizer"}},
    "TP 8": {"parallelism": {"strategy": "TP", "tp_degree": 8, "sequence_parallel": True}},
    "TP 4, ZeRO-1": {"parallelism": {"strategy": "TP_ZERO1", "tp_degree": 4, "sequence_parallel": True}},
    "PP 8": {"parallelism": {"strategy": "PP", "pp_stages": 8}},
}


def figures(settings: dict) -> dict:
    try:
        result = DistributedAISimulator(config.with_(settings)).run()
    except InfeasibleError:
        return {"fits": "no"}
    held = {f"{name} GiB": nbytes / 2**30 for name, nbytes in result.memory_bytes.items()}
    per_sample = result.metrics["num_gpus"] / result.metrics["samples_per_s"]
    return {"fits": "yes", "GPU s/sample": per_sample, "total GiB": sum(held.values()), **held}


pd.DataFrame({name: figures(settings) for name, settings in STRATEGIES.items()}).T.fillna("")

# %% [markdown]
# Memory over time on the first GPU, of two micro-batches: activations grow in the forward pass and fall in the
# backward pass.

# %%
import matplotlib.pyplot as plt

fsdp = config.with_(
    {
        "parallelism.strategy": "FSDP",
        "training.gradient_accumulation_steps": 2,
        "training.num_iterations": 1,
        "simulation.collect_events": True,
    }
)
timeline = pd.DataFrame(DistributedAISimulator(fsdp).run().memory_timeline)
first = timeline[timeline["rank"] == 0]
figure, axes = plt.subplots(figsize=(6, 3))
axes.step(first["time_s"], first["in_use_bytes"] / 2**30, where="post")
axes.set(xlabel="time in s", ylabel="GiB in use on GPU 0", ylim=(0, None))
figure.tight_layout()
plt.show()

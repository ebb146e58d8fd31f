# %% [markdown]
# # Choosing a layout
#
# Llama 3 70B on 64 H100 with a global batch of 256 sequences: which degrees of tensor, pipeline and data
# parallelism, which micro-batch, which recomputation?

# %%
from simsys import DistributedAISimulator, SimulationConfig, search

config = SimulationConfig(
    name="llama3-70b",
    hardware={"profile": "dgx-h100", "num_nodes": 8},
    model={"name": "Llama3-70B"},
    training={"engine": "megatron", "global_batch_size": 256, "num_iterations": 2},
)
found = search(
    config,
    over={
        "parallelism.tp_degree": [2, 4, 8],
        "parallelism.pp_stages": [1, 2, 4, 8],
        "parallelism.strategy": "auto",
        "training.batch_size_per_gpu": [1, 2],
        "training.activation_recompute": ["none", "selective", "full"],
    },
    top=5,
)
found

# %%
found.table()

# %% [markdown]
# Closed forms give each layout a bound of its time and its exact memory; only the most promising are simulated. The
# best one in full, with its parts:

# %%
best = config.with_(found.best[0].settings)
simulator = DistributedAISimulator(best)
metrics = simulator.run().metrics
for name in ("mean_iteration_s", "compute_s", "exposed_communication_s", "bubble_s", "mfu"):
    print(f"{name:26} {metrics[name]:.4g}")
for loss in simulator.losses():
    print(loss.text())

# %% [markdown]
# The distance between the first layouts is often smaller than the error of the prediction. The search states the
# loss to expect from this choice, from measured sets of layouts. The same from the command line, with the files that
# start Megatron-LM: `simsys search FILE --emit launch --for megatron`.

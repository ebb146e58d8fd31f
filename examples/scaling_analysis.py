# %% [markdown]
# # Scaling analysis
#
# How does a training job behave on more nodes? Weak scaling keeps the batch of a GPU, strong scaling the global
# batch.

# %%
from simsys import ScalingStudyRunner, SimulationConfig

config = SimulationConfig(
    name="llama3-8b",
    hardware={"profile": "dgx-h100"},
    model={"name": "Llama3-8B"},
    parallelism={"strategy": "FSDP"},
    training={"batch_size_per_gpu": 4, "activation_recompute": "full", "num_iterations": 3},
)
sizes = [1, 2, 4, 8, 16, 32]
weak = ScalingStudyRunner(config).run_scaling_study(sizes, mode="weak")
weak.table()

# %% [markdown]
# The same job with the global batch of one node, divided among more nodes:

# %%
strong = ScalingStudyRunner(config).run_scaling_study([1, 2, 4], mode="strong")
strong.table()

# %%
from simsys.plots.visualizer import Visualizer

table = weak.table()
Visualizer().plot_scaling_efficiency(
    list(table["gpus"]), list(table["samples_per_s"]), "weak scaling of Llama3-8B, FSDP"
)

# %% [markdown]
# What limits 32 nodes? The parts of an iteration, as shares of it:

# %%
for name in ("compute_s", "exposed_communication_s", "bubble_s", "idle_s"):
    if name in table:
        print(f"{name:26} {table[name].iloc[-1] / table['mean_iteration_s'].iloc[-1]:.1%}")

# %% [markdown]
# # Basic workflow
#
# From a scenario to figures, a breakdown and a picture. `pip install simsys`, then run the cells, or the script.

# %%
from simsys import DistributedAISimulator, SimulationConfig

config = SimulationConfig(
    name="gpt2-xl",
    hardware={"profile": "dgx-a100", "num_nodes": 2},
    model={"name": "GPT2-XL"},
    parallelism={"strategy": "DDP"},
    training={"batch_size_per_gpu": 4, "num_iterations": 5},
    simulation={"collect_events": True},
)
simulator = DistributedAISimulator(config)
result = simulator.run()
result

# %% [markdown]
# Every figure has its unit in its name; `docs/reference/metrics.md` explains all of them.

# %%
for name in ("mean_iteration_s", "samples_per_s", "mfu", "exposed_communication_s", "usd_per_million_tokens"):
    print(f"{name:26} {result.metrics[name]:.4g}")

# %% [markdown]
# Where the time of an iteration goes that is not useful computation:

# %%
for loss in simulator.losses():
    print(loss.text())

# %% [markdown]
# The assumptions are part of the result: defaults, prices and the error of such predictions on measured runs.

# %%
print(*result.assumptions, sep="\n")

# %% [markdown]
# One iteration on the first rank: gradients are reduced while the backward pass computes.

# %%
from simsys.plots.visualizer import Visualizer

events = [event for event in simulator.engine.event_history if event.timestamp < result.metrics["first_iteration_s"]]
Visualizer().plot_training_timeline(events, "first iteration")

# %% [markdown]
# Another scenario is the same one with settings changed. Which of the two is faster, and is the difference larger
# than the error of such ratios on measured runs?

# %%
from simsys import compare

sharded = config.with_({"name": "gpt2-xl-fsdp", "parallelism.strategy": "FSDP"})
found = compare(config, sharded)
found.table().head(6)

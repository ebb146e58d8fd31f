# %% [markdown]
# # Capacity planning under an SLO
#
# A chat service with Llama 3 8B has 40 requests per second at its peak. The first token has to come within 500 ms,
# and each further one within 30 ms, for 99 % of the requests. How many GPUs of which type?

# %%
from simsys import DistributedAISimulator, SimulationConfig, search, sweep

config = SimulationConfig(
    name="chat",
    hardware={"gpu": "H100-SXM"},
    model={"name": "Llama3-8B"},
    serving={"engine": "vllm"},
    workload={
        "arrivals": {"kind": "poisson", "rate": "40 req/s"},
        "prompt_tokens": {"kind": "lognormal", "mean": 1024, "max": 6000},
        "output_tokens": {"kind": "lognormal", "mean": 256, "max": 1500},
        "num_requests": 1000,
    },
    slo={"ttft": "500 ms", "tpot": "30 ms"},
)

# %% [markdown]
# First, what does one GPU do? The latencies over the rate have a knee; beyond it the queue grows.

# %%
curve = sweep(
    config, over={"workload.arrivals.rate": ["2 req/s", "6 req/s", "10 req/s", "14 req/s", "18 req/s"]}, jobs=1
)
table = curve.table()
table[
    [
        "workload.arrivals.rate",
        "served_requests_per_s",
        "p99_ttft_ms",
        "p99_tpot_ms",
        "usd_per_million_tokens",
        "meets_slo",
    ]
]

# %%
import matplotlib.pyplot as plt

figure, axes = plt.subplots(figsize=(6, 3))
rates = [float(rate.split()[0]) for rate in table["workload.arrivals.rate"]]
axes.plot(rates, table["p99_tpot_ms"], marker="o", label="p99 TPOT")
axes.axhline(30, linestyle="--", color="grey", label="target")
axes.set(xlabel="requests per second on one H100", ylabel="ms")
axes.legend()
plt.show()

# %% [markdown]
# The search takes the smallest number of replicas of each type that meets the SLO in the steady state, and sorts by
# price.

# %%
fleet = config.with_({"hardware": {"profile": "dgx-h100"}})
found = search(
    fleet,
    over={
        "hardware.profile": ["dgx-h100", "dgx-a100", "pcie-l40s-8"],
        "parallelism.dp_degree": "auto",
    },
    minimize="usd_per_hour",
    top=5,
)
found.table()

# %% [markdown]
# How sure is it? The error of such choices on measured runs, and the error of the latencies:

# %%
best = DistributedAISimulator(config.with_({"workload.arrivals.rate": "4 req/s"})).run()
print(*(line for line in best.assumptions if line.startswith("Expected error")), sep="\n")

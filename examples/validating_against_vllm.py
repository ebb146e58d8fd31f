# %% [markdown]
# # Validating against your own `vllm bench serve`
#
# Measure your server with `vllm bench serve … --save-result` and compare the file with the prediction of a scenario.
#
# This notebook has no server at hand. In place of a file of yours, it writes one with figures that the vLLM project
# has published (blog of 2026-04-22 on the FP8 KV cache, tables 4 and 5): Llama 3.1 8B on one H100, 150 requests of
# 8 users with 20,000 prompt and 2,000 output tokens, each 15 % more or less. These figures are also among the rows to
# which the shipped profile of vLLM is fitted, so this error is not cross-validated; that of
# `docs/explanation/fidelity.md` is.

# %%
import json
from pathlib import Path
from tempfile import TemporaryDirectory

from simsys import DistributedAISimulator, SimulationConfig, compare

measured = {
    "backend": "vllm",
    "model_id": "meta-llama/Llama-3.1-8B-Instruct",
    "max_concurrency": 8,
    "request_rate": "inf",
    "num_prompts": 150,
    "completed": 150,
    "total_input_tokens": 150 * 20000,
    "total_output_tokens": 150 * 2000,
    "duration": 150 * 2000 / 450.3,
    "request_throughput": 450.3 / 2000,
    "output_throughput": 450.3,
    "median_ttft_ms": 763.6,
    "median_tpot_ms": 15.18,
}

# %% [markdown]
# The scenario describes what was measured: hardware, model, engine with its release, and the requests. Their lengths
# matter: if all were equal, users would keep step with each other, and prompts would wait for prompts.

# %%
config = SimulationConfig(
    name="vllm-8b",
    hardware={"gpu": "H100-SXM"},
    model={"name": "Llama-3.1-8B"},
    serving={"engine": "vllm", "engine_release": "0.19"},
    workload={
        "arrivals": {"kind": "closed_loop", "concurrency": 8},
        "prompt_tokens": {"kind": "uniform", "low": 17000, "high": 23000},
        "output_tokens": {"kind": "uniform", "low": 1700, "high": 2300},
        "num_requests": 150,
    },
)
predicted = DistributedAISimulator(config).run().metrics
for name in ("median_ttft_ms", "median_tpot_ms", "output_throughput"):
    error = predicted[name] / measured[name] - 1
    print(f"{name:18} measured {measured[name]:8.2f}  predicted {predicted[name]:8.2f}  {error:+.1%}")

# %% [markdown]
# `compare` reads the file itself, and `simsys validate FILE --on scenario.yaml` does the same in a terminal, request
# by request if the file has details (`--save-detailed`).

# %%
with TemporaryDirectory() as folder:
    file = Path(folder, "bench.json")
    file.write_text(json.dumps(measured))
    table = compare(file, config).table()
table[table["metric"].isin(["median_ttft_ms", "median_tpot_ms", "output_throughput"])] if "metric" in table else table

# %% [markdown]
# If the difference is larger than the expected error of the run, look for a setting that differs: the release of the
# engine, `max_num_batched_tokens`, CUDA graphs, the precision of the KV cache, prefix caching. Fit your own profile
# with `simsys calibrate` only when the settings agree.

# %% [markdown]
# # A model of your own
#
# Four ways to describe a model: by a name, by its sizes, by a Hugging Face `config.json`, and layer by layer.

# %%
import json
from pathlib import Path
from tempfile import TemporaryDirectory

from simsys import DistributedAISimulator, SimulationConfig

base = SimulationConfig(
    name="own-model",
    hardware={"profile": "dgx-h100"},
    model={"name": "Llama3-8B"},
    parallelism={"strategy": "FSDP"},
    training={"batch_size_per_gpu": 1, "num_iterations": 2},
)


def show(config: SimulationConfig) -> None:
    result = DistributedAISimulator(config).run()
    print(f"{result.metrics['mean_iteration_s'] * 1e3:.1f} ms per iteration, MFU {result.metrics['mfu']:.1%}")
    print(result.assumptions[0])


show(base)

# %% [markdown]
# By its sizes: a Llama with fewer and wider layers.

# %%
sizes = {
    "model_type": "llama",
    "num_layers": 24,
    "hidden_size": 5120,
    "num_attention_heads": 40,
    "num_key_value_heads": 8,
    "intermediate_size": 13824,
    "vocab_size": 128256,
    "sequence_length": 8192,
}
show(base.with_({"model": sizes}))

# %% [markdown]
# By a Hugging Face configuration, as it is on the hub or in the folder of a checkpoint. Keys that influence the cost
# and are not understood are refused.

# %%
hugging_face = {
    "architectures": ["Qwen3ForCausalLM"],
    "model_type": "qwen3",
    "hidden_size": 4096,
    "num_hidden_layers": 36,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "intermediate_size": 12288,
    "vocab_size": 151936,
    "max_position_embeddings": 40960,
    "tie_word_embeddings": False,
}
with TemporaryDirectory() as folder:
    file = Path(folder, "my-checkpoint", "config.json")
    file.parent.mkdir()
    file.write_text(json.dumps(hugging_face))
    show(base.with_({"model": {"huggingface": str(file), "sequence_length": 8192}}))

# %% [markdown]
# The same model as a server: its weights, KV cache and latencies.

# %%
server = SimulationConfig(
    name="own-server",
    hardware={"gpu": "H100-SXM"},
    model=sizes,
    serving={"engine": "vllm"},
    workload={
        "arrivals": {"kind": "poisson", "rate": "4 req/s"},
        "prompt_tokens": 1024,
        "output_tokens": 256,
        "num_requests": 300,
    },
)
result = DistributedAISimulator(server).run()
print({name: f"{nbytes / 2**30:.1f} GiB" for name, nbytes in result.memory_bytes.items()})
print({name: round(result.metrics[name], 1) for name in ("p50_ttft_ms", "p99_ttft_ms", "p50_tpot_ms")})

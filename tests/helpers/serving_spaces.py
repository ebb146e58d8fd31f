"""Small random spaces of deployments, and their deployments simulated one by one."""

from __future__ import annotations

import random

from simsys.config.experiment import SimulationConfig
from simsys.config.search import SearchConfig
from simsys.searches.goal import Goal
from simsys.searches.serving.deployments import Deployments
from simsys.searches.simulated import simulated

PROFILES = ["dgx-h100", "dgx-a100", "pcie-l40s-8"]
VALUES = {
    "parallelism.tp_degree": [1, 2, 4],
    "parallelism.pp_stages": [1, 2],
    "serving.max_num_seqs": [None, 2, 8, 32],
    "serving.max_num_batched_tokens": [None, 256, 2048],
    "serving.precision": [None, "fp8"],
    "serving.kv_precision": [None, "fp8"],
    "serving.router": ["round_robin", "least_outstanding"],
    "serving.disaggregated": [None, {"prefill_replicas": 1, "decode_replicas": 2}],
}


def serving(model="Llama3-8B", slo=None, rate=8, count=60, prompt=1024, output=64, **sections):
    return SimulationConfig.model_validate(
        {
            "hardware": {"profile": "dgx-h100"},
            "model": {"name": model},
            "serving": {"engine": "vllm"},
            "slo": slo or {"ttft": "1 s", "tpot": "20 ms"},
            "workload": {
                "arrivals": {"kind": "poisson", "rate": f"{rate} req/s"},
                "prompt_tokens": {"kind": "lognormal", "mean": prompt},
                "output_tokens": {"kind": "lognormal", "mean": output},
                "num_requests": count,
            },
            **sections,
        }
    )


def random_question(seed, sizes=(1, 2, 3, 4)):
    """A scenario and the settings that vary, two values of each at most."""
    draw = random.Random(seed)
    arrivals = draw.choice(["poisson", "poisson", "constant", "all_at_once", "closed_loop"])
    rate = draw.choice([2, 10, 40, 100])
    shapes = {
        "all_at_once": {"kind": "all_at_once"},
        "closed_loop": {"kind": "closed_loop", "concurrency": draw.choice([4, 16])},
    }
    config = serving(
        model=draw.choice(["Llama3-8B", "Llama3-8B", "Mixtral-8x7B", "GPT2-XL"]),
        slo=draw.choice(
            [
                {"ttft": "1 s", "tpot": "20 ms"},
                {"ttft": "300 ms", "tpot": "10 ms"},
                {"ttft": "200 ms"},
                {"tpot": "15 ms"},
                {"e2el": "2 s"},
                {"ttft": "2 s", "tpot": "30 ms", "e2el": "4 s"},
            ]
        ),
        hardware={"profile": draw.choice(PROFILES)},
        serving={
            "engine": draw.choice(["vllm", "vllm", "sglang", "tensorrt-llm"]),
            "gpu_memory_utilization": draw.choice([0.9, 0.9, 0.5]),
        },
        workload={
            "arrivals": shapes.get(arrivals, {"kind": arrivals, "rate": f"{rate} req/s"}),
            "prompt_tokens": {"kind": "lognormal", "mean": draw.choice([60, 300]), "max": 600},
            "output_tokens": {"kind": "lognormal", "mean": draw.choice([10, 80]), "max": 300},
            "num_requests": draw.choice([40, 150]),
        },
    )
    over = {key: draw.sample(values, min(len(values), draw.choice([1, 1, 2]))) for key, values in VALUES.items()}
    over["parallelism.dp_degree"] = sorted(draw.sample(sizes, draw.choice([1, 2, 3])))
    return config, over


def space(config, over, metric="num_gpus", largest=False, judged=True):
    """The candidates of a question; with `judged` false, also those that cannot meet the targets by their bounds."""
    found = Deployments(config, SearchConfig(over=over), Goal(metric, largest, (), "serving"))
    found.judged = judged
    return found


def every_size(candidates):
    """All sizes of candidates."""
    return [each.resized(place) for each in candidates for place in range(each.place, each.last_place + 1)]


def shown(candidate):
    return tuple(sorted((key, str(value)) for key, value in candidate.settings.items()))


def run(candidate):
    """The metrics of a short run; empty if it was refused."""
    return simulated(candidate.task(short=True)).metrics

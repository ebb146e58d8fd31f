"""Small sweeps for tests, with points that crash, hang or raise."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from simsys.sweeps.evaluate import Row, row_of
from simsys.sweeps.plan import SweepPlan, read_plans
from simsys.sweeps.worker import Setting, Task

BASE: Mapping[str, Any] = {
    "hardware": {"gpu": "H100-SXM", "gpus_per_node": 4, "num_nodes": 2},
    "model": {"name": "GPT2-Small"},
    "training": {"batch_size_per_gpu": 8, "num_iterations": 2},
}
SERVING: Mapping[str, Any] = {
    "hardware": {"gpu": "H100-SXM"},
    "model": {"name": "Llama3-8B"},
    "serving": {"engine": "vllm"},
    "slo": {"ttft": "500 ms"},
    "workload": {
        "arrivals": {"kind": "poisson", "rate": "4 req/s"},
        "prompt_tokens": 256,
        "output_tokens": 16,
        "num_requests": 30,
    },
}
POISON = {
    "exits": "import os\nos._exit(3)\n",
    "hangs": "import time\ntime.sleep(600)\n",
    "killed": "import os, signal\nos.kill(os.getpid(), signal.SIGKILL)\n",
    "raises": "raise ZeroDivisionError('poison')\n",
    "leaves": "raise SystemExit(9)\n",
}
"""Modules by name, with what their import does."""
POISONED = "training.communication_pattern"


def experiment(folder: Path, sweep: Mapping[str, Any], base: Mapping[str, Any] = BASE, name: str = "toy") -> Path:
    """Write an experiment with a section ``sweep``, and the poisonous modules beside it."""
    folder.mkdir(parents=True, exist_ok=True)
    for module, text in POISON.items():
        (folder / f"{module}.py").write_text(text, encoding="utf-8")
    path = folder / f"{name}.yaml"
    path.write_text(json.dumps({**base, "sweep": sweep}), encoding="utf-8")
    return path


def plan(folder: Path, sweep: Mapping[str, Any], base: Mapping[str, Any] = BASE) -> SweepPlan:
    """The plan of a small sweep."""
    return read_plans(experiment(folder, sweep, base))[0]


class InThisProcess:
    """Workers that simulate in this process.

    Args:
        setting: What all points have in common.
    """

    def __init__(self, setting: Setting) -> None:
        self.setting = setting
        self.tasks: list[Task] = []

    def __enter__(self) -> InThisProcess:
        return self

    def __exit__(self, *_: object) -> None:
        return None

    def mean_estimate_s(self, sample: Sequence[Task]) -> float | None:
        """A constant."""
        return 0.5

    def rows(self, shards: Sequence[Sequence[Task]]) -> Iterator[list[Row]]:
        """The rows of each shard."""
        for shard in shards:
            self.tasks += shard
            yield [row_of(task.key, self.setting.base, task.values, self.setting.folder) for task in shard]

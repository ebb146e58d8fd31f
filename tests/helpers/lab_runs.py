"""Runs of `simsys lab` in processes of their own, with tiny models."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import yaml

from tests.helpers.places import ROOT

TINY = {
    "hardware": {"profile": "dgx-a100", "gpus_per_node": 2},
    "model": {
        "model_type": "gpt",
        "num_layers": 2,
        "hidden_size": 64,
        "num_attention_heads": 2,
        "vocab_size": 256,
        "sequence_length": 16,
        "tied_embeddings": False,
        "dropout": True,
    },
    "training": {
        "batch_size_per_gpu": 2,
        "num_iterations": 4,
        "gradient_accumulation_steps": 2,
        "mixed_precision": False,
        "precision": "fp32",
    },
    "lab": {"device": "cpu", "threads": 1, "oversubscribe": True, "warmup_iterations": 2, "max_grad_norm": 1.0},
}


def scenario(strategy: str, ranks: int = 2, **sections: dict[str, Any]) -> dict[str, Any]:
    """A tiny scenario with some settings changed, section by section."""
    made: dict[str, Any] = {name: {**TINY.get(name, {}), **sections.get(name, {})} for name in {*TINY, *sections}}
    made["hardware"] = {**made["hardware"], "gpus_per_node": ranks}
    return {"name": "run", **made, "parallelism": {"strategy": strategy}}


def written(folder: Path, content: dict[str, Any]) -> Path:
    file = folder / "experiment.yaml"
    file.write_text(yaml.safe_dump(content), encoding="utf-8")
    return file


def command(*arguments: str | Path) -> list[str]:
    return [sys.executable, "-m", "simsys", *map(str, arguments)]


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": "100"}


def simsys(*arguments: str | Path, code: int = 0, before: str = "") -> subprocess.CompletedProcess[str]:
    """Run a command line; `before` is what the shell does first."""
    line = ["sh", "-c", f'{before}; exec "$@"', "sh", *command(*arguments)] if before else command(*arguments)
    done = subprocess.run(line, capture_output=True, text=True, env=environment(), timeout=300, check=False)
    assert done.returncode == code, done.stdout + done.stderr
    return done


def trained(folder: Path, content: dict[str, Any], *arguments: str) -> dict[str, Any]:
    """Train; what the command says in JSON."""
    done = simsys("lab", "train", written(folder, content), "--out", folder / "out", "--json", *arguments)
    return dict(json.loads(done.stdout)["run"])

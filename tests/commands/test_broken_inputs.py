"""Input files besides experiments that were broken on purpose: they are read or refused, and soon."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.fidelity.tables.test_nccl_tests import json_of, text_of
from tests.fidelity.tables.test_vllm_result import own_result
from tests.helpers.breakage import answer, broken_bytes, broken_json, results_are_finite
from tests.helpers.places import ROOT

TRAINING = """name: x
hardware: {gpu: H100-SXM, gpus_per_node: 4}
model: {name: GPT2-Small}
training: {batch_size_per_gpu: 1, num_iterations: 1}
"""
SERVING = """name: x
hardware: {gpu: H100-SXM}
model: {name: GPT2-Small}
serving: {engine: vllm}
workload: {arrivals: {kind: poisson, rate: 5 req/s}, prompt_tokens: 20, output_tokens: 5, num_requests: 5}
"""
EDGES = "from,to,bandwidth,latency,bidirectional,kind\n" + "".join(
    f"gpu{gpu},s,{25 * (gpu + 1)} GB/s,1 us,true,cable\n" for gpu in range(4)
)
TRACES = [
    "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:15:46.6805900,374,44\n2023-11-16 18:15:50.995,396,9\n",
    "arrival_s,prompt_tokens,output_tokens,session,turn,after,think_s,hash_block_tokens,hash_ids\n"
    "0.0,30,5,0,0,-1,0.0,16,1 2\n0.5,60,5,0,1,0,1.5,16,1 2 3 4\n",
    '{"timestamp": 0, "input_length": 300, "output_length": 52, "hash_ids": [1, 2]}\n'
    '{"timestamp": 3000, "input_length": 60, "output_length": 26, "hash_ids": [1, 3]}\n',
    '[{"id": "a", "conversations": [{"from": "human", "value": "hello you"}, {"from": "gpt", "value": "hi"}]}]',
]
LLAMA = {
    **{"model_type": "llama", "hidden_size": 512, "num_hidden_layers": 2, "num_attention_heads": 8},
    **{"num_key_value_heads": 2, "intermediate_size": 1024, "vocab_size": 32000, "max_position_embeddings": 2048},
    **{"rope_scaling": None, "tie_word_embeddings": False, "torch_dtype": "bfloat16", "hidden_act": "silu"},
}
DEEPSEEK = {
    **LLAMA,
    **{"model_type": "deepseek_v3", "num_key_value_heads": 8, "moe_intermediate_size": 256, "n_routed_experts": 8},
    **{"n_shared_experts": 1, "num_experts_per_tok": 2, "first_k_dense_replace": 1, "kv_lora_rank": 64},
    **{"q_lora_rank": 128, "qk_nope_head_dim": 32, "qk_rope_head_dim": 16, "v_head_dim": 32},
}


def _table(name: str) -> list[str]:
    """A shipped table with one of its rows."""
    lines = (ROOT / "experiments" / "measured" / f"{name}.csv").read_text(encoding="utf-8").splitlines()
    return ["\n".join([lines[0], lines[1]]) + "\n"]


def _profile() -> list[str]:
    text = (ROOT / "hardware_profiles" / "gpus" / "A100-PCIE.yaml").read_text(encoding="utf-8")
    return [text.replace("name: A100-PCIE", "name: mine", 1)]


def _network(path: str) -> str:
    return TRAINING.replace("gpus_per_node: 4", "num_nodes: 4, gpus_per_node: 1") + (
        f"network: {{topology_type: custom, edges_file: {path}}}\n"
    )


def _traced(path: str) -> str:
    return SERVING.split("workload")[0] + f"workload: {{trace: {{path: {path}}}}}\n"


@dataclass(frozen=True)
class Kind:
    """A kind of input file.

    Args:
        file: What it is called.
        texts: Whole ones.
        command: What reads it; ``x.yaml`` is the experiment.
        experiment: Its text.
        json: Whether values in it can be changed.
    """

    file: str
    texts: Callable[[], list[str]]
    command: Sequence[str]
    experiment: str = SERVING
    json: bool = False


RUN = ("run", "x.yaml", "--quiet", "--out", "results")
KINDS = {
    "trace": Kind("t.csv", lambda: TRACES, ("import-trace", "t.csv", "--json", "--out", "results/o.csv")),
    "replayed trace": Kind("t.csv", lambda: TRACES[:3], RUN, _traced("t.csv")),
    "huggingface": Kind(
        "c.json",
        lambda: [json.dumps(LLAMA), json.dumps(DEEPSEEK)],
        RUN,
        SERVING.replace("name: GPT2-Small", "huggingface: c.json"),
        json=True,
    ),
    "edges": Kind("e.csv", lambda: [EDGES], RUN, _network("e.csv")),
    "training": Kind("v.csv", lambda: _table("training"), ("validate", "v.csv", "--out", "results/o.csv")),
    "serving": Kind("v.csv", lambda: _table("serving"), ("validate", "v.csv", "--out", "results/o.csv")),
    "collectives": Kind("v.csv", lambda: _table("collectives"), ("validate", "v.csv", "--out", "results/o.csv")),
    "vllm": Kind(
        "r.json",
        lambda: [json.dumps(own_result(num_requests=4))],
        ("validate", "r.json", "--on", "x.yaml", "--out", "results/o.csv"),
        json=True,
    ),
    "nccl text": Kind("n.txt", lambda: [text_of()], ("validate", "n.txt", "--json")),
    "nccl json": Kind("n.json", lambda: [json_of()], ("validate", "n.json", "--json"), json=True),
    "profile": Kind(
        "hardware_profiles/gpus/mine.yaml",
        _profile,
        RUN,
        TRAINING.replace("gpu: H100-SXM", "gpu: mine, profile_folder: ."),
    ),
}
LIMITS = {"suppress_health_check": list(HealthCheck), "print_blob": True}


def _broken(kind: Kind) -> st.SearchStrategy[bytes]:
    texts = kind.texts()
    return broken_bytes(texts) | broken_json(texts) if kind.json else broken_bytes(texts)


def _use(folder: Path, kind: Kind, content: bytes) -> int:
    """Run the command with such a file; the exit code."""
    shutil.rmtree(folder / "results", ignore_errors=True)
    (folder / "results").mkdir()
    (folder / "x.yaml").write_text(kind.experiment)
    (folder / kind.file).parent.mkdir(parents=True, exist_ok=True)
    (folder / kind.file).write_bytes(content)
    code = answer(*kind.command).exit_code
    results_are_finite(folder / "results")
    return code


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("name", KINDS)
def test_whole_files_are_read(folder: Path, name: str) -> None:
    for text in KINDS[name].texts():
        assert _use(folder, KINDS[name], text.encode()) == 0


@pytest.mark.parametrize("name", KINDS)
def test_broken_files_are_read_or_refused(folder: Path, name: str) -> None:
    @settings(max_examples=15, **LIMITS)
    @given(content=_broken(KINDS[name]))
    def play(content: bytes) -> None:
        _use(folder, KINDS[name], content)

    play()


@pytest.mark.slow
@pytest.mark.parametrize("name", KINDS)
def test_hundreds_of_broken_files_are_read_or_refused(folder: Path, name: str) -> None:
    @settings(max_examples=300, **LIMITS)
    @given(content=_broken(KINDS[name]))
    def play(content: bytes) -> None:
        _use(folder, KINDS[name], content)

    play()

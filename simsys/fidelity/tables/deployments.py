"""How runs of tables were deployed, as far as those who published them say so elsewhere.

Of InferenceX (SemiAnalysisAI/InferenceX, before that InferenceMAX), scripts and configurations are public: the launch
scripts under ``benchmarks/single_node/``, which configuration had which image in ``perf-changelog.yaml``, and which
concurrencies and degrees each was run with in ``.github/configs/nvidia-master.yaml``.

Other rows of ai-dynamo/aiconfigurator, in tables named after models, were deployed as it proposes itself: as
``src/aiconfigurator/generator/rule_plugin/benchmark/*.rule`` say. Its
``*-gap-analysis.csv`` repeat InferenceX's figures.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil
from typing import Any

from simsys.fidelity.case import Unsupported
from simsys.fidelity.tables.table import Row

PUBLISHED = re.compile("InferenceX|gap-analysis")
"""In the notes of their rows."""
PROPOSED = re.compile(r"source_file=\D.*batch_size field (\d+)")
"""In the notes of rows that were deployed as aiconfigurator proposes."""
SHORTEST = 0.8
"""Least length of a prompt or answer of InferenceX, over the nominal one; also where notes do not repeat it."""
SPARE = 1500
"""Tokens of a step that aiconfigurator allows besides one prompt and the batch."""
WAITS_BELOW = 8
"""Ranks below which TensorRT-LLM lets prompts of Llama wait for others, for prompts and answers of 1,024 tokens."""
LONGEST_CAPTURED = 2048
"""``max-cudagraph-capture-size`` of vLLM with gpt-oss."""
POLLED, POLLED_FROM, SELDOM = 10, 16, 30
"""``--scheduler-recv-interval`` of SGLang on Blackwell: 10, or from that concurrency on 30."""
CHUNK = 16384
"""``--chunked-prefill-size`` of SGLang; of some models twice that."""
ACCEPTANCE = 0.7
"""Of a drafted token, those before it being accepted.

The layer of DeepSeek-V3 that drafts, used seven times a step, yields 3.09 to 3.20 tokens a step on average over
MT-bench, HumanEval and GSM8K (model card of nebius/MTP-DeepSeek-V3-0324), as with 0.69 for each. The rows do not say.
"""


@dataclass(frozen=True)
class Drafts:
    """Runs with multi-token prediction, which their rows do not say.

    Args:
        cells: What cells of such rows match, by column.
        tokens: How many are drafted a step; none if runs without any look the same.
        source: Who says so.
    """

    cells: Mapping[str, str]
    tokens: int
    source: str


DRAFTS = (
    Drafts(
        {"engine": "TensorRT-LLM", "model": "deepseek-r1", "engine_version": r"1\.2\.0rc6\.post3"},
        3,
        "perf-changelog.yaml: of dsr1-*-b200-trt* only -mtp has this release (pull requests 594, 620, 632, 642)",
    ),
    Drafts(
        {
            "engine": "TensorRT-LLM",
            "model": "deepseek-(r1|v3)",
            "engine_version": r"1\.1\.0rc2\.post2",
            "notes": "measured 2026-01-14",
        },
        3,
        "nvidia-master.yaml of January 2026: only dsr1-*-trt-mtp has some of that day's degrees and concurrencies (16 "
        "users at TP 4 with EP 4, 128 at TP 8); of what both have, one was measured again on 2026-01-28 and took 1.7 "
        "times as long: so all of that day are taken for -mtp",
    ),
    Drafts(
        {"engine": "SGLang", "model": "qwen3.5", "gpu": "^B200", "precision": "fp8", "tp": "^4$", "ep": "^1$"},
        3,
        "perf-changelog.yaml, pull request 898, adds qwen3.5-fp8-b200-sglang-mtp with 3 drafts a step; that these "
        "rows are its is read off them: 4 GPUs with undivided experts take 5.1 ms a token where 8 take 7.8",
    ),
    Drafts(
        {
            "engine": "SGLang",
            "model": "deepseek-r1",
            "gpu": "^B200",
            "precision": "fp8",
            "engine_version": r"0\.5\.9",
            "notes": "measured 2026-03-25",
        },
        0,
        "perf-changelog.yaml, pull request 943: dsr1-fp8-b200-sglang and -mtp have the same release and degrees",
    ),
)


def deployment(row: Row) -> dict[str, Any]:
    """Settings of ``serving`` that are known of a row's run besides what the row says.

    Raises:
        Unsupported: It is known that what matters is not stated.
    """
    notes = row.text("notes")
    if row.text("load_kind") == "concurrency" and PUBLISHED.search(notes):
        return _published(row)
    own: dict[str, Any] = {}
    proposed = PROPOSED.search(notes) if row.text("load_kind") == "concurrency" else None
    if proposed is not None:
        tokens = int(proposed.group(1)) + row.length("input_len") + SPARE
        own["max_num_batched_tokens"] = max(tokens, _longest(row), row.whole("load_value"))
    return own


def shortest(row: Row) -> float:
    """The least length of a prompt or an answer, over the nominal one."""
    notes = row.text("notes")
    drawn = re.search(r"lengths \w+ in \[(0?\.\d+)L, ?L\]", notes)
    if drawn is not None:
        return float(drawn.group(1))
    return SHORTEST if PUBLISHED.search(notes) else 1.0


def _longest(row: Row) -> int:
    """Tokens of prompt and answer; engines that do not divide prompts have room for them in a step."""
    return 0 if row.text("engine") == "vLLM" else row.length("input_len") + row.length("output_len")


def _published(row: Row) -> dict[str, Any]:
    users, engine = row.whole("load_value"), row.text("engine")
    drafted = _drafted(row)
    own: dict[str, Any] = {}
    if engine == "vLLM":
        own["async_scheduling"] = True  # also of releases that have it as an option
    if engine == "TensorRT-LLM":
        own["max_num_batched_tokens"] = _step_tokens(row, users)
        if row.text("model").startswith("llama") and _equal(row, 1024) and row.whole("tp") < WAITS_BELOW:
            own |= {"batch_wait_timeout_iters": 20, "batch_wait_max_tokens_ratio": 0.9}
    if engine == "vLLM" and row.text("model").startswith("gpt-oss"):
        own["max_cudagraph_capture_size"] = LONGEST_CAPTURED
    if engine == "vLLM" and row.text("model").startswith("llama") and row.text("gpu").startswith("B200"):
        own["cuda_graphs"] = "decode_only"
    if engine in ("SGLang", "TensorRT-LLM"):
        own["max_cudagraph_capture_size"] = users * (1 + drafted)  # of cuda_graph_max_bs and max_batch_size
    if engine == "SGLang":
        own["max_num_batched_tokens"] = max(CHUNK, users * (1 + drafted))
    if engine == "SGLang" and re.search("^B[23]00", row.text("gpu")) and "glm" not in row.text("model"):
        own["scheduler_recv_interval"] = POLLED if users < POLLED_FROM else SELDOM
    if drafted:
        own["speculative"] = {"draft_tokens": drafted, "acceptance_rate": ACCEPTANCE, "draft_layers": 1}
    return own


def _equal(row: Row, tokens: int) -> bool:
    return row.length("input_len") == row.length("output_len") == tokens


def _step_tokens(row: Row, users: int) -> int:
    """``--max_num_tokens`` of TensorRT-LLM."""
    prompt, model = row.length("input_len"), row.text("model")
    if model.startswith("gpt-oss"):
        return 20000
    if not model.startswith("llama"):
        return 64 * ceil((users * (1 + _drafted(row)) + prompt + 64) / 64)
    return 16384 if row.text("gpu").startswith("B") else prompt + row.length("output_len") + 200


def _drafted(row: Row) -> int:
    """Tokens drafted a step."""
    for each in DRAFTS:
        if all(re.search(pattern, row.text(column)) for column, pattern in each.cells.items()):
            if not each.tokens:
                raise Unsupported("whether it was with multi-token prediction is not stated")
            return each.tokens
    return 0

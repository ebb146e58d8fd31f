"""Tables of measured passes in scenarios: what is refused, what counts, and equal levels of detail."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from simsys.config.experiment import SimulationConfig
from simsys.errors import ConfigError
from simsys.simulation import simulate

HEAD = "sequences,new_tokens,context_tokens,time_ms\n"
ROWS = "".join(
    f"{n},{n},{n * context},{10 + n / 10 + n * context * 1e-5}\n" for n in (1, 16, 64) for context in (0, 2048)
) + "".join(f"1,{tokens},{context},{12 + tokens / 50}\n" for tokens in (16, 2048) for context in (0, 8192))


def scenario(tmp_path: Path, text: str = HEAD + ROWS, **changes: Any) -> SimulationConfig:
    (tmp_path / "passes.csv").write_text(text)
    data: dict[str, Any] = {
        "name": "measured",
        "hardware": {"gpu": "H100-SXM", "gpus_per_node": 1},
        "model": {"name": "Llama-3-8B"},
        "serving": {"passes": "passes.csv", "max_num_seqs": 64, "max_num_batched_tokens": 2048},
        "workload": {
            "num_requests": 20,
            "prompt_tokens": {"kind": "fixed", "tokens": 256},
            "output_tokens": {"kind": "fixed", "tokens": 32},
            "arrivals": {"kind": "poisson", "rate": "4 req/s"},
        },
    }
    for path, value in changes.items():
        section, _, name = path.partition("__")
        data.setdefault(section, {})[name] = value
    return SimulationConfig.model_validate(data).located_in(tmp_path)


def test_a_run_has_the_measured_times_at_both_levels(tmp_path: Path) -> None:
    found = {lod: simulate(scenario(tmp_path, simulation__lod=lod)) for lod in ("medium", "high")}
    assert found["medium"].metrics["p50_tpot_ms"] == pytest.approx(10.0, abs=1.5)
    for name in ("mean_ttft_ms", "mean_tpot_ms"):
        assert found["high"].metrics[name] == pytest.approx(found["medium"].metrics[name], rel=1e-9)
    lines = "\n".join(found["medium"].assumptions)
    assert "forward passes from passes.csv, 10 measured kinds of passes" in lines
    assert "no measurements of measured passes" in lines
    assert "per layer" not in lines


def test_a_change_of_the_table_counts(tmp_path: Path) -> None:
    before = simulate(scenario(tmp_path)).metrics["mean_tpot_ms"]
    longer = HEAD + "".join(
        ",".join([*row.split(",")[:3], str(3.0 * float(row.split(",")[3]))]) + "\n" for row in ROWS.splitlines()
    )
    (tmp_path / "other").mkdir()
    assert simulate(scenario(tmp_path / "other", longer)).metrics["mean_tpot_ms"] > 2.5 * before


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (HEAD.replace("time_ms", "time") + ROWS, "passes.csv:1: not a table .*heading 'time' has no unit"),
        (HEAD.replace("new_tokens", "new_token") + ROWS, "unknown heading 'new_token', did you mean 'new_tokens'"),
        (HEAD.replace("context_tokens,", "") + ROWS, "no column 'context_tokens'"),
        (HEAD + ROWS + "8,4,0,1\n", "passes.csv:12: .*fewer new tokens than sequences"),
        (HEAD + ROWS + "8,8,0,\n", "passes.csv:12: .*one time is needed"),
        (HEAD + ROWS + "8,8,0,nan\n", "passes.csv:12: .*time_ms"),
        (HEAD + ROWS + "8,8,0,-1\n", "passes.csv:12: .*time_ms"),
        (HEAD + ROWS + "8,8,0,5\n", "decoding .* with 8 new tokens at one context only"),
        (HEAD + ROWS[: ROWS.index("1,16,0")], "no passes of prompts"),
    ],
)
def test_tables_with_holes_and_without_units_are_refused(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        simulate(scenario(tmp_path, text))


def test_steps_beyond_the_table_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"may have 256 sequences, .* write max_num_seqs: 64"):
        simulate(scenario(tmp_path, serving__max_num_seqs=256))
    with pytest.raises(ConfigError, match=r"may have 4,096 tokens, .* has 2,048"):
        simulate(scenario(tmp_path, serving__max_num_batched_tokens=4096))


def test_ranks_in_lock_step_and_pools_of_several_layouts_are_refused(tmp_path: Path) -> None:
    more = {"hardware__gpus_per_node": 8, "model__name": "Mixtral-8x7B"}
    with pytest.raises(ConfigError, match="what ranks wait for each other"):
        simulate(scenario(tmp_path, **more, parallelism__attention_dp=8, parallelism__ep_degree=8))
    pools = {"prefill_replicas": 1, "decode_replicas": 1, "prefill_tp_degree": 2, "decode_tp_degree": 4}
    with pytest.raises(ConfigError, match="one layout"):
        simulate(scenario(tmp_path, **more, serving__disaggregated=pools))


def test_stages_and_drafts_are_refused_and_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="without stages"):
        simulate(scenario(tmp_path, hardware__gpus_per_node=2, parallelism__pp_stages=2))
    drafts = {"draft_tokens": 2, "acceptance_rate": 0.5, "draft_cost": "1 ms"}
    with pytest.raises(ConfigError, match="does not say what drafts cost"):
        simulate(scenario(tmp_path, serving__speculative=drafts))
    with pytest.raises(ConfigError, match=r"serving.passes: .*none.csv': no such file"):
        simulate(scenario(tmp_path, serving__passes="none.csv"))

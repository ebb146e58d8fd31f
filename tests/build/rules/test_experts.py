"""Degrees of data-parallel ranks that share their experts: what does not fit is refused at its line."""

from __future__ import annotations

from typing import Any

import pytest

from simsys.check import check_config
from simsys.config.experiment import SimulationConfig
from tests.helpers.each_case import each_case

MIXTURE = {"name": "gpt-oss-20b"}
WORKLOAD = {"arrivals": {"kind": "all_at_once"}, "prompt_tokens": 64, "output_tokens": 8, "num_requests": 4}


def problems(model: dict[str, Any] = MIXTURE, gpus: int = 8, **sections: Any) -> list[str]:
    config = SimulationConfig(
        hardware={"profile": "dgx-h100", "gpus_per_node": gpus},
        model=model,
        workload=WORKLOAD,
        serving={"precision": "bf16", **sections.pop("serving", {})},
        **sections,
    )
    return [f"{each.path}: {each.message}" for each in check_config(config)]


FIT = [
    {"attention_dp": 8, "ep_degree": 8},
    {"attention_dp": 8, "ep_degree": 2},
    {"attention_dp": 4, "tp_degree": 2, "ep_degree": 8},
    {"attention_dp": 2, "ep_degree": 2},
    {"attention_dp": 2, "dp_degree": 4},
]


@pytest.mark.parametrize("degrees", FIT)
def test_degrees_that_match_are_accepted(degrees: dict[str, int]) -> None:
    assert problems(parallelism=degrees) == []


THIRDS = {"attention_dp": 3, "ep_degree": 3}
POOLS = {"prefill_replicas": 1, "decode_replicas": 1, **{f"decode_{key}": 3 for key in THIRDS}}


@pytest.mark.parametrize(
    ("gpus", "sections"),
    [
        (6, {"parallelism": {**THIRDS, "dp_degree": 2}}),
        (3, {"parallelism": {"tp_degree": 1, **THIRDS}}),
        (4, {"serving": {"disaggregated": POOLS}}),
    ],
)
def test_redundant_replicas_fill_ranks_that_do_not_divide_the_experts(gpus: int, sections: dict[str, Any]) -> None:
    assert any("ep_degree 3 does not divide 32 experts" in each for each in problems(gpus=gpus, **sections))
    replicas = {"experts": {"eplb": True, "redundant_experts": 1}}
    filled = {**sections, "serving": {**sections.get("serving", {}), **replicas}}
    assert problems(gpus=gpus, **filled) == []


def test_replicas_that_do_not_fill_ranks_are_one_problem_not_two() -> None:
    [found] = problems(**{**SHARED, "serving": {"experts": {"eplb": True, "redundant_experts": 3}}})
    assert "32 experts and 3 replicas cannot be divided evenly among ep_degree 8 ranks" in found


@pytest.mark.parametrize("drafter", [{"draft_layers": 1}, {"draft_model": "GPT2-Small"}, {"draft_cost": "1 ms"}, {}])
def test_ranks_that_share_their_experts_may_draft(drafter: dict[str, Any]) -> None:
    drafts = {"draft_tokens": 1, "acceptance_rate": 0.5, **drafter}
    assert problems(parallelism={"attention_dp": 4, "ep_degree": 4}, serving={"speculative": drafts}) == []


BAD: list[tuple[dict[str, Any], str]] = [
    (
        {"parallelism": {"attention_dp": 4, "tp_degree": 2, "ep_degree": 16}},
        "parallelism.ep_degree: ep_degree 16 does not divide attention_dp 4 x tp_degree 2 = 8 GPUs that share the "
        "experts; ",
    ),
    ({"parallelism": {"attention_dp": 3, "ep_degree": 3}, "gpus": 6}, "ep_degree 3 does not divide 32 experts"),
    ({"parallelism": {"attention_dp": 16, "ep_degree": 16}}, "attention_dp 16 x pp 1 = 16 does not divide 8 GPUs"),
    ({"parallelism": {"attention_dp": 3}, "gpus": 8}, "parallelism.attention_dp: tp 1 x attention_dp 3"),
    ({"parallelism": {"attention_dp": 2, "pp_stages": 2}}, "parallelism.pp_stages: pp_stages with attention_dp"),
    ({"parallelism": {"attention_dp": 2}, "model": {"name": "Llama3-8B"}}, "Llama3-8B has no experts to share"),
    (
        {
            "model": {"name": "gpt-oss-120b"},
            "parallelism": {"attention_dp": 2},
            "serving": {"speculative": {"draft_tokens": 1, "acceptance_rate": 0.5, "draft_model": "gpt-oss-20b"}},
        },
        "serving.speculative.draft_model: gpt-oss-20b has experts of its own, which the ranks of attention_dp do not "
        "share; draft with a model without experts, or with draft_layers",
    ),
    ({"parallelism": {"attention_dp": 2}, "serving": {"autoscaling": {}}}, "serving.autoscaling: autoscaling with"),
    (
        {
            "serving": {
                "disaggregated": {
                    "prefill_replicas": 1,
                    "decode_replicas": 1,
                    "prefill_attention_dp": 4,
                    "decode_attention_dp": 4,
                    "decode_ep_degree": 8,
                }
            }
        },
        "serving.disaggregated.decode_ep_degree: ep_degree 8 does not divide attention_dp 4 x tp_degree 1 = 4 GPUs",
    ),
    (
        {"serving": {"disaggregated": {"prefill_replicas": 1, "decode_replicas": 2, "decode_attention_dp": 4}}},
        "serving.disaggregated: 1 replicas x 1 GPUs + 2 x 4 need 12 GPUs, there are 8",
    ),
]

SHARED = {"parallelism": {"attention_dp": 8, "ep_degree": 8}}
BAD += [
    (
        {"serving": {"experts": {"dispatch": "deepep_low_latency"}}},
        "serving.experts.dispatch: dispatch has no effect without attention_dp",
    ),
    (
        {"model": {"name": "Llama3-8B"}, "serving": {"experts": {"padded_rows": 128}}},
        "serving.experts.padded_rows: padded_rows has no effect, as Llama3-8B has no experts; remove it",
    ),
    (
        {"model": {"name": "Llama3-8B"}, "serving": {"experts": {"identical_sequences": 4}}},
        "identical_sequences: identical_sequences has no effect, as Llama3-8B has no experts; remove it",
    ),
    (
        {"serving": {"experts": {"popularity_exponent": 1.0}}, "parallelism": {"attention_dp": 8}},
        "serving.experts: the popularity of experts has no effect without ep_degree",
    ),
    ({**SHARED, "serving": {"experts": {"counts": [1.0, 2.0]}}}, "2 counts, but gpt-oss-20b has 32 experts"),
    (
        {**SHARED, "serving": {"experts": {"eplb": True, "redundant_experts": 3}}},
        "redundant_experts: 32 experts and 3 replicas cannot be divided evenly among ep_degree 8 ranks",
    ),
    (
        {"parallelism": {"attention_dp": 8, "ep_degree": 4}, "serving": {"experts": {"dispatch": "all_to_all"}}},
        "so ep_degree is attention_dp x tp_degree (8), not 4; or write dispatch: all_gather",
    ),
    (
        {**SHARED, "serving": {"experts": {"decode_dispatch": "all_to_all"}}},
        "serving.experts.decode_dispatch: there are no decode replicas",
    ),
    (
        {"parallelism": {"tp_degree": 2}, "serving": {"attention_dp_timeout_iters": 60}},
        "serving.attention_dp_timeout_iters: prompts wait for those of other data-parallel ranks",
    ),
]


@each_case(("case", "message"), BAD)
def test_degrees_that_do_not_match_are_refused_at_their_line(case: dict[str, Any], message: str) -> None:
    found = problems(**case)
    assert any(message in each for each in found), found


def test_training_has_other_degrees() -> None:
    config = SimulationConfig(
        hardware={"profile": "dgx-h100"},
        model=MIXTURE,
        training={"batch_size_per_gpu": 1, "num_iterations": 1},
        parallelism={"attention_dp": 8},
    )
    assert "parallelism.attention_dp" in [each.path for each in check_config(config)]

"""How rows of measured serving are laid out: what they state counts, or is a reason not to predict them."""

from __future__ import annotations

import pytest

from simsys.fidelity.case import Unsupported
from simsys.fidelity.tables.serving_layout import hardware_of_deployment, parallelism_of, stated_settings
from simsys.fidelity.tables.table import Row

ROW = {"id": "a", "gpu": "H100-SXM-80GB", "tp": "1", "load_kind": "concurrency"}


def row(**cells: str) -> Row:
    return Row({**ROW, **cells}, "t.csv", 2)


@pytest.mark.parametrize(
    ("cells", "expected"),
    [
        ({}, {"tp_degree": 1, "pp_stages": 1}),
        ({"replicas": "8"}, {"tp_degree": 1, "pp_stages": 1, "dp_degree": 8}),
        ({"replicas": "8.0", "gpus": "8"}, {"tp_degree": 1, "pp_stages": 1, "dp_degree": 8}),
        ({"replicas": "1"}, {"tp_degree": 1, "pp_stages": 1}),
        ({"tp": "4", "pp": "2", "gpus": "8"}, {"tp_degree": 4, "pp_stages": 2}),
        ({"tp": "8", "ep": "8", "attention_dp": "1"}, {"tp_degree": 8, "pp_stages": 1, "ep_degree": 8}),
        ({"attention_dp": "1", "notes": "attention_dp 64"}, {"tp_degree": 1, "pp_stages": 1}),
        (
            {"attention_dp": "8", "ep": "4", "gpus": "8"},
            {"tp_degree": 1, "pp_stages": 1, "attention_dp": 8, "ep_degree": 4},
        ),
    ],
)
def test_what_a_row_states_counts(cells: dict[str, str], expected: dict[str, int]) -> None:
    assert parallelism_of(row(**cells)) == expected


@pytest.mark.parametrize(
    ("cells", "reason"),
    [
        ({"attention_dp": "8", "gpus": "64"}, "gpus is not tp x attention_dp x replicas"),
        ({"attention_dp": "8", "pp": "2"}, "attention in data parallelism with pipeline stages"),
        ({"notes": "attention_dp 8"}, "attention in data parallelism"),
        ({"dp": "4"}, "data-parallel ranks"),
        ({"gpus": "8"}, "gpus is not tp x pp x replicas"),
        ({"gpus": "8", "replicas": "4"}, "gpus is not tp x pp x replicas"),
        ({"tp": ""}, "how the model is divided is not stated"),
        ({"tp": "4", "ep": "3"}, "experts divided among other ranks"),
        ({"replicas": "2", "load_kind": "static_batch"}, "whether a static batch is that of one replica or of all"),
    ],
)
def test_what_cannot_be_carried_out_is_a_reason(cells: dict[str, str], reason: str) -> None:
    with pytest.raises(Unsupported, match=reason):
        parallelism_of(row(**cells))


@pytest.mark.parametrize(
    ("parallelism", "nodes", "per_node"),
    [
        ({"tp_degree": 2, "pp_stages": 1}, 1, 2),
        ({"tp_degree": 2, "pp_stages": 1, "dp_degree": 4}, 1, 8),
        ({"tp_degree": 4, "pp_stages": 1, "dp_degree": 8}, 4, 8),
    ],
)
def test_all_replicas_have_gpus(parallelism: dict[str, int], nodes: int, per_node: int) -> None:
    found = hardware_of_deployment(row(), parallelism)
    assert (found.get("num_nodes", 1), found["gpus_per_node"]) == (nodes, per_node)


def test_a_replica_stays_in_a_node() -> None:
    with pytest.raises(Unsupported, match="16 GPUs, of which a node has 8"):
        hardware_of_deployment(row(), {"tp_degree": 16, "pp_stages": 1})


@pytest.mark.parametrize(
    ("cells", "expected"),
    [
        ({}, {}),
        ({"max_batch": "16"}, {"max_num_seqs": 16}),
        (
            {"max_num_seqs": "16", "max_num_batched_tokens": "2048"},
            {"max_num_seqs": 16, "max_num_batched_tokens": 2048},
        ),
        ({"max_model_len": "4096"}, {"max_model_len": 4096}),
        ({"spec_decoding": "none"}, {}),
        (
            {"spec_decoding": "mtp", "draft_tokens": "3", "acceptance_rate": "0.7"},
            {"speculative": {"draft_tokens": 3, "acceptance_rate": 0.7}},
        ),
    ],
)
def test_limits_and_drafts_that_are_stated_count(cells: dict[str, str], expected: dict[str, object]) -> None:
    assert stated_settings(row(**cells), drafts_known=False) == expected


@pytest.mark.parametrize("cells", [{"spec_decoding": "mtp"}, {"draft_tokens": "3"}, {"spec_decoding": "unknown"}])
def test_drafts_of_unknown_acceptance_are_not_predicted(cells: dict[str, str]) -> None:
    with pytest.raises(Unsupported, match="speculative decoding"):
        stated_settings(row(**cells), drafts_known=False)


def test_drafts_that_are_known_otherwise_need_no_columns() -> None:
    assert stated_settings(row(spec_decoding="mtp"), drafts_known=True) == {}
    with pytest.raises(Unsupported, match="speculative decoding"):
        stated_settings(row(spec_decoding="mtp", draft_tokens="3"), drafts_known=True)

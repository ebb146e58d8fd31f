"""The deployment of a row of measured serving: GPUs of a replica, replicas, limits and drafts.

Values of a row are values of the whole deployment. A row that states what simsys cannot simulate is not predicted.
"""

from __future__ import annotations

import re
from typing import Any

from simsys.fidelity.case import Unsupported
from simsys.fidelity.tables.hardware_names import hardware_of, machine_of, node_of
from simsys.fidelity.tables.table import Row

DATA_PARALLEL = ("dp", "data_parallel", "data_parallel_size")
LIMITS = {
    "max_num_seqs": ("max_batch", "max_batch_size", "max_num_seqs"),
    "max_num_batched_tokens": ("max_num_batched_tokens", "max_num_tokens"),
    "max_model_len": ("max_model_len",),
}
"""Settings of an engine, and the columns that may state them."""
NONE = ("", "0", "1", "none", "no", "false", "off")


def parallelism_of(row: Row) -> dict[str, int]:
    """Return the ``parallelism`` of a deployment: degrees of one replica, and the number of replicas.

    Engines divide experts among the ranks of tensor parallelism; with data-parallel attention, among all GPUs of a
    replica. If a table has the product of both degrees as `tp`, so that it exceeds a node, the same GPUs were counted
    twice.

    Raises:
        Unsupported: The degrees are not stated, contradict each other, or cannot be simulated.
    """
    if not row.text("tp"):
        raise Unsupported("how the model is divided is not stated")
    if any(row.text(column) not in NONE for column in DATA_PARALLEL):
        raise Unsupported("data-parallel ranks; a column 'replicas' says how many copies of the model there are")
    tensor, stages, replicas = row.whole("tp"), row.whole("pp", 1), row.whole("replicas", 1)
    attention = _attention_replicas(row)
    if attention > 1 and not row.text("attention_dp"):
        raise Unsupported("attention in data parallelism, whose layout only the notes mention")
    if attention > 1:
        return _attention(row, tensor, attention, replicas)
    gpus = row.whole("gpus", tensor * stages * replicas)
    if gpus != tensor * stages * replicas:
        raise Unsupported("gpus is not tp x pp x replicas, so how many replicas ran is not known")
    stated = row.text("ep")
    experts = int(stated) if stated.isdigit() and int(stated) else 1
    if tensor > machine_of(row.text("gpu")).domain and tensor % experts == 0 and experts > 1:
        tensor //= experts
    if tensor % experts:
        raise Unsupported("experts divided among other ranks than tensor parallelism has")
    found = {"tp_degree": tensor, "pp_stages": stages}
    if experts == tensor > 1:
        found["ep_degree"] = tensor
    if replicas > 1:
        if row.text("load_kind") == "static_batch":
            raise Unsupported("whether a static batch is that of one replica or of all is not stated")
        found["dp_degree"] = replicas
    return found


def _attention(row: Row, tensor: int, attention: int, replicas: int) -> dict[str, int]:
    """The degrees of a replica with several data-parallel ranks of attention."""
    if row.whole("pp", 1) > 1:
        raise Unsupported("attention in data parallelism with pipeline stages")
    if row.whole("gpus", tensor * attention * replicas) != tensor * attention * replicas:
        raise Unsupported("gpus is not tp x attention_dp x replicas, so the layout of attention is not known")
    experts = max(1, row.whole("ep", 1))
    found = {"tp_degree": tensor, "pp_stages": 1, "attention_dp": attention, "ep_degree": experts}
    return found | ({"dp_degree": replicas} if replicas > 1 else {})


def hardware_of_deployment(row: Row, parallelism: dict[str, int]) -> dict[str, Any]:
    """Return the ``hardware`` of an experiment with the GPUs of all replicas.

    Raises:
        Unsupported: There is no profile of the GPU, or a replica does not fit into a node.
    """
    gpu, size = row.text("gpu"), parallelism["tp_degree"] * parallelism["pp_stages"]
    size *= parallelism.get("attention_dp", 1)
    one, domain = node_of(gpu, size), machine_of(gpu).domain
    gpus = size * parallelism.get("dp_degree", 1)
    if gpus == size:
        return one
    return node_of(gpu, gpus) if gpus <= domain else hardware_of(gpu, gpus, -(-gpus // domain), "")


def stated_settings(row: Row, *, drafts_known: bool) -> dict[str, Any]:
    """Return the settings of ``serving`` that a row states.

    Args:
        row: The row.
        drafts_known: Whether it is known otherwise how many tokens were drafted.

    Raises:
        Unsupported: Tokens are drafted, but the number of drafts or the acceptance rate is not stated.
    """
    found: dict[str, Any] = {}
    for setting, columns in LIMITS.items():
        column = next((column for column in columns if row.text(column)), None)
        if column is not None:
            found[setting] = row.whole(column)
    if row.text("draft_tokens") not in NONE[:2] and row.text("acceptance_rate"):
        found["speculative"] = {
            "draft_tokens": row.whole("draft_tokens"),
            "acceptance_rate": row.number("acceptance_rate"),
        }
    elif row.text("draft_tokens") not in NONE[:2] or (
        row.text("spec_decoding").casefold() not in NONE and not drafts_known
    ):
        raise Unsupported("speculative decoding; columns draft_tokens and acceptance_rate say what there was")
    return found


def _attention_replicas(row: Row) -> int:
    """Return the data-parallel groups of attention, from a column or else from the notes."""
    if row.text("attention_dp"):
        return row.whole("attention_dp")
    noted = re.search(r"attention_dp (\d+)", row.text("notes"))
    return int(noted.group(1)) if noted is not None else 1

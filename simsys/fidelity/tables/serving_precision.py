"""Precisions of tables of serving runs, as settings of an experiment."""

from __future__ import annotations

import re

from simsys.fidelity.case import Unsupported
from simsys.fidelity.tables.facts import facts
from simsys.fidelity.tables.model_names import Models
from simsys.fidelity.tables.words import serving_words


def precisions(text: str, *, model: str = "", cache_as_weights: bool) -> dict[str, str]:
    """Return `precision` and `kv_precision` of a serving scenario.

    Args:
        text: The precision in a table, such as ``fp8`` or ``bf16 weights, fp8-kv``.
        model: The name of the model in the table.
        cache_as_weights: Whether weights in 8 bit or less come with a KV cache in fp8.

    Raises:
        Unsupported: It has no known word.
    """
    known = serving_words()
    words = re.findall(r"[a-z]+\d+|auto|half", text.casefold())
    weights = next((known.weights[word] for word in words if word in known.weights), None)
    if weights is None:
        raise Unsupported(f"precision {text or 'not stated'}")
    if weights == "fp8" and model.startswith(facts(Models).block_scaled.models):
        weights = "fp8_block"
    half = weights if weights in ("fp32", "fp16", "bf16") else "bf16"
    cache = re.search(r"([a-z]+\d+)-kv", text.casefold())
    if cache is not None and cache.group(1) in known.weights:
        return {"precision": weights, "kv_precision": known.weights[cache.group(1)]}
    eight = cache_as_weights and weights in known.eight_bit_or_less
    return {"precision": weights, "kv_precision": "fp8" if eight else half}

"""Mixtures of experts: how many experts there are, how wide, and in which layers."""

from __future__ import annotations

from typing import Any

from simsys.model.fields import Fields
from simsys.model.huggingface.families import Family
from simsys.model.huggingface.reading import LAYERS, MAX_SIZE, check_length, count, given, size

EXPERTS = ("num_local_experts", "n_routed_experts", "num_experts", "moe_num_experts")
PER_TOKEN = ("num_experts_per_tok", "num_experts_per_token", "experts_per_token", "moe_k")
WIDTH = ("moe_intermediate_size", "intermediate_size")
"""Mixtral, gpt-oss and Llama 4 name an expert's width `intermediate_size`."""
SHARED = ("n_shared_experts", "num_shared_experts", "moe_num_shared_experts")
SHARED_WIDTH = ("shared_expert_intermediate_size", "shared_intermediate_size")


def mixture(fields: Fields, family: Family) -> dict[str, Any]:
    """The arguments of an architecture that describe its experts; none for a dense model.

    Raises:
        ConfigError: A size is missing or wrong.
    """
    if count(fields, EXPERTS) <= 1:
        given(fields, PER_TOKEN)
        return {}
    if given(fields, PER_TOKEN) is None:
        fields.fail("", f"missing {PER_TOKEN[0]}")
    layers = size(fields, LAYERS)
    routed = _routed_layers(fields, layers)
    if not any(routed):
        return {}
    first, width = routed.index(True), size(fields, WIDTH)
    return {
        "experts": count(fields, EXPERTS),
        "experts_per_token": size(fields, PER_TOKEN),
        "expert_intermediate_size": width,
        "shared_experts": _shared_experts(fields, family, width),
        "dense_layers_first": first,
        "dense_layers_between": routed[first:].count(False),
    }


def _routed_layers(fields: Fields, layers: int) -> list[bool]:
    """Which layers have experts."""
    if "mlp_layer_types" in fields:
        kinds = fields.texts("mlp_layer_types")
        check_length(fields, "mlp_layer_types", len(kinds), layers)
        fields.used.add("first_k_dense_replace")
        return [kind == "sparse" for kind in kinds]
    if routed := set(fields.integers("moe_layers")):  # Llama 4
        fields.used.add("interleave_moe_layer_step")
        return [layer in routed for layer in range(layers)]
    if isinstance(fields.values.get("moe_layer_freq"), list):
        listed = fields.integers("moe_layer_freq")
        check_length(fields, "moe_layer_freq", len(listed), layers)
        return [bool(each) for each in listed]
    dense = set(fields.integers("mlp_only_layers"))
    first = _one(fields, "first_k_dense_replace", _one(fields, "moe_layer_start_index", 0))
    last = _one(fields, "moe_layer_end_index", layers - 1)
    every = max(1, _one(fields, "moe_layer_freq", 1))
    step = 1  # the last of this number of layers has experts
    for key in ("decoder_sparse_step", "interleave_moe_layer_step", "moe_layer_interval"):
        step = max(step, _one(fields, key, 1))
    return [
        first <= layer <= last and layer % every == 0 and (layer + 1) % step == 0 and layer not in dense
        for layer in range(layers)
    ]


def _one(fields: Fields, key: str, default: int) -> int:
    """An index; with one index per group of experts, the first."""
    if isinstance(fields.values.get(key), list):
        return (fields.integers(key) or [default])[0]
    if fields.values.get(key) == -1:
        fields.used.add(key)
        return default
    return fields.integer(key, default, maximum=MAX_SIZE)


def _shared_experts(fields: Fields, family: Family, width: int) -> int:
    """Their number, or (Qwen2-MoE) the width of one shared expert as a multiple of a routed one."""
    key = given(fields, SHARED_WIDTH)
    if key is None:
        return fields.integer(given(fields, SHARED) or SHARED[0], family.shared_experts, maximum=MAX_SIZE)
    shared = fields.integer(key, maximum=MAX_SIZE)
    if shared % width:
        fields.fail(key, f"{shared} is not a multiple of the experts' width {width}")
    return shared // width

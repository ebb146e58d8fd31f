"""Which linear layers a quantised checkpoint leaves alone, from the patterns that its configuration lists."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping

from simsys.model.model import Model
from simsys.model.precision import is_linear

_ATTENTION = "self_attn"
_MLPS = ("mlp", "feed_forward")
_EXPERTS = ("mlp.experts", "feed_forward.experts", "block_sparse_moe.experts")
_SHARED = ("mlp.shared_expert", "mlp.shared_experts", "feed_forward.shared_expert")


def _each(places: Iterable[str], *names: str) -> list[str]:
    return [f"{place}.{name}" for place in places for name in names]


MODULES: Mapping[str, list[str]] = {
    "qkv": _each([_ATTENTION], "q_proj", "k_proj", "v_proj", "qkv_proj"),
    "qkv_down": _each([_ATTENTION], "q_a_proj", "kv_a_proj_with_mqa"),
    "q_up": _each([_ATTENTION], "q_b_proj", "q_proj"),
    "kv_up": _each([_ATTENTION], "kv_b_proj"),
    "attention_output": _each([_ATTENTION], "o_proj"),
    "qkvz": _each(["linear_attn"], "in_proj_qkvz", "in_proj_qkv", "in_proj_z") + _each([_ATTENTION], "qkv_proj"),
    "linear_attention_output": ["linear_attn.out_proj", f"{_ATTENTION}.out_proj"],
    "gate_up": _each(_MLPS, "gate_proj", "up_proj", "gate_up_proj"),
    "up": _each(_MLPS, "up_proj"),
    "down": _each(_MLPS, "down_proj"),
    "shared_gate_up": _each(_SHARED, "gate_proj", "up_proj"),
    "shared_down": _each(_SHARED, "down_proj"),
    "experts_gate_up": _each(_EXPERTS, "0.gate_proj", "0.up_proj", "gate_up_proj", "0.w1", "0.w3"),
    "experts_down": _each(_EXPERTS, "0.down_proj", "down_proj", "0.w2"),
}
"""Names of the modules of an operator in checkpoints."""

ROUTER = "router"
"""Never quantised: engines keep the scores of experts in 16 or 32 bit (vLLM: ``ReplicatedLinear`` without a
``quant_config``)."""

PREFIX = "model.layers"
PREFIXES = ("model.language_model.", "language_model.model.", "language_model.", "model.text_model.")
_LAYER = re.compile(r"layers\\?\.(\d+)(?!\d)")


class Patterns:
    """Patterns of module names, as configurations write them.

    ``re:`` begins a regular expression and ``*`` matches anything; other patterns are whole parts of a name.

    Args:
        ignored: Excluded modules.
        targets: Modules that are quantised; none for all linear layers.
    """

    def __init__(self, ignored: Iterable[str], targets: Iterable[str] = ()) -> None:
        self._anywhere: list[re.Pattern[str]] = []
        self._in_layer: dict[int, list[re.Pattern[str]]] = defaultdict(list)
        for pattern in ignored:
            layer = _LAYER.search(pattern)
            where = self._anywhere if layer is None else self._in_layer[int(layer.group(1))]
            where.append(_compiled(pattern))
        self._targets = [_compiled(pattern) for pattern in targets]

    def unquantized(self, model: Model) -> tuple[frozenset[str], dict[str, tuple[int, int]]]:
        """Names of operators with weights in 16 bit.

        Returns:
            Operators in 16 bit in at least half of their layers; for others, the number of such layers and of all
            their layers.
        """
        layers = Counter(op.name for block in model.blocks for op in block.operators if is_linear(op))
        found, partly = {ROUTER} & layers.keys(), dict[str, tuple[int, int]]()
        for name in layers.keys() & MODULES.keys():
            left = self._layers_left_alone(MODULES[name], layers[name], model.num_layers)
            if 2 * left >= layers[name]:
                found.add(name)
            elif left:
                partly[name] = left, layers[name]
        return frozenset(found), partly

    def _layers_left_alone(self, modules: list[str], layers: int, of: int) -> int:
        """In how many of the `layers` that have them, `of` the whole model, one of the modules is left alone."""
        if any(_matches(self._anywhere, f"{PREFIX}.0.{module}") for module in modules):
            return layers
        if self._targets and not any(_matches(self._targets, f"{PREFIX}.0.{module}") for module in modules):
            return layers
        found = sum(
            any(_matches(patterns, f"{PREFIX}.{layer}.{module}") for module in modules)
            for layer, patterns in self._in_layer.items()
            if layer < of
        )
        return min(found, layers)


def _compiled(pattern: str) -> re.Pattern[str]:
    """A pattern as a regular expression; an invalid one is matched literally."""
    for prefix in PREFIXES:
        pattern = pattern.replace(prefix, "model.")
    if pattern.startswith("re:"):
        try:
            return re.compile(pattern[3:])
        except re.error:
            return re.compile(re.escape(pattern[3:]))
    body = ".*".join(re.escape(part) for part in pattern.strip(".").split("*"))
    return re.compile(rf"(?:.*\.)?{body}(?:\..*)?$")


def _matches(patterns: list[re.Pattern[str]], name: str) -> bool:
    return any(pattern.match(name) for pattern in patterns)

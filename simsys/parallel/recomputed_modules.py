"""Recomputation by module: which operators of a layer run again, and what the layer need not keep.

The modules are those of Megatron Core (``TransformerConfig.recompute_modules``). ``moe_act``, ``layernorm`` and
``mla_up_proj`` discard their outputs; ``core_attn``, ``mlp``, ``moe`` and ``shared_experts`` keep their inputs only.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from simsys.model.model import Block
from simsys.model.operators import Operator, OperatorKind
from simsys.sums import ordered_sum

CORE, MOE = "core_attn", "moe"
NORMS = frozenset({"attention_norm", "mlp_norm", "mixer_norm"})
LATENT = frozenset({"latent_norm", "q_up", "kv_up"})
DENSE = frozenset({"gate_up", "up", "activation", "down"})
INSIDE_MOE = ("moe_act", "shared_experts")
"""Modules that are parts of ``moe``."""
LACKING: Mapping[str, str] = {
    CORE: "attention",
    "layernorm": "norms",
    "mla_up_proj": "multi-head latent attention",
    "mlp": "dense MLPs",
    MOE: "experts",
    "moe_act": "experts",
    "shared_experts": "shared experts",
}
"""What a model lacks that does not have a module."""


def is_in(operator: Operator, module: str) -> bool:
    """Whether an operator belongs to a module."""
    name = operator.name
    if module == CORE:
        return operator.kind is OperatorKind.ATTENTION and operator.flop_per_pair > 0.0
    if module == "moe_act":
        return name == "experts_activation"
    if module == "shared_experts":
        return name.startswith("shared_")
    if module == MOE:
        return name == "router" or name.startswith(("shared_", "experts_", "latent_down", "latent_up"))
    return name in {"layernorm": NORMS, "mla_up_proj": LATENT, "mlp": DENSE}[module]


def runs_again(operator: Operator, modules: Iterable[str]) -> bool:
    """Whether an operator belongs to any of some modules."""
    return any(is_in(operator, module) for module in modules)


def modules_in(operators: Sequence[Operator]) -> list[str]:
    """The modules that some operators have."""
    return [module for module in LACKING if any(is_in(operator, module) for operator in operators)]


def discarded(block: Block, module: str) -> tuple[float, float, float]:
    """Elements of a token that a block need not keep if a module is recomputed; scores of attention are not counted.

    Returns: Elements divided by tensor parallelism, replicated elements, and the part of both of routed experts.
    """
    found = {operator.name: operator for operator in block.operators}
    if module == "layernorm":
        return 0.0, block.output_elements_per_token * sum(name in NORMS for name in found), 0.0
    if module == "mla_up_proj":  # queries, keys and values, and the latent vectors after their norm
        kept = float(found["attention_output"].inner)
        return found["attention"].elements_per_token - kept, found["latent_norm"].elements_per_token / 2.0, 0.0
    if module == "mlp":
        return found["activation"].elements_per_token, 0.0, 0.0
    if module == "shared_experts":
        return found["shared_activation"].elements_per_token, 0.0, 0.0
    if module == "moe_act":
        down = found["experts_down"]
        outputs = down.inner * down.rows_per_token
        return outputs, 0.0, outputs
    return _of_mixture(found) if module == MOE else (0.0, 0.0, 0.0)


def _of_mixture(found: Mapping[str, Operator]) -> tuple[float, float, float]:
    """What a mixture keeps between its input and its output (`simsys.model.feed_forward.feed_forward_elements`)."""
    down, latent = found["experts_down"], found.get("latent_down")
    shared = found["shared_activation"].elements_per_token if "shared_activation" in found else 0.0
    copies, experts = 2.0 * down.columns * down.rows_per_token, found["experts_activation"].elements_per_token
    replicated = copies + found["router"].columns + (2.0 * latent.columns if latent is not None else 0.0)
    return experts + shared, replicated, experts + copies


def without_parts(modules: Iterable[str]) -> tuple[str, ...]:
    """Modules, without those that are parts of another one."""
    given = tuple(dict.fromkeys(modules))
    return tuple(module for module in given if module not in INSIDE_MOE) if MOE in given else given


def saved_elements(kept: Sequence[tuple[str, float]], modules: Sequence[str]) -> float:
    """Elements of a token that need not be kept.

    Args:
        kept: Elements by module.
        modules: The recomputed modules.
    """
    return ordered_sum(elements for module, elements in kept if module in modules)

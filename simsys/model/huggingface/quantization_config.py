"""The ``quantization_config``: storage of weights, activations and KV cache, and excluded layers.

Methods and keys are as in transformers 5.23 (utils/quantization_config.py), compressed-tensors and ModelOpt; their
interpretation is as in vLLM (model_executor/layers/quantization).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from simsys.model.fields import Fields
from simsys.model.huggingface.ignored_modules import Patterns
from simsys.model.model import Model
from simsys.model.precision import SCALE_GROUP, WEIGHT_BYTES
from simsys.model.quantization import INT8_ARITHMETIC, Quantization

HALF = "half"
BLOCK = [128, 128]
"""The only shape of blocks that ``fp8_block`` is measured for (DeepSeek-V3)."""
TRAINABLE = ("fp8", "fp8_block", "mxfp4")
IGNORED = ("modules_to_not_convert", "ignored_layers", "ignore", "exclude_modules", "modules_to_not_quantize")
KV_TYPES = {("float", 8): "fp8", ("int", 8): "int8"}
MODELOPT = {
    "FP8": ("fp8", ""),
    "FP8_PER_CHANNEL_PER_TOKEN": ("fp8", ""),
    "FP8_PB_WO": ("fp8_block", ""),
    "NVFP4": ("fp4", ""),
    "NVFP4_AWQ": ("fp4", ""),
    "W4A16_NVFP4": ("fp4", HALF),
    "W4A16_AWQ": ("int4", HALF),
    "INT4_AWQ": ("int4", HALF),
    "W8A16": ("int8", HALF),
    "INT8_SQ": ("int8", INT8_ARITHMETIC),
    "MXFP4": ("mxfp4", HALF),
}
"""Algorithms of ModelOpt: precision of weights, and compute precision."""
NAMES = {"awq": "AWQ", "gptq": "GPTQ", "auto-round": "AutoRound", "mxfp4": "MXFP4", "modelopt": "ModelOpt"}


def quantization_of(fields: Fields) -> tuple[Quantization, Patterns]:
    """The contents of a configuration, and excluded modules; for a method that is not modelled, the reason.

    Args:
        fields: The contents of ``quantization_config``.

    Raises:
        ConfigError: A value is of the wrong type.
    """
    method = fields.text("quant_method", "").lower() or _implied_method(fields)
    found = _READERS.get(method, _unknown)(fields, method)
    ignored = [pattern for key in IGNORED for pattern in fields.texts(key)]
    if "dynamic" in fields and isinstance(fields.values["dynamic"], Mapping):  # GPTQModel: "-:regex" leaves out
        rules = [str(rule) for rule in fields.values["dynamic"]]
        ignored += [f"re:{rule[2:]}" for rule in rules if rule.startswith("-:")]
        if any(not rule.startswith("-:") for rule in rules):
            found = _problem(method, "its modules have several precisions (dynamic)")
    kv = _cache(fields)
    return replace(found, kv=kv, trainable=found.weights in TRAINABLE), Patterns(ignored, _targets(fields))


def quantized(model: Model, quantization: Quantization, patterns: Patterns) -> Model:
    """The model with the storage of its weights; notes name operators that some layers keep in 16 bit.

    Args:
        model: The model.
        quantization: The storage, without excluded operators.
        patterns: The excluded modules.
    """
    kept, partly = patterns.unquantized(model)
    notes = [
        f"{name} is in 16 bit in {left} of {layers} layers, simulated as quantised"
        for name, (left, layers) in sorted(partly.items())
    ]
    return replace(model, quantization=replace(quantization, unquantized=kept), notes=(*model.notes, *notes))


def _implied_method(fields: Fields) -> str:
    """Files of older releases leave the method out."""
    if "quant_algo" in fields:
        return "modelopt"
    if fields.values.get("load_in_4bit") or fields.values.get("load_in_8bit"):
        return "bitsandbytes"
    fields.fail("quant_method", "missing: it says how weights are quantised")


def _integer_groups(fields: Fields, method: str) -> Quantization:
    """AWQ, GPTQ and AutoRound: integers, each group with a 16-bit scale, computed with in 16 bit."""
    bits = fields.integer("bits", fields.integer("w_bit", 4), minimum=1, maximum=32)
    group = _group_size(fields)
    return _integers(method, bits, group, head=fields.values.get("lm_head") is True)


def _group_size(fields: Fields) -> int:
    """Weights that share a scale; 0 for one scale a channel (-1 in the file)."""
    key = "group_size" if "group_size" in fields else "q_group_size"
    if fields.values.get(key) == -1:
        fields.used.add(key)
        return 0
    return fields.integer(key, SCALE_GROUP, maximum=1_000_000)


def _integers(method: str, bits: int, group: int, *, head: bool = False, compute: str = HALF) -> Quantization:
    groups = f"in groups of {group}" if group else "with a scale for each channel"
    text = f"{NAMES.get(method, method)}, {bits} bit {groups}"
    if bits not in (4, 8):
        return _problem(method, f"{bits} bits are not modelled; 4 and 8 are", text)
    nbytes = bits / 8 + (2.0 / group if group else 0.0)
    return Quantization(method, text, f"int{bits}", nbytes, compute, quantized_head=head)


def _fp8(fields: Fields, method: str) -> Quantization:
    """One scale for each tensor or channel, or for each block."""
    fields.text("activation_scheme", "dynamic")
    if "weight_block_size" not in fields:
        return _floats(method, "FP8 with a scale for each tensor or channel", "fp8")
    block = fields.integers("weight_block_size")
    if block != BLOCK:
        return _problem(method, f"blocks of {' x '.join(map(str, block))} are not modelled; 128 x 128 are", "FP8")
    return _floats(method, "FP8 with a scale for each block of 128 x 128", "fp8_block")


def _floats(method: str, text: str, weights: str, compute: str = "") -> Quantization:
    return Quantization(method, text, weights, WEIGHT_BYTES[weights], compute)


def _mxfp4(fields: Fields, method: str) -> Quantization:
    return _floats(method, "MXFP4, 4 bit with a scale for each 32", "mxfp4")


def _modelopt(fields: Fields, method: str) -> Quantization:
    algorithm = fields.text("quant_algo", "").upper() or "none"
    if algorithm not in MODELOPT:
        return _problem(method, f"ModelOpt's {algorithm} is not modelled; known: {', '.join(MODELOPT)}")
    weights, compute = MODELOPT[algorithm]
    if weights in ("int4", "int8"):
        return _integers(method, int(weights[3:]), _group_size(fields) if weights == "int4" else 0, compute=compute)
    return _floats(method, f"ModelOpt, {algorithm}", weights, compute)


def _compressed(fields: Fields, method: str) -> Quantization:
    """Groups of modules with a scheme each; one scheme for all is modelled."""
    sparsity = fields.child("sparsity_config") if "sparsity_config" in fields else None
    if sparsity is not None and sparsity.text("format", "dense") not in ("dense", ""):
        return _problem(method, "sparse weights (sparsity_config) are not modelled")
    if "config_groups" not in fields:
        return _problem(method, "it has no config_groups that say how weights are stored")
    groups = fields.child("config_groups")
    schemes = {_scheme(groups.child(name), method) for name in groups.values}
    if len(schemes) != 1:
        return _problem(method, f"its modules have {len(schemes)} precisions (config_groups); one is modelled")
    return schemes.pop()


def _scheme(group: Fields, method: str) -> Quantization:
    if "weights" not in group:
        return _problem(method, "a group of config_groups does not quantise weights")
    weights = group.child("weights")
    bits, kind = weights.integer("num_bits", 8, minimum=1, maximum=32), weights.text("type", "int")
    strategy = weights.text("strategy", "tensor")
    size = weights.integer("group_size", 0, maximum=1_000_000) if weights.values.get("group_size") != -1 else 0
    inputs = group.child("input_activations") if "input_activations" in group else None
    half = inputs is None
    if kind == "int":
        same = inputs is not None and (inputs.integer("num_bits", 8), inputs.text("type", "int")) == (8, "int")
        if not half and not (bits == 8 and same):
            return _problem(method, f"{bits}-bit integers with quantised activations are not modelled")
        return _integers(method, bits, size, compute=HALF if half else INT8_ARITHMETIC)
    if bits == 8 and strategy == "block":
        block = weights.integers("block_structure")
        if block not in ([], BLOCK):
            return _problem(method, f"blocks of {' x '.join(map(str, block))} are not modelled; 128 x 128 are")
        return _floats(method, "FP8 with a scale for each block of 128 x 128", "fp8_block")
    if bits == 8 and strategy in ("tensor", "channel"):
        return _floats(method, f"FP8 with a scale for each {strategy}", "fp8", HALF if half else "")
    if bits == 4 and size in (16, 32):
        name = "fp4" if size == 16 else "mxfp4"
        return _floats(method, f"{'NVFP4' if size == 16 else 'MXFP4'}, 4 bit", name, HALF if half else "")
    return _problem(method, f"{bits}-bit floats with a scale for each {strategy} are not modelled")


def _unknown(fields: Fields, method: str) -> Quantization:
    known = ", ".join(sorted(_READERS))
    return _problem(method, f"the method is not modelled; known: {known}")


def _problem(method: str, why: str, text: str = "") -> Quantization:
    return Quantization(method, text or method, problem=f"weights quantised by {method}: {why}")


def _cache(fields: Fields) -> str:
    """Default precision of the KV cache in engines (vLLM: ``resolve_kv_cache_dtype_string``)."""
    if isinstance(fields.values.get("kv_cache_scheme"), Mapping):
        scheme = fields.child("kv_cache_scheme")
        bits, kind = scheme.integer("num_bits", 8), scheme.text("type", "float")
        if (kind, bits) not in KV_TYPES:
            scheme.fail("num_bits", f"a KV cache in {bits}-bit {kind} is not modelled; 8 bit are")
        return KV_TYPES[kind, bits]
    name = fields.text("kv_cache_quant_algo", fields.text("kv_cache_quant_method", "")).lower()
    if name in ("", "none"):
        return ""
    if name not in KV_TYPES.values():
        fields.fail("kv_cache_quant_algo", f"a KV cache in {name} is not modelled; known: fp8, int8")
    return name


def _targets(fields: Fields) -> list[str]:
    """The modules that are quantised, of compressed-tensors; none for all linear layers."""
    if not isinstance(fields.values.get("config_groups"), Mapping):
        return []
    groups = fields.child("config_groups")
    targets = [target for name in groups.values for target in groups.child(name).texts("targets")]
    return [] if "Linear" in targets else targets


_READERS: Mapping[str, Callable[[Fields, str], Quantization]] = {
    "auto-round": _integer_groups,
    "awq": _integer_groups,
    "compressed-tensors": _compressed,
    "fbgemm_fp8": _fp8,
    "fp8": _fp8,
    "gptq": _integer_groups,
    "modelopt": _modelopt,
    "modelopt_fp4": _modelopt,
    "mxfp4": _mxfp4,
}

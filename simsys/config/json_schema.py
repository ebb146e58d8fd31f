"""The JSON schema of experiment files, for editors and other programs that check files.

It is made from `SimulationConfig`. It adds three things that pydantic does not know: the aliases of the first design,
a bare number as a fixed length, and files with defaults, in which defaults and scenario are complete only together.
"""

from __future__ import annotations

from typing import Any

from simsys.config.experiment import SimulationConfig

Schema = dict[str, Any]

PARTIAL = "Partial"
"""Prefix of the definitions in which nothing is required."""

_ROOT = "SimulationConfig"
_LENGTHS = (
    ("WorkloadConfig", "prompt_tokens"),
    ("WorkloadConfig", "output_tokens"),
    ("SessionsConfig", "turns"),
    ("SessionsConfig", "tool_result_tokens"),
    *(("BranchesConfig", key) for key in ("agents", "turns", "prompt_tokens")),
    ("ReasoningConfig", "tokens"),
    ("CancellationConfig", "after_tokens"),
    ("PrefixesConfig", "tokens"),
    ("ImagesConfig", "per_request"),
)
_TIMES = (("SessionsConfig", "think_time"), ("TraceConfig", "think_time"), ("CancellationConfig", "after"))
_COUNT = {"type": "integer", "minimum": 1}
_POSITIVE = {"type": "number", "exclusiveMinimum": 0}
_ALIASES: dict[str, dict[str, Schema]] = {
    "HardwareConfig": {
        "gpu_model": {"type": "string", "description": "Alias of gpu"},
        "num_gpus_per_node": {**_COUNT, "description": "Alias of gpus_per_node"},
        "compute_tflops": {**_POSITIVE, "description": "Peak of the GPU in fp16 and bf16, in TFLOP/s"},
        "memory_gb": {**_POSITIVE, "description": "Memory of the GPU, in GB"},
        "network_bandwidth_gbps": {**_POSITIVE, "description": "Alias of network_bandwidth, in GB/s (bytes)"},
    },
    "NetworkConfig": {
        "base_latency_us": {"type": "number", "minimum": 0, "description": "Alias of base_latency, in us"},
    },
    "TrainingConfig": {"num_nodes": {**_COUNT, "description": "Alias of hardware.num_nodes"}},
}


def _needs(*keys: str, without: tuple[str, ...] = ()) -> Schema:
    """Schema that requires `keys` with values other than null, and refuses values of the keys in `without`."""
    needed = {key: {"not": {"type": "null"}} for key in keys}
    return {"required": list(keys), "properties": {**needed, **{key: {"type": "null"} for key in without}}}


_ONE_OF_KEYS = ("profile", "gpu", "gpu_model", "nodes")
_CONDITIONS: dict[str, Schema] = {
    "HardwareConfig": {"anyOf": [_needs(key) for key in _ONE_OF_KEYS]},
    _ROOT: {
        "anyOf": [
            _needs("training", without=("serving", "workload", "slo")),
            _needs("serving", "workload", without=("training",)),
        ]
    },
}


def experiment_schema() -> Schema:
    """The schema of a file with one scenario, or with ``defaults`` and ``scenarios``."""
    whole = SimulationConfig.model_json_schema()
    definitions: dict[str, Schema] = {_ROOT: whole, **whole.pop("$defs")}
    for definition in definitions.values():
        _tidy(definition)
    for name, key in _LENGTHS:
        _accept_bare(definitions[name], key, {**_COUNT, "maximum": 1_000_000_000, "description": "A fixed number"})
    for name, key in _TIMES:
        _accept_bare(definitions[name], key, {"type": "string", "description": "A fixed time with its unit"})
    for name, aliases in _ALIASES.items():
        definitions[name]["properties"].update(aliases)
    _let_a_trace_suffice(definitions["WorkloadConfig"])
    training = definitions["TrainingConfig"]
    training["anyOf"] = [{"required": training.pop("required")}, _needs("global_batch_size")]
    partial = {PARTIAL + name: _relaxed(definition) for name, definition in definitions.items()}
    for name, condition in _CONDITIONS.items():
        definitions[name].update(condition)
    return {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": "simsys experiment",
        "description": "One scenario, or a list of scenarios with the defaults that they share.",
        "if": {"required": ["defaults"]},
        "then": _file({"allOf": [_ref(PARTIAL + _ROOT), {"required": ["name"]}]}),
        "else": {
            "if": {"required": ["scenarios"]},
            "then": _file({"allOf": [_ref(_ROOT), {"required": ["name"]}]}),
            "else": _ref(_ROOT),
        },
        "$defs": {**definitions, **partial},
    }


def _ref(name: str) -> Schema:
    return {"$ref": f"#/$defs/{name}"}


def _file(scenario: Schema) -> Schema:
    """A file with several scenarios."""
    return {
        "type": "object",
        "properties": {
            "defaults": _ref(PARTIAL + _ROOT),
            "scenarios": {"type": "array", "minItems": 1, "items": scenario},
        },
        "required": ["scenarios"],
        "additionalProperties": False,
    }


def _tidy(definition: Schema) -> None:
    """Drop titles that only repeat a name, and require the ``kind`` that distinguishes the parts of a union."""
    definition.pop("title", None)
    for key, value in definition.get("properties", {}).items():
        value.pop("title", None)
        value.pop("discriminator", None)
        if key == "kind" and "const" in value:
            value.pop("default", None)
            value.setdefault("description", "Selects this kind")
            definition["required"] = ["kind", *definition.get("required", [])]


def _accept_bare(definition: Schema, key: str, bare: Schema) -> None:
    """Allow a plain value in place of a constant distribution."""
    union = definition["properties"][key]
    parts = union.pop("oneOf", None) or [part for each in union.pop("anyOf") for part in each.get("oneOf", [each])]
    definition["properties"][key] = {"anyOf": [bare, *parts], **union}


def _let_a_trace_suffice(workload: Schema) -> None:
    """Require arrivals and lengths only without a trace, and allow a path in place of a trace."""
    workload["anyOf"] = [{"required": workload.pop("required")}, _needs("trace")]
    workload["properties"]["trace"]["anyOf"].insert(0, {"type": "string", "minLength": 1, "description": "Its path"})


def _relaxed(schema: Any) -> Any:
    """A copy in which no key is required, so that it fits a part of a scenario."""
    if isinstance(schema, list):
        return [_relaxed(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    relaxed = {}
    for key, value in schema.items():
        if key == "$ref":
            relaxed[key] = value.replace("#/$defs/", f"#/$defs/{PARTIAL}")
        elif key == "oneOf":  # without its kind, a part may fit several kinds
            relaxed["anyOf"] = _relaxed(value)
        elif key != "required" or not isinstance(value, list):
            relaxed[key] = _relaxed(value)
    return relaxed

"""The experiment file: one scenario as the user describes it, in units and names of the field.

The keys of the first design documents (``gpu_model``, ``compute_tflops``, ``memory_gb``,
``network_bandwidth_gbps`` in GB/s, ``base_latency_us``, ``training.num_nodes`` …) are accepted as aliases;
they are the only places where a bare number may stand for a quantity.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, Field, NonNegativeInt, PositiveInt, PrivateAttr, WithJsonSchema, model_validator
from pydantic_core import PydanticCustomError

from simsys.config.base import FrozenModel
from simsys.config.workload import WorkloadConfig
from simsys.errors import did_you_mean
from simsys.units import BytesPerSecond, Fraction, NonNegativeSeconds, Seconds

TopologyType = Literal["switch", "full_mesh", "ring", "tree", "torus_2d"]
TrainingPrecision = Literal["fp32", "tf32", "fp16", "bf16", "fp8"]
ServingPrecision = Literal["fp32", "fp16", "bf16", "fp8"]
CommunicationPattern = Annotated[str, Field(min_length=1)]
"""``auto``, a collective algorithm by name, or one of the user's own as ``package.module:Class``."""


def _problem(message: str) -> PydanticCustomError:
    return PydanticCustomError("scenario", "{message}", {"message": message})


def _take(data: dict[str, Any], alias: str, key: str) -> Any:
    """Remove and return an alias' value; refuse it beside the key that it stands for."""
    value = data.pop(alias)
    if data.get(key) is not None:
        raise _problem(f"{alias} is another name of {key}; give one of them")
    return value


def _quantity(value: Any, unit: str) -> str:
    """A bare number of an alias with the unit that the alias implies."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise _problem(f"a number is expected here (in {unit}), not {value!r}")
    return f"{value} {unit}"


class HardwareConfig(FrozenModel):
    """The cluster: a node profile, or a GPU and how many of them a node has.

    Aliases: ``gpu_model`` for ``gpu``, ``num_gpus_per_node`` for ``gpus_per_node``, ``compute_tflops`` (peak in
    TFLOP/s at 16 bit), ``memory_gb``, ``network_bandwidth_gbps`` (GB/s) for ``network_bandwidth``.
    """

    profile: str | None = None
    gpu: str | dict[str, Any] | None = None
    num_nodes: PositiveInt = 1
    gpus_per_node: PositiveInt | None = None
    fabric: str | None = None
    network_bandwidth: BytesPerSecond | None = None

    @model_validator(mode="before")
    @classmethod
    def _aliases(cls, data: Any) -> Any:
        if not isinstance(data, dict):
            return data
        data = dict(data)
        for alias, key in (("gpu_model", "gpu"), ("num_gpus_per_node", "gpus_per_node")):
            if alias in data:
                data[key] = _take(data, alias, key)
        if "network_bandwidth_gbps" in data:
            value = _take(data, "network_bandwidth_gbps", "network_bandwidth")
            data["network_bandwidth"] = _quantity(value, "GB/s")
        changes: dict[str, Any] = {}
        if "compute_tflops" in data:
            peak = {"dense": _quantity(data.pop("compute_tflops"), "TFLOP/s"), "sparse": None}
            changes["peak"] = {"fp16": peak, "bf16": peak}
        if "memory_gb" in data:
            changes["memory"] = _quantity(data.pop("memory_gb"), "GB")
        if changes:
            base = data.get("gpu")
            if not isinstance(base, str):
                raise _problem("compute_tflops and memory_gb change a named GPU; add gpu_model, e.g. gpu_model: H100")
            data["gpu"] = {"extends": base, **changes}
        return data

    @model_validator(mode="after")
    def _one_description(self) -> Self:
        if self.profile is None and self.gpu is None:
            raise _problem("name a node profile (profile: dgx-h100) or a GPU (gpu: H100-SXM)")
        return self


class NetworkConfig(FrozenModel):
    """How the nodes (or, in nodes of one GPU, the GPUs) are joined. Alias: ``base_latency_us``."""

    topology_type: TopologyType = "switch"
    base_latency: NonNegativeSeconds | None = None
    link_bandwidth: BytesPerSecond | None = None

    @model_validator(mode="before")
    @classmethod
    def _aliases(cls, data: Any) -> Any:
        if isinstance(data, dict) and "base_latency_us" in data:
            data = dict(data)
            data["base_latency"] = _quantity(_take(data, "base_latency_us", "base_latency"), "us")
        return data


class ModelConfig(FrozenModel):
    """The model: a name of the model DB, a Hugging Face ``config.json``, an architecture, or layers.

    Exactly one of ``name``, ``huggingface``, ``layers`` and ``model_type`` with its sizes.
    """

    name: str | None = None
    huggingface: str | None = None
    model_type: str | None = None
    num_layers: PositiveInt | None = None
    hidden_size: PositiveInt | None = None
    num_attention_heads: PositiveInt | None = None
    num_key_value_heads: PositiveInt | None = None
    intermediate_size: PositiveInt | None = None
    vocab_size: PositiveInt | None = None
    sequence_length: PositiveInt | None = None
    layers: list[dict[str, Any]] | None = None

    @model_validator(mode="after")
    def _one_source(self) -> Self:
        given = [key for key in ("name", "huggingface", "model_type", "layers") if getattr(self, key) is not None]
        if self.layers is not None and given in (["name", "layers"], ["model_type", "layers"]):
            given = ["layers"]
        if len(given) != 1:
            found = f"not {' and '.join(given)}" if given else "but none is"
            raise _problem(f"exactly one of name, huggingface, model_type and layers is to be given, {found}")
        if self.layers is not None and not self.layers:
            raise _problem("a model needs at least one layer")
        return self


def _strategy(value: str) -> str:
    """Refuse what is no combination of known kinds, at most one of them for data parallelism."""
    if value == "None":
        return value
    parts = value.split("_")
    unknown = [part for part in parts if part not in STRATEGY_PARTS]
    if unknown:
        known = ["None", *STRATEGY_PARTS, "TP_PP", "TP_PP_DDP"]
        raise _problem(
            f"unknown strategy {value!r}{did_you_mean(value, known)}; parts are joined by '_', as in TP_PP_DDP"
        )
    data = [part for part in parts if part in DATA_STRATEGIES]
    if len(data) > 1 or len(set(parts)) < len(parts):
        raise _problem(f"strategy {value!r} names more than one kind of data parallelism, or one kind twice")
    return value


DATA_STRATEGIES = ("DDP", "ZERO1", "ZERO2", "FSDP", "HSDP")
RankOrder = Literal["tp-dp-pp", "tp-pp-dp", "dp-tp-pp", "dp-pp-tp", "pp-tp-dp", "pp-dp-tp"]
STRATEGY_PARTS = ("TP", "PP", *DATA_STRATEGIES)
_KIND = f"({'|'.join(STRATEGY_PARTS)})"
Strategy = Annotated[
    str, AfterValidator(_strategy), WithJsonSchema({"type": "string", "pattern": f"^(None|{_KIND}(_{_KIND})*)$"})
]


class ParallelismConfig(FrozenModel):
    """Which parallelism, and how much of each kind; ``dp_degree`` is what the GPUs leave if it is not given.

    `strategy` joins kinds by underscores: ``TP``, ``PP`` and one of ``DDP``, ``ZERO1``, ``ZERO2``, ``FSDP``, ``HSDP``.
    `order` says which ranks are neighbours, the fastest varying axis first, as in Megatron-LM.
    `schedule` is a pipeline schedule: ``1f1b``, ``gpipe``, ``interleaved``, ``zero_bubble``, or your own.
    `sequence_parallel` divides by tokens what tensor parallelism leaves whole: norms and dropout.
    """

    strategy: Strategy | None = None
    tp_degree: PositiveInt = 1
    sequence_parallel: bool = False
    pp_stages: PositiveInt = 1
    dp_degree: PositiveInt | None = None
    virtual_stages: PositiveInt = 1
    schedule: str = "1f1b"
    stage_layers: list[PositiveInt] | None = None
    order: RankOrder = "tp-dp-pp"

    @property
    def parts(self) -> frozenset[str]:
        """The kinds of parallelism that the strategy names."""
        named = frozenset((self.strategy or "").split("_"))
        return named - {"", "None"}


class TrainingConfig(FrozenModel):
    """A training job. Alias: ``num_nodes``, which belongs to ``hardware``.

    `activation_recompute` says what the backward pass computes again instead of having kept it: ``selective`` the
    attention core, ``full`` each block. `attention` is ``fused`` (flash) or not.
    """

    batch_size_per_gpu: PositiveInt
    num_iterations: PositiveInt = 10
    gradient_accumulation_steps: PositiveInt = 1
    mixed_precision: bool = True
    precision: TrainingPrecision | None = None
    optimizer: Literal["adam", "sgd"] = "adam"
    activation_recompute: Literal["none", "selective", "full"] = "none"
    attention: Literal["fused", "unfused"] = "fused"
    communication_pattern: CommunicationPattern = "auto"
    engine: str = "pytorch"
    data_parallel: str | None = None
    options: dict[str, Any] = Field(default_factory=dict)
    num_nodes: PositiveInt | None = None

    @model_validator(mode="after")
    def _precision_fits(self) -> Self:
        if self.precision in ("fp16", "bf16", "fp8") and not self.mixed_precision:
            raise _problem(f"precision {self.precision} is mixed precision; drop mixed_precision: false")
        return self


class ServingConfig(FrozenModel):
    """An inference engine and its settings, named as in vLLM."""

    engine: str = "vllm"
    scheduler: str = "chunked_prefill"
    max_num_seqs: PositiveInt = 256
    max_num_batched_tokens: PositiveInt = 2048
    max_model_len: PositiveInt | None = None
    block_size: PositiveInt = 16
    gpu_memory_utilization: Fraction | None = None
    precision: ServingPrecision = "bf16"
    kv_precision: ServingPrecision | None = None
    communication_pattern: CommunicationPattern = "auto"
    prefill: str = "llm_prefill"
    decode: str = "llm_decode"
    options: dict[str, Any] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _budget_holds_the_batch(self) -> Self:
        if self.max_num_batched_tokens < self.max_num_seqs:
            raise _problem(
                f"max_num_batched_tokens ({self.max_num_batched_tokens}) must be at least max_num_seqs "
                f"({self.max_num_seqs}), since every decoding sequence takes one token of a step"
            )
        return self


class SloConfig(FrozenModel):
    """Latency targets; a request counts towards goodput if it meets all of them."""

    ttft: Seconds | None = None
    tpot: Seconds | None = None
    e2el: Seconds | None = None


class SimulationSettings(FrozenModel):
    """How the scenario is simulated."""

    lod: Literal["high", "medium"] = "medium"
    seed: NonNegativeInt = 42
    collect_events: bool = False


class SimulationConfig(FrozenModel):
    """One scenario. Give ``training``, or ``serving`` with a ``workload``."""

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$", max_length=100)] = "experiment"
    description: str = ""
    hardware: HardwareConfig
    network: NetworkConfig = NetworkConfig()
    model: ModelConfig
    parallelism: ParallelismConfig = ParallelismConfig()
    training: TrainingConfig | None = None
    serving: ServingConfig | None = None
    workload: WorkloadConfig | None = None
    slo: SloConfig | None = None
    simulation: SimulationSettings = SimulationSettings()
    _folder: Path = PrivateAttr(default_factory=Path)

    @model_validator(mode="before")
    @classmethod
    def _aliases(cls, data: Any) -> Any:
        """Move ``training.num_nodes`` to the hardware, where it belongs."""
        if not isinstance(data, dict) or not isinstance(data.get("training"), dict | TrainingConfig):
            return data
        training, hardware = data["training"], data.get("hardware")
        given = training if isinstance(training, dict) else training.model_dump(exclude_unset=True)
        if given.get("num_nodes") is None:
            return data
        num_nodes = given["num_nodes"]
        fields = dict(hardware) if isinstance(hardware, dict) else hardware
        if isinstance(fields, HardwareConfig):
            fields = fields.model_copy(update={"num_nodes": num_nodes})
        elif isinstance(fields, dict):
            if fields.get("num_nodes", num_nodes) != num_nodes:
                raise _problem(
                    f"training.num_nodes ({num_nodes}) and hardware.num_nodes ({fields['num_nodes']}) differ"
                )
            fields["num_nodes"] = num_nodes
        rest = {key: value for key, value in given.items() if key != "num_nodes"}
        return {**data, "hardware": fields, "training": rest}

    @model_validator(mode="after")
    def _one_workload(self) -> Self:
        if (self.training is None) == (self.serving is None):
            raise _problem("a scenario has either training or serving")
        if self.serving is not None and self.workload is None:
            raise _problem("serving needs a workload: arrivals, prompt_tokens, output_tokens and num_requests")
        if self.training is not None and (self.workload is not None or self.slo is not None):
            raise _problem("workload and slo belong to serving, not to training")
        return self

    @property
    def folder(self) -> Path:
        """The folder that relative paths in the scenario start from: that of the experiment file."""
        return self._folder

    @property
    def kind(self) -> Literal["training", "serving"]:
        """What is simulated."""
        return "training" if self.training is not None else "serving"

    def located_in(self, folder: Path) -> Self:
        """This scenario, with relative paths starting from `folder`."""
        self._folder = folder
        return self

    @classmethod
    def from_yaml(cls, path: str | Path, scenario: str | None = None) -> SimulationConfig:
        """Read a scenario from a file.

        Args:
            path: The experiment file.
            scenario: Which of its scenarios; may be left out if there is only one.

        Raises:
            ConfigError: With all problems of the file.
            UsageError: If the file has several scenarios and none is named.
        """
        from simsys.config.scenarios import only, read_scenarios

        return only(read_scenarios(Path(path), names=() if scenario is None else (scenario,)))

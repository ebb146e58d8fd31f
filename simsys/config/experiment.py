"""The experiment file: one scenario as the user describes it, in units and names of the field.

The keys of the first design documents (``gpu_model``, ``compute_tflops``, ``memory_gb``,
``network_bandwidth_gbps`` in GB/s, ``base_latency_us``, ``training.num_nodes`` …) are accepted as aliases;
they are the only places where a bare number may stand for a quantity.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import Field, NonNegativeInt, PositiveInt, PrivateAttr, model_validator

from simsys.config.base import CommunicationPattern, FrozenModel, invalid
from simsys.config.cluster import HardwareConfig, NetworkConfig
from simsys.config.parallelism import ParallelismConfig
from simsys.config.training import TrainingConfig
from simsys.config.workload import WorkloadConfig
from simsys.units import Fraction, Seconds

ServingPrecision = Literal["fp32", "fp16", "bf16", "fp8"]


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
    decoder_sequence_length: PositiveInt | None = None
    layers: list[dict[str, Any]] | None = None

    @model_validator(mode="after")
    def _one_source(self) -> Self:
        given = [key for key in ("name", "huggingface", "model_type", "layers") if getattr(self, key) is not None]
        if self.layers is not None and given in (["name", "layers"], ["model_type", "layers"]):
            given = ["layers"]
        if len(given) != 1:
            found = f"not {' and '.join(given)}" if given else "but none is"
            raise invalid(f"exactly one of name, huggingface, model_type and layers is to be given, {found}")
        if self.layers is not None and not self.layers:
            raise invalid("a model needs at least one layer")
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
            raise invalid(
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
    """How the scenario is simulated, and what is written of it.

    With `save_detailed`, the times of every request and token of a serving run, as ``vllm bench serve`` calls it.
    """

    lod: Literal["high", "medium"] = "medium"
    seed: NonNegativeInt = 42
    collect_events: bool = False
    save_detailed: bool = False


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
                raise invalid(
                    f"training.num_nodes ({num_nodes}) and hardware.num_nodes ({fields['num_nodes']}) differ"
                )
            fields["num_nodes"] = num_nodes
        rest = {key: value for key, value in given.items() if key != "num_nodes"}
        return {**data, "hardware": fields, "training": rest}

    @model_validator(mode="after")
    def _one_workload(self) -> Self:
        if (self.training is None) == (self.serving is None):
            raise invalid("a scenario has either training or serving")
        if self.serving is not None and self.workload is None:
            raise invalid("serving needs a workload: arrivals, prompt_tokens, output_tokens and num_requests")
        if self.training is not None and (self.workload is not None or self.slo is not None):
            raise invalid("workload and slo belong to serving, not to training")
        if self.training is not None and self.simulation.save_detailed:
            raise invalid("simulation.save_detailed is about requests and belongs to serving, not to training")
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

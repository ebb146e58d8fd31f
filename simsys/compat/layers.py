"""Models of layers that a program writes one by one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any, ClassVar

from simsys.config.model import ModelConfig
from simsys.model.custom import build_custom
from simsys.model.model import Model


class LayerType(StrEnum):
    """The kind of a layer; kinds without a kernel of their own count as matrix products or memory traffic."""

    CONV2D = "conv2d"
    LINEAR = "linear"
    DENSE = "dense"
    MEMORY = "memory"


@dataclass(frozen=True, kw_only=True)
class LayerConfig:
    """One layer; all amounts are per sample, memory in MB of 10^6 bytes.

    The fields are those of ``model.layers`` in an experiment file; see `simsys.model.custom.layer_from_mapping`.
    """

    layer_id: int
    layer_type: LayerType = LayerType.LINEAR
    input_shape: tuple[int, ...] | None = None
    output_shape: tuple[int, ...] | None = None
    num_parameters: float | None = None
    forward_flops: float = 0.0
    backward_flops: float | None = None
    activation_memory_mb: float = 0.0
    gradient_memory_mb: float | None = None

    def settings(self) -> dict[str, Any]:
        """The layer as an entry of ``model.layers``."""
        return {name: _plain(value) for name, value in asdict(self).items() if value is not None}


class ModelArchitecture:
    """A model, layer by layer.

    A static method ``create_my_model`` of this class or of a subclass makes ``model_type: my_model`` known to
    `simsys.compat.SimulationConfig`.

    Args:
        name: Its name.
    """

    kinds: ClassVar[list[type[ModelArchitecture]]] = []
    """This class and its subclasses, the latest first."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.layers: list[LayerConfig] = []

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        ModelArchitecture.kinds.insert(0, cls)

    def add_layer(self, layer: LayerConfig) -> None:
        """Add a layer behind the others."""
        self.layers.append(layer)

    def settings(self) -> dict[str, Any]:
        """The model as the section ``model`` of an experiment file."""
        return {"name": self.name, "layers": [layer.settings() for layer in self.layers]}

    def config(self) -> ModelConfig:
        """The model as the section ``model`` of a scenario."""
        return ModelConfig.model_validate(self.settings())

    def model(self) -> Model:
        """The model of simsys: parameters, operators and memory.

        Raises:
            UsageError: If there is no layer, or a layer is wrong.
        """
        return build_custom(self.name, [layer.settings() for layer in self.layers])


ModelArchitecture.kinds.append(ModelArchitecture)


def model_settings(model_type: Any) -> dict[str, Any] | None:
    """The section ``model`` of an architecture that a program has defined; None if there is no such architecture."""
    create = next(_creators(f"create_{model_type}"), None)
    return None if create is None else create().settings()


def _creators(name: str) -> Iterator[Any]:
    return (getattr(cls, name) for cls in ModelArchitecture.kinds if hasattr(cls, name))


def _plain(value: Any) -> Any:
    if isinstance(value, LayerType):
        return value.value
    return list(value) if isinstance(value, tuple) else value

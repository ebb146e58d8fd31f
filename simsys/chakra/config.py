"""The schema of a file that replays Chakra traces on a cluster."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, PositiveInt, PrivateAttr, model_validator

from simsys.config.base import CommunicationPattern, FrozenModel, invalid_at
from simsys.config.changes import Changeable
from simsys.config.cluster import HardwareConfig
from simsys.config.experiment import Name
from simsys.config.loader import read_sources, validate_all
from simsys.config.network import NetworkConfig


class ChakraConfig(FrozenModel):
    """The traces, and how long their computations last.

    `traces` is what the names of all files begin with: ``runs/gpt2`` stands for ``runs/gpt2.0.et``, ``runs/gpt2.1.et``
    …, one per rank, also compressed by gzip. `groups` is a JSON file with the ranks of each process group, as
    for ASTRA-sim.

    With ``compute: recorded``, computations on GPUs last as long as in the traces. With ``compute: scaled``, this is
    multiplied by the ratio of the roofline times of this GPU and of the GPU of the traces, `recorded_on`, in `dtype`.
    """

    other_names: ClassVar[Mapping[str, str]] = {"prefix": "traces", "path": "traces", "comm_groups": "groups"}

    traces: Annotated[str, Field(min_length=1)] = Field(description="What the names of all files begin with")
    groups: Annotated[str, Field(min_length=1)] | None = Field(
        default=None, description="File with process groups; by default <traces>.comm_groups.json if it exists"
    )
    dependencies: Literal["data", "all"] = Field(
        default="data", description="Dependencies to follow: data, as feeders of Chakra do, or control, too"
    )
    iterations: PositiveInt = Field(default=1, description="How often the traces are replayed, one after another")
    compute: Literal["recorded", "scaled"] = Field(
        default="recorded", description="Times of computations on GPUs: as recorded, or scaled to this GPU"
    )
    recorded_on: str | None = Field(
        default=None, description="GPU profile of the recorded run, for compute: scaled; by default from the traces"
    )
    dtype: str | None = Field(
        default=None, description="Compute dtype of the recorded run, for compute: scaled; by default from the traces"
    )
    communication_pattern: CommunicationPattern | None = Field(
        default=None, description="Algorithm of collectives; by default from the traces, or auto"
    )

    @model_validator(mode="after")
    def _belongs_to_scaling(self) -> Self:
        for name in ("recorded_on", "dtype"):
            if getattr(self, name) is not None and self.compute != "scaled":
                raise invalid_at((name,), f"{name} belongs to compute: scaled", getattr(self, name))
        return self


class ReplayConfig(Changeable):
    """Chakra traces on a cluster: `hardware` and `network` are those of an experiment file.

    Every rank is a process, and collectives are steps on links that all transfers share, as at ``lod: high``.
    """

    name: Name = Field(default="replay", description="Name of the replay, and of the folder of its results")
    description: str = Field(default="", description="Free text")
    hardware: HardwareConfig = Field(description="GPUs, nodes and network cards")
    network: NetworkConfig = Field(default=NetworkConfig(), description="Network between nodes")
    chakra: ChakraConfig = Field(description="Traces and times of computations")
    _folder: Path = PrivateAttr(default_factory=Path)

    @model_validator(mode="after")
    def _speeds_are_recorded(self) -> Self:
        for name in ("jitter", "slowdowns"):
            if getattr(self.hardware, name):
                message = "times of computations come from the traces; leave it out"
                raise invalid_at(("hardware", name), message, getattr(self.hardware, name))
        return self

    @property
    def folder(self) -> Path:
        """The folder from which relative paths start."""
        return self._folder

    def located_in(self, folder: Path) -> Self:
        """This replay with relative paths that start from `folder`."""
        self._folder = folder
        return self


def read_replays(path: Path, assignments: Sequence[str] = (), names: Sequence[str] = ()) -> list[ReplayConfig]:
    """Read the replays of a file, which has one, or ``defaults`` and ``scenarios`` as an experiment file.

    Args:
        path: The file.
        assignments: Settings from the command line, such as ``"chakra.compute=scaled"``.
        names: Names of the replays; all if empty.

    Raises:
        ConfigError: With all problems of the file.
        UsageError: If an assignment is malformed, or there is no replay of such a name.
    """
    found = validate_all(read_sources(path, assignments, names), ReplayConfig)
    return [each.located_in(path.resolve().parent) for each in found]

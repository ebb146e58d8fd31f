"""The schema of an engine's defaults for settings that its user leaves out, by release, GPU and model."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, Generic, Self, TypeVar

from pydantic import BeforeValidator, Field, model_validator

from simsys.config.base import FrozenModel, invalid
from simsys.config.hardware_schema import Count
from simsys.units import Bytes, Fraction

T = TypeVar("T")
Release = Annotated[str, Field(pattern=r"^\d{1,4}(\.\d{1,4}){0,3}$")]
"""A release by its numbers, such as ``0.11`` or ``1.2.0``; in quotes, because YAML reads 0.20 as 0.2."""


def release_key(release: str) -> tuple[int, ...]:
    """Sort key of a release.

    Example:
        >>> release_key("0.9.2") < release_key("0.11")
        True
    """
    return tuple(map(int, release.split(".")))


NameParts = Annotated[tuple[Annotated[str, Field(min_length=1)], ...], Field(min_length=1)]
"""Parts of names: they match a name that contains one of them, in upper or lower case."""


class Case(FrozenModel, Generic[T]):
    """One value of a default, with its conditions: it applies where all given conditions hold.

    Args:
        value: The value.
        since: The first release that has it.
        min_memory: The least memory of a GPU.
        only_gpus: Parts of names of the only GPUs to which it applies.
        except_gpus: Parts of names of GPUs to which it does not apply.
        context_above: Tokens that the longest context has to exceed.
        or_context: Whether the larger of the value and the longest context is used.
    """

    value: T
    since: Release | None = None
    min_memory: Bytes | None = None
    only_gpus: NameParts | None = None
    except_gpus: NameParts | None = None
    context_above: Count | None = None
    or_context: bool = False

    def holds(self, release: str, gpu: str, memory_bytes: float, context_tokens: int) -> bool:
        """Whether the value applies.

        Args:
            release: The engine's release.
            gpu: The GPU's name.
            memory_bytes: The GPU's memory.
            context_tokens: The longest context; 0 if there is no limit.
        """
        return not (
            (self.since is not None and release_key(release) < release_key(self.since))
            or (self.min_memory is not None and memory_bytes < self.min_memory)
            or (self.only_gpus is not None and not _named(gpu, self.only_gpus))
            or (self.except_gpus is not None and _named(gpu, self.except_gpus))
            or (self.context_above is not None and context_tokens <= self.context_above)
        )

    @property
    def conditions(self) -> str:
        """Its conditions as text for people; empty if it always applies."""
        return ", ".join(self._conditions())

    def _conditions(self) -> Iterator[str]:
        if self.since is not None:
            yield f"from {self.since} on"
        if self.only_gpus is not None:
            yield f"GPUs {', '.join(self.only_gpus)}"
        if self.min_memory is not None:
            but = f" but {', '.join(self.except_gpus)}" if self.except_gpus else ""
            yield f"GPUs of {self.min_memory / 2**30:.4g} GiB or more{but}"
        elif self.except_gpus:
            yield f"GPUs but {', '.join(self.except_gpus)}"
        if self.context_above is not None:
            yield f"contexts above {self.context_above} tokens"


def _named(gpu: str, parts: tuple[str, ...]) -> bool:
    return any(part.casefold() in gpu.casefold() for part in parts)


def _cases(given: Any) -> Any:
    """A plain value always applies."""
    return given if isinstance(given, list | tuple) else [{"value": given}]


_FEW, _PLAIN = Field(min_length=1), BeforeValidator(_cases)
Counts = Annotated[tuple[Case[Count], ...], _FEW, _PLAIN]
"""Values of a default: the first one with conditions that hold applies. A single value always applies."""
Fractions = Annotated[tuple[Case[Fraction], ...], _FEW, _PLAIN]
Names = Annotated[tuple[Case[str], ...], _FEW, _PLAIN]
Switches = Annotated[tuple[Case[bool], ...], _FEW, _PLAIN]
OFF: Switches = (Case[bool](value=False),)
"""A switch that is off unless the engine says otherwise."""


class ServingDefaults(FrozenModel):
    """Values that a server uses for settings its user leaves out; settings as in `ServingConfig`.

    Args:
        release: The release for scenarios that name none.
        since: The first release that this profile describes; left out, any.
        before: The first release that it no longer describes; left out, none.
        scheduler: How requests are scheduled.
        max_num_seqs: Sequences of a step.
        max_num_batched_tokens: Tokens of a step.
        block_size: Tokens of a block of the KV cache.
        prefix_caching: Whether prompts with equal beginnings share blocks; left out, they do not.
        scheduler_reserve_full_isl: Whether a prompt is admitted only if all its blocks are free; left out, it is not.
        async_scheduling: Whether the host prepares a step during the one before; left out, as in `EngineProfile`.
        gpu_memory_utilization: Share of device memory that is used; left out, as in `EngineProfile`.
        free_gpu_memory_fraction: Share of the remaining free memory that the KV cache is allocated.
    """

    release: Release
    since: Release | None = None
    before: Release | None = None
    scheduler: Names
    max_num_seqs: Counts
    max_num_batched_tokens: Counts
    block_size: Counts
    prefix_caching: Switches = OFF
    scheduler_reserve_full_isl: Switches = OFF
    async_scheduling: Switches | None = None
    gpu_memory_utilization: Fractions | None = None
    free_gpu_memory_fraction: Fractions | None = None

    @model_validator(mode="after")
    def _always_has_a_value(self) -> Self:
        for name in type(self).model_fields:
            cases = getattr(self, name)
            if isinstance(cases, tuple) and cases[-1].conditions:
                raise invalid(f"the last value of {name} needs to count always, without conditions")
        return self

    def describes(self, release: str) -> bool:
        """Whether the profile is of this release."""
        key = release_key(release)
        early = self.since is not None and key < release_key(self.since)
        return not early and (self.before is None or key < release_key(self.before))

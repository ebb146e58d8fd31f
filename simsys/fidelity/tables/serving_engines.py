"""Engines of tables of serving runs, and how benchmarks set them up (``measured/serving_engines.yaml``)."""

from __future__ import annotations

import re
from typing import ClassVar, Self

from pydantic import PositiveInt, model_validator

from simsys.build.resolved_serving import ASSUMED
from simsys.config.base import FrozenModel, invalid
from simsys.config.engine_defaults import ServingDefaults
from simsys.config.hardware import load_engine
from simsys.fidelity.case import Unsupported
from simsys.fidelity.tables.facts import Facts, Pattern, facts
from simsys.framework import FRAMEWORKS, Scheduler


class EngineSetup(FrozenModel):
    """An engine as benchmarks run it: as it is by default, except for what is said here.

    Args:
        profile: The engine profile.
        scheduler: The policy nearest to the engine's own.
        step_tokens: Largest number of tokens of a step.
        cache_as_weights: Whether weights in 8 bit or less come with a KV cache in fp8; otherwise it is in 16 bit.
        tensor_parallel: Whether several GPUs share each layer; otherwise how they share the model is not modelled.
        beyond_context: Whether the engine answers beyond the longest sequence of the model.
    """

    profile: str
    scheduler: str | None = None
    step_tokens: PositiveInt | None = None
    cache_as_weights: bool = False
    tensor_parallel: bool = True
    beyond_context: bool = False

    @property
    def least_step_tokens(self) -> int:
        """Largest number of tokens of a step; on the smallest GPUs if it depends on the GPU."""
        if self.step_tokens is not None:
            return self.step_tokens
        return min(case.value for case in self._defaults.max_num_batched_tokens)

    @property
    def cuts_prompts(self) -> bool:
        """Whether a prompt may be spread over steps."""
        name = self.scheduler or self._defaults.scheduler[-1].value
        return FRAMEWORKS.get(name, Scheduler).cuts_prompts

    @property
    def _defaults(self) -> ServingDefaults:
        return load_engine(self.profile).defaults or ASSUMED


class OlderEngine(FrozenModel):
    """The setup of earlier versions of an engine.

    Args:
        version: Pattern of the beginning of a year or release.
        setup: Name of the setup.
    """

    version: Pattern
    setup: str


class NamedEngine(FrozenModel):
    """Names of an engine.

    Args:
        beginnings: Beginnings of names, letters and digits alone.
        setup: Name of the setup of the newest version.
        older: Setups of earlier versions; the first one whose pattern fits counts.
    """

    beginnings: tuple[str, ...]
    setup: str
    older: tuple[OlderEngine, ...] = ()


class ServingEngines(Facts):
    """The engines of tables of serving runs.

    Args:
        setups: Setups by name.
        names: Names of engines; the first one that fits counts.
    """

    filename: ClassVar[str] = "serving_engines.yaml"
    setups: dict[str, EngineSetup]
    names: tuple[NamedEngine, ...]

    @model_validator(mode="after")
    def _setups_exist(self) -> Self:
        used = {named.setup for named in self.names} | {each.setup for named in self.names for each in named.older}
        if missing := sorted(used - self.setups.keys()):
            raise invalid(f"no setup is called {missing[0]!r}; there are {', '.join(self.setups)}")
        return self


def engine_setup(name: str, version: str = "") -> EngineSetup:
    """Return the setup of an engine.

    Args:
        name: Its name in a table.
        version: Its version in a table: a year or a release.

    Raises:
        Unsupported: There is no profile of it.
    """
    known = facts(ServingEngines)
    key = re.sub(r"[^a-z0-9]", "", name.casefold())
    found = next((named for named in known.names if key.startswith(named.beginnings)), None)
    if found is None:
        raise Unsupported(f"no profile of engine {name}")
    older = next((each.setup for each in found.older if each.version.match(version)), found.setup)
    return known.setups[older]


def release_of(profile: str, version: str) -> str | None:
    """Return the numbers of a release; None if a version has none, or the profile does not describe the release.

    Args:
        profile: The engine profile.
        version: The version in a table, such as ``1.2.0rc6.post3``.
    """
    found, defaults = re.match(r"\d{1,3}(\.\d{1,3}){1,2}(?!\d)", version), load_engine(profile).defaults
    if found is None or defaults is None or not defaults.describes(found.group()):
        return None
    return found.group()

"""Rules check combinations of settings: each is one function, registered under a setting.

`simsys.build.job` builds a scenario and applies all rules. So `simsys check`, the command line and Python refuse the
same scenarios with equal messages. To add a rule, write such a function in the file of its feature::

    @rule("serving.speculative")
    def with_pipelines(parts: Parts, found: Findings) -> None:
        if parts.config.parallelism.pp_stages > 1:
            found.error(("serving", "speculative"), "…; remove one of them")
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from simsys.build.cluster import Cluster
from simsys.build.resolved_serving import ResolvedServing
from simsys.build.rules.findings import Findings
from simsys.config.engine_schema import EngineProfile
from simsys.config.experiment import SimulationConfig
from simsys.model.model import Model
from simsys.platform.device_spec import DeviceSpec
from simsys.serving.requests import RequestTable


@dataclass
class Parts:
    """The parts of a scenario; a part is None if it could not be built, or if the scenario has none.

    Args:
        config: The scenario.
        spec: The specification of its GPU.
        model: The model, with the amounts of work for the level of detail.
        engine: The engine profile.
        cluster: GPUs and links.
        serving: The settings of serving with the defaults of the engine.
        draft: The draft model.
        requests: The requests of the run, if a rule has needed them.
        shortest_request_tokens: Tokens (prompt and output) of the shortest request that the workload can hold.
    """

    config: SimulationConfig
    spec: DeviceSpec | None = None
    model: Model | None = None
    engine: EngineProfile | None = None
    cluster: Cluster | None = None
    serving: ResolvedServing | None = None
    draft: Model | None = None
    requests: RequestTable | None = None
    shortest_request_tokens: int = 1


Check: TypeAlias = Callable[[Parts, Findings], None]


class Rule(NamedTuple):
    """One rule.

    Args:
        setting: The setting of the rule, as a dotted path.
        check: Records problems; a part that is unknown (None) is not checked.
        when_sound: Whether it applies only if no other rule is broken and the cluster is known.
    """

    setting: str
    check: Check
    when_sound: bool

    @property
    def section(self) -> str:
        """The section of the scenario with the setting."""
        return self.setting.partition(".")[0]


RULES: list[Rule] = []
"""All rules, in the order in which they apply."""


def rule(setting: str, *, when_sound: bool = False) -> Callable[[Check], Check]:
    """Decorator that registers a rule about a setting; a rule about a section applies only if the section is there.

    Args:
        setting: The setting, as a dotted path such as ``"serving.speculative"``.
        when_sound: Whether the rule applies only if no other rule is broken and the cluster is known.
    """

    def register(check: Check) -> Check:
        RULES.append(Rule(setting, check, when_sound))
        return check

    return register


def apply_rules(parts: Parts, found: Findings, sections: Sequence[str] = ()) -> None:
    """Record every rule that a scenario breaks.

    Args:
        parts: The parts of the scenario.
        found: Collects the problems.
        sections: Only the rules about these sections; all rules if empty.
    """
    own = [
        each
        for each in RULES
        if (not sections or each.section in sections) and getattr(parts.config, each.section) is not None
    ]
    for each in own:
        if not each.when_sound:
            each.check(parts, found)
    for each in own:
        if each.when_sound and parts.cluster is not None and not found.errors:
            each.check(parts, found)

"""Whether scenarios can be simulated, with all problems at once, each at the line that is wrong."""

from __future__ import annotations

from simsys.check.scenario import check_config, check_file, check_scenario, sound

__all__ = ["check_config", "check_file", "check_scenario", "sound"]

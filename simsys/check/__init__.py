"""Whether scenarios can be simulated, with all problems at once, each at the line that is wrong.

A scenario is built, which applies the rules of `simsys.build.rules`; the check adds memory, run time, suggestions that
were tried, and remedies for what does not fit, and hands the built scenario to the run.
Start with `scenario.py`, then `suggestions.py` and `advice.py`.
May import: build, config, errors, framework, model, parallel, simulation, sums, units.
"""

from __future__ import annotations

from simsys.check.scenario import check_config, check_file, check_scenario, sound

__all__ = ["check_config", "check_file", "check_scenario", "sound"]

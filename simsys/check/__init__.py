"""Checks whether scenarios can be simulated, and reports all problems at once, each at its line.

Building a scenario applies the rules of `simsys.build.rules`. The check adds the rules of memory and run time, tested
suggestions, and remedies for scenarios that do not fit. The run uses the built scenario.

Start with `scenario.py`, then `suggestions.py` and `advice.py`.

May import: build, config, errors, executors, framework, model, parallel, shared_links, simulation, sums, units.
"""

from __future__ import annotations

from simsys.check.scenario import check_config, check_file, check_scenario, judged, sound

__all__ = ["check_config", "check_file", "check_scenario", "judged", "sound"]

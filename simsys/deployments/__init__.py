"""From a scenario to the files that start it: launch commands and configurations of the real tools.

`emit` writes the files of a target, `read_back` reads them into an equal scenario. Each target is one module of
`simsys.deployments.targets` with one table of correspondences, which both directions use.

Start with `correspondence.py` and `emission.py`, then ``targets/vllm.py``; `sources.py` is what the command calls.

May import: build, check, config, errors, input_files, model.
"""

from __future__ import annotations

from simsys.deployments.emission import emit, read_back
from simsys.deployments.target import EmittedFile, Target, target_names, target_of

__all__ = ["EmittedFile", "Target", "emit", "read_back", "target_names", "target_of"]

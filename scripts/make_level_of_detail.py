"""Write level-of-detail.md in docs/explanation and its plot from level-of-detail.json, or measure that anew first.

Usage: python scripts/make_level_of_detail.py [--measure] [--check]

With --measure, the scenarios of experiments/level_of_detail.yaml are simulated at both levels, which takes up to ten
minutes. With --check, page and plot are only compared with what the data say.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from scripts.generated import write_or_check  # noqa: E402
from simsys.check import check_file  # noqa: E402
from simsys.config.experiment import SimulationConfig  # noqa: E402
from simsys.contents.printed import printed  # noqa: E402
from simsys.level_study.attribution import attribute  # noqa: E402
from simsys.level_study.compare import Settings  # noqa: E402
from simsys.level_study.conclusion import conclude  # noqa: E402
from simsys.level_study.study import study  # noqa: E402
from simsys.level_study.variants import HIGH  # noqa: E402
from simsys.plots.drawing import write_figure  # noqa: E402
from simsys.plots.picture import draw  # noqa: E402
from simsys.report.export import json_text  # noqa: E402
from simsys.report.level_study_page import page_text  # noqa: E402
from tests.helpers import reference_executor  # noqa: E402

FOLDER = ROOT / "docs" / "explanation"
NAME = "level-of-detail"
COMMAND = "python scripts/make_level_of_detail.py --measure"
NAIVE_SCENARIOS = ("a-1-gpu", "b-tp4")
NAIVE_SECONDS = 0.2
LIMIT_S = 40.0
"""Of high, as estimated: below a minute on a machine that is busy with something else, too."""


def measured() -> dict[str, Any]:
    """The comparison of all scenarios, and of high with plain SimPy."""
    started = time.monotonic()

    def told(text: str) -> None:
        print(f"{time.monotonic() - started:6.0f} s  {text}", file=sys.stderr, flush=True)

    configs = [built.config for built in check_file(ROOT / "experiments" / "level_of_detail.yaml")]
    closer = [config.name for config in configs if not config.name.startswith("peer-") and not _timed(config)]
    data = study(configs, Settings(part=True, limit_s=LIMIT_S), attribution=closer, profile=closer, told=told)
    if data["interrupted"]:
        raise KeyboardInterrupt
    reference_executor.register()
    here = replace(Settings(), call=lambda function, _, *args: function(*args))
    data["naive"] = []
    for config in configs:
        if config.name in NAIVE_SCENARIOS:
            told(f"{config.name}: plain SimPy")
            data["naive"].append(attribute(config, here, NAIVE_SECONDS, (reference_executor.NAIVE, HIGH)))
    told("done")
    return data


def _timed(config: SimulationConfig) -> bool:
    """Whether it is a longer run of another scenario."""
    return config.workload is not None and config.workload.duration is not None


def texts(data: dict[str, Any]) -> dict[str, str]:
    """The page and the plot, by file name; what is concluded from the figures is concluded anew."""
    data = {**data, "conclusion": conclude(data)}
    with tempfile.TemporaryDirectory() as folder:
        file = write_figure(draw(printed("lod", data), "level_of_detail"), Path(folder) / f"{NAME}.svg")
        picture = file.read_text(encoding="utf-8")
    return {f"{NAME}.md": page_text(data, COMMAND, f"{NAME}.svg"), f"{NAME}.svg": picture}


def main(arguments: Sequence[str] | None = None) -> int:
    """Write or check the files; return the exit code."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    file = FOLDER / f"{NAME}.json"
    if "--measure" in given:
        given.remove("--measure")
        file.write_text(json_text(measured()), encoding="utf-8")
    return write_or_check(
        "the page on levels of detail", texts(json.loads(file.read_text(encoding="utf-8"))), FOLDER, given
    )


if __name__ == "__main__":
    sys.exit(main())

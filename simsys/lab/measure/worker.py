"""One rank of ``simsys measure``: alone it measures the device, with others the exchange between them."""

from __future__ import annotations

import argparse
import json
import os
import traceback
from pathlib import Path

import torch

from simsys.config.lab import LabConfig
from simsys.lab.measure.collectives import Exchanges
from simsys.lab.measure.kernels import Kernels
from simsys.lab.measure.overheads import overheads
from simsys.lab.measure.shapes import Shapes
from simsys.lab.processes import Ranks, end_with_launcher
from simsys.lab.run_files import write_error


def work(folder: Path, device: str) -> None:
    """Measure, and leave what was found in the folder."""
    threads = int(os.environ.get("OMP_NUM_THREADS", "1"))
    torch.set_num_threads(threads)
    ranks = Ranks(LabConfig.model_validate({"device": device, "timeout": "120 s"}))
    if ranks.world_size == 1:
        given = json.loads((folder / "shapes.json").read_text(encoding="utf-8"))
        given["products"] = tuple(tuple(each) for each in given["products"])
        found = {
            "torch": torch.__version__,
            "device": ranks.device.type,
            "name": torch.cuda.get_device_name() if ranks.device.type == "cuda" else "",
            "overheads": overheads(ranks.device),
            "kernels": Kernels(Shapes(**given), ranks.device, threads).all(),
        }
        name = "device.json"
    else:
        found, name = Exchanges(ranks.device, threads).all(), "exchanges.json"
    if ranks.rank == 0:
        (folder / name).write_text(json.dumps(found), encoding="utf-8")
    ranks.leave()


def main() -> None:
    """Run a rank; leave its error for the launcher."""
    end_with_launcher()
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--device", default="auto")
    options = parser.parse_args()
    code = 0
    try:
        work(options.folder, options.device)
    except Exception as error:  # the launcher reports it
        traceback.print_exc()
        write_error(options.folder, int(os.environ.get("RANK", "0")), error)
        code = 4
    os._exit(code)


if __name__ == "__main__":
    main()

"""Measure DDP and FSDP with several batches: python examples/lab/benchmark.py [FOLDER].

It writes lab_bench.csv, which `simsys validate` reads.
"""

from __future__ import annotations

import sys
from pathlib import Path

from simsys.lab.bench import bench, variants


def main() -> None:
    """Run one process, and two ranks with each strategy."""
    out = Path(sys.argv[1] if len(sys.argv) > 1 else "results")
    file = Path(__file__).with_name("experiment.yaml")
    runs = [*variants([2, 4], [1, 2], ["ddp", "fsdp"], [])]
    path, rows = bench(file, "ddp", ["training.num_iterations=8"], runs, out=out, say=print)
    for row in rows:
        print(f"{row['strategy']} {row['gpus']} x {row['micro_batch']}: {row['iter_time_s_derived']} s")
    print(path)


if __name__ == "__main__":
    main()

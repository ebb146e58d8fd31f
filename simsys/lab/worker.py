"""One rank of ``simsys lab train``: ``python -m simsys.lab.worker FILE``, as the lab or torchrun starts it."""

from __future__ import annotations

import argparse
import os
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from simsys.errors import SimsysError
from simsys.lab.checkpoints import checkpoints_in, remove_old
from simsys.lab.processes import Ranks, end_with_launcher
from simsys.lab.profiling.record import record_profile
from simsys.lab.run_files import MetricsWriter, write_error
from simsys.lab.scenario import lab_job
from simsys.lab.settings import settings_of
from simsys.lab.trainers.base import BaseTrainer
from simsys.lab.trainers.choice import make_trainer


def arguments(given: Sequence[str] | None = None) -> argparse.Namespace:
    """The command line of a rank."""
    parser = argparse.ArgumentParser(prog="python -m simsys.lab.worker", description=__doc__)
    parser.add_argument("file", type=Path, help="experiment file")
    parser.add_argument("--scenario", help="name of the scenario")
    parser.add_argument("--set", action="append", default=[], dest="assignments", help="change a setting")
    parser.add_argument("--folder", type=Path, required=True, help="folder of the run")
    parser.add_argument("--resume", action="store_true", help="continue from the last checkpoint, if there is one")
    parser.add_argument("--checkpoint", type=Path, help="continue from this checkpoint")
    parser.add_argument("--profile", type=Path, help="profile a further iteration, and write what was found here")
    return parser.parse_args(given)


def work(options: argparse.Namespace) -> None:
    """Train as one rank."""
    job = lab_job(options.file, options.scenario, options.assignments)
    settings = settings_of(job)
    threads = int(os.environ.get("OMP_NUM_THREADS", "1"))
    torch.set_num_threads(threads)
    options.folder.mkdir(parents=True, exist_ok=True)
    ranks = Ranks(settings.lab)
    ranks.stop_on_signal()
    trainer = make_trainer(job.model, settings, ranks.device)
    saved = options.folder / "checkpoints"
    found = checkpoints_in(saved) if options.resume else []
    if options.checkpoint is not None or found:
        trainer.load_checkpoint(options.checkpoint or found[-1])
    with MetricsWriter(options.folder, ranks.rank, tensorboard=settings.lab.tensorboard) as writer:
        _train(trainer, ranks, writer, saved)
    if options.profile is not None and trainer.iteration >= settings.iterations:
        record_profile(trainer, options.profile)
    ranks.leave()


def _train(trainer: BaseTrainer, ranks: Ranks, writer: MetricsWriter, folder: Path) -> None:
    """Train to the end, or until a signal; save and evaluate on the way."""
    lab, end = trainer.settings.lab, trainer.settings.iterations

    def done(row: dict[str, Any]) -> bool:
        iteration = trainer.iteration
        stops = ranks.stops_after(iteration)
        last = stops or iteration >= end
        if lab.evaluation_interval is not None and iteration % lab.evaluation_interval == 0:
            row["evaluation_loss"] = trainer.evaluate()
        writer.write(row)
        if last or (lab.checkpoint_interval is not None and iteration % lab.checkpoint_interval == 0):
            trainer.save_checkpoint(folder)
            if ranks.rank == 0:
                remove_old(folder, lab.keep_checkpoints)
        ranks.begins(iteration + 1)
        return stops

    ranks.begins(trainer.iteration + 1)
    trainer.train(done=done)


def main() -> None:
    """Run a rank; leave its error for the launcher."""
    end_with_launcher()
    options = arguments()
    code = 0
    try:
        work(options)
    except Exception as error:  # the launcher reports it
        traceback.print_exc()
        code = error.exit_code if isinstance(error, SimsysError) else 4
        write_error(options.folder, int(os.environ.get("RANK", "0")), error)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)  # threads of a broken process group would keep it


if __name__ == "__main__":
    main()

"""`simsys lab bench`: runs over batches, ranks, strategies and bucket sizes, as rows that `simsys validate` reads."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any, TextIO

from simsys.build.training import TrainingJob
from simsys.errors import SimsysError
from simsys.fidelity.tables.training_rows import COLUMNS
from simsys.lab.report import run_dict
from simsys.lab.scenario import check_machine, lab_jobs
from simsys.lab.settings import settings_of, strategy_of
from simsys.lab.torch_needed import require_torch
from simsys.lab.train import LabRun, run_job
from simsys.report.csv_table import write_csv
from simsys.report.files import write_files

MORE_COLUMNS = (
    *("source", "arch", "layers", "hidden", "ffn", "heads", "kv_heads", "vocab", "nodes", "zero_stage"),
    *("activation_recompute", "attn_kernel", "engine", "quality", "notes"),
)
"""Columns in addition to those that every table of training runs needs."""
NAMES = {"none": "single", "ddp": "DDP", "zero1": "ZeRO1", "fsdp": "FSDP"}
STRATEGIES = {"none": "None", "ddp": "DDP", "zero1": "ZERO1", "fsdp": "FSDP"}


def variants(
    batches: Sequence[int], ranks: Sequence[int], strategies: Sequence[str], buckets: Sequence[str]
) -> Iterator[list[str]]:
    """The settings of each run; sizes of buckets vary for DDP and ZeRO-1 only, and one rank has no strategy.

    Args:
        batches: Micro-batches on each rank; the file's if empty.
        ranks: Numbers of ranks; the file's if empty.
        strategies: Keys of `STRATEGIES`; the file's if empty.
        buckets: Sizes of buckets with units; PyTorch's if empty.
    """
    seen = set()
    for batch, count, strategy, bucket in product(
        batches or (None,), ranks or (None,), strategies or (None,), buckets or (None,)
    ):
        own = "none" if count == 1 else strategy
        made = [
            *([f"training.batch_size_per_gpu={batch}"] if batch else []),
            *([f"hardware.gpus_per_node={count}"] if count else []),
            *([f"parallelism.strategy={STRATEGIES[own]}"] if own else []),
        ]
        if bucket and own in ("ddp", "zero1"):
            made += [f"training.options.bucket_size={bucket}", f"training.options.first_bucket_size={bucket}"]
        if tuple(made) not in seen:
            seen.add(tuple(made))
            yield made


def bench(
    file: Path,
    scenario: str | None,
    assignments: Sequence[str],
    runs: Sequence[Sequence[str]],
    *,
    out: Path,
    say: Callable[[str], None] = lambda _: None,
) -> tuple[Path, list[dict[str, Any]]]:
    """Carry out a scenario with several settings, and write a table of them.

    Args:
        file: The experiment file.
        scenario: Which of its scenarios.
        assignments: Settings of all runs.
        runs: Settings of each run.
        out: Folder of results.
        say: Called with notes.

    Returns:
        The table and its rows. A run that this machine cannot carry out is left out, with a note.

    Raises:
        SimsysError: As `simsys.lab.train.train`.
    """
    require_torch()
    rows = []
    for number, settings in enumerate(runs, start=1):
        changed = [*assignments, *settings]
        job = lab_jobs(file, () if scenario is None else (scenario,), changed)[0]
        try:
            settings_of(job)
            check_machine(job)
        except SimsysError as error:
            say(f"left out: {', '.join(settings)}: {error}")
            continue
        say(f"run {number} of {len(runs)}: {', '.join(settings) or 'as written'}")
        options = ["--scenario", job.config.name, *(text for each in changed for text in ("--set", each))]
        folder = out / f"{job.config.name}-{number}"
        rows.append(row_of(job, run_job(job, [str(file), *options], folder, resume=False, profile=False, say=say)))
    path = out / "lab_bench.csv"
    write_files(path.parent, {path.name: partial(_write, rows)})
    return path, rows


def row_of(job: TrainingJob, run: LabRun) -> dict[str, Any]:
    """A run as a row of a table of training runs."""
    facts, settings, model = run_dict(run), settings_of(job), job.model
    strategy, hardware = strategy_of(job) or "none", job.config.hardware
    mlp = {operator.name: operator for block in model.kinds_of_blocks for operator in block.operators}.get("down")
    global_batch = settings.batch_size * settings.micro_batches * run.ranks
    return {
        "id": f"{run.folder.name}",
        "source": f"simsys lab bench, {datetime.now(UTC).date()}",
        "group": "lab",
        "model": model.name,
        "arch": "cnn" if model.family == "cnn" else "bert" if model.family == "encoder" else "gpt",
        "layers": model.num_layers,
        "hidden": model.hidden_size or "",
        "ffn": mlp.inner if mlp is not None else "",
        "heads": model.num_attention_heads or "",
        "kv_heads": model.num_key_value_heads or "",
        "vocab": model.vocab_size or "",
        "seq_len": settings.sequence_length,
        "gpu": hardware.profile if isinstance(hardware.profile, str) else job.cluster.gpu.name,
        "gpus": run.ranks,
        "nodes": 1,
        "strategy": NAMES[strategy],
        "tp": 1,
        "pp": 1,
        "dp": run.ranks,
        "zero_stage": 1 if strategy == "zero1" else "",
        "micro_batch": settings.batch_size,
        "global_batch": global_batch,
        "activation_recompute": job.settings.activation_recompute,
        "attn_kernel": "fused",
        "precision": settings.precision,
        "engine": job.engine.name,
        "quality": "disturbed" if facts["disturbed"] else "A",
        "iter_time_s_derived": f"{facts['iteration_s']:.6g}",
        "notes": f"CPU time {facts['cpu_s']:.6g} s; {facts['preempted']} switches; {dict(job.settings.options)}",
    }


def _write(rows: Sequence[dict[str, Any]], file: TextIO) -> None:
    columns = [*COLUMNS, *(name for name in MORE_COLUMNS if name not in COLUMNS)]
    write_csv(file, columns, ([row.get(name, "") for name in columns] for row in rows))

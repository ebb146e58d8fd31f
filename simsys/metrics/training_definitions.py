"""The metrics of a training run (`simsys.metrics.training`, `simsys.executors.iterations.goodput`)."""

from __future__ import annotations

from collections.abc import Iterator

from simsys.metrics.iteration_log import COMMUNICATION
from simsys.metrics.metric import TRAINING, Metric

_FAILURES = "with training.failures"
_ITERATION = (
    ("iterations", "", "iterations of the run"),
    ("mean_iteration_s", "s", "mean time of an iteration"),
    ("first_iteration_s", "s", "time of the first iteration"),
    ("last_iteration_s", "s", "time of the last iteration"),
    ("steady_iteration_s", "s", "median time of an iteration but the first, without checkpoints"),
    ("compute_s", "s", "computation of an iteration in the busiest pipeline stage, the optimizer included"),
    ("launch_s", "s", "part of it that the GPU waits for the host to launch its kernels"),
    ("optimizer_s", "s", "part of compute_s that the optimizer has"),
    ("communication_s", "s", "communication of an iteration in this stage, hidden behind computation or not"),
    ("exposed_communication_s", "s", "part of it that computation does not hide"),
    ("communication_ratio", "share", "communication_s over communication_s + compute_s"),
    ("exposed_communication_ratio", "share", "exposed_communication_s over mean_iteration_s"),
    ("bubble_s", "s", "time of an iteration that this stage waits for other ones, which wait longer"),
    ("data_s", "s", "time of an iteration that is spent waiting for batches"),
    ("checkpoint_s", "s", "time of an iteration that is spent stopped for checkpoints, on average"),
    ("batch_size_per_gpu", "", "samples of a micro-batch on each data-parallel rank, the largest of a schedule"),
    ("replicated_states_bytes", "bytes", "model states of the fullest GPU that ZeRO-3 over all its ranks would free"),
    ("checkpoint_bytes", "bytes", "size of a checkpoint; 0 without checkpoints"),
    ("idle_s", "s", "time of an iteration that is spent waiting for other ranks otherwise"),
)
_RATES = (
    ("samples_per_s", "1/s", "samples per second of all GPUs together"),
    ("tokens_per_s", "1/s", "tokens per second of all GPUs together"),
    ("tokens_per_s_per_gpu", "1/s", "tokens per second of one GPU"),
    ("model_flop_per_s_per_gpu", "FLOP/s", "the model's FLOP per second of one GPU, as MFU counts them"),
    ("mfu", "share", "model FLOPs utilization: full attention, no recomputation (PaLM, appendix B)"),
    ("hardware_flop_per_s_per_gpu", "FLOP/s", "FLOP/s per GPU including recomputation"),
    ("hfu", "share", "hardware FLOPs utilization: MFU with recomputation, never below MFU"),
    ("attained_peak_share", "share", "FLOP that kernels execute over the dense peak"),
)
_CAMPAIGN = (
    ("goodput", "share", "time of the kept iterations without failures, over the whole time"),
    ("campaign_s", "s", "the time that is looked at"),
    ("kept_iterations", "", "iterations in that time without lost work"),
    ("failures", "", "failures in that time"),
    ("gpu_failures", "", "failures of GPUs"),
    ("node_failures", "", "failures of nodes"),
    ("link_failures", "", "failures of network links"),
    ("lost_s", "s", "work that failures destroyed"),
    ("down_s", "s", "detection of failures and restarts"),
    ("saving_s", "s", "stops for checkpoints that were of use"),
    ("mtbf_s", "s", "mean time between failures of the whole cluster"),
    ("optimal_checkpoint_interval", "", "iterations between checkpoints that Young (1974) finds best"),
)
_PRICED = "with a known price"
_TARGET = "with training.target"
_EPOCH = "with training.target.dataset_tokens"
_COSTS = (
    ("usd_per_iteration", "USD", "price of an iteration", _PRICED),
    ("energy_per_iteration_j", "J", "energy of an iteration, with the PUE", ""),
    ("co2_per_iteration_kg", "kg", "CO2 of this energy", ""),
    ("iterations_to_train", "", "iterations of the whole training", _TARGET),
    ("time_to_train_s", "s", "time of the whole training, with checkpoints and failures", _TARGET),
    ("usd_to_train", "USD", "price of the whole training", f"{_TARGET}, {_PRICED}"),
    ("energy_to_train_j", "J", "energy of the whole training, with the PUE", _TARGET),
    ("co2_to_train_kg", "kg", "CO2 of this energy", _TARGET),
    ("iterations_per_epoch", "", "iterations of an epoch", _EPOCH),
    ("epoch_s", "s", "time of an epoch, with checkpoints and failures", _EPOCH),
    ("usd_per_epoch", "USD", "price of an epoch", f"{_EPOCH}, {_PRICED}"),
    ("energy_per_epoch_j", "J", "energy of an epoch, with the PUE", _EPOCH),
    ("co2_per_epoch_kg", "kg", "CO2 of this energy", _EPOCH),
)


def _metrics() -> Iterator[Metric]:
    for name, unit, meaning in _ITERATION:
        yield Metric(name, unit, meaning, (TRAINING,))
        if name == "exposed_communication_s":
            for axis in COMMUNICATION:
                due = f"exposed communication of an iteration along the axis '{axis}'"
                yield Metric(f"exposed_{axis}_s", "s", due, (TRAINING,), "where ranks communicate along it", 0.0)
    for name, unit, meaning in _RATES:
        yield Metric(name, unit, meaning, (TRAINING,))
    for name, unit, meaning in _CAMPAIGN:
        absent = 0.0 if name.endswith("_failures") else None
        yield Metric(name, unit, meaning, (TRAINING,), _FAILURES, absent)
    for name, unit, meaning, only in _COSTS:
        yield Metric(name, unit, meaning, (TRAINING,), only)


TRAINING_METRICS = tuple(_metrics())
"""In the order of a result."""

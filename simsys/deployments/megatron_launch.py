"""How people start Megatron-LM: the launcher, its processes, and what the program derives from other options."""

from __future__ import annotations

from simsys.deployments.correspondence import Options
from simsys.deployments.launch import Launch
from simsys.deployments.megatron_model import model_of_arguments
from simsys.deployments.training_parts import Processes
from simsys.errors import UsageError

LAUNCHER = ("nnodes", "nproc-per-node")
MICRO, WHOLE = "micro-batch-size", "global-batch-size"
PROCESSES = Processes(
    *LAUNCHER, ("tensor-model-parallel-size", "pipeline-model-parallel-size", "context-parallel-size")
)


def _complete(options: Options) -> Options:
    """Options with what Megatron-LM derives: one node, one step of accumulation, and the chunks of a stage.

    Raises:
        UsageError: No launcher says how many processes there are.
    """
    found = {LAUNCHER[0]: 1, **options}
    if LAUNCHER[1] not in found:
        raise UsageError(f"the command does not say how many GPUs there are; start it by torchrun --{LAUNCHER[1]}")
    if MICRO in found and WHOLE not in found:
        found[WHOLE] = found[MICRO] * PROCESSES.degree(found)
    layers = found.pop("num-layers-per-virtual-pipeline-stage", None)
    if layers is not None:
        stages = found.get("pipeline-model-parallel-size", 1)
        found["num-virtual-stages-per-pipeline-rank"] = found["num-layers"] // stages // layers
    return found


LAUNCH = Launch(
    starts=(("torchrun",), ("-m", "torch.distributed.launch"), ("-m", "torch.distributed.run"), ("pretrain_gpt.py",)),
    other_names={
        "nproc-per-node": LAUNCHER[1],
        "tp-comm-overlap-ag": "tp-comm-overlap",
        "recompute-activations": "recompute-granularity",
        "use-flash-attn": "attention-backend",
        "fp8-hybrid": "fp8-format",
    },
    other_values={
        "recompute-granularity": {True: "selective"},
        "attention-backend": {True: "flash", "fused": "flash"},
        "fp8-format": {True: "hybrid", "e4m3": "hybrid"},
        "optimizer": {"adam": "auto"},
    },
    without_effect=frozenset(
        {
            *("node-rank", "master-*", "rdzv-*", "max-restarts", "monitor-interval", "tee", "redirects", "role"),
            *("lr", "lr-*", "min-lr", "weight-decay*", "adam-*", "clip-grad", "init-method-std", "seed", "split"),
            *("*-path", "*-paths", "save", "load", "*log*", "tensorboard-*", "wandb-*", "tokenizer-*", "vocab-file"),
            *("merge-file", "eval-*", "ckpt-*", "dist-*", "distributed-*", "num-workers", "norm-epsilon", "mock-data"),
            *("use-mcore-models", "transformer-impl", "no-load-*", "no-save-*", "exit-*", "timing-*", "rotary-*"),
            *("use-rotary-position-embeddings", "no-position-embedding", "train-samples", "loss-scale*", "log-*"),
            *("initial-loss-scale", "min-loss-scale", "moe-aux-loss-coeff", "moe-router-load-balancing-type"),
            *("make-vocab-size-divisible-by", "attention-softmax-in-fp32", "data-cache-*", "use-checkpoint-*"),
        }
    ),
    complete=_complete,
    model=model_of_arguments,
)

import numpy as np
import pytest

from simsys.build.job import build_job
from simsys.searches.serving.memory import cached_tokens
from tests.helpers.serving_spaces import serving


@pytest.mark.parametrize("engine", ["vllm", "sglang", "tensorrt-llm"])
@pytest.mark.parametrize(
    ("model", "tensor", "stages"), [("Llama3-8B", 1, 1), ("Llama3-8B", 2, 2), ("Mixtral-8x7B", 4, 1)]
)
def test_room_for_the_kv_cache_is_that_of_the_built_job(engine, model, tensor, stages):
    limits = [(8, 512), (64, 2048), (256, 8192), (100, 16384)]
    jobs = [
        build_job(
            serving(
                model=model,
                count=2,
                hardware={"profile": "dgx-h100", "gpus_per_node": tensor * stages},
                parallelism={"tp_degree": tensor, "pp_stages": stages},
                serving={"engine": engine, "max_num_seqs": sequences, "max_num_batched_tokens": tokens},
            )
        )
        for sequences, tokens in limits
    ]
    sequences, tokens = np.array(limits, dtype=float).T
    found = cached_tokens(jobs[-1], sequences, tokens)
    assert found.tolist() == [job.engine_blocks * job.settings.block_size for job in jobs]


def test_a_replica_that_does_not_fit_has_no_room():
    job = build_job(
        serving(
            count=2, hardware={"profile": "pcie-l40s-8", "gpus_per_node": 1}, serving={"gpu_memory_utilization": 0.9}
        )
    )
    assert cached_tokens(job, np.array([1.0]), np.array([1e9]))[0] == -1.0

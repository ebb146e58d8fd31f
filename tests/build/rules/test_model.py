"""Rules about models: what is trained with them, and how long requests may be."""

from __future__ import annotations

from pathlib import Path

import pytest

from simsys.build.job import assemble
from simsys.build.rules.findings import Findings, unlocated
from simsys.check import check_file
from simsys.errors import ConfigError

TRAINING = """\
name: a
hardware: {{gpu: H100-SXM}}
model: {{name: {model}}}
training: {{batch_size_per_gpu: 1, mtp_layers: 1}}
"""
SERVING = """\
name: a
hardware: {{gpu: H100-SXM}}
model: {{name: GPT2-Small}}
serving: {{engine: vllm, max_model_len: 2048{more}}}
workload:
  arrivals: {{kind: poisson, rate: 1 req/s}}
  prompt_tokens: 1500
  output_tokens: 8
  num_requests: 4
"""


def test_models_without_a_head_for_tokens_predict_no_further_ones(tmp_path: Path) -> None:
    file = tmp_path / "a.yaml"
    file.write_text(TRAINING.format(model="GPT2-Small"))
    assert check_file(file)
    file.write_text(TRAINING.format(model="ResNet-50"))
    with pytest.raises(ConfigError, match=r"4:47: training.mtp_layers: mtp_layers needs a decoder .* not ResNet-50"):
        check_file(file)
    file.write_text(TRAINING.format(model="GPT2-Small").replace("mtp_layers: 1", "mtp_layers: 1000000000"))
    with pytest.raises(ConfigError, match=r"training.mtp_layers: .* at most 100"):
        check_file(file)


def test_requests_are_longer_than_the_context_where_that_is_allowed(tmp_path: Path) -> None:
    file = tmp_path / "a.yaml"
    file.write_text(SERVING.format(more=""))
    with pytest.raises(ConfigError, match="at most 1024, not 2048; or write allow_long_max_model_len: true"):
        check_file(file)
    file.write_text(SERVING.format(more=", allow_long_max_model_len: true"))
    (built,) = check_file(file)
    assert built.config.serving is not None
    assert built.config.serving.max_model_len == 2048
    found = Findings(unlocated({}))
    assert assemble(built.config, found)
    (warning,) = [each for each in found.warnings if "answers beyond it" in each.message]
    assert warning.path == "serving.max_model_len"

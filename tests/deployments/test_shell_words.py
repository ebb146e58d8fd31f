"""Commands of shell scripts: comments, continued lines, variables and arrays, as a shell reads them."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from simsys.deployments.shell_words import commands_of
from simsys.errors import UsageError

SCRIPT = r"""#!/bin/bash
# the server's model
export MODEL=meta-llama/Llama-3.1-8B   # the "small" one
TP=${TP:-4}
LENGTH=8192
ARGS=(
  --max-model-len $LENGTH # tokens
  --max-num-seqs 64
)
MORE="--enable-prefix-caching --block-size 32"
printf '%s\n' serve $MODEL \
  --tensor-parallel-size=$TP "${ARGS[@]}" $MORE \
  --speculative-config '{"method": "ngram", "num_speculative_tokens": 4}' --name "a b"
"""


def test_words_are_those_of_bash() -> None:
    bash = shutil.which("bash")
    if bash is None:
        pytest.skip("needs bash")
    expected = subprocess.run([bash, "-c", SCRIPT], capture_output=True, text=True, check=True).stdout.splitlines()
    (command,) = commands_of(SCRIPT, {})
    assert command == ["printf", r"%s\n", *expected]


def test_a_variable_of_the_script_counts_before_its_default_and_the_environment() -> None:
    assert commands_of("A=1; run ${A:-2} ${B:-3} $C $D", {"C": "4"}) == [["run", "1", "3", "4", "$D"]]
    assert commands_of("A=1 B=2 run $A$B", {"A": "9"}) == [["run", "12"]]


def test_commands_are_divided_and_redirections_are_left_out() -> None:
    found = commands_of("first --a 1 > log 2>&1 &\nsecond && third | tee out", {})
    assert [words[0] for words in found if words[0] in ("first", "second", "third")] == ["first", "second", "third"]
    assert found[0] == ["first", "--a", "1"]


def test_what_the_shell_would_compute_stays_as_written() -> None:
    assert commands_of("N=2\nrun $1 ${N}x", {}) == [["run", "$1", "2x"]]


def test_a_quotation_mark_without_counterpart_is_refused() -> None:
    with pytest.raises(UsageError, match="cannot be read: no closing quotation"):
        commands_of("run 'a", {})

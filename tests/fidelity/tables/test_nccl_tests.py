"""What a user's own nccl-tests have written."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from simsys.errors import UsageError
from simsys.fidelity.tables.nccl_tests import is_nccl_tests, nccl_tests_cases, nccl_tests_warnings

HEAD = """\
# nccl-tests version 2.18.3 nccl-headers=23003 nccl-library=23003
# Collective test starting: {program}
# nThread 1 nGpus 1 minBytes 8 maxBytes 1048576 step: 2(factor) warmup iters: 1 iters: 20 agg iters: 1 validation: 1
#
# Using devices
"""
RANK = "#  Rank {rank:2d} Group  0 Pid   1234 on {host:>10s} device  0 [0000:06:00] {gpu}\n"
LINES = """\
NCCL version 2.30.3+cuda13.0
#
#                                                      out-of-place                       in-place
#       size         count      type   redop    root     time   algbw   busbw  #wrong     time   algbw   busbw  #wrong
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)             (us)  (GB/s)  (GB/s)
     1048576        262144     float     sum      -1    51.44   20.38   35.67       0    53.56   19.58   34.26    N/A
    67108864      16777216     float     sum      -1   711.5    94.31  165.05       0   712.4   94.20  164.85    N/A
# Out of bounds values : 0 OK
# Avg bus bandwidth    : 100.0
"""


def text_of(program: str = "all_reduce_perf", gpu: str = "NVIDIA A100-SXM4-80GB", hosts: int = 1) -> str:
    ranks = [RANK.format(rank=rank, host=f"node{rank % hosts}", gpu=gpu) for rank in range(8 * hosts)]
    return HEAD.format(program=program) + "".join(ranks) + LINES


def json_of(**changes: Any) -> str:
    devices = [{"rank": 0, "hostname": "node0", "device_info": "NVIDIA A100-SXM4-80GB"}]  # the first of the process
    results = [
        {
            "size": 67108864,
            "count": 16777216,
            "out_of_place": {"time": 711.5},
            "in_place": {"time": 712},
        },
        {"size": 1048576, "count": 262144, "out_of_place": None, "in_place": {"time": 53.5}},
    ]
    document = {
        "args": ["./build/all_reduce_perf", "-g", "8"],
        "config": {"nthreads": 1, "ngpus": 8, "devices": devices},
        "results": results,
    }
    return json.dumps({**document, **changes})


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "results"


def test_text_says_collective_gpus_and_out_of_place_times(path: Path) -> None:
    path.write_text(text_of(), encoding="utf-8")
    small, large = nccl_tests_cases(path)
    assert (small.measured, large.measured) == (51.44, 711.5)
    assert large.tags == {"collective": "all_reduce_perf", "gpus": "8", "size": "1 MiB and more"}
    assert large.run is not None
    assert large.run.figures()[large.figure] * large.scale == pytest.approx(711.5, rel=0.5)


def test_hosts_are_nodes(path: Path) -> None:
    path.write_text(text_of(hosts=2), encoding="utf-8")
    one = nccl_tests_cases(path, hardware={"profile": "dgx-a100"})[1]
    two = nccl_tests_cases(path)[1]
    assert two.tags["gpus"] == "16"
    assert one.run is not None
    assert two.run is not None
    assert two.run.figures()["time_s"] > one.run.figures()["time_s"]


def test_json_says_the_same(path: Path) -> None:
    path.write_text(json_of(), encoding="utf-8")
    (case,) = nccl_tests_cases(path)  # what was measured in place only is left out
    assert case.measured == 711.5
    text = path.with_name("text")
    text.write_text(text_of(program="/opt/all_reduce_perf"), encoding="utf-8")
    twin = nccl_tests_cases(text, collective="all_reduce")[1]
    assert case.run == twin.run


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (text_of(gpu="NVIDIA Graphics Device"), "no profile of GPU .*; name the hardware"),
        (LINES.replace("# Avg", "# avg"), "which collective"),
        (HEAD.format(program="all_reduce_perf") + LINES, "on which GPUs it ran"),
        (HEAD.format(program="all_reduce_perf"), "no results"),
        ("{", r":1:2: not valid JSON: "),
        (json_of(results=[]), "no results"),
    ],
)
def test_what_is_missing_is_named(path: Path, text: str, message: str) -> None:
    path.write_text(text, encoding="utf-8")
    with pytest.raises(UsageError, match=message):
        nccl_tests_cases(path)


def test_a_collective_that_is_not_modelled_is_no_error(path: Path) -> None:
    path.write_text(text_of(program="gather_perf"), encoding="utf-8")
    case = nccl_tests_cases(path)[0]
    assert case.run is None
    assert "gather" in case.reason


def test_a_file_that_cannot_be_read(path: Path) -> None:
    with pytest.raises(UsageError, match="cannot read"):
        nccl_tests_cases(path)


@pytest.mark.parametrize(("text", "is_it"), [(text_of(), True), (json_of(), True), ("id,gpu\n", False)])
def test_files_of_nccl_tests_are_told_from_tables(text: str, is_it: bool) -> None:
    assert is_nccl_tests(text) is is_it


@pytest.mark.parametrize(
    ("hardware", "warnings"),
    [
        (None, []),
        ({"profile": "dgx-a100"}, []),
        ({"gpu": "A100-SXM-80GB", "gpus_per_node": 4}, ["measured on 8 ranks, predicted on 4 GPUs"]),
        ({"profile": "dgx-h100"}, ["measured on NVIDIA A100-SXM4-80GB, predicted on H100-SXM"]),
    ],
)
def test_other_gpus_than_the_experiments_are_a_warning(
    path: Path, hardware: dict[str, Any] | None, warnings: list[str]
) -> None:
    path.write_text(text_of(), encoding="utf-8")
    assert nccl_tests_warnings(path, hardware) == [f"{path}: {text}" for text in warnings]


@pytest.mark.parametrize(
    "text",
    [
        '{"results": {"size": 1}}',
        '{"results": [{"size": 8, "out_of_place": 3}]}',
        '{"config": {"nthreads": "two"}}',
        '{"config": {"nthreads": 1000000000, "devices": [{}]}}',
        '{"args": 3}',
        '{"results": [{"size": 8, "out_of_place": {"time": 5e-324}}]}',
        '{"results": [{"size": 8, "out_of_place": {"time": NaN}}]}',
        '{"results": [{"size": 8, "out_of_place": {"time": true}}]}',
        '{"results": [{"size": "8", "out_of_place": {"time": 1}}]}',
        '{"config": {"nthreads": 1024, "ngpus": 1024, "devices": [{}]}}',
    ],
)
def test_json_of_another_shape_is_an_error_of_the_file(tmp_path: Path, text: str) -> None:
    file = tmp_path / "r.json"
    file.write_text(text)
    with pytest.raises(UsageError, match=r"r\.json:1:\d+: [a-z_.0-9\[\]]+: (expected|.*at most)"):
        nccl_tests_cases(file)

"""Traces that are incomplete, do not match, or cannot be replayed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from simsys.chakra.nodes import ChakraNode, NodeType
from simsys.chakra.reading import read_workload
from simsys.errors import TraceError
from tests.helpers.chakra_toys import collective, compute, receive, send, write

Ranks = list[list[ChakraNode]]


def refused(tmp_path: Path, ranks: Ranks, reason: str) -> str:
    with pytest.raises(TraceError, match=reason) as error:
        read_workload(write(tmp_path, *ranks))
    return str(error.value)


@pytest.mark.parametrize(
    ("ranks", "reason"),
    [
        ([[compute(0, 1), compute(0, 1)]], r"t.0.et: node 0 \('compute'\): the id 0 is taken"),
        ([[compute(0, 1, 5)]], "it depends on node 5, which is not in the file"),
        ([[compute(0, 1, 1), compute(1, 1, 2), compute(2, 1, 1)]], "in a circle: 1 needs 2 needs 1"),
        ([[compute(0, 1, 0)]], "in a circle: 0 needs 0"),
        ([[ChakraNode(0, "x", 42)]], r"nodes of type 42 \(unknown\) are not replayed; METADATA \(1\), MEM_LOAD"),
        ([[ChakraNode(0, "x", NodeType.STORAGE)]], r"type 8 \(STORAGE\)"),
        ([[collective(0, 1, kind=3)]], r"comm_type 3 are not simulated; ALL_REDUCE \(0\)"),
        ([[collective(0, 1, kind=77)]], "comm_type 77"),
        ([[ChakraNode(0, "x", NodeType.COMM_COLL)]], "comm_type must be an integer of at least 0; it is missing"),
        ([[collective(0, -4)]], "comm_size must be an integer of at least 0; it is -4"),
        ([[collective(0, 4, pg_name="9")]], "unknown process group '9'.*no file with process groups was found"),
        ([[send(0, 0, 4)]], "comm_dst is 0; another rank of 0 to 0 is needed"),
        ([[send(0, 1, 4)], []], "no partner: with tag 0, rank 0 sends 1 and rank 1 receives 0"),
        ([[], [receive(0, 0, tag=3)]], "t.1.et: node 0 .*with tag 3, rank 0 sends 0 and rank 1 receives 1"),
        ([[collective(0, 4)], []], "t.0.et: node 0 .*rank 1 of its process group never joins"),
        ([[collective(0, 4)], [collective(0, 8)]], "this all_reduce of 8 bytes meets .*of 4 bytes"),
        ([[collective(0, 4)], [collective(0, 4, kind=9)]], "this barrier of 4 bytes meets"),
        (
            [[receive(0, 1), send(1, 1, 4, 0)], [receive(0, 0), send(1, 0, 4, 0)]],
            r"nodes of several ranks wait for each other:\n.*t.0.et: node 0 .*\n.*t.1.et: node 0",
        ),
        ([[compute(0, 1, simsys_duration_s=float("nan"))]], "simsys_duration_s must be a number"),
        ([[replace(compute(0, 1), attributes={"num_ops": "many"})]], "num_ops must be a number"),
    ],
)
def test_what_cannot_be_replayed_is_refused_with_file_node_and_reason(
    tmp_path: Path, ranks: Ranks, reason: str
) -> None:
    assert refused(tmp_path, ranks, reason)


def test_a_missing_rank_is_refused(tmp_path: Path) -> None:
    prefix = write(tmp_path, *([compute(0, 1)] for _ in range(3)))
    (tmp_path / "t.1.et").unlink()
    with pytest.raises(TraceError, match=r"t.1.et: rank 1 has no file, but ranks up to 2 have one"):
        read_workload(prefix)


def test_a_prefix_without_files_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match=r"there is no t.0.et"):
        read_workload(tmp_path / "t")


@pytest.mark.parametrize("given", ["", "t.0.et", "s"])
def test_the_prefixes_of_the_folder_are_named_for_another_path(tmp_path: Path, given: str) -> None:
    write(tmp_path, [compute(0, 1)])
    with pytest.raises(TraceError, match=r"give what all names begin with; in .* there are: t$"):
        read_workload(tmp_path / given)


def test_two_files_of_a_rank_are_refused(tmp_path: Path) -> None:
    prefix = write(tmp_path, [compute(0, 1)])
    (tmp_path / "t.0.et.gz").write_bytes((tmp_path / "t.0.et").read_bytes())
    with pytest.raises(TraceError, match=r"t\.0\.et is a trace of rank 0, too"):
        read_workload(prefix)


@pytest.mark.parametrize(
    ("groups", "reason"),
    [
        ("[1]", "a mapping of process groups to ranks is needed"),
        ("{", "not valid JSON"),
        ('{"1": [0, 0]}', "process group '1': a list of different ranks"),
        ('{"1": []}', "process group '1': a list of different ranks"),
        ('{"1": [1]}', r"rank 0 is not in its process group '1': \[1\]"),
        ('{"1": [0, 5]}', "there is no trace of rank 5"),
        ('{"2": [0]}', "unknown process group '1'.*not in .*groups.json"),
    ],
)
def test_groups_that_do_not_fit_are_refused(tmp_path: Path, groups: str, reason: str) -> None:
    path = tmp_path / "groups.json"
    path.write_text(groups)
    with pytest.raises(TraceError, match=reason):
        read_workload(write(tmp_path, [collective(0, 4, pg_name="1")], [compute(0, 1)]), path)


def test_collectives_of_a_group_keep_the_order_of_the_file_unless_dependencies_contradict_it(tmp_path: Path) -> None:
    ranks = [[collective(0, 4, 3), collective(1, 8), collective(2, 8), compute(3, 9, 2)] for _ in range(2)]
    found = read_workload(write(tmp_path, *ranks))
    assert [task.needs for task in found.ranks[0].tasks] == [{3}, set(), set(), {2}]
    assert [task.follows for task in found.ranks[0].tasks] == [2, None, 1, None]

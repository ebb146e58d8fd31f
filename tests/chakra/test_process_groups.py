"""Process groups that PyTorch records in traces."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from simsys.chakra.nodes import ChakraNode, NodeType
from simsys.chakra.reading import read_workload
from simsys.chakra.tasks import Join
from simsys.errors import TraceError
from tests.helpers.chakra_toys import collective, write


def stated(values: str) -> ChakraNode:
    return ChakraNode(0, "## process_group:init ##", NodeType.METADATA, values=values)


def entries(*groups: tuple[str, list[int]]) -> str:
    return json.dumps([{"pg_name": name, "ranks": ranks, "backend_config": "cuda:nccl"} for name, ranks in groups])


@pytest.mark.parametrize("quoted", ["['{}']", "[[{}]]", '["{}"]'])
def test_groups_of_pytorch_are_read_from_the_traces(tmp_path: Path, quoted: str) -> None:
    inside = entries(("0", []), ("1", [0, 2]))
    values = quoted.replace("{}", inside.replace('"', '\\"') if quoted == '["{}"]' else inside)
    whole, half = collective(1, 8, pg_name="0"), collective(2, 4, pg_name="1")
    ranks = [[stated(values), whole, *([half] if rank != 1 else [])] for rank in range(3)]
    found = read_workload(write(tmp_path, *ranks))
    joins = [task.action.group.ranks for task in found.ranks[2].tasks if isinstance(task.action, Join)]
    assert joins == [(0, 1, 2), (0, 2)]


def test_a_name_may_stand_for_other_ranks_in_another_trace(tmp_path: Path) -> None:
    pairs = [[0, 1], [0, 1], [2, 3], [2, 3]]
    found = read_workload(
        write(tmp_path, *([stated(entries(("1", pair))), collective(1, 4, pg_name="1")] for pair in pairs))
    )
    groups = [rank.tasks[1].action.group for rank in found.ranks if isinstance(rank.tasks[1].action, Join)]
    assert [group.ranks for group in groups] == [tuple(pair) for pair in pairs]
    assert groups[0] is groups[1]
    assert groups[0] is not groups[2]


def test_groups_of_the_file_come_first(tmp_path: Path) -> None:
    (tmp_path / "t.comm_groups.json").write_text('{"1": [1, 0]}')
    nodes = [stated(entries(("1", [0, 1]))), collective(1, 4, pg_name="1")]
    action = read_workload(write(tmp_path, nodes, nodes)).ranks[0].tasks[1].action
    assert isinstance(action, Join)
    assert action.group.ranks == (1, 0)


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ("[]", "its values are no list of process groups"),
        ("[{]}]", "its values are no list of process groups"),
        ('[{"pg_name": "1"}]', "a process group needs pg_name and ranks"),
        (entries(("1", [0, 0])), "process group '1': a list of different ranks is needed"),
    ],
)
def test_groups_that_make_no_sense_are_refused(tmp_path: Path, values: str, reason: str) -> None:
    with pytest.raises(TraceError, match=reason):
        read_workload(write(tmp_path, [stated(values)]))

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any, ClassVar, Literal

import pytest
from pydantic import AliasChoices, BaseModel, ConfigDict, Field, RootModel, field_validator, model_validator

from simsys.config.document import parse_document
from simsys.config.validation import dotted, problem_at, validate
from simsys.errors import ConfigError
from simsys.units import Bytes, BytesPerSecond, Seconds


class Section(BaseModel):
    model_config = ConfigDict(extra="forbid")


class Fabric(StrEnum):
    RING = "ring"
    TORUS = "torus_2d"


class Poisson(Section):
    kind: Literal["poisson"]
    rate: float


class Trace(Section):
    kind: Literal["trace"]
    trace: str


class Mesh(Section):
    shape: Literal["mesh"]
    width: int


class Tree(Section):
    shape: Literal["tree"]
    depth: int
    down: int


class Network(Section):
    fabric: Fabric = Fabric.RING
    algorithm: Literal["ring", "tree"] = "ring"
    bandwidth: BytesPerSecond = 1e9
    bucket: Bytes | Literal["auto"] = "auto"
    degree: int | Literal["auto"] = "auto"
    latency: Seconds | None = None
    base_latency: float = Field(default=0.0, validation_alias=AliasChoices("base_latency", "latency_us"), ge=0)


class Stages(RootModel[list[int]]):
    pass


class Node(Section):
    name: str
    child: Node | None = None


class Experiment(Section):
    parallelism: dict[str, int] = {}
    network: Network = Network()
    arrivals: Annotated[Poisson | Trace, Field(discriminator="kind")] | None = None
    layout: Mesh | Tree | None = None
    nodes: list[Node] = []
    by_rank: dict[int, Network] = {}
    pair: tuple[int, Network] | None = None
    stages: Stages | None = None
    on: bool = True

    @field_validator("on")
    @classmethod
    def _on(cls, on: bool) -> bool:
        if not on:
            raise ValueError("this cannot be off")
        return on

    @model_validator(mode="after")
    def _consistent(self) -> Experiment:
        if len(self.nodes) > 3:
            raise ValueError("at most 3 nodes")
        return self


def problems(text: str, model: type[BaseModel] = Experiment) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        validate(parse_document(text, "x.yaml"), model)
    return [str(problem).partition("\n")[0].removeprefix("x.yaml:") for problem in caught.value.problems]


def test_a_message_shows_the_line_and_a_caret() -> None:
    with pytest.raises(ConfigError) as caught:
        validate(parse_document("network:\n  bandwidth: 300\nparalelism: {}\n", "run.yaml"), Experiment)
    assert str(caught.value).splitlines() == [
        "run.yaml:2:14: network.bandwidth: 300 has no unit; write e.g. '300 GB/s' "
        "(units: B/s, kB/s, MB/s, GB/s, TB/s, PB/s, EB/s)",
        "      bandwidth: 300",
        "                 ^",
        "run.yaml:3:1: paralelism: unknown key 'paralelism', did you mean 'parallelism'?",
        "    paralelism: {}",
        "    ^",
    ]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "network: {algorithm: rign}",
            "1:22: network.algorithm: 'rign' is not one of ring, tree, did you mean 'ring'?",
        ),
        ("network: {fabric: cube}", "1:19: network.fabric: 'cube' is not one of ring, torus_2d"),
        ("network: {band: 3}", "1:11: network.band: unknown key 'band', did you mean 'bandwidth'?"),
        (
            "network: {latency_u: 3}",
            "1:11: network.latency_u: unknown key 'latency_u', did you mean 'latency_us'?",
        ),
        ("network: {latency_us: -3}", "1:23: network.latency_us: must be at least 0, not -3"),
        ("network: 3", "1:10: network: a mapping ('key: value' lines) is needed, not 3; its keys: algorithm, bandw"),
        ("network: [1]", "1:10: network: a mapping ('key: value' lines) is needed, not a list"),
        ("network:", "1:9: network: a mapping ('key: value' lines) is needed, not an empty value"),
        ("network: {latency: 5 GB}", "1:20: network.latency: '5 GB' is a size, a time is needed, e.g. '5 ms'"),
        ("nodes: {a: 1}", "1:8: nodes: a list is needed, not a mapping"),
        ("nodes:\n  - {}", "2:5: nodes[0]: missing required key 'name'"),
        (
            "nodes:\n  - name: a\n    child: {nam: b, name: c}",
            "3:13: nodes[0].child.nam: unknown key 'nam', did you mean",
        ),
        (
            "nodes:\n  - name: a\n    child:\n      child: {name: 3}",
            "3:5: nodes[0].child: missing required key 'name'",
        ),
        ("by_rank: {0: {fabrik: ring}}", "1:15: by_rank.0.fabrik: unknown key 'fabrik', did you mean 'fabric'?"),
        ("by_rank: {zero: {}}", "1:11: by_rank.zero: a whole number is needed, not 'zero'"),
        ("pair: [1, {fabrik: ring}]", "1:12: pair[1].fabrik: unknown key 'fabrik', did you mean 'fabric'?"),
        ("stages: [1, x]", "1:13: stages[1]: a whole number is needed, not 'x'"),
        ("parallelism: {tp: 1.5}", "1:19: parallelism.tp: a whole number is needed, not 1.5"),
        ("on: maybe", "1:5: on: true or false is needed, not 'maybe'"),
        ("on: false", "1:5: on: this cannot be off"),
        (
            "nodes: [{name: a}, {name: b}, {name: c}, {name: d}]",
            "1:1: at most 3 nodes",
        ),
    ],
)
def test_each_kind_of_error(text: str, expected: str) -> None:
    found = problems(text)
    assert found[0].startswith(expected)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "arrivals: {kind: poison}",
            "1:18: arrivals.kind: 'poison' is not one of poisson, trace, did you mean 'poisson'?",
        ),
        ("arrivals: {rate: 3}", "1:1: arrivals: missing required key 'kind', one of poisson, trace"),
        ("arrivals: {kind: poisson}", "1:1: arrivals: missing required key 'rate'"),
        ("arrivals: {kind: trace, trace: {a: 1}}", "1:32: arrivals.trace: text is needed, not a mapping"),
        (
            "arrivals: {kind: trace, trace: a, rat: 1}",
            "1:35: arrivals.rat: unknown key 'rat'; known: kind, trace",
        ),
        ("arrivals: 3", "1:11: arrivals: a mapping ('key: value' lines) is needed, not 3"),
    ],
)
def test_discriminated_unions_report_the_chosen_branch(text: str, expected: str) -> None:
    assert problems(text) == [expected]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "layout: {shape: mesh, widht: 3, width: 3}",
            "1:23: layout.widht: unknown key 'widht', did you mean 'width'?",
        ),
        ("layout: {shape: tree, depth: 3}", "1:1: layout: missing required key 'down'"),
        ("layout: {shape: ball}", "1:17: layout.shape: 'ball' is not one of mesh, tree"),
        ("layout: 3", "1:9: layout: a mapping ('key: value' lines) is needed, not 3"),
        ("network: {bucket: atuo}", "1:19: network.bucket: 'atuo' is not one of auto, did you mean 'auto'?"),
        ("network: {degree: 2.5}", "1:19: network.degree: a whole number is needed, not 2.5; or write auto"),
        (
            "network: {bucket: 5 ms}",
            "1:19: network.bucket: '5 ms' is a time, a size is needed, e.g. '80 GB'; or write auto",
        ),
    ],
)
def test_unions_report_the_branch_that_fits_best(text: str, expected: str) -> None:
    assert problems(text) == [expected]


def test_all_problems_come_at_once_in_file_order() -> None:
    found = problems("on: maybe\nnetwork: {algorithm: x, bandwidth: 3}\nfoo: 1\nnodes: [{}]\n")
    assert [line.split(":")[0] for line in found] == ["1", "2", "2", "3", "4"]


def test_a_valid_document_is_returned() -> None:
    experiment = validate(parse_document("network: {bandwidth: 900 GB/s}\nby_rank: {3: {}}\n", "x.yaml"), Experiment)
    assert experiment.network.bandwidth == 900e9
    assert set(experiment.by_rank) == {3}


def test_part_of_a_document() -> None:
    document = parse_document("a:\n  network: {fabrik: ring}\n", "x.yaml")
    with pytest.raises(ConfigError, match=r"^x.yaml:2:13: a\.network\.fabrik: unknown key"):
        validate(document, Network, at=("a", "network"))
    with pytest.raises(ConfigError, match=r"^x.yaml:1:1: a: missing required key 'netwrk'"):
        validate(document, Network, at=("a", "netwrk"))


@pytest.mark.parametrize("model", [Experiment, Network])
def test_plain_data_has_paths_but_no_lines(model: type[BaseModel]) -> None:
    data: dict[str, Any] = {"unknown": 1}
    with pytest.raises(ConfigError, match=r"^unknown: unknown key 'unknown'"):
        validate(data, model)


def test_problem_at_points_at_the_key_or_the_value() -> None:
    document = parse_document("a:\n  b: 5\n", "x.yaml")
    assert str(problem_at(document, ("a", "b"), "is odd")) == "x.yaml:2:6: a.b: is odd\n      b: 5\n         ^"
    assert problem_at(document, ("a", "b"), "is odd", key=True).column == 3
    assert str(problem_at({}, ("a", 0, "b"), "is odd")) == "a[0].b: is odd"


def test_dotted() -> None:
    assert dotted(("a", 0, 1, "b")) == "a[0][1].b"
    assert dotted(()) == ""


def test_no_message_speaks_of_python() -> None:
    text = "on: [1]\nnetwork: {algorithm: 3, bandwidth: true, degree: x, base_latency: .nan}\n"
    text += "nodes: 3\npair: [1]\nby_rank: 4\n"
    for line in problems(text):
        assert not any(word in line for word in ("Input", "dict", "None", "pydantic", "Error", "instance", "str "))


class Engine(Section):
    other_names: ClassVar = {"num_drafts": "drafts.count", "tensor_parallel": "layout.tp_degree"}

    max_num_seqs: int = 1
    precision: str = "bf16"


class Training(Section):
    precision: str = "bf16"


class Layout(Section):
    other_names: ClassVar = {"tensor_parallel": "tp_degree"}

    tp_degree: int = 1


class Whole(Section):
    engine: Engine = Engine()
    training: Training | None = None
    layout: Layout = Layout()


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ({"tp_degree": 2}, "'layout.tp_degree'"),
        ({"training": {"max_num_seqs": 2}}, "'engine.max_num_seqs'"),
        ({"precision": "fp8"}, "'engine.precision' or 'training.precision'"),
        ({"training": {"num_drafts": 2}}, "'engine.drafts.count'"),
        ({"engine": {"tensor_parallel": 2}}, "'layout.tp_degree'"),
        ({"training": {"tensor_parallel": 2}}, "'layout.tp_degree'"),
        ({"layout": {"tp_degre": 2}}, "'tp_degree'"),
        ({"engine": {"max-num-seqs": 2}}, "'max_num_seqs'"),
        ({"training": {"tensorParallel": 2}}, "'layout.tp_degree'"),
    ],
)
def test_a_key_of_another_section_is_suggested_with_its_section(given: dict[str, Any], meant: str) -> None:
    with pytest.raises(ConfigError) as caught:
        validate(given, Whole)
    assert [problem.message.split("did you mean ")[1] for problem in caught.value.problems] == [f"{meant}?"]


def test_a_key_that_is_there_under_another_name_is_not_missing_too() -> None:
    class Load(Section):
        other_names: ClassVar = {"request_rate": "arrivals.rate"}

        arrivals: dict[str, int]

    with pytest.raises(ConfigError) as caught:
        validate({"request_rate": 2}, Load)
    assert [problem.message for problem in caught.value.problems] == [
        "unknown key 'request_rate', did you mean 'arrivals.rate'?"
    ]


def test_text_for_a_mapping_with_a_name_is_its_name() -> None:
    class Named(Section):
        name: str = ""

    class Outer(Section):
        model: Named

    with pytest.raises(ConfigError) as caught:
        validate({"model": "llama"}, Outer)
    assert "; write {name: llama}" in str(caught.value)

from __future__ import annotations

import math
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from simsys.config.document import MAX_BYTES, Document, parse_document, plain_value, read_document
from simsys.errors import ConfigError


def problems(text: str) -> str:
    with pytest.raises(ConfigError) as caught:
        parse_document(text, "x.yaml")
    return str(caught.value)


def place(document: Document, *path: str | int, key: bool = False) -> tuple[int, int] | None:
    mark = document.locate(path, key=key)
    return (mark.line, mark.column) if mark else None


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1e9", 1e9),
        ("1.5e-3", 1.5e-3),
        ("-1E+3", -1000.0),
        (".5", 0.5),
        ("5.", 5.0),
        (".inf", math.inf),
        ("-.INF", -math.inf),
        ("12", 12),
        ("012", 12),
        ("-3", -3),
        ("0o17", 15),
        ("0x1F", 31),
        ("true", True),
        ("False", False),
        ("null", None),
        ("~", None),
        ("", None),
        ("12:30", "12:30"),
        ("2024-01-31", "2024-01-31"),
        ("no", "no"),
        ("yes", "yes"),
        ("on", "on"),
        ("Off", "Off"),
        ("None", "None"),
        ("1_000", "1_000"),
        ("8 req/s", "8 req/s"),
        ("1.2.3", "1.2.3"),
        ("'12'", "12"),
        ('"true"', "true"),
        ("!!str 12", "12"),
        ("[1, {a: b}]", [1, {"a": "b"}]),
    ],
)
def test_values_follow_yaml_1_2(text: str, value: object) -> None:
    data = parse_document(f"key: {text}\n", "x.yaml").data["key"]
    assert data == value
    assert type(data) is type(value)


def test_nan_is_a_number() -> None:
    value = plain_value(".nan")
    assert isinstance(value, float)
    assert math.isnan(value)


def test_a_number_too_long_for_an_integer_stays_harmless() -> None:
    assert parse_document(f"a: {'9' * 5000}", "x.yaml").data == {"a": math.inf}


def test_keys_are_text() -> None:
    assert parse_document("1: a\ntrue: b\nno: c\n", "x.yaml").data == {"1": "a", "true": "b", "no": "c"}


PLAIN_DATA = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text("ab :#-\n"),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text("abc", min_size=1), inner, max_size=4),
    max_leaves=12,
)


@given(data=st.dictionaries(st.text("abc", min_size=1), PLAIN_DATA, min_size=1))
def test_what_yaml_writes_is_read_back(data: dict[str, object]) -> None:
    assert parse_document(yaml.safe_dump(data), "x.yaml").data == data


def test_places_of_keys_and_values() -> None:
    document = parse_document("a:\n  b: 5\n  c: [x, y]\nd: {e: 1}\n", "x.yaml")
    assert place(document, "a", "b") == (2, 6)
    assert place(document, "a", "b", key=True) == (2, 3)
    assert place(document, "a", "c", 1) == (3, 10)
    assert place(document, "d", "e") == (4, 8)
    assert place(document, "a", "missing") == (1, 1)  # the key around it
    assert document.mark(("a", "missing")) is None


def test_merge_keys_and_anchors() -> None:
    document = parse_document(
        "base: &base {x: 1, y: 2}\nother: &other {y: 8, z: 9}\nuse:\n  <<: [*base, *other]\n  x: 5\n", "x.yaml"
    )
    assert document.data["use"] == {"x": 5, "y": 2, "z": 9}
    assert place(document, "use", "y") == (1, 23)


def test_a_byte_order_mark_is_accepted(tmp_path: Path) -> None:
    file = tmp_path / "x.yaml"
    file.write_bytes(b"\xef\xbb\xbfa: 1\n")
    assert read_document(file).data == {"a": 1}
    assert parse_document("\ufeffa: 1", "x.yaml").data == {"a": 1}


def test_windows_line_ends() -> None:
    document = parse_document("a: 1\r\nb: 2\r\n", "x.yaml")
    assert document.data == {"a": 1, "b": 2}
    mark = document.locate(("b",))
    assert mark is not None
    assert (mark.line, mark.source) == (2, "b: 2")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", ":1:1: the file is empty"),
        (b"# only a comment\n", ":1:1: the file is empty"),
        (b"---\n", ":1:1: the file is empty"),
        (b"a: \0", ":1: this is a binary file (it holds NUL bytes), not YAML text"),
        ("a: 1".encode("utf-16"), ":1: this is a binary file (it holds NUL bytes), not YAML text"),
        (b"a: 1\nb: \xff\xfe\n", ":2:4: this is not UTF-8 text"),
        (b"a: " + b"x" * MAX_BYTES, "the file is larger than 4 MiB"),
    ],
)
def test_files_that_are_not_yaml_text(tmp_path: Path, content: bytes, message: str) -> None:
    file = tmp_path / "x.yaml"
    file.write_bytes(content)
    with pytest.raises(ConfigError) as caught:
        read_document(file)
    place = "" if message.startswith(":") else ": "
    assert str(caught.value) == f"{file}{place}{message}"


def test_a_missing_file_and_a_directory(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"nowhere\.yaml: no such file$"):
        read_document(tmp_path / "nowhere.yaml")
    with pytest.raises(ConfigError, match=r"this is a directory, a YAML file is needed$"):
        read_document(tmp_path)
    with pytest.raises(ConfigError, match="cannot be read: "):
        read_document(tmp_path / "a\0b")


def test_a_file_without_permission(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("simsys.input_files.os.open", refuse)
    with pytest.raises(ConfigError, match=r"no permission to read this file$"):
        read_document(tmp_path / "x.yaml")


def test_a_syntax_error_shows_its_line() -> None:
    text = problems("a: 1\nb: [1, 2\nc: 3\n")
    assert text.startswith("x.yaml:3:2: not valid YAML: ")
    assert text.endswith("(while parsing a flow sequence, line 2)\n    c: 3\n     ^")


@pytest.mark.parametrize(
    ("text", "start"),
    [
        ("a:\n\tb: 1\n", "x.yaml:2:1: a tab cannot indent YAML; use spaces"),
        ("a: 'open\n", "x.yaml:2:1: not valid YAML: found unexpected end of stream"),
        ("a: *nowhere\n", "x.yaml:1:4: not valid YAML: found undefined alias"),
        ("a: b: c\n", "x.yaml:1:5: not valid YAML: mapping values are not allowed"),
        ("a: 1\n--- \nb: 2\n", "x.yaml:2:1: a file holds one YAML document; a second one begins here"),
        ("- a\n- b\n", "x.yaml:1:1: the file must hold a mapping ('key: value' lines), not a list"),
        ("just text\n", "x.yaml:1:1: the file must hold a mapping ('key: value' lines), not a single value"),
        ("a: 1\nb: \x07\n", "x.yaml:2: this is not plain text: it holds the control character U+0007"),
        ("a: \udc80\n", "x.yaml:1: this is not plain text: it holds the control character U+DC80"),
        ("a: !!python/object/apply:os.system [ls]\n", "x.yaml:1:4: the tag '!!python/object/apply:os.system' is not"),
        ("a: !mine 3\n", "x.yaml:1:4: the tag '!mine' is not allowed; write the plain value"),
        ("!!python/name:os.system x: 3\n", "x.yaml:1:1: the tag '!!python/name:os.system' is not allowed"),
        ("a: !!int '3'\n", "x.yaml:1:4: the tag '!!int' is not allowed"),
        ("? [a, b]\n: 3\n", "x.yaml:1:3: a key must be plain text"),
        ("a: {<<: 3}\n", "x.yaml:1:9: '<<' merges a mapping or a list of mappings"),
        ("a: &a [*a]\n", "x.yaml:1:4: an anchor is used inside itself"),
        ("a: &a {b: {c: *a}}\n", "x.yaml:1:4: an anchor is used inside itself"),
        ("a: &a {<<: *a}\n", "x.yaml:1:4: an anchor is used inside itself"),
        ("a: " + "[" * 65 + "]" * 65, "x.yaml:1:67: nested deeper than 64 levels"),
        ("a: " + "{b: " * 100_000, "x.yaml:1:256: nested deeper than 64 levels"),
    ],
)
def test_yaml_that_is_refused(text: str, start: str) -> None:
    assert problems(text).startswith(start)


def test_all_duplicate_keys_are_named_with_both_lines() -> None:
    assert problems("a: 1\nb: {c: 1, c: 2}\na: 3\n").splitlines() == [
        "x.yaml:2:11: duplicate key 'c': lines 2 and 2",
        "    b: {c: 1, c: 2}",
        "              ^",
        "x.yaml:3:1: duplicate key 'a': lines 1 and 3",
        "    a: 3",
        "    ^",
    ]


def test_a_duplicate_in_an_anchor_is_named_once() -> None:
    assert problems("a: &a {x: 1, x: 2}\nb: *a\nc: *a\n").count("duplicate key 'x'") == 1


def test_an_alias_bomb_is_refused_quickly() -> None:
    bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x]\n"
    bomb += "".join(f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]\n" for i in range(1, 12))
    assert problems(bomb).startswith("x.yaml:1:13: more than 100,000 values once its anchors are expanded")


def test_a_merge_bomb_is_refused_quickly() -> None:
    bomb = "a0: &a0 {x: 1}\n"
    bomb += "".join(f"a{i}: &a{i} {{<<: [{', '.join([f'*a{i - 1}'] * 9)}]}}\n" for i in range(1, 30))
    assert "once its anchors are expanded" in problems(bomb)


def test_masses_of_values_are_refused() -> None:
    assert problems("a: [" + "x," * 400_000 + "]") == "x.yaml:1:799997: more than 100,000 values"


def test_very_deep_nesting_is_refused_wherever_the_parser_notices_it() -> None:
    found = problems("[" * 500_000)
    assert found.startswith("x.yaml:1:")
    assert ": nested deeper than 64 levels" in found


def test_nesting_by_aliases_is_limited_too() -> None:
    chain = "a0: &a0 [x]\n" + "".join(f"a{i}: &a{i} [*a{i - 1}]\n" for i in range(1, 80))
    assert "nested deeper than 64 levels once its anchors are expanded" in problems(chain)


def test_a_long_line_is_not_shown() -> None:
    assert "\n" not in problems("a: !mine " + "x" * 10_000)

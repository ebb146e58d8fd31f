"""Plug-ins by name: files, registered classes, entry points, places, and what goes wrong with each."""

from __future__ import annotations

import sys
import types
from abc import ABC, abstractmethod
from collections.abc import Iterator
from importlib.metadata import EntryPoint, EntryPoints
from pathlib import Path

import pytest

from simsys.collectives import ALGORITHMS
from simsys.errors import UnknownNameError, UsageError
from simsys.framework import FRAMEWORKS, DataParallel, TrainingFramework
from simsys.registry import Registry
from tests.helpers.places import ROOT

GROUP = "simsys.frameworks"


@pytest.fixture
def registry() -> Registry:
    """One of its own, over the shipped framework modules, without the classes that they register elsewhere."""
    return Registry("framework module", "frameworks", GROUP, aliases={"ddp_alias": "mine"})


@pytest.fixture
def no_entry_points(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.metadata.entry_points", lambda **_: EntryPoints())


def test_shipped_files_are_known_by_their_names_and_nothing_is_imported_for_it(registry: Registry) -> None:
    folder = Path(sys.modules["simsys"].__file__).parents[1] / "frameworks"
    files = {path.stem for path in folder.glob("*.py")} - {"__init__"}
    before = set(sys.modules)
    assert files <= set(registry.names())
    assert {"ddp", "none", "training", "llm_prefill", "llm_decode"} <= files
    assert not {name for name in set(sys.modules) - before if name.startswith("frameworks.")}


def test_a_shipped_module_is_found_by_the_name_of_its_file() -> None:
    ddp = FRAMEWORKS.get("ddp", DataParallel)
    assert (ddp.__module__, ddp.__name__) == ("frameworks.ddp", "DDP")
    assert FRAMEWORKS.get("ddp", DataParallel) is ddp


def test_a_registered_class_is_found_by_its_name_and_its_alias(registry: Registry) -> None:
    @registry.register("mine")
    class Mine(DataParallel):
        """A user's module."""

    assert registry.get("mine", DataParallel) is Mine
    assert registry.get("ddp_alias", DataParallel) is Mine
    assert {"mine", "ddp_alias"} <= set(registry.names())
    registry.forget("mine")
    with pytest.raises(UnknownNameError):
        registry.get("mine", DataParallel)


def test_two_classes_of_one_name_are_refused_and_the_first_stays(registry: Registry) -> None:
    @registry.register("mine")
    class First(DataParallel):
        """The first."""

    with pytest.raises(UsageError, match=r"'mine' is registered twice: by .*First and .*Second"):

        @registry.register("mine")
        class Second(DataParallel):
            """The second."""

    assert registry.get("mine", DataParallel) is First


def test_the_same_class_may_be_registered_again_as_when_its_module_is_reloaded(registry: Registry) -> None:
    def define() -> type:
        @registry.register("mine")
        class Mine(DataParallel):
            """A user's module."""

        return Mine

    define()
    again = define()
    assert registry.get("mine", DataParallel) is again


@pytest.fixture
def plugin(monkeypatch: pytest.MonkeyPatch) -> Iterator[types.ModuleType]:
    """An installed module with some classes, as another distribution would bring."""
    module = types.ModuleType("plugin_of_someone")
    module.Theirs = type("Theirs", (DataParallel,), {})
    module.number = 7
    monkeypatch.setitem(sys.modules, module.__name__, module)
    return module


@pytest.fixture
def entry_points(monkeypatch: pytest.MonkeyPatch) -> EntryPoints:
    points = EntryPoints(
        EntryPoint(name, f"plugin_of_someone{place}", GROUP)
        for name, place in {"theirs": ":Theirs", "gone": ":Gone", "no_module": "_else:X", "number": ":number"}.items()
    )
    monkeypatch.setattr(
        "importlib.metadata.entry_points", lambda *, group: points if group == GROUP else EntryPoints()
    )
    return points


@pytest.mark.usefixtures("entry_points")
def test_an_entry_point_of_another_distribution_is_found(registry: Registry, plugin: types.ModuleType) -> None:
    assert "theirs" in registry.names()
    assert registry.get("theirs", DataParallel) is plugin.Theirs


@pytest.mark.usefixtures("entry_points", "plugin")
@pytest.mark.parametrize(("name", "reason"), [("gone", "Gone"), ("no_module", "_else"), ("number", "not a class")])
def test_an_entry_point_that_cannot_be_loaded_says_why(registry: Registry, name: str, reason: str) -> None:
    with pytest.raises(UsageError, match=f"plugin_of_someone.*{reason}"):
        registry.get(name, DataParallel)


def test_a_class_is_found_by_its_place(registry: Registry, plugin: types.ModuleType) -> None:
    assert registry.get("plugin_of_someone:Theirs", DataParallel) is plugin.Theirs


@pytest.mark.usefixtures("plugin")
@pytest.mark.parametrize(
    ("place", "reason"),
    [
        ("plugin_of_someone:Nobody", "no framework module at 'plugin_of_someone:Nobody'"),
        ("no_such_package.module:Class", "No module named 'no_such_package'"),
        (":Class", "no framework module at ':Class'"),
        ("plugin_of_someone:", "no framework module at 'plugin_of_someone:'"),
        ("plugin_of_someone:number", "'plugin_of_someone:number' is not a class"),
        ("collections:OrderedDict", "'collections:OrderedDict' is not a complete subclass of DataParallel"),
    ],
)
def test_a_place_without_a_fitting_class_is_refused(registry: Registry, place: str, reason: str) -> None:
    with pytest.raises(UsageError, match=reason):
        registry.get(place, DataParallel)


@pytest.mark.usefixtures("no_entry_points")
def test_an_unknown_name_comes_with_a_suggestion(registry: Registry) -> None:
    with pytest.raises(UnknownNameError, match=r"unknown framework module 'dpp', did you mean 'ddp'"):
        registry.get("dpp", DataParallel)
    with pytest.raises(UnknownNameError, match=r"known: .*chunked_prefill.*ddp"):
        registry.get("xyz", DataParallel)


def test_a_module_of_another_sort_is_refused() -> None:
    with pytest.raises(UsageError, match="framework module 'ddp' is not a complete subclass of TrainingFramework"):
        FRAMEWORKS.get("ddp", TrainingFramework)


def test_an_abstract_class_is_refused(registry: Registry) -> None:
    class Base(ABC):
        @abstractmethod
        def work(self) -> None: ...

    @registry.register("unfinished")
    class Unfinished(Base):
        """Says nothing about work."""

    with pytest.raises(UsageError, match="'unfinished' is not a complete subclass of Base"):
        registry.get("unfinished", Base)


def test_a_file_that_registers_nothing_under_its_name_is_named() -> None:
    registry = Registry("thing", "simsys.parallel", "simsys.things")
    with pytest.raises(UsageError, match=r"simsys\.parallel\.layout registers no thing called 'layout'"):
        registry.get("layout", object)


def test_helpers_are_no_plug_ins() -> None:
    registry = Registry("thing", "simsys.parallel", "simsys.things", helpers=("layout",))
    assert "layout" not in registry.names()
    with pytest.raises(UnknownNameError):
        registry.get("layout", object)


def test_another_package_of_the_same_name_does_not_hide_the_shipped_one(
    registry: Registry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "frameworks").mkdir()
    (tmp_path / "frameworks" / "__init__.py").write_text("")
    for name in [name for name in sys.modules if name.split(".")[0] == "frameworks"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(UsageError, match=rf"the package 'frameworks' in {tmp_path}.* hides the one of simsys"):
        registry.get("ddp", DataParallel)
    monkeypatch.delitem(sys.modules, "frameworks")


@pytest.mark.parametrize("registry", [ALGORITHMS, FRAMEWORKS], ids=["collectives", "frameworks"])
def test_helpers_are_files_of_the_package(registry: Registry) -> None:
    folder = ROOT / registry.package.replace(".", "/")
    assert [name for name in sorted(registry.helpers) if not (folder / f"{name}.py").is_file()] == []

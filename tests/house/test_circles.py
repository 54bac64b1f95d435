"""No module takes from one that takes from it, whatever lies between."""

from __future__ import annotations

import ast
import re
from graphlib import CycleError, TopologicalSorter
from typing import TYPE_CHECKING

import pytest

from repository import ROOT, text

if TYPE_CHECKING:
    from pathlib import Path

#: Crates in which a file, or a folder of files that is one module, is in no circle.
CRATES = (
    *("units", "plugin", "wire", "trace", "capture", "congestion", "scheduler", "tcp", "mptcp", "media"),
    *("link", "host", "plan", "network", "sim", "drill", "live", "python"),
)

#: Uses that are part of a circle and stay: a table names its members, and a member is of the table's kind.
TABLES = {"link": {("model", "wifi")}}

_USE = re.compile(r"\bcrate::(\w+)")
_GROUP = re.compile(r"\bcrate::\{(.*?)\};", re.DOTALL)

Graph = dict[str, set[str]]


def _circle(graph: Graph) -> list[str]:
    """Return the modules of a circle; empty without a circle."""
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def _python(root: Path) -> Graph:
    """Return what each module of the package takes from which, imports inside functions and for types too."""
    files = {
        ".".join(("anabranch", *path.relative_to(root).with_suffix("").parts)): path
        for path in root.rglob("*.py")
    }
    files = {name.removesuffix(".__init__"): path for name, path in files.items()}
    graph: Graph = {}
    for name, path in files.items():
        found = graph.setdefault(name, set())
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and node.module in files:
                whole = {f"{node.module}.{alias.name}" for alias in node.names}
                # A name that is not a module is the package's.
                found |= {one if one in files else node.module for one in whole}
            elif isinstance(node, ast.Import):
                found |= {alias.name for alias in node.names if alias.name in files}
    # The names that the package offers, lazily, are not used by its rooms.
    graph.pop("anabranch")
    return graph


def _rust(crate: str) -> Graph:
    """Return the modules that each top-level module of a crate imports from."""
    root = ROOT / "crates" / crate / "src"
    graph: Graph = {}
    for path in sorted(root.rglob("*.rs")):
        name = path.relative_to(root).with_suffix("").parts[0]
        source = text(path.relative_to(ROOT).as_posix())
        groups = " ".join(_GROUP.findall(source))
        used = {*_USE.findall(source), *re.findall(r"(?:^|,|\s)(\w+)::", groups)}
        if name != "lib":
            graph.setdefault(name, set()).update(used - {name})
    return {name: used & graph.keys() for name, used in graph.items()}


def test_a_circle_is_found():
    assert _circle({"a": {"b"}, "b": {"c"}, "c": set()}) == []
    assert set(_circle({"a": {"b"}, "b": {"c"}, "c": {"a"}})) == {"a", "b", "c"}


def test_every_form_of_import_is_seen(tmp_path):
    for name, source in {
        "one": "from anabranch.two import f",
        "two": "def f():\n    import anabranch.three",
        "three": "from anabranch import one",
    }.items():
        (tmp_path / f"{name}.py").write_text(source + "\n")
    (tmp_path / "__init__.py").touch()
    graph = _python(tmp_path)
    assert graph["anabranch.two"] == {"anabranch.three"}
    assert len(set(_circle(graph))) == 3


def test_the_package_has_no_circle():
    graph = _python(ROOT / "python" / "anabranch")
    assert "anabranch.scenario.load" in graph["anabranch._run"]
    assert _circle(graph) == []


@pytest.mark.parametrize("crate", CRATES)
def test_a_crate_has_no_circle(crate):
    graph = _rust(crate)
    assert len(graph) > 1
    for table, member in TABLES.get(crate, ()):
        assert member in graph[table], "no circle any more: take it off the list"
        assert table in graph[member], "no circle any more: take it off the list"
        graph[table].remove(member)
    assert _circle(graph) == []


def test_crate_graph_includes_imported_modules():
    assert "plugins" in _rust("plan")["plan"]
    assert "plugged" in _rust("python")["scheduler"]

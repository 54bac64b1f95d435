"""Classes of a notebook as plug-ins: the file that is written for each, and the runs that load it.

Expected values: what the class and the names around it say, and the run of the same class in a file.
"""

from __future__ import annotations

import linecache
import math
import types
from pathlib import Path

import pytest

import anabranch
from anabranch.errors import InputError
from anabranch.plugins import cells

CELL = """\
import math as m
from fractions import Fraction
from anabranch.plugins import candidates

LIMITS = {"srtt_ms": 250.0, "names": ("wifi", "lte")}
unused = object()
frame = object()


def slowness(subflow):
    return m.floor(subflow.srtt_ms) + Fraction(1, 2)


class Base:
    def free(self, subflows):
        return [one for one in candidates(subflows) if one.can_send and one.srtt_ms < LIMITS["srtt_ms"]]


class Lowest(Base):
    \"\"\"The smallest RTT.\"\"\"

    def schedule(self, request, subflows):
        frame = self.free(subflows)
        return min(frame, key=slowness, default=None)
"""


pytestmark = pytest.mark.module


@pytest.fixture
def notebook(tmp_path, monkeypatch):
    """Return a function that runs a cell, and returns its names."""
    monkeypatch.setenv("ANABRANCH_CACHE", str(tmp_path / "cache"))
    cells_run = 0

    def run(source, names=None):
        nonlocal cells_run
        cells_run += 1
        file = f"<cell {cells_run}>"
        linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
        names = {"__name__": "__main__"} if names is None else names
        exec(compile(source, file, "exec", dont_inherit=True), names)
        return names

    yield run
    for number in range(1, cells_run + 1):
        linecache.cache.pop(f"<cell {number}>")


def written(plugin):
    """Return the text of the file that is written for a class."""
    file, _, name = cells.place(plugin).rpartition(":")
    assert name == plugin.__name__
    return Path(file).read_text(encoding="utf-8")


def test_written_file_contains_only_names_the_class_uses(notebook):
    text = written(notebook(CELL)["Lowest"])
    assert sorted(text.splitlines()[:3]) == [
        "from anabranch._anabranch import candidates as candidates",
        "from fractions import Fraction as Fraction",
        "import math as m",
    ]
    assert "LIMITS = {'srtt_ms': 250.0, 'names': ('wifi', 'lte')}" in text
    assert "unused" not in text
    # A local variable is none of the notebook's.
    assert "object()" not in text
    loaded = {"__name__": "other"}
    exec(text, loaded)
    assert issubclass(loaded["Lowest"], loaded["Base"])
    assert loaded["slowness"](types.SimpleNamespace(srtt_ms=3.7)) == math.floor(3.7) + 0.5


def test_an_edited_cell_and_a_changed_constant_are_other_plugins(notebook):
    names = notebook(CELL)
    first = cells.place(names["Lowest"])
    assert cells.place(names["Lowest"]) == first
    names["LIMITS"] = {"srtt_ms": 10.0, "names": ()}
    second = cells.place(names["Lowest"])
    notebook(CELL.replace("default=None", "default=None,"), names)
    assert len({first, second, cells.place(names["Lowest"])}) == 3


def test_class_without_usable_source_is_rejected_by_name(notebook):
    names = notebook(
        "frame = open\nlimit = object()\nclass Odd:\n    def schedule(self, r, s):\n        return limit\n"
    )
    with pytest.raises(InputError, match=r"`Odd` cannot be loaded.*`limit` of the notebook.*\n.*mine.py:Odd"):
        cells.place(names["Odd"])
    with pytest.raises(InputError, match="has no source of `Made`"):
        cells.place(type("Made", (), {"__module__": "__main__"}))


def test_a_class_of_a_module_is_named_by_its_place_and_one_of_a_function_is_refused():
    assert cells.place(Here) == f"{__file__}:Here"

    class Inside:
        pass

    with pytest.raises(InputError, match="not at the top level"):
        cells.place(Inside)


class Here:
    pass


def test_a_class_of_a_notebook_runs_as_the_same_class_in_a_file_does(notebook, tmp_path):
    (tmp_path / "lowest.py").write_text(CELL, encoding="utf-8")
    plugin = notebook(CELL)["Lowest"]
    size = {"application.bytes": "100kB"}
    there = anabranch.run("bulk-two-paths", scheduler=f"{tmp_path}/lowest.py:Lowest", set=size)
    assert anabranch.run("bulk-two-paths", scheduler=plugin, set=size).digest == there.digest
    composed = {"name": "rtx-aware", "base": plugin}
    ours = anabranch.run("bulk-two-paths", scheduler=composed, set=size)
    assert ours.digest != anabranch.run("bulk-two-paths", set=size).digest


def test_a_class_is_a_value_of_a_grid(notebook):
    plugin = notebook(CELL)["Lowest"]
    grid, size = {"transport.scheduler": ["min-rtt", plugin]}, {"application.bytes": "100kB"}
    found = anabranch.sweep("bulk-two-paths", grid=grid, set=size, trials=1, workers=1)
    assert [name.rpartition(":")[2] for name in found.means()["transport.scheduler"]] == ["min-rtt", "Lowest"]

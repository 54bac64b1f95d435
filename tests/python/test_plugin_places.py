"""Classes given by file or by entry point: lookup, hashes and faults."""

from __future__ import annotations

import functools
import math
import pathlib
import sys
import textwrap

import pytest
from typer.testing import CliRunner

import anabranch
from anabranch.cli._app import app
from anabranch.errors import ScenarioError
from anabranch.plugins import sources
from anabranch.results import inputs
from anabranch.scenario import load as loading

pytestmark = pytest.mark.module
BASE = {
    "name": "x",
    "application": {"kind": "bulk", "bytes": "100 kB"},
    "paths": [{"name": name, "rtt": "9 ms", "rate": "9 Mbit/s"} for name in ("a", "b")],
}
FIRST = "return next((s for s in subflows if s.can_send), None)"
MINE = f"class Mine:\n    def schedule(self, request, subflows):\n        {FIRST}\n"


@pytest.fixture
def write(tmp_path, monkeypatch):
    """Return how to write a file below the working directory."""
    monkeypatch.chdir(tmp_path)

    def writer(name, text=MINE):
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(textwrap.dedent(text), encoding="utf-8")
        return file

    return writer


def faults(**transport):
    with pytest.raises(ScenarioError) as caught:
        loading.load({**BASE, "transport": transport})
    return caught.value.faults


def hash_of(place="mine.py:Mine"):
    loaded = loading.load({**BASE, "transport": {"scheduler": place}})
    return loaded.plugins["scheduler"][place].source.digest


TOO_DEEP = "plug-ins can be nested to at most 16 levels"
FAULTS = {
    "no file": ("", "mien.py:Mine", "no such file: `mien.py`", "did you mean `mine.py`?", None),
    "no folder": ("", "there/mine.py:Mine", "no such file: `there/mine.py`", "looked in ", None),
    "no class named": (MINE, "mine.py", "a file without a class: `mine.py`", "for example `mine.py:Mine`", None),
    "nothing named": (MINE, "mine.py:", "a file without a class: `mine.py`", "for example `mine.py:Mine`", None),
    "no such class": (MINE, "mine.py:Mien", "no class `Mien` in mine.py", "did you mean `Mine`?", None),
    "not a class": ("Mine = 3\n", "mine.py:Mine", "not a class: `Mine` in mine.py", "", None),
    "syntax": ("\ndef f(:\n", "mine.py:Mine", "not valid Python: invalid syntax", "", ("mine.py", 2)),
    "null": ("\0", "mine.py:Mine", "null bytes", "", ("mine.py", None)),
    "import": ("import json\nnothing\n", "mine.py:Mine", "cannot import mine.py: NameError: name 'nothing' is not defined",
               "", ("mine.py", 2)),
    "module": ("import no_such_module\n", "mine.py:Mine", "ModuleNotFoundError: No module named 'no_such_module'", "",
               ("mine.py", 1)),
    "no method": ("\nclass Mine:\n    pass\n", "mine.py:Mine", "no method `schedule` in class Mine",
                  "a scheduler needs `schedule(self, request, subflows)`", ("mine.py", 2)),
    "a controller": ("class Mine:\n    def on_ack(self, ack, window): ...\n    def on_congestion(self, event, window): ...\n",
                     "mine.py:Mine", "no method `schedule`", "this is a congestion control", ("mine.py", 1)),
    "arguments": ("class Mine:\n    def schedule(self, request): ...\n", "mine.py:Mine",
                  "Mine.schedule cannot be called with request, subflows", "def schedule(self, request, subflows)",
                  ("mine.py", 2)),
    "optional arguments": (MINE + "    def on_sent(self, subflow): ...\n", "mine.py:Mine",
                           "Mine.on_sent cannot be called with subflow, from_byte, sent_bytes", "def on_sent(self,",
                           ("mine.py", 4)),
    "never told": (MINE + "    def on_send(self, subflow, from_byte, sent_bytes): ...\n", "mine.py:Mine",
                   "nothing calls `on_send` of a scheduler", "did you mean `on_sent`?", ("mine.py", 4)),
    "parameter": (MINE + "    def __init__(self, threshold=1): ...\n", {"name": "mine.py:Mine", "treshold": 2},
                  "unknown parameter of mine.py:Mine: `treshold`", "did you mean `threshold`?", None),
    "no parameter": (MINE, "mine.py:Mine(k=2)", "unknown parameter of mine.py:Mine: `k`", "it has none", None),
    "needed": (MINE + "    def __init__(self, threshold): ...\n", "mine.py:Mine",
               "missing parameter of mine.py:Mine: `threshold`", "no default", None),
    "rng": (MINE + "    def __init__(self, rng): ...\n", "mine.py:Mine(rng=3)",
            "unknown parameter of mine.py:Mine: `rng`", "it has none", None),
    "constructor": (MINE + "    def __init__(self, k=1):\n        raise ValueError('k is odd')\n", "mine.py:Mine(k=3)",
                    "cannot make a Mine: ValueError: k is odd", "", ("mine.py", 5)),
    "exit": ("import sys\nsys.exit(0)\n", "mine.py:Mine", "cannot import mine.py: SystemExit: 0", "", ("mine.py", 2)),
    "exit in the constructor": (MINE + "    def __init__(self):\n        raise SystemExit\n", "mine.py:Mine",
                                "cannot make a Mine: SystemExit", "", ("mine.py", 5)),
    "attribute": ("\n" + MINE + "    wants_idle = 'maybe'\n", "rtx-aware(mine.py:Mine)",
                  "Mine.wants_idle is 'maybe': expected True or False", "", ("mine.py", 2)),
    "property": (MINE + "    @property\n    def reinjects(self):\n        raise KeyError('no')\n", "mine.py:Mine",
                 "cannot make a Mine: KeyError: 'no'", "", ("mine.py", 6)),
    "base": (MINE, "mine.py:Mine(min-rtt)", "a plug-in in Python cannot have a base: mine.py:Mine", "", None),
    "in a composition": (MINE, "rtx-aware(mine.py:Mien)", "no class `Mien`", "did you mean `Mine`?", None),
    "composition's own": (MINE, {"name": "rtx-aware", "base": "mine.py:Mine", "k": 1},
                          "unknown parameter of rtx-aware: `k`", "", None),
    "given twice": (MINE, {"name": "rtx-aware(blest)", "base": "lpc"},
                    "`base` is given twice: in `rtx-aware(blest)` and beside it", "", None),
    "given twice below": (MINE, {"name": "rtx-aware", "base": {"name": "blest(lambda=1.1)", "lambda": 1.2}},
                          "`lambda` is given twice: in `blest(lambda=1.1)` and beside it", "", None),
    "deep short form": ("", "rtx-aware(" * 50_000 + "blest" + ")" * 50_000, TOO_DEEP, "", None),
    "deep table": ("", functools.reduce(lambda base, _: {"name": "rtx-aware", "base": base}, range(300), "blest"),
                   TOO_DEEP, "", None),
    "deep together": ("", {"name": "rtx-aware", "base": "rtx-aware(" * 15 + "blest" + ")" * 15}, TOO_DEEP, "", None),
    "nan": (MINE, {"name": "round-robin", "num_segments": math.nan},
            "`num_segments` of round-robin is finite, not `nan`", "", None),
    "inf in Python": (MINE + "    def __init__(self, k=1): ...\n", {"name": "rtx-aware",
                      "base": {"name": "mine.py:Mine", "k": math.inf}}, "`k` of mine.py:Mine is finite, not `inf`",
                      "", None),
    "inf in short": (MINE + "    def __init__(self, k=1): ...\n", "mine.py:Mine(k=inf)",
                     "`k` of mine.py:Mine is finite, not `inf`", "", None),
    "half": ("", "round-robin(num_segments=1.5)",
             "`num_segments` of round-robin is a whole number from 1 to 255, not `1.5`", "", None),
    "plain name": (MINE, "mine", "unknown scheduler: `mine`", "", None),
}  # fmt: skip


@pytest.mark.parametrize(("text", "given", "message", "hint", "place"), FAULTS.values(), ids=FAULTS)
def test_one_fault(write, text, given, message, hint, place):
    write("mine.py", text)
    (fault,) = faults(scheduler=given)
    assert message in fault.message
    assert hint in fault.hint
    assert fault.key.startswith("transport.scheduler")
    assert (fault.where, fault.line) == (place or ("scenario", None))


CONTROL = (
    "class Mine:\n    def on_ack(self, ack, window): ...\n    def on_congestion(self, event, window): ...\n"
)


@pytest.mark.parametrize(
    "attribute", ["pacing_rate_mbps = float('nan')", "send_buffer_factor = 99", "owns_recovery = 3"]
)
@pytest.mark.parametrize("command", ["run", "check"])
def test_a_bad_attribute_is_a_fault_in_one_sentence(write, attribute, command):
    write("mine.py", f"{CONTROL}    {attribute}\n")
    write(
        "x.toml",
        """
        name = "x"
        application = { kind = "bulk", bytes = "100 kB" }
        paths = [{ name = "a", rtt = "9 ms", rate = "9 Mbit/s" }]
        transport = { congestion = "mine.py:Mine" }
        """,
    )
    result = CliRunner().invoke(app, [command, "x.toml"])
    assert result.exit_code == 2
    assert f"Mine.{attribute.split()[0]} is " in result.stderr
    assert "(mine.py, line 1)" in result.stderr
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize("place", ["x(1)/mine.py:Mine", "c,d/mine.py:Mine", "e=f/mine.py:Mine"])
def test_any_place_can_be_named(write, place):
    write(place.removesuffix(":Mine"), MINE + "    def __init__(self, k=1): ...\n")
    bare = anabranch.run(BASE, scheduler=place)
    assert bare.scheduler == f'"{place}"'
    assert anabranch.run(BASE, scheduler={"name": place, "k": 2}).scheduler == f'"{place}"(k=2)'
    for given in (f'rtx-aware("{place}")', {"name": "rtx-aware", "base": place}):
        result = anabranch.run(BASE, scheduler=given)
        assert list(result.plugins) == [place]
        assert result.scheduler == f'rtx-aware("{place}")'
    for given in (bare.scheduler, f'"{place}"(k=2)'):
        assert anabranch.run(BASE, scheduler=given).digest == bare.digest


def test_every_fault_at_once(write):
    write("one.py", "class One:\n    def on_sended(self): ...\n    def on_sent(self): ...\n")
    write("two.py", "def broken(:\n")
    found = faults(
        scheduler="rtx-aware(one.py:One)", congestion={"name": "two.py:Two"}, path_manager="fullmesh"
    )
    assert sorted(fault.message for fault in found) == [
        "One.on_sent cannot be called with subflow, from_byte, sent_bytes",
        "no method `schedule` in class One",
        "not valid Python: invalid syntax",
        "nothing calls `on_sended` of a scheduler",
        "unknown path manager: `fullmesh`",
    ]
    assert {fault.key for fault in found} == {
        "transport.scheduler.base",
        "transport.congestion.name",
        "transport.path_manager",
    }


def test_a_path_manager_is_not_written_in_python(write):
    write("mine.py")
    (fault,) = faults(path_manager="mine.py:Mine")
    assert fault.message == "unknown path manager: `mine.py:Mine`"


def test_check_covers_the_class(write):
    write("mine.py", "class Mine:\n    pass\n")
    write("s.toml", """
        name = "s"
        application = { kind = "bulk", bytes = "1 MB" }
        paths = [{ name = "a", rtt = "9 ms", rate = "1 Mb/s" }]
        [transport]
        scheduler = "mine.py:Mine"
        """)  # fmt: skip
    result = CliRunner().invoke(app, ["check", "s.toml"])
    assert result.exit_code == 2
    assert result.stderr == (
        "error: no method `schedule` in class Mine (mine.py, line 1)\n"
        "  key: transport.scheduler\n"
        "  hint: a scheduler needs `schedule(self, request, subflows)`\n"
    )
    write("mine.py")
    assert CliRunner().invoke(app, ["check", "s.toml"]).exit_code == 0


def test_a_place_counts_from_the_scenario_or_on_the_command_line_from_here(write, tmp_path, monkeypatch):
    text = 'name = "s"\napplication = {{ kind = "bulk", bytes = "9 kB" }}\npaths = [{}]\ntransport = {{ scheduler = "{}" }}\n'
    path = '{{ name = "{0}", rtt = "9 ms", rate = "1 Mb/s" }}'
    paths = ", ".join(path.format(name) for name in "ab")
    write("there/mine.py")
    scenario = write("there/s.toml", text.format(paths, "mine.py:Mine"))
    assert list(anabranch.run(scenario).plugins) == ["mine.py:Mine"]
    own = anabranch.run(scenario, scheduler="mine.py:Mine")
    write("mine.py", MINE + "# here\n")
    here = anabranch.run(scenario, scheduler="mine.py:Mine")
    assert own.plugins == anabranch.run(scenario).plugins
    assert here.plugins != own.plugins
    absolute = f"{tmp_path}/there/mine.py:Mine"
    assert anabranch.run(scenario, scheduler=absolute).plugins == {absolute: own.plugins["mine.py:Mine"]}


def test_local_imports_work_and_leave_nothing_behind(write):
    for place in ("one", "two"):
        write(f"{place}/helper.py", f"NAME = '{place}'\n")
        write(f"{place}/package/__init__.py", "from .inner import deep\n")
        write(
            f"{place}/package/inner.py",
            "import helper\nfrom helper import NAME\ndeep = (helper.NAME, NAME)\n",
        )
        write(f"{place}/spaces/lazy.py", f"LAZY = '{place}'\n")
        write(f"{place}/mine.py", f"""
            import dataclasses, json, helper, package.inner as inner
            from package import deep
            from . import helper as again
            @dataclasses.dataclass
            class Mine:
                limit: int = 3
                def schedule(self, request, subflows):
                    import package.inner, spaces.lazy
                    from spaces.lazy import LAZY
                    found = {{helper.NAME, again.NAME, *deep, *inner.deep, *package.deep, LAZY, spaces.lazy.LAZY}}
                    if found != {{"{place}"}}:
                        raise RuntimeError(found)
                    {FIRST}
            """)  # fmt: skip
    path, modules = list(sys.path), set(sys.modules)
    runs = [anabranch.run(BASE, scheduler=f"{place}/mine.py:Mine") for place in ("one", "two")]
    assert runs[0].digest == runs[1].digest
    assert sys.path == path
    assert {name for name in set(sys.modules) - modules if not name.startswith("_anabranch_plugins")} <= {
        "spwd"
    }
    assert not any(pathlib.Path("one").rglob("*.pyc"))


def test_dynamically_imported_modules_are_not_found(write):
    write("helper.py", "")
    write("mine.py", "import importlib\nimportlib.import_module('hel' + 'per')\n" + MINE)
    (fault,) = faults(scheduler="mine.py:Mine")
    assert "No module named 'helper'" in fault.message
    assert (fault.where, fault.line) == ("mine.py", 2)


def test_a_fault_in_a_local_import_is_reported_there(write):
    write("mine.py", "import helper\n" + MINE)
    write("helper.py", "\n\n1 / 0\n")
    (fault,) = faults(scheduler="mine.py:Mine")
    assert fault.message == "cannot import mine.py: ZeroDivisionError: division by zero"
    assert (fault.where, fault.line) == ("helper.py", 3)
    write("helper.py", "\n\n\n(\n")
    (fault,) = faults(scheduler="mine.py:Mine")
    assert (fault.where, fault.line) == ("helper.py", 4)


def test_a_changed_file_is_another_plug_in_at_once(write):
    for number in range(3):
        write("helper.py", f"WAIT = {number}\n")
        write("mine.py", f"""
            from helper import WAIT
            class Mine:
                def schedule(self, request, subflows):
                    if WAIT != {number}:
                        raise RuntimeError
                    {FIRST}
            """)  # fmt: skip
        anabranch.run(BASE, scheduler="mine.py:Mine")


LOCAL = {
    "helper.py": "x = 1\n",
    "package/__init__.py": "",
    "package/inner.py": "from . import leaf\nfrom .. import far\n",
    "package/leaf.py": "x = 1\n",
    "lazy.py": "x = 1\n",
    "deep/er/one.py": "x = 1\n",
    "star.py": "x = 1\n",
    "far.py": "x = 1\n",
}


@pytest.mark.parametrize("changed", ["mine.py", *LOCAL])
def test_the_hash_covers_every_local_import(write, changed):
    for name, text in LOCAL.items():
        write(name, text)
    text = (
        "import helper\nimport package.inner\nfrom deep.er import one\nfrom star import *\n"
        + MINE
        + "        import lazy\n"
    )
    write("mine.py", text)
    write("unused.py", "x = 1\n")
    before = hash_of()
    write("unused.py", "x = 2\n")
    assert hash_of() == before
    write(changed, (text if changed == "mine.py" else LOCAL[changed]) + "\ny = 2\n")
    assert hash_of() != before


def test_the_hash_does_not_depend_on_the_folder(write):
    for place in ("one", "two"):
        write(f"{place}/helper.py", "x = 1\n")
        write(f"{place}/mine.py", "import helper, json\n" + MINE)
    assert hash_of("one/mine.py:Mine") == hash_of("two/mine.py:Mine")
    write("two/helper.py", "x = 2\n")
    assert hash_of("one/mine.py:Mine") != hash_of("two/mine.py:Mine")


def test_names_and_contents_do_not_run_together():
    folder = pathlib.Path()
    parts = [{"a.py": b"b", "c.py": b""}, {"a.py": b"", "bc.py": b""}, {"a.py": b"", "c.py": b"b"}]
    assert len({sources.Sources(folder, files).digest for files in parts}) == 3


WEIGHTS = """\
import json, os, pathlib
import textlib
TABLE = json.loads((pathlib.Path(__file__).parent / "deep/table.json").read_text())
class Mine:
    def __init__(self, *, file: str = "a.txt"):
        with open(os.path.join(os.path.dirname(__file__), file)) as opened:
            self.weights = textlib.parse(opened)
        (pathlib.Path(__file__).parent / "log.txt").write_text("made")
"""


def test_a_data_file_that_a_plug_in_reads_is_hashed_and_no_other(write):
    write("mine.py", WEIGHTS + MINE.removeprefix("class Mine:\n"))
    write("textlib.py", "def parse(opened):\n    return opened.read()\n")
    for file in ("deep/table.json", "a.txt", "b.txt", "unused.txt"):
        write(file, "1")
    first = hash_of()
    write("unused.txt", "2")
    assert hash_of() == first
    # The plug-in was constructed with its default, so it did not read this file.
    write("b.txt", "2")
    assert hash_of() == first
    hashes = {first}
    for file in ("deep/table.json", "a.txt"):
        write(file, "2")
        hashes.add(hash_of())
    assert len(hashes) == 3
    place = {"name": "mine.py:Mine", "file": "b.txt"}
    loaded = loading.load({**BASE, "transport": {"scheduler": place}})
    read = loaded.plugins["scheduler"]["mine.py:Mine"].source
    assert sorted(read.data) == ["b.txt", "deep/table.json"]
    # The manifest of a folder of results lists the files, so an edit is found without an import.
    listed = inputs.with_checksum(
        "plugin", read.root / "mine.py", root=str(read.root), data=sorted(read.data)
    )
    assert listed["sha256"] == read.digest
    write("b.txt", "3")
    assert inputs.checksum(listed) != read.digest
    # Without data files, the hash is that of the sources alone, as before.
    assert sources.read(read.root, read.root / "mine.py").digest not in {*hashes, read.digest}


@pytest.fixture
def packaged(write, monkeypatch):
    """Return how to install a package with entry points, for as long as the test runs."""

    def install(points, files):
        for name, text in files.items():
            write(f"site/{name}", text)
        write("site/lab-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: lab\nVersion: 1.0\n")
        write("site/lab-1.0.dist-info/entry_points.txt", points)
        monkeypatch.syspath_prepend("site")

    yield install
    for name in [name for name in sys.modules if name.split(".")[0] == "lab"]:
        del sys.modules[name]


POINTS = """
[anabranch.schedulers]
lab-first = lab.core:Mine
lab-broken = lab.broken:Mine
min-rtt = lab.core:Mine
[anabranch.congestion]
lab-aimd = lab.core:Control
"""
CORE = f'''
from lab.helper import X
class Mine:
    """The first with room. Nothing else counts."""
    def __init__(self, limit: int = 3, *, rng=None): ...
    def schedule(self, request, subflows):
        {FIRST}
class Control:
    def on_ack(self, ack, window): ...
    def on_congestion(self, event, window): ...
'''
LAB = {"lab/__init__.py": "", "lab/core.py": CORE, "lab/helper.py": "X = 1\n", "lab/broken.py": "1 / 0\n"}


def test_an_entry_point_remembers_nothing_either(packaged):
    helper = "X = []\n"
    core = CORE.replace("        return next", "        X.append(1)\n        return next").replace(
        "if s.can_send)", "if s.can_send and (s.id + len(X)) % 3)"
    )
    packaged(POINTS, {**LAB, "lab/core.py": core, "lab/helper.py": helper})
    import lab.helper

    runs = [anabranch.run(BASE, scheduler="lab-first") for _ in range(2)]
    assert runs[0].digest == runs[1].digest
    assert runs[0].digest != anabranch.run(BASE, scheduler="min-rtt").digest
    assert sys.modules["lab.helper"] is lab.helper
    assert lab.helper.X == []


def test_an_entry_point_is_named_by_its_name(packaged, write):
    packaged(POINTS, LAB)
    result = anabranch.run(BASE, scheduler="rtx-aware(lab-first(limit=4))", congestion="lab-aimd")
    assert sorted(result.plugins) == ["lab-aimd", "lab-first"]
    assert anabranch.run(BASE, scheduler="min-rtt").plugins == {}, "the tables' names are their own"
    write("site/lab/helper.py", "X = 2\n")
    assert hash_of("lab-first") != result.plugins["lab-first"]


def test_faults_of_entry_points(packaged):
    packaged(POINTS, LAB)
    (fault,) = faults(scheduler="lab-frist")
    assert fault.message == "unknown scheduler: `lab-frist`"
    assert fault.hint.startswith("did you mean `lab-first`?")
    (fault,) = faults(scheduler="lab-broken")
    assert (
        fault.message == "cannot import the entry point lab.broken:Mine: ZeroDivisionError: division by zero"
    )
    assert (fault.where, fault.line) == ("site/lab/broken.py", 1)
    (fault,) = faults(scheduler="lab-first(limt=3)")
    assert fault.hint == "did you mean `limit`?"


def test_entry_points_are_listed(packaged):
    packaged(POINTS, LAB)
    result = CliRunner().invoke(app, ["list", "schedulers"])
    assert result.exit_code == 0
    lines = [line.split(maxsplit=1) for line in result.stdout.splitlines()]
    assert ["lab-first", "The first with room."] in lines
    assert ["limit", "= 3: int"] in lines
    assert [
        "lab-broken",
        "does not load: cannot import the entry point lab.broken:Mine: ZeroDivisionError: division by zero",
    ] in lines
    assert sum(line[:1] == ["min-rtt"] for line in lines) == 1

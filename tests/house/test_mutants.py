"""The drawing and judging of deliberate faults."""

from __future__ import annotations

import ast
import importlib
import sys
import tomllib

import pytest

from repository import ROOT, matching, text


@pytest.fixture(scope="module")
def tools():
    """Return the modules of `make mutants`."""
    sys.path.insert(0, str(ROOT / "tests" / "mutants"))
    try:
        names = ("faults", "sample", "rust", "switch", "programs", "lock")
        yield {name: importlib.import_module(name) for name in names}
    finally:
        sys.path.remove(str(ROOT / "tests" / "mutants"))


SOURCE = '''"""A text."""
from typing import TYPE_CHECKING
if TYPE_CHECKING:
    import nothing
LIMIT = 0.5
def f(a: "int" = 2) -> int:
    """Another."""
    if a < 3 and not a:
        return min(a, 1) + 4
    raise ValueError("for people")
'''


def test_faults_of_a_source(tools):
    found = list(tools["faults"].of_file("x.py", SOURCE))
    assert [fault.key.removeprefix("x.py: ") for fault in found] == [
        "replace 0.5 with 0.55",
        "replace 2 with 3 in f",
        "replace a < 3 and not a with not (a < 3 and not a) in f",
        "replace < with <= before 3 in f",
        "replace 3 with 4 in f",
        "replace and with or before not a in f",
        "replace not a with (a) in f",
        "replace return min(a, 1) + 4 with return None in f",
        "replace min with max in f",
        "replace 1 with 2 in f",
        "replace + with - before 4 in f",
        "replace 4 with 5 in f",
        'replace raise ValueError("for people") with pass in f',
    ]
    assert "a <= 3 and not a" in found[3].apply(SOURCE.encode()).decode()
    assert found[3].line == 8


QUICK = "python/anabranch/calibrate/measure.py"
JUDGED = [
    name if name == QUICK else pytest.param(name, marks=pytest.mark.slow)
    for name in matching(".py", under="python/anabranch/")
    if name.split("/")[2] in ("metrics", "calibrate")
]


@pytest.mark.parametrize("name", JUDGED)
def test_every_fault_of_a_room_is_another_source_that_can_be_read(tools, name):
    source = text(name)
    found = list(tools["faults"].of_file(name, source))
    assert len({fault.key for fault in found}) == len(found)
    for fault in found:
        changed = fault.apply(source.encode()).decode()
        assert changed != source
        ast.parse(changed)


def test_the_rooms_of_python_are_found():
    assert QUICK in JUDGED
    assert len(JUDGED) > 15


def test_rust_faults_go_where_they_are_listed(tools, tmp_path):
    file = tmp_path / "crates/mptcp/src/subflow/rack.rs"
    file.parent.mkdir(parents=True)
    file.write_text("\n/* µ */ fn f() -> bool { 1 < 2 }\n", encoding="utf-8")
    span = {"start": {"line": 2, "column": 28}, "end": {"line": 2, "column": 29}}
    name = "crates/mptcp/src/subflow/rack.rs:2:21: replace < with == in f"
    mutant = {"file": "crates/mptcp/src/subflow/rack.rs", "span": span, "replacement": "==", "name": name}
    other = {**mutant, "file": "crates/tcp/src/reassembly.rs"}
    rooms = tools["rust"].by_room([mutant, mutant, other], tmp_path)
    assert tools["rust"].by_room([mutant], tmp_path, tools["rust"].LIVE) == {"live": []}
    assert {room: len(found) for room, found in rooms.items()} == {"subflow": 2, "connection": 0}
    first, second = rooms["subflow"]
    assert first.apply(file.read_bytes()).decode() == "\n/* µ */ fn f() -> bool { 1 == 2 }\n"
    assert first.key == "crates/mptcp/src/subflow/rack.rs: replace < with == in f"
    assert second.key == f"{first.key} #2"


def test_faults_written_by_hand_are_found_in_their_functions(tools, tmp_path):
    source = "/* µ */ const A: u8 = 1;\nfn f() -> u8 {\n    g();\n    A\n}\n"
    file = tmp_path / "crates/live/src/gateway/x.rs"
    file.parent.mkdir(parents=True)
    file.write_text(source, encoding="utf-8")
    span = {"start": {"line": 2, "column": 1}, "end": {"line": 5, "column": 2}}
    listed = [{"file": "crates/live/src/gateway/x.rs", "function": {"span": span}}]
    faults = {
        "no g": {"file": "gateway/x.rs", "old": "    g();\n", "new": ""},
        "two": {"file": "gateway/x.rs", "old": "= 1;", "new": "= 2;"},
    }
    rust = tools["rust"]
    first, second = rust.by_hand(faults, listed, tmp_path, rust.LIVE)
    assert (first.key, first.line) == ("crates/live/src/gateway/x.rs: no g", 3)
    assert source.encode()[slice(*first.body)].decode() == "{\n    g();\n    A\n}"
    assert first.apply(source.encode()).decode() == source.replace("    g();\n", "")
    # A constant is in no function: the fault is judged alone.
    assert second.body is None
    file.write_text(source.replace("g();", "g(); g();"), encoding="utf-8")
    faults["no g"]["old"] = "g();"
    with pytest.raises(rust.MissingError, match="no g"):
        rust.by_hand(faults, listed, tmp_path, rust.LIVE)


def test_the_sources_and_tests_named_by_faults_written_by_hand_exist():
    faults = tomllib.loads(text("tests/mutants/live.toml"))["faults"]
    found = {
        name: text(f"crates/live/src/{fault['file']}").count(fault["old"]) for name, fault in faults.items()
    }
    assert {name: times for name, times in found.items() if times != 1} == {}
    tests = {fault["test"].partition("::")[::2] for fault in faults.values() if "test" in fault}
    assert [name for file, name in tests if f"def {name}(" not in text(file)] == []


RUST = """\
/* µ, and what looks like a body: { */
pub fn f<'a>(x: &'a [u8; { 2 }], brace: char) -> bool where [(); 1]: Sized {
    // not this }
    x[0] < 1 || brace == '{' || "}" == "\\"{"
}
pub const fn g() -> u32 { 1 + 1 }
fn i(f: impl Fn()) -> impl Iterator<Item = u32> { 0..2 }
fn h() {
    fn inside() -> u32 { 2 + 2 }
    inside();
}
"""


def switched(tools, *changes):
    """Return faults of `RUST`, each from (old, new, first word of its function, last word)."""
    source = RUST.encode()
    result = {}
    for number, (old, new, first, last) in enumerate(changes, 1):
        body = tools["switch"].body(source, source.index(first), source.index(last) + len(last))
        start = source.index(old)
        result[number] = tools["faults"].Fault(
            file="x.rs", line=1, key=f"{old} {new}", start=start, end=start + len(old), text=new, body=body
        )
    return result


LESS = (b"x[0] < 1", "x[0] <= 1", b"pub fn f", b'"{"\n}')
EITHER = (b"||", "&&", b"pub fn f", b'"{"\n}')
DEEP = (b"2 + 2", "2 - 2", b"fn inside", b"2 + 2 }")
CALL = (b"inside();", "", b"fn h", b"inside();\n}")


def test_a_rust_body_is_found_behind_its_signature(tools):
    source, fault = RUST.encode(), switched(tools, LESS)[1]
    assert source[slice(*fault.body)].startswith(b"{\n    // not this }")
    assert source[slice(*fault.body)].endswith(b'"{"\n}')
    for first, last in ((b"pub const fn", b"1 + 1 }"), (b"fn i", b"0..2 }")):
        start, end = source.index(first), source.index(last) + len(last)
        assert tools["switch"].body(source, start, end) is None


def test_each_faulty_body_is_the_whole_body(tools):
    faults = switched(tools, LESS, EITHER, DEEP, CALL)
    text, arms, places = tools["switch"].place(RUST.encode(), faults, 5)
    written = text.decode()
    assert written.count("match crate::fault::on(5) {") == written.count("match crate::fault::on(6) {") == 1
    # A fault within a nested function is reached with the outer one.
    assert places == {1: 5, 2: 5, 3: 6, 4: 6}
    bodies = {arm.number: text[arm.start : arm.end].decode() for arm in arms}
    start, end = faults[1].body
    sound = RUST.encode()[start:end].decode()
    assert bodies[1] == sound.replace("x[0] <", "x[0] <=")
    assert bodies[2] == sound.replace("||", "&&", 1)
    assert bodies[3] == "{\n    fn inside() -> u32 { 2 - 2 }\n    inside();\n}"
    assert bodies[4] == "{\n    fn inside() -> u32 { 2 + 2 }\n    \n}"
    assert f"_ => {sound}\n}} }}\npub const fn g()" in written


def test_the_compilers_errors_are_those_of_their_faults(tools):
    sources = {"x.rs": tools["switch"].place(RUST.encode(), switched(tools, LESS, EITHER, DEEP, CALL), 0)}
    source = sources["x.rs"]

    def blamed(start, end, **other):
        span = {"file_name": "a/x.rs", "is_primary": True, "byte_start": start, "byte_end": end, **other}
        return tools["switch"].blamed([{"level": "error", "spans": [span]}], sources)

    second = next(arm for arm in source.arms if arm.number == 2)
    assert blamed(second.start + 3, second.end - 3) == ({2}, set())
    # In the sound body of a function, and outside of all.
    sound = source.text.index(b"_ => ")
    assert blamed(sound + 10, sound + 12) == (set(), {1, 2})
    assert blamed(0, 1) == (set(), {1, 2, 3, 4})
    assert blamed(0, 1, is_primary=False) == blamed(0, 1, file_name="a/y.rs") == (set(), set())


def test_short_tests_are_run_together_and_the_cheapest_first(tools):
    def test(program, name, seconds):
        return tools["programs"].Test(program, "", name, seconds, frozenset())

    tests = [test("a", f"{n}", 0.15) for n in range(8)] + [test("a", "long", 0.5), test("b", "short", 0.01)]
    starts = [[one.name for one in some] for some in tools["programs"].together(tests)]
    # One program run lasts 0.9 s, which is time for six tests of 0.15 s. The seventh needs another run.
    assert starts == [["short"], ["6", "7"], ["long"], ["0", "1", "2", "3", "4", "5"]]


def test_a_test_that_cannot_record_places_judges_every_fault(tools, tmp_path, monkeypatch):
    programs = tools["programs"].Programs(tmp_path, tmp_path, {}, 1)
    programs._places = {1: 4, 2: 7}
    ends = {}
    monkeypatch.setattr(programs, "_run", lambda _, choice, __: ends["recording" if choice else "alone"])
    ends.update(recording=101, alone=0)
    assert programs._measure(("program", "", "uses all descriptors")).reached == {4, 7}
    ends.update(alone=101)
    with pytest.raises(tools["programs"].BrokenError):
        programs._measure(("program", "", "fails"))


def test_rooms_are_drawn_in_proportion(tools):
    shares = tools["sample"].shares
    assert shares({"a": 600, "b": 300, "c": 100}, 10) == {"a": 6, "b": 3, "c": 1}
    # 6.67, 2.22 and 1.11: the largest remainder is rounded up.
    assert shares({"a": 6, "b": 2, "c": 1}, 8) == {"a": 5, "b": 2, "c": 1}
    assert shares({"a": 3, "b": 1}, 9) == {"a": 3, "b": 1}


def test_a_draw_is_the_seeds_and_longer_ones_go_on(tools):
    keys = [f"fault {n}" for n in range(100)]
    first = tools["sample"].order("a", keys, 1)
    assert first == tools["sample"].order("a", keys[::-1], 1)
    assert sorted(first) == sorted(keys)
    assert first != tools["sample"].order("a", keys, 2)
    assert first != tools["sample"].order("b", keys, 1)


def test_wilsons_interval(tools):
    # (p + z²/2n ± z sqrt(p (1 - p) / n + z²/4n²)) / (1 + z²/n) of 8 in 10: z² = 3.841459.
    assert tools["sample"].wilson(8, 10) == pytest.approx((0.490162, 0.943318), abs=1e-6)
    # Of none the upper end is z² / (n + z²).
    assert tools["sample"].wilson(0, 10) == (0, pytest.approx(3.841459 / 13.841459, abs=1e-6))
    assert tools["sample"].wilson(0, 0) == (0, 1)


def test_a_journal_goes_on_until_something_changes(tools, tmp_path):
    entry, journal = tools["sample"].Entry, tools["sample"].Journal
    path = tmp_path / "deep" / "journal"
    first = journal(path, digests={"rust": "1", "python": "2"})
    first.add("a", "rust", entry("caught", "its tests", 1.5))
    first.add("b", "python", entry("missed", "", 2.5))
    with path.open("a") as file:
        file.write('{"key": "c", "outc')
    again = journal(path, digests={"rust": "1", "python": "2"})
    assert again.known == {"a": ("caught", "its tests", 1.5), "b": ("missed", "", 2.5)}
    assert set(journal(path, digests={"rust": "3", "python": "2"}).known) == {"b"}
    assert set(journal(path, digests={"rust": "3", "python": "4"}, keep_caught=True).known) == {"a"}


def test_the_summary_keeps_timeouts_apart_and_arguments_in(tools):
    rooms = {"a": [("x", "caught")] * 8 + [("y", "missed"), ("t", "timeout")], "b": [("z", "missed")]}
    lines = tools["sample"].told(rooms, {"z": "nobody can tell"}).splitlines()
    assert lines[1].split() == ["a", "9", "8", "1", "1"]
    assert lines[3].split() == ["all", "10", "8", "2", "1"]
    assert lines[5] == "caught: 80.0% of 10, 95 % interval 49.0% to 94.3%"
    assert lines[6] == "timeouts stand apart: 1; counted as missed, the lower bound is 43.4%"
    assert lines[7:] == ["missed: y", "missed, argued to be equivalent: z: nobody can tell"]


def verdicts(tools, *rows):
    return [tools["lock"].Verdict(*row) for row in rows]


def test_the_locks_share_is_of_the_faults_that_change_a_random_run(tools):
    judged = verdicts(
        tools, ("w", "1000003", "7"), ("x", "timeout", "case 3"), ("y", "crash", ""), ("z", "", "")
    )
    by_key = {one.key: one for one in judged}
    lines = tools["lock"].told({"loss": ["w", "z"], "rto": ["x", "y"]}, by_key).splitlines()
    assert [line.split() for line in lines[1:4]] == [
        ["loss", "2", "1", "1"],
        ["rto", "2", "2", "1"],
        ["all", "4", "3", "2"],
    ]
    # Wilson: 2 of 3.
    assert lines[5:] == ["caught: 66.7% of 3, 95 % interval 20.8% to 93.9%", "missed (random run crash): y"]


def test_few_runs_of_the_pool_cover_the_missed_faults(tools):
    missed = verdicts(
        tools, ("a", "1", "", (3, 5)), ("b", "1", "", (5, 9)), ("c", "1", "", (2,)), ("d", "1", "")
    )
    assert tools["lock"].cover(missed) == [5, 2]


def test_every_file_that_the_lock_is_judged_by_exists(tools):
    crates = ("crates/tcp/src/", "crates/mptcp/src/")
    names = [name for folder in crates for name in matching(".rs", under=folder)]
    sources = [name.partition("/src/")[2] for name in names]
    starts = [start for found in tools["lock"].ROOMS.values() for start in found]
    assert [start for start in starts if not any(name.startswith(start) for name in sources)] == []


def test_equivalent_faults_are_argued_and_of_files_that_are_there():
    argued = tomllib.loads(text("tests/mutants/equivalent.toml"))["equivalent"]
    assert [key for key in argued if not (ROOT / key.partition(": ")[0]).is_file()] == []
    assert [key for key, why in argued.items() if len(why) < 40] == []

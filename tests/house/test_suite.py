"""The suites: what is left out of the quick one is told, and nothing is left out of the other."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys

import pytest

from repository import ROOT, matching, text

_SPEC = importlib.util.spec_from_file_location("suite", ROOT / "tests" / "suite.py")
suite = importlib.util.module_from_spec(_SPEC)
sys.modules["suite"] = suite
_SPEC.loader.exec_module(suite)

RUST = """
running 3 tests
test 9 passed; is no total ... ok
test result: ok. 2 passed; 0 failed; 1 ignored; 0 measured; 4 filtered out; finished in 0.01s
test result: FAILED. 5 passed; 1 failed; 3 ignored; 0 measured; 0 filtered out; finished in 1.20s
"""


def test_the_totals_of_both_runners_are_added_up():
    python = "=== 1 failed, 2 passed, 3 skipped, 4 deselected, 1 error in 5.67s (0:01:07) ===\n"
    assert suite.counts(RUST + python) == {"passed": 9, "failed": 3, "skipped": 3, "left": 8}
    assert suite.counts("\x1b[32m7 passed\x1b[0m, 2 deselected in 3.00s\n")["left"] == 2
    assert suite.counts("nothing")["passed"] == 0


def test_the_end_says_what_was_left_out_and_what_failed():
    found = {"passed": 9, "failed": 0, "skipped": 3, "left": 8}
    assert suite.summary("quick", found, [], 12.3) == (
        "make test: 9 tests passed, 3 skipped, in 12 CPU seconds beyond building; "
        "8 long tests are left to make test-all"
    )
    everything = suite.summary("all", {**found, "failed": 2, "left": 0}, ["pytest"], 1.0)
    assert everything.endswith("beyond building\nmake test-all: failed: pytest")
    assert "9 tests passed, 2 failed, 3 skipped" in everything


def test_a_step_that_fails_keeps_no_other_from_running(monkeypatch, capfd):
    python = (sys.executable, "-c")
    steps = (
        suite.Step(name="first", command=(*python, "print('1 passed in 1s'); raise SystemExit(3)")),
        suite.Step(name="second", command=(*python, "print('2 passed in 1s')")),
    )
    monkeypatch.setitem(suite.SUITES, "quick", steps)
    assert suite.main("quick") == 1
    out = capfd.readouterr().out
    assert "make test: 3 tests passed" in out
    assert out.endswith("make test: failed: first\n")
    both = suite.Step(
        name="both",
        command=(*python, "print('1 passed in 1s')"),
        beside=(*python, "print('4 passed in 1s'); raise SystemExit(1)"),
    )
    monkeypatch.setitem(suite.SUITES, "quick", (both, steps[1]))
    assert suite.main("quick") == 1
    out = capfd.readouterr().out
    assert "make test: 7 tests passed" in out
    assert out.endswith("make test: failed: both\n")
    monkeypatch.setitem(suite.SUITES, "quick", steps[1:])
    assert suite.main("quick") == 0


def test_programs_in_python_are_compiled_once(monkeypatch, capfd):
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    told = suite.Step(
        name="told", command=(sys.executable, "-c", "import sys; print(sys.flags.dont_write_bytecode)")
    )
    monkeypatch.setitem(suite.SUITES, "quick", (told,))
    assert suite.main("quick") == 0
    assert capfd.readouterr().out.startswith("0\n")


def test_every_test_there_is_runs_in_one_of_them():
    quick, everything = (
        {step.name: step.command for step in suite.SUITES[name]} for name in ("quick", "all")
    )
    assert set(quick) <= set(everything)
    assert everything["cargo test"] == (*quick["cargo test"], "--", "--include-ignored")
    assert (*everything["pytest"], "-m", "not slow") == quick["pytest"]
    few, all_of_them = (suite.SUITES[name][-1].beside for name in ("quick", "all"))
    assert (*all_of_them, "-m", "not slow") == few
    assert {*everything["pytest"], *all_of_them} >= {"tests/python", "tests/house", "tests/live"}
    assert everything["make lint"][-1] == "lint"


def test_what_is_ignored_is_long_and_says_why():
    ignored = {name: re.findall(r"#\[ignore\b[^\n]*", text(name)) for name in matching(".rs")}
    found = [f"{name}: {line}" for name, lines in ignored.items() for line in lines]
    assert [line for line in found if not re.search(r'#\[ignore = "long: [^"]{8,}"\]', line)] == []


@pytest.mark.parametrize(("target", "name"), [("test", "quick"), ("test-all", "all")])
def test_make_runs_the_suite(target, name):
    told = subprocess.run(["make", "-n", target], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert f"python tests/suite.py {name}\n" in told


def test_ci_runs_everything():
    assert re.search(r"^exec make test-all\b", text(".ci/run"), re.MULTILINE)

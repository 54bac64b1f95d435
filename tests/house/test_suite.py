"""The suites: what is left out of the quick one is told, and nothing is left out of the other."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

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


def step(name, code, **more):
    """Return a step of a line of Python."""
    return suite.Step(name=name, command=(sys.executable, "-c", code), **more)


def run(monkeypatch, *steps, building=(), beside=None):
    """Run a suite of steps as the quick one, and return its exit code."""
    beside = beside or step("beside", "print('0 passed in 1s')")
    monkeypatch.setitem(suite.SUITES, "quick", suite.Suite(building=building, steps=steps, beside=beside))
    return suite.main("quick")


def test_a_step_that_fails_keeps_no_other_from_running(monkeypatch, capfd):
    first = step("first", "print('1 passed in 1s'); raise SystemExit(3)")
    second = step("second", "print('2 passed in 1s')")
    assert run(monkeypatch, first, second) == 1
    out = capfd.readouterr().out
    assert "make test: 3 tests passed" in out
    assert out.endswith("make test: failed: first\n")
    assert run(monkeypatch, second, building=(first,)) == 1
    assert capfd.readouterr().out.endswith("make test: failed: first\n")
    beside = step("beside", "print('4 passed in 1s'); raise SystemExit(1)")
    assert run(monkeypatch, second, beside=beside) == 1
    out = capfd.readouterr().out
    assert "make test: 6 tests passed" in out
    assert out.endswith("make test: failed: beside\n")
    assert run(monkeypatch, second) == 0


def test_what_runs_beside_has_begun_before_the_others_and_goes_first(monkeypatch, capfd, tmp_path):
    file = tmp_path / "begun"
    asked = f"import os, pathlib, time; file = pathlib.Path({str(file)!r}); nice = os.nice(0)"
    beside = step("beside", f"{asked}; file.touch(); print(f'nice {{nice}}, then')")
    waits = "end = time.monotonic() + 60\nwhile not file.exists(): assert time.monotonic() < end"
    assert run(monkeypatch, step("waits", f"{asked}\n{waits}\nprint(f'nice {{nice}}')"), beside=beside) == 0
    waited, besides = capfd.readouterr().out.splitlines()[:2]
    assert besides == f"nice {os.nice(0)}, then"
    assert waited == "nice 19"


STOPPED = """
import importlib.util, sys
spec = importlib.util.spec_from_file_location("suite", "tests/suite.py")
suite = sys.modules["suite"] = importlib.util.module_from_spec(spec)
spec.loader.exec_module(suite)
steps, file = int(sys.argv[1]), sys.argv[2]
def step(name, code):
    return suite.Step(name=name, command=(sys.executable, "-u", "-c", f"import os, time; {code}"))
waits = "print(os.getpid()); time.sleep(100)"
clears_up = f"os.mkfifo({file!r})\\ntry:\\n open({file!r}, 'w').write(str(os.getpid())); time.sleep(100)"
beside = step("beside", f"{clears_up}\\nexcept KeyboardInterrupt: print('cleared up')")
suite.SUITES["quick"] = suite.Suite(building=(), steps=(step("long", waits),) * steps, beside=beside)
sys.exit(suite.main("quick"))
"""


@pytest.mark.parametrize("steps", [0, 1], ids=["only real packets are left", "another step runs too"])
def test_what_runs_beside_clears_up_when_the_suite_is_stopped(steps, tmp_path):
    file = tmp_path / "begun"
    with subprocess.Popen(
        (sys.executable, "-c", STOPPED, str(steps), str(file)), cwd=ROOT, stdout=subprocess.PIPE, text=True
    ) as program:
        running = [program.stdout.readline().strip() for _ in range(steps)]
        while not file.exists():
            assert program.poll() is None
        running.append(file.read_text(encoding="ascii"))
        program.terminate()
        said = program.stdout.read()
        assert program.wait() == 143
    assert "cleared up" in said
    assert not [process for process in running if Path("/proc", process).exists()]


def test_the_time_that_tests_use_is_counted_and_that_of_building_is_not(monkeypatch, capfd):
    works = "import time\nwhile time.process_time() < {}: pass"
    builds = step("builds", works.format(1.0), builds=True)
    tests = (step(name, works.format(0.3)) for name in ("tests", "beside"))
    assert run(monkeypatch, builds, next(tests), beside=next(tests)) == 0
    told = capfd.readouterr().out
    assert "in 1 CPU seconds" in told
    assert re.search(r"^builds \d+ s, tests \d+ s, beside \d+ s$", told, re.MULTILINE), told


def test_programs_in_python_are_compiled_once(monkeypatch, capfd):
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    assert run(monkeypatch, step("told", "import sys; print(sys.flags.dont_write_bytecode)")) == 0
    assert capfd.readouterr().out.startswith("0\n")


def test_every_test_there_is_runs_in_one_of_them():
    quick, everything = (
        {step.name: step.command for step in (*found.building, *found.steps, found.beside)}
        for found in (suite.SUITES["quick"], suite.SUITES["all"])
    )
    assert set(quick) <= set(everything)
    assert everything["cargo test"] == (*quick["cargo test"], "--", "--include-ignored")
    for name in ("pytest", "real packets"):
        assert (*everything[name], "-m", "not slow") == quick[name]
    assert {*everything["pytest"], *everything["real packets"]} >= {
        "tests/python",
        "tests/house",
        "tests/live",
    }
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

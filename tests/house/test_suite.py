"""The suites: the quick one reports the tests that it leaves out, and the other one has all tests."""

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


def test_summary_lists_skipped_tests_and_failures():
    found = {"passed": 9, "failed": 0, "skipped": 3, "left": 8}
    assert suite.summary("quick", found, [], 12.3) == (
        "make test: 9 tests passed, 3 skipped, in 12 CPU seconds beyond building; "
        "8 long tests are left to make test-all"
    )
    everything = suite.summary("all", {**found, "failed": 2, "left": 0}, ["pytest"], 1.0)
    assert everything.endswith("beyond building\nmake test-all: failed: pytest")
    assert "9 tests passed, 2 failed, 3 skipped" in everything


def test_a_quick_suite_over_its_budget_is_reported():
    # CONTRIBUTING.md promises five CPU minutes.
    found = {"passed": 9, "failed": 0, "skipped": 0, "left": 0}
    assert "notice" not in suite.summary("quick", found, [], 299.4)
    assert "\nnotice: make test is meant to take 300 CPU seconds at most\n  hint: " in suite.summary(
        "quick", found, [], 301.0
    )
    assert "notice" not in suite.summary("all", found, [], 2000.0)


def step(name, code, **more):
    """Return a step of a line of Python."""
    return suite.Step(name=name, command=(sys.executable, "-c", code), **more)


def run(monkeypatch, *steps, building=(), beside=None, name="quick"):
    """Run a suite of steps under the name of another one, and return its exit code."""
    beside = beside or step("beside", "print('0 passed in 1s')")
    monkeypatch.setitem(suite.SUITES, name, suite.Suite(building=building, steps=steps, beside=beside))
    return suite.main(name)


#: A runner of two tests that fail. `first` is its exit code; the second time it prints and keeps the rest.
RUNNER = """
import json, os, pathlib, sys
kept = pathlib.Path({file!r})
if "--again" not in sys.argv:
    assert not kept.exists(), "names of an earlier suite"
    kept.write_text(json.dumps(dict.fromkeys({failed!r}, True)))
    print("2 failed, 3 passed in 1s")
    sys.exit({first})
print({said!r})
kept.write_text(json.dumps(dict.fromkeys({left!r}, True)))
sys.exit(1 if {left!r} else 0)
"""
BOTH = ["a", "b[1 - x]"]
SAID = "\x1b[32mPASSED\x1b[0m a\nPASSED \x1b[1mb[1 - x]\x1b[0m\n2 passed, 3 deselected in 1s"


def run_again(monkeypatch, tmp_path, capfd, said=SAID, left=(), first=1, failed=BOTH):
    """Run a suite whose tests over real packets fail; return its exit code and the end of its output."""
    file = tmp_path / "failed"
    file.write_text('{"of an earlier suite": true}', encoding="utf-8")
    code = RUNNER.format(file=str(file), said=said, left=list(left), first=first, failed=list(failed))
    again = suite.Again(arguments=("--again",), failed=file)
    beside = step("real packets", code, again=again)
    code = run(monkeypatch, step("tests", "print('10 passed in 1s')"), beside=beside, name="all")
    return code, capfd.readouterr().out


def test_tests_that_pass_when_run_again_alone_are_named_and_fail_nothing(monkeypatch, tmp_path, capfd):
    code, out = run_again(monkeypatch, tmp_path, capfd)
    assert code == 0
    assert "real packets: failed tests (2) run again, alone\n" in out
    assert "make test-all: 15 tests passed (2 of them when run again, alone), in " in out
    assert "deselected" in out
    assert "are left to" not in out
    named = [f"make test-all: passed when run again, alone: {name}\n" for name in BOTH]
    assert out.endswith("".join(named))


@pytest.mark.parametrize(
    ("said", "left"),
    [
        ("PASSED a\nFAILED b[1 - x]\n1 failed, 1 passed in 1s", ["b[1 - x]"]),
        # pytest takes skipped tests off its list.
        ("PASSED a\nSKIPPED [1] b\n1 passed, 1 skipped in 1s", []),
        # Its call passed, its end did not.
        ("PASSED a\nPASSED b[1 - x]\nERROR b[1 - x]\n2 passed, 1 error in 1s", ["b[1 - x]"]),
    ],
    ids=["fails twice", "is skipped", "fails at its end"],
)
def test_a_test_that_does_not_pass_the_second_time_fails_the_suite(monkeypatch, tmp_path, capfd, said, left):
    code, out = run_again(monkeypatch, tmp_path, capfd, said, left)
    assert code == 1
    assert "make test-all: 14 tests passed (1 of them when run again, alone), 1 failed, in " in out
    assert out.endswith("passed when run again, alone: a\nmake test-all: failed: real packets\n")


@pytest.mark.parametrize(
    ("first", "failed"), [(2, BOTH), (1, [str(number) for number in range(21)])], ids=["interrupted", "many"]
)
def test_more_than_failed_tests_is_not_run_again(monkeypatch, tmp_path, capfd, first, failed):
    code, out = run_again(monkeypatch, tmp_path, capfd, first=first, failed=failed)
    assert code == 1
    assert "again" not in out


@pytest.mark.slow
def test_pytest_runs_the_failed_tests_of_real_packets_again(monkeypatch, tmp_path, capfd):
    source = (
        "from pathlib import Path\n"
        "def test_good(): pass\n"
        "def test_late():\n"
        "    there = Path({!r})\n"
        "    if not there.exists():\n"
        "        there.touch()\n"
        "        assert False\n"
    )
    monkeypatch.setattr(suite, "ROOT", tmp_path)
    file, cache = tmp_path / "test_it.py", tmp_path / "cache"
    file.write_text(source.format(str(tmp_path / "seen")), encoding="utf-8")
    real = suite.SUITES["all"].beside
    again = suite.Again(arguments=real.again.arguments, failed=cache / "v" / "cache" / "lastfailed")
    command = (sys.executable, "-m", "pytest", "-o", f"cache_dir={cache}", str(file))
    beside = suite.Step(name="real packets", command=command, again=again)
    assert run(monkeypatch, beside=beside, name="all") == 0
    out = capfd.readouterr().out
    assert "make test-all: 2 tests passed (1 of them when run again, alone), in " in out
    assert out.endswith("passed when run again, alone: test_it.py::test_late\n")


def test_only_real_packets_run_again():
    for found in suite.SUITES.values():
        assert not any(one.again for one in (*found.building, *found.steps))
        real = found.beside
        cache = next(word for word in real.command if word.startswith("cache_dir=")).removeprefix(
            "cache_dir="
        )
        assert real.again.failed == Path(cache, "v", "cache", "lastfailed")


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


def test_parallel_step_starts_first_and_keeps_its_priority(monkeypatch, capfd, tmp_path):
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
def test_parallel_step_cleans_up_on_sigterm(steps, tmp_path):
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


@pytest.mark.slow
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


def test_every_ignored_rust_test_is_long_and_has_a_reason():
    ignored = {name: re.findall(r"#\[ignore\b[^\n]*", text(name)) for name in matching(".rs")}
    found = [f"{name}: {line}" for name, lines in ignored.items() for line in lines]
    assert [line for line in found if not re.search(r'#\[ignore = "long: [^"]{8,}"\]', line)] == []


@pytest.mark.parametrize(("target", "name"), [("test", "quick"), ("test-all", "all")])
def test_make_runs_the_suite(target, name):
    told = subprocess.run(["make", "-n", target], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert f"python tests/suite.py {name}\n" in told


def test_ci_runs_everything():
    assert re.search(r"^exec make test-all\b", text(".ci/run"), re.MULTILINE)

"""Run a suite: the quick one, or every test there is (`make test`, `make test-all`).

The quick one leaves out what is marked as long, `#[ignore = "long: ..."]` in Rust and `@pytest.mark.slow` in
Python, and prints how many those are. Every step runs, also after a failed one.
"""

from __future__ import annotations

import json
import os
import re
import resource
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

ROOT = Path(__file__).resolve().parents[1]

_CARGO = ("cargo", "test", "--workspace", "--exclude", "anabranch-python")
_TESTS = (*_CARGO, "--tests")
# The drill as the tests of its package are built.
_DRILL = (str(Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "debug" / "anabranch-drill"),)
# The files with the longest tests stand early in this order, not in that by the number of tests.
_FOLDERS = ("--no-loadscope-reorder", "tests/house", "tests/python")
# A file's tests run in one process and in their order: what one has made or read serves the others.
_PYTEST = (sys.executable, "-m", "pytest", "-n", "auto", "--dist", "loadfile", *_FOLDERS)
# A quarter of the cases that a property is tried on where its test does not say how many.
_FEWER_CASES = {"PROPTEST_CASES": "64"}
# Has a separate cache: the other tests run at the same time, and would write the list of failed tests too.
_LIVE_CACHE = ROOT / ".pytest_cache" / "live"
_LIVE = (sys.executable, "-m", "pytest", "-o", f"cache_dir={_LIVE_CACHE}", "tests/live")
# If other tests use both processors, real packets are delayed.
_LAST = ("nice", "-n", "19")

#: The CPU time of the quick suite beyond building that CONTRIBUTING.md promises, s.
_BUDGET_S = 300
#: The most tests that are run again: if more fail, the cause is not a busy machine.
_MOST_AGAIN = 20
#: The exit code of pytest if tests failed, and nothing else was wrong.
_TESTS_FAILED = 1
#: The time that real packets have to take their namespaces away, s.
_CLEARING_UP_S = 60

_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
# cargo: `test result: ok. 12 passed; 0 failed; 3 ignored; ...`, once a binary; pytest: `7 passed in 3s`.
_COUNT = re.compile(r"(\d+) (passed|failed|errors?|ignored|skipped|deselected)\b")
# pytest with `-rp`: a line for each test that passed.
_PASSED = re.compile(r"^PASSED (.+)$", re.MULTILINE)
_TOTALS = re.compile(
    r"^(?:test result: .*|=*\s*\d+ (?:passed|failed|errors?|skipped|deselected)\b.* in \d.*)$", re.MULTILINE
)


@dataclass(frozen=True, kw_only=True)
class Again:
    """How the failed tests of a step run a second time.

    Attributes
    ----------
    arguments
        Appended to the step's command, they run only its failed tests, and print those that pass.
    failed
        The file in which pytest keeps the names of failed tests.
    """

    arguments: tuple[str, ...]
    failed: Path

    def names(self) -> set[str]:
        """Return the names of the tests that failed."""
        return set(json.loads(self.failed.read_text(encoding="utf-8"))) if self.failed.exists() else set()


@dataclass(frozen=True, kw_only=True)
class Step:
    """One program of a suite.

    Attributes
    ----------
    name
        Its name in the report of failures.
    command
        The program and its arguments.
    builds
        Whether it builds, and its time is not the tests'.
    environment
        Variables that the program has unless whoever runs the suite sets them.
    again
        How its failed tests run a second time, alone. None if a failure is final, as for deterministic tests.
    """

    name: str
    command: tuple[str, ...]
    builds: bool = False
    environment: Mapping[str, str] = field(default_factory=dict)
    again: Again | None = None


@dataclass(frozen=True, kw_only=True)
class Suite:
    """The build steps, and then the tests.

    Attributes
    ----------
    building
        Steps before all others, one after the other.
    steps
        Steps one after the other.
    beside
        The step that runs at the same time as all of them, goes before them where both want a processor, and
        is shown when it has ended: real packets take real time, and little of a processor.
    """

    building: tuple[Step, ...]
    steps: tuple[Step, ...]
    beside: Step


_AGAIN = Again(
    arguments=("--last-failed", "--last-failed-no-failures", "none", "-rap"),
    failed=_LIVE_CACHE / "v" / "cache" / "lastfailed",
)

SUITES = {
    "quick": Suite(
        building=(Step(name="building the tests", command=(*_TESTS, "--quiet", "--no-run"), builds=True),),
        steps=(
            Step(name="cargo test", command=(*_TESTS, "--no-fail-fast"), environment=_FEWER_CASES),
            Step(name="drill", command=(*_DRILL, "--start", "400", "--cpu-seconds", "7")),
            Step(name="pytest", command=(*_PYTEST, "-m", "not slow")),
        ),
        beside=Step(name="real packets", command=(*_LIVE, "-m", "not slow"), again=_AGAIN),
    ),
    "all": Suite(
        building=(
            Step(name="make lint", command=("make", "--no-print-directory", "lint"), builds=True),
            Step(name="building the tests", command=(*_TESTS, "--quiet", "--no-run"), builds=True),
        ),
        steps=(
            Step(name="pytest", command=_PYTEST),
            Step(name="cargo test", command=(*_TESTS, "--no-fail-fast", "--", "--include-ignored")),
            Step(name="drill", command=(*_DRILL, "--seeds", "0..500")),
            # Hardly more than the building of each.
            Step(name="cargo test --doc", command=(*_CARGO, "--doc", "--no-fail-fast"), builds=True),
            Step(name="cost gate", command=(sys.executable, "benches/cost.py"), builds=True),
        ),
        beside=Step(name="real packets", command=_LIVE, again=_AGAIN),
    ),
}


def counts(output: str) -> dict[str, int]:
    """Return how many tests passed, failed and were left out, from the runners' last lines."""
    found = {"passed": 0, "failed": 0, "skipped": 0, "left": 0}
    kinds = {"ignored": "left", "deselected": "left", "error": "failed", "errors": "failed"}
    for line in _TOTALS.findall(_COLOUR.sub("", output)):
        for number, kind in _COUNT.findall(line):
            found[kinds.get(kind, kind)] += int(number)
    return found


def summary(
    name: str, found: dict[str, int], failed: list[str], cpu_s: float, passed_again: Sequence[str] = ()
) -> str:
    """Return the messages at the end of a suite.

    Parameters
    ----------
    name
        The suite.
    found
        How many tests passed, failed and were left out, without a second run.
    failed
        The steps that failed.
    cpu_s
        The CPU time beyond building, in seconds.
    passed_again
        The tests that failed and passed in a second run.
    """
    target = "make test" if name == "quick" else "make test-all"
    passed, again = found["passed"] + len(passed_again), len(passed_again)
    told = [f"{passed} tests passed" + (f" ({again} of them when run again, alone)" if again else "")]
    counted = {**found, "failed": max(found["failed"] - again, 0)}
    told += [f"{counted[kind]} {kind}" for kind in ("failed", "skipped") if counted[kind]]
    text = f"{target}: {', '.join(told)}, in {cpu_s:.0f} CPU seconds beyond building"
    if found["left"]:
        text += f"; {found['left']} long tests are left to make test-all"
    if name == "quick" and cpu_s > _BUDGET_S:
        text += (
            f"\nnotice: {target} is meant to take {_BUDGET_S} CPU seconds at most"
            "\n  hint: pytest --durations=20 lists the slowest tests; docs/testing.md defines long ones"
        )
    text += "".join(f"\n{target}: passed when run again, alone: {test}" for test in passed_again)
    return text + (f"\n{target}: failed: {', '.join(failed)}" if failed else "")


def _environment(step: Step) -> dict[str, str]:
    """Return the variables that a step's program has."""
    # The programs see no terminal, and pipes have no colours of themselves.
    colours = {"CARGO_TERM_COLOR": "always", "FORCE_COLOR": "1"} if sys.stdout.isatty() else {}
    environment = {**step.environment, **os.environ, **colours}
    # The tests start a hundred programs in Python, each of which would compile its sources again.
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    return environment


class _Run:
    """A suite while it runs: what its steps have shown, which have failed, and how long each took."""

    def __init__(self) -> None:
        self.output = ""
        self.failed: list[str] = []
        self.passed_again: list[str] = []
        self.cpu_s = 0.0
        self.took: list[str] = []

    def step(self, step: Step, prefix: tuple[str, ...] = ()) -> None:
        """Run a step, showing its output as it comes."""
        before, since = _cpu_s(), time.monotonic()
        shown = b""
        command = (*prefix, *step.command)
        with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, env=_environment(step)) as program:
            assert program.stdout is not None
            try:
                while part := os.read(program.stdout.fileno(), 65536):
                    _show(part)
                    shown += part
            except BaseException:
                program.terminate()
                raise
        self.end(step, program.returncode, shown, since, before)

    def end(self, step: Step, code: int, shown: bytes, since: float, cpu_before_s: float) -> None:
        """Keep the messages of a step that has ended."""
        self.output += shown.decode(errors="replace")
        self.failed += [step.name] if code else []
        self.cpu_s += 0.0 if step.builds else _cpu_s() - cpu_before_s
        self.took.append(f"{step.name} {time.monotonic() - since:.0f} s")

    def beside(self, step: Step, others: tuple[Step, ...]) -> None:
        """Run a step at the same time as others, and show its output when it has ended.

        If a few of its tests failed and may run again, they do so after all steps.
        """
        since = time.monotonic()
        if step.again is not None:
            step.again.failed.unlink(missing_ok=True)
        code, shown, before_s = self._beside(step, step.command, others)
        self.end(step, code, shown, since, before_s)
        if step.again is not None and code == _TESTS_FAILED:
            self._again(step, step.again)

    def _beside(
        self, step: Step, command: tuple[str, ...], others: tuple[Step, ...]
    ) -> tuple[int, bytes, float]:
        """Return a program's exit code and output, and the CPU time before it ended, in seconds."""
        with tempfile.TemporaryFile() as kept:
            program = subprocess.Popen(command, cwd=ROOT, stdout=kept, stderr=kept, env=_environment(step))
            try:
                for other in others:
                    self.step(other, _LAST)
                before_s = _cpu_s()
                program.wait()
            except BaseException as stopped:
                # A terminal interrupts it as well, and a second time would cut its clearing up short.
                _end(program, told=isinstance(stopped, KeyboardInterrupt))
                raise
            finally:
                kept.seek(0)
                shown = kept.read()
                _show(shown)
        return program.returncode, shown, before_s

    def _again(self, step: Step, again: Again) -> None:
        """Run the failed tests of a step a second time; it has not failed if all of them pass."""
        failed = again.names()
        if not 0 < len(failed) <= _MOST_AGAIN:
            return
        _show(f"\n{step.name}: failed tests ({len(failed)}) run again, alone\n".encode())
        code, shown, before_s = self._beside(step, (*step.command, *again.arguments), ())
        passed = set(_PASSED.findall(_COLOUR.sub("", shown.decode(errors="replace"))))
        self.passed_again = sorted((failed - again.names()) & passed)
        self.cpu_s += _cpu_s() - before_s
        if code == 0 and len(self.passed_again) == len(failed):
            self.failed.remove(step.name)


def _end(program: subprocess.Popen[bytes], *, told: bool) -> None:
    """Interrupt a program unless that was done, and kill it if it does not end in its time."""
    if not told:
        program.send_signal(signal.SIGINT)
    for then in (signal.SIGINT, signal.SIGKILL):
        try:
            program.wait(timeout=_CLEARING_UP_S)
        except subprocess.TimeoutExpired:
            program.send_signal(then)


def _show(output: bytes) -> None:
    """Pass on a program's output."""
    sys.stdout.buffer.write(output)
    sys.stdout.flush()


def _cpu_s() -> float:
    """Return the time that programs have used which have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def main(name: str) -> int:
    """Run a suite; return 0 when every step ended well."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    suite, run = SUITES[name], _Run()
    for step in suite.building:
        run.step(step)
    run.beside(suite.beside, suite.steps)
    sys.stdout.write(f"\n{', '.join(run.took)}\n")
    sys.stdout.write(f"{summary(name, counts(run.output), run.failed, run.cpu_s, run.passed_again)}\n")
    return 1 if run.failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))

"""Run a suite: the quick one, or every test there is (`make test`, `make test-all`).

The quick one leaves out what is marked as long, `#[ignore = "long: ..."]` in Rust and `@pytest.mark.slow` in
Python, and says how many those are. Every step runs, whatever the ones before it found.
"""

from __future__ import annotations

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
    from collections.abc import Mapping

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
_LIVE = (sys.executable, "-m", "pytest", "tests/live")
# Real packets are late, and slow, where other tests have both processors.
_LAST = ("nice", "-n", "19")

#: The time that real packets have to take their namespaces away, s.
_CLEARING_UP_S = 60

_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
# cargo: `test result: ok. 12 passed; 0 failed; 3 ignored; ...`, once a binary; pytest: `7 passed in 3s`.
_COUNT = re.compile(r"(\d+) (passed|failed|errors?|ignored|skipped|deselected)\b")
_TOTALS = re.compile(
    r"^(?:test result: .*|=*\s*\d+ (?:passed|failed|errors?|skipped|deselected)\b.* in \d.*)$", re.MULTILINE
)


@dataclass(frozen=True, kw_only=True)
class Step:
    """One program of a suite.

    Attributes
    ----------
    name
        What it is called when it fails.
    command
        The program and its arguments.
    builds
        Whether it builds, and its time is not the tests'.
    environment
        Variables that the program has unless whoever runs the suite sets them.
    """

    name: str
    command: tuple[str, ...]
    builds: bool = False
    environment: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Suite:
    """What is built, and then what runs.

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


SUITES = {
    "quick": Suite(
        building=(Step(name="building the tests", command=(*_TESTS, "--quiet", "--no-run"), builds=True),),
        steps=(
            Step(name="cargo test", command=(*_TESTS, "--no-fail-fast"), environment=_FEWER_CASES),
            Step(name="drill", command=(*_DRILL, "--start", "400", "--cpu-seconds", "7")),
            Step(name="pytest", command=(*_PYTEST, "-m", "not slow")),
        ),
        beside=Step(name="real packets", command=(*_LIVE, "-m", "not slow")),
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
        beside=Step(name="real packets", command=_LIVE),
    ),
}


def counts(output: str) -> dict[str, int]:
    """Return how many tests passed, failed and were left out by what the runners say at their end."""
    found = {"passed": 0, "failed": 0, "skipped": 0, "left": 0}
    kinds = {"ignored": "left", "deselected": "left", "error": "failed", "errors": "failed"}
    for line in _TOTALS.findall(_COLOUR.sub("", output)):
        for number, kind in _COUNT.findall(line):
            found[kinds.get(kind, kind)] += int(number)
    return found


def summary(name: str, found: dict[str, int], failed: list[str], cpu_s: float) -> str:
    """Return what is told at the end of a suite."""
    target = "make test" if name == "quick" else "make test-all"
    told = [f"{found['passed']} tests passed"]
    told += [f"{found[kind]} {kind}" for kind in ("failed", "skipped") if found[kind]]
    text = f"{target}: {', '.join(told)}, in {cpu_s:.0f} CPU seconds beyond building"
    if found["left"]:
        text += f"; {found['left']} long tests are left to make test-all"
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
        """Keep what there is to be told of a step that has ended."""
        self.output += shown.decode(errors="replace")
        self.failed += [step.name] if code else []
        self.cpu_s += 0.0 if step.builds else _cpu_s() - cpu_before_s
        self.took.append(f"{step.name} {time.monotonic() - since:.0f} s")

    def beside(self, step: Step, others: tuple[Step, ...]) -> None:
        """Run a step at the same time as others, and show its output when it has ended."""
        since = time.monotonic()
        with tempfile.TemporaryFile() as kept:
            program = subprocess.Popen(
                step.command, cwd=ROOT, stdout=kept, stderr=kept, env=_environment(step)
            )
            try:
                for other in others:
                    self.step(other, _LAST)
                before = _cpu_s()
                program.wait()
            except BaseException as stopped:
                # A terminal interrupts it as well, and a second time would cut its clearing up short.
                _end(program, told=isinstance(stopped, KeyboardInterrupt))
                raise
            finally:
                kept.seek(0)
                shown = kept.read()
                _show(shown)
        self.end(step, program.returncode, shown, since, before)


def _end(program: subprocess.Popen[bytes], *, told: bool) -> None:
    """Interrupt a program, unless it was told, and kill it when it has not cleared up in its time."""
    if not told:
        program.send_signal(signal.SIGINT)
    for then in (signal.SIGINT, signal.SIGKILL):
        try:
            program.wait(timeout=_CLEARING_UP_S)
        except subprocess.TimeoutExpired:
            program.send_signal(then)


def _show(output: bytes) -> None:
    """Pass on what a program has said."""
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
    sys.stdout.write(f"{summary(name, counts(run.output), run.failed, run.cpu_s)}\n")
    return 1 if run.failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))

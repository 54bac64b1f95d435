"""Run a suite: the quick one, or every test there is (`make test`, `make test-all`).

The quick one leaves out what is marked as long, `#[ignore = "long: ..."]` in Rust and `@pytest.mark.slow` in
Python, and says how many those are. Every step runs, whatever the ones before it found.
"""

from __future__ import annotations

import os
import re
import resource
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

ROOT = Path(__file__).resolve().parents[1]

_CARGO = ("cargo", "test", "--workspace", "--exclude", "anabranch-python")
_TESTS = (*_CARGO, "--tests")
_DRILL = ("cargo", "run", "--quiet", "--package", "anabranch-drill", "--profile", "drill", "--")
_DRILL_BUILD = ("cargo", "build", "--quiet", "--package", "anabranch-drill", "--profile", "drill")
_FOLDERS = ("tests/python", "tests/house")
# A file's tests run in one process and in their order: what one has made or read serves the others.
# Real packets come first: they are late, and slow, where other tests have both processors.
_LAST = ("nice", "-n", "19")
_PYTEST = (*_LAST, sys.executable, "-m", "pytest", "-n", "auto", "--dist", "loadfile", *_FOLDERS)
# A quarter of the cases that a property is tried on where its test does not say how many.
_FEWER_CASES = {"PROPTEST_CASES": "64"}
# Real packets take real time, and little of a processor.
_LIVE = (sys.executable, "-m", "pytest", "tests/live")

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
    beside
        A program that runs at the same time and is shown when both have ended.
    environment
        Variables that the programs have unless whoever runs the suite sets them.
    """

    name: str
    command: tuple[str, ...]
    builds: bool = False
    beside: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)


SUITES = {
    "quick": (
        Step(name="building the tests", command=(*_TESTS, "--quiet", "--no-run"), builds=True),
        Step(name="cargo test", command=(*_TESTS, "--no-fail-fast"), environment=_FEWER_CASES),
        Step(name="building the drill", command=_DRILL_BUILD, builds=True),
        Step(name="drill", command=(*_DRILL, "--cpu-seconds", "15")),
        Step(name="pytest", command=(*_PYTEST, "-m", "not slow"), beside=(*_LIVE, "-m", "not slow")),
    ),
    "all": (
        Step(name="make lint", command=("make", "--no-print-directory", "lint"), builds=True),
        Step(name="building the tests", command=(*_TESTS, "--quiet", "--no-run"), builds=True),
        Step(name="cargo test", command=(*_TESTS, "--no-fail-fast", "--", "--include-ignored")),
        # Hardly more than the building of each.
        Step(name="cargo test --doc", command=(*_CARGO, "--doc", "--no-fail-fast"), builds=True),
        Step(name="building the drill", command=_DRILL_BUILD, builds=True),
        Step(name="drill", command=(*_DRILL, "--seeds", "0..500")),
        Step(name="cost gate", command=(sys.executable, "benches/cost.py"), builds=True),
        Step(name="pytest", command=_PYTEST, beside=_LIVE),
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


def _run(step: Step) -> tuple[bool, str]:
    """Run a step, showing its output as it comes; return whether it ended well, and that output."""
    # The programs see no terminal, and pipes have no colours of themselves.
    colours = {"CARGO_TERM_COLOR": "always", "FORCE_COLOR": "1"} if sys.stdout.isatty() else {}
    environment = {**step.environment, **os.environ, **colours}
    # The tests start a hundred programs in Python, each of which would compile its sources again.
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    with tempfile.TemporaryFile() as kept:
        beside = None
        if step.beside:
            beside = subprocess.Popen(step.beside, cwd=ROOT, stdout=kept, stderr=kept, env=environment)
        try:
            well, shown = _shown(step.command, environment)
        except BaseException:
            if beside is not None:
                beside.terminate()
                beside.wait()
            raise
        if beside is not None:
            well = beside.wait() == 0 and well
            kept.seek(0)
            late = kept.read()
            _show(late)
            shown += late
    return well, shown.decode(errors="replace")


def _shown(command: tuple[str, ...], environment: dict[str, str]) -> tuple[bool, bytes]:
    """Run a program, showing its output as it comes; return whether it ended well, and that output."""
    shown = b""
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, env=environment) as program:
        assert program.stdout is not None
        while part := os.read(program.stdout.fileno(), 65536):
            _show(part)
            shown += part
    return program.returncode == 0, shown


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
    failed, output, cpu_s = [], "", 0.0
    for step in SUITES[name]:
        before = _cpu_s()
        well, shown = _run(step)
        failed += [] if well else [step.name]
        output += shown
        cpu_s += 0.0 if step.builds else _cpu_s() - before
    sys.stdout.write(f"\n{summary(name, counts(output), failed, cpu_s)}\n")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))

"""Test programs of Rust that contain many faults. One fault is switched on when a program starts."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import tempfile
import time
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import rust
import switch
from judge import BrokenError, bring, patience_s, run, say
from sample import Entry

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from faults import Fault

# The longest time of a test that runs together with others, and of one start of their program, seconds.
_SHORT_S = 0.2
_TOGETHER_S = 1.0


class Test(NamedTuple):
    """One test of a program.

    Attributes
    ----------
    program, folder, name
        The program, the folder in which it runs, and the name of the test.
    seconds
        The test's time without a fault.
    reached
        The numbers of the functions that the test calls.
    """

    program: str
    folder: str
    name: str
    seconds: float
    reached: frozenset[int]


class Programs:
    """Builds the tests once for a sample of faults. The tests that reach a fault judge it.

    Tests are deterministic. A test that does not call the faulty function therefore has its usual result.
    """

    def __init__(
        self,
        root: Path,
        tree: Path,
        environment: Mapping[str, str],
        jobs: int,
        crate: rust.Crate = rust.MPTCP,
    ) -> None:
        self._root = root
        self._crate = crate
        self._tree = tree
        self._environment = environment
        self._jobs = jobs
        self._numbers: dict[str, int] = {}
        self._places: dict[int, int] = {}
        self._tests: list[Test] = []

    def put(
        self, faults: Sequence[Fault], names: Sequence[str], *, build: bool = False
    ) -> tuple[list[Fault], list[Fault]]:
        """Write the sources with these faults. Return the faults that never compile, and those to try alone.

        Parameters
        ----------
        faults
            The faults that can be switched.
        names
            The files from which the programs are built.
        build
            Whether the programs are built. Otherwise, the judged crate is only checked.
        """
        unviable: list[Fault] = []
        apart = [fault for fault in faults if fault.body is None]
        left = [fault for fault in faults if fault.body is not None]
        while True:
            sources = self._write(left, names)
            messages, well = self._cargo(self._crate.build if build else self._crate.check)
            if well:
                break
            within, around = switch.blamed((one["message"] for one in messages if "message" in one), sources)
            if not within and not around:
                message = "error: the tests cannot be built without a fault"
                raise BrokenError(message)
            unviable += [left[number - 1] for number in within]
            apart += [left[number - 1] for number in around]
            left = [fault for number, fault in enumerate(left, 1) if number not in within | around]
        if build:
            self._tests = self._measured(messages)
        return unviable, apart

    def judge(self, fault: Fault) -> Entry:
        """Judge a fault that the programs contain."""
        number = self._numbers[fault.key]
        begun = time.monotonic()
        outcome, by = "missed", ""
        for tests in together([test for test in self._tests if self._places[number] in test.reached]):
            limit_s = patience_s(sum(test.seconds for test in tests))
            ended = self._run(tests, {switch.CHOICE: str(number)}, limit_s)
            if ended != 0:
                outcome, by = ("timeout" if ended is None else "caught"), name_of(tests)
                break
        return Entry(outcome, by, round(time.monotonic() - begun, 1))

    def _write(self, faults: Sequence[Fault], names: Sequence[str]) -> dict[str, switch.Source]:
        self._numbers = {fault.key: number for number, fault in enumerate(faults, 1)}
        self._places = {}
        sources = {}
        places = 0
        for file, numbered in switch.numbers(faults).items():
            sources[file] = switch.place((self._root / file).read_bytes(), numbered, places)
            self._places.update(sources[file].places)
            places = max(self._places.values()) + 1
        changed = {file: source.text for file, source in sources.items()}
        for top in {self._crate.top, *(rust.top_of(file) for file in sources)}:
            changed[top] = changed.get(top, (self._root / top).read_bytes()) + switch.module(places)
        bring(self._root, self._tree, names, changed)
        return sources

    def _cargo(self, command: Sequence[str]) -> tuple[list[dict[str, Any]], bool]:
        """Run a cargo command. Return its messages, and whether it succeeded."""
        answer = subprocess.run(
            command, cwd=self._tree, env={**os.environ, **self._environment}, capture_output=True, check=False
        )
        return [
            json.loads(line) for line in answer.stdout.splitlines() if line[:1] == b"{"
        ], not answer.returncode

    def _measured(self, messages: Sequence[dict[str, Any]]) -> list[Test]:
        """Return the tests of the programs. Each must pass alone."""
        built = [
            (one["executable"], str(Path(one["manifest_path"]).parent))
            for one in messages
            if one.get("executable") and one["profile"]["test"]
        ]
        names = [(*one, name) for one in built for name in self._names(*one)]
        with ThreadPoolExecutor(self._jobs) as pool:
            tests = list(pool.map(self._measure, names))
        took = sum(test.seconds for test in tests)
        say(f"{len(tests)} tests of {len(built)} programs: {took:.0f} s without a fault")
        return tests

    def _names(self, program: str, folder: str) -> list[str]:
        def listed(*options: str) -> list[str]:
            command = [program, "--list", "--format", "terse", *options]
            answer = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)
            found = (line.partition(": ") for line in answer.stdout.splitlines())
            return [name for name, _, kind in found if kind == "test"]

        left = set(listed("--ignored"))
        return [name for name in listed() if name not in left]

    def _measure(self, test: tuple[str, str, str]) -> Test:
        with tempfile.TemporaryDirectory() as folder:
            reached = Path(folder) / "reached"
            measured = Test(*test, seconds=0.0, reached=frozenset())
            begun = time.monotonic()
            ended = self._run([measured], {switch.CHOICE: switch.RECORD, switch.REACHED: str(reached)}, 3600)
            took = time.monotonic() - begun
            lines = reached.read_text(encoding="ascii").split() if reached.exists() else []
        if ended == 0:
            return measured._replace(seconds=took, reached=frozenset(map(int, lines)))
        # A test that uses up all file descriptors cannot record the functions. It judges every fault.
        if self._run([measured], {}, 3600) == 0:
            return measured._replace(seconds=took, reached=frozenset(self._places.values()))
        message = f"error: {measured.name} fails without a fault"
        raise BrokenError(message)

    def _run(self, tests: Sequence[Test], choice: Mapping[str, str], limit_s: float) -> int | None:
        names = [test.name for test in tests]
        command = [tests[0].program, "--exact", "--quiet", "--test-threads", "1", *names]
        return run(command, Path(tests[0].folder), {**rust.RUNNING, **choice}, limit_s)


def name_of(tests: Sequence[Test]) -> str:
    """Return the name of one start of a program."""
    program = Path(tests[0].program).name.rpartition("-")[0]
    return f"{program}, {len(tests)} tests" if len(tests) > 1 else f"{program}, {tests[0].name}"


def together(tests: Sequence[Test]) -> Iterator[list[Test]]:
    """Divide tests into starts of a program, the cheapest first."""
    starts = [[test] for test in tests if test.seconds > _SHORT_S]
    short = defaultdict(list)
    for test in tests:
        if test.seconds <= _SHORT_S:
            short[test.program].append(test)
    for some in short.values():
        ends = itertools.accumulate(test.seconds for test in some)
        by_start = itertools.groupby(zip(some, ends, strict=True), lambda one: int(one[1] / _TOGETHER_S))
        starts += [[test for test, _ in part] for _, part in by_start]
    yield from sorted(starts, key=lambda some: sum(test.seconds for test in some))

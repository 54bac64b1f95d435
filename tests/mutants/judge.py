"""Runs tests on faulty copies of the sources, one fault at a time and stage by stage."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

from sample import Entry

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from faults import Fault

    # The name, the build command (which may be empty) and the run command.
    Stage = tuple[str, tuple[str, ...], tuple[str, ...]]

# The time limit of a test: this multiple of its time without a fault, plus these seconds.
_PATIENCE = 5
_PATIENCE_S = 30.0
# The memory limit in bytes, because a fault may allocate without end.
_MEMORY = 8 << 30

_telling = threading.Lock()
# The process groups that are running. They are ended together with this program.
_running: set[int] = set()


class BrokenError(Exception):
    """The tests fail without any fault."""


def say(line: str) -> None:
    """Print a line of progress."""
    with _telling:
        sys.stdout.write(f"{line}\n")
        sys.stdout.flush()


def patience_s(took_s: float) -> float:
    """Return the time limit of a test that takes `took_s` without a fault."""
    return _PATIENCE * took_s + _PATIENCE_S


def files(root: Path) -> list[str]:
    """Return the repository's files."""
    command = ["git", "ls-files", "-co", "--exclude-standard", "-z"]
    listed = subprocess.run(command, cwd=root, check=True, capture_output=True, text=True).stdout
    return sorted(name for name in listed.rstrip("\0").split("\0") if os.path.lexists(root / name))


def bring(root: Path, tree: Path, names: Iterable[str], changed: Mapping[str, bytes] = {}) -> None:
    """Update a copy. Unchanged files keep their times, so that little must be built again.

    Parameters
    ----------
    root, tree
        The folder of the files, and the folder of the copy.
    names
        The names of the files.
    changed
        The contents that some of them have in the copy.
    """
    wanted = set(names)
    for name in wanted:
        source, target = root / name, tree / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.is_symlink():
            target.unlink(missing_ok=True)
            target.symlink_to(source.readlink())
            continue
        content = changed.get(name) or source.read_bytes()
        if not target.exists() or target.read_bytes() != content:
            target.write_bytes(content)
            shutil.copymode(source, target)
    for path in [one for one in tree.rglob("*") if one.is_file() and "__pycache__" not in one.parts]:
        if str(path.relative_to(tree)) not in wanted:
            path.unlink()


def run(command: Sequence[str], folder: Path, environment: Mapping[str, str], limit_s: float) -> int | None:
    """Run a program. Return its exit code, or None if it exceeded the time limit."""

    def bound() -> None:
        import resource

        resource.setrlimit(resource.RLIMIT_DATA, (_MEMORY, _MEMORY))

    program = subprocess.Popen(
        command, cwd=folder, env={**os.environ, **environment}, stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True, preexec_fn=bound,
    )  # fmt: skip
    _running.add(program.pid)
    try:
        return program.wait(limit_s)
    except subprocess.TimeoutExpired:
        os.killpg(program.pid, signal.SIGKILL)
        program.wait()
        return None
    finally:
        _running.discard(program.pid)


def end_all() -> None:
    """End all running programs."""
    for program in list(_running):
        os.killpg(program, signal.SIGKILL)


class Judge:
    """Runs stages of tests on a faulty copy, each with a time limit."""

    def __init__(self, tree: Path, stages: Sequence[Stage], environment: Mapping[str, str]) -> None:
        self._tree = tree
        self._stages = stages
        self._environment = environment
        self._limits: dict[int, float] = {}

    def judge(self, fault: Fault) -> Entry:
        """Judge a fault."""
        for stage in range(len(self._stages)):
            self._limit(stage)
        begun = time.monotonic()
        with self._faulty(fault):
            outcome, by = self._outcome()
        return Entry(outcome, by, round(time.monotonic() - begun, 1))

    def answers(self, fault: Fault, command: Sequence[str]) -> bool:
        """Return whether a program succeeds with the fault in the sources."""
        with self._faulty(fault):
            return self._run(command, 3600) == 0

    def _run(self, command: Sequence[str], limit_s: float) -> int | None:
        return run(command, self._tree, self._environment, limit_s)

    def _outcome(self) -> tuple[str, str]:
        for stage, (name, build, command) in enumerate(self._stages):
            if build and self._run(build, 3600) != 0:
                return "unviable", name
            ended = self._run(command, self._limits[stage])
            if ended is None:
                return "timeout", name
            if ended:
                return "caught", name
        return "missed", ""

    def _limit(self, stage: int) -> None:
        """Measure the time of a stage without a fault. Its tests must pass."""
        if stage in self._limits:
            return
        name, build, command = self._stages[stage]
        if build and self._run(build, 3600):
            message = f"error: {name} cannot be built without a fault"
            raise BrokenError(message)
        begun = time.monotonic()
        if self._run(command, 3600):
            message = f"error: {name} fail without a fault: {' '.join(command)}"
            raise BrokenError(message)
        took = time.monotonic() - begun
        self._limits[stage] = patience_s(took)
        say(f"{name}: {took:.0f} s without a fault")

    @contextmanager
    def _faulty(self, fault: Fault) -> Iterator[None]:
        path = self._tree / fault.file
        sound = path.read_bytes()
        try:
            self._write(path, fault.apply(sound))
            yield
        finally:
            self._write(path, sound)

    @staticmethod
    def _write(path: Path, source: bytes) -> None:
        path.write_bytes(source)
        for cached in path.parent.glob(f"__pycache__/{path.stem}.*"):
            cached.unlink()

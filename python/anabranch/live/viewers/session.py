"""A session of a player, from its start in the client's namespace to its last report."""

from __future__ import annotations

import json
import signal
import subprocess
import tempfile
import threading
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from anabranch.errors import MissingError
from anabranch.live import programs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from anabranch.live.testbed import Bed


@dataclass(frozen=True, kw_only=True)
class ViewerOrder:
    """The order for a program.

    Attributes
    ----------
    url
        The address that it plays.
    seconds
        The latest time of its end.
    cache_ms
        The network cache of the scenario's player, milliseconds.
    user
        The number of the user that it becomes; empty if it runs as another user already.
    folder
        A folder for its files.
    """

    url: str
    seconds: float
    cache_ms: int
    user: str
    folder: Path


class Now(Protocol):
    """The state of a program's viewer, by the program's reports."""

    def hear(self, told: Sequence[Mapping[str, Any]]) -> None:
        """Read the reports since the last call."""

    def player(self) -> dict[str, float | int | None]:
        """Return `buffer_s`, `position_s`, `discards` and `underflows`, as the page of a run has them."""


class Underflows:
    """Counts the underflows that `playback` will contain.

    Attributes
    ----------
    count
        How often the film stood still.
    """

    def __init__(self) -> None:
        self.count = 0
        self._plays = False

    def plays(self, moves: bool) -> None:  # noqa: FBT001 - what is said of it
        """Record whether the film is playing."""
        self.count += self._plays and not moves
        self._plays = moves


#: A report of a program: a mapping with `t`, seconds of the monotonic clock, and `what`.
Told = list[dict[str, Any]]


class Session:
    """A program that plays.

    Attributes
    ----------
    told
        Its reports so far.
    origin
        The program that serves what it plays, once there is one.
    """

    origin: subprocess.Popen[bytes] | None = None

    def __init__(self, process: subprocess.Popen[bytes], said: Any) -> None:  # noqa: ANN401 - a file
        self.told: Told = []
        self._stopped = False
        self._ends: list[int | None] = [None, None]
        self._process, self._said = process, said
        self._ready = threading.Event()
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()

    def _listen(self) -> None:
        """Read its reports, line by line."""
        assert self._process.stdout is not None
        for line in self._process.stdout:
            try:
                told = json.loads(line)
            except ValueError:
                continue
            if isinstance(told, dict) and "what" in told and "t" in told:
                self.told.append(told)
                if told["what"] == "ready":
                    self._ready.set()
        self._ready.set()

    def wait(self, name: str, patience_s: float) -> None:
        """Wait until it is ready to play.

        Raises
        ------
        MissingError
            When it has ended instead, or takes too long.
        """
        self._ready.wait(patience_s)
        if not any(told["what"] == "ready" for told in self.told):
            programs.stop(self._process)
            message = f"{name} does not start: {self.last_words() or 'no output'}"
            raise MissingError(message)

    def go(self) -> None:
        """Let it play."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(b"go\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            return

    def is_over(self) -> bool:
        """Return whether it has ended."""
        return self._process.poll() is not None

    def during(self, heard: Callable[[float, float], bool]) -> Callable[[float, float], bool]:
        """Return a progress function that ends the run when the program ends."""
        return lambda done_s, total_s: heard(done_s, total_s) and not self.is_over()

    def shown(
        self, now: Now, show: Callable[[Mapping[str, Any]], None]
    ) -> Callable[[Mapping[str, Any]], None]:
        """Return a function that shows a moment of the run, with the viewer's state in it."""
        heard = 0

        def shows(moment: Mapping[str, Any]) -> None:
            nonlocal heard
            new = self.told[heard:]
            heard += len(new)
            now.hear(new)
            show({**moment, "player": now.player()})

        return shows

    def finish(self) -> None:
        """End it, and read its last reports."""
        if not self._stopped:
            self._stopped = True
            self._ends = [None if one is None else one.poll() for one in (self._process, self.origin)]
        programs.stop(self._process)
        self._listener.join()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                # Input that was not read is no longer needed.
                with suppress(BrokenPipeError):
                    pipe.close()

    def faults(self, name: str) -> list[str]:
        """Return notes about programs that ended early: this one, by its name, and its origin."""
        found = []
        for who, end in zip((name, "nginx, which served it,"), self._ends, strict=True):
            if end is not None and end < 0:
                found.append(f"{who} was killed during the run ({signal.Signals(-end).name}).")
            elif end:
                words = self.last_words() if who == name else ""
                found.append(
                    f"{who} broke off during the run (exit code {end}){f': {words}' if words else ''}."
                )
        return found

    def last_words(self) -> str:
        """Return the last line that it printed on stderr."""
        self._said.seek(0)
        lines = self._said.read().decode(errors="replace").strip().splitlines()
        return lines[-1].strip() if lines else ""


@contextmanager
def opened(bed: Bed, name: str, command: Sequence[str], *, patience_s: float = 30.0) -> Iterator[Session]:
    """Start a program in the client's namespace and wait until it is ready; it ends with the block.

    Raises
    ------
    MissingError
        When it does not start.
    """

    def start(pipes: Mapping[str, Any]) -> subprocess.Popen[bytes]:
        return programs.start(bed, "client", command, programs.Slack(), **pipes)

    with running(name, start, patience_s=patience_s) as session:
        yield session


@contextmanager
def running(
    name: str,
    start: Callable[[Mapping[str, Any]], subprocess.Popen[bytes]],
    *,
    patience_s: float = 30.0,
) -> Iterator[Session]:
    """Start a program and wait until it is ready; it ends with the block.

    Parameters
    ----------
    name
        Its name for people.
    start
        Starts it with these arguments of `subprocess.Popen`.
    patience_s
        How long it may take.

    Raises
    ------
    MissingError
        When it does not start.
    """
    with tempfile.TemporaryFile() as said:
        session = Session(start({"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": said}), said)
        try:
            session.wait(name, patience_s)
            yield session
        finally:
            session.finish()

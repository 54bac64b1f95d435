"""The commands `emulate` and `shell`: programs of the user behind emulated paths."""

from __future__ import annotations

import json
import os
import shlex
import tempfile
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from anabranch.cli import _console
from anabranch.cli._console import guarded
from anabranch.cli._live import Pcapng, Watched, WatchedAt, watched
from anabranch.cli._options import Scenario, Set, rooted
from anabranch.errors import Fault, MissingError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from anabranch.live.emulate import Emulated
    from anabranch.live.testbed import Bed
    from anabranch.scenario.load import Loaded

Serve = Annotated[
    str | None,
    typer.Option(
        metavar="COMMAND",
        help="A program to run at the server's end; the other program starts when it listens.",
    ),
]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    for command in (emulate, shell):
        app.command(command.__name__)(guarded(rooted(command)))


def emulate(
    scenario: Scenario,
    command: Annotated[
        list[str], typer.Argument(metavar="-- COMMAND...", help="The program and its arguments.")
    ],
    serve: Serve = None,
    set_: Set = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the results of the network as JSON.")
    ] = False,
    pcapng: Pcapng = None,
    watch: Watched = False,
    watch_at: WatchedAt = None,
) -> None:
    """Run a program over a scenario's emulated paths, with this host's kernel at both ends.

    The program reaches only the server's end. Its environment variable ANABRANCH_SERVER has the server's
    address on the first path. This needs root. The program runs as the user who called sudo. The exit code is
    the program's, or 4 if the program of --serve fails. Both programs need MPTCP sockets to use all paths:
    `mptcpize run` gives these to programs that do not know MPTCP. For example:

      anabranch emulate wifi-lte -- ping -c 3 10.1.0.1
      anabranch emulate wifi-lte --serve "mptcpize run iperf3 -s -1" -- mptcpize run iperf3 -c 10.1.0.1 -R
    """
    from anabranch.live import page

    asked = _Asked(scenario, set_ or (), serve, pcapng, page.chosen(watch_at, free=watch))
    done = _run(asked, asked.loaded(), command)
    if as_json:
        told = {
            "status": done.status,
            "served": done.served,
            **done.summary,
            "mptcp": done.mptcp,
            "links": done.links,
        }
        _console.out(json.dumps(told, indent=2, allow_nan=False))
    _end(done, serve, links=not as_json)


def shell(
    scenario: Scenario,
    serve: Serve = None,
    set_: Set = None,
    pcapng: Pcapng = None,
    watch: Watched = False,
    watch_at: WatchedAt = None,
) -> None:
    """Open a shell whose network is the emulated paths of a scenario.

    The prompt begins with the scenario's name. For example:

      anabranch shell wifi-lte --serve "python3 -m http.server 80"
    """
    from anabranch.live import page

    asked = _Asked(scenario, set_ or (), serve, pcapng, page.chosen(watch_at, free=watch))
    loaded = asked.loaded()
    program = os.environ.get("SHELL") or "/bin/sh"
    prompt = f"({loaded.scenario.name}) "

    def opened(bed: Bed) -> None:
        for line in addresses(loaded, bed):
            _console.note(line)

    with _prompted(program, prompt) as (command, environment):
        done = _run(asked, loaded, command, opened=opened, environment=environment)
    _end(done, serve)


def addresses(loaded: Loaded, bed: Bed) -> Iterator[str]:
    """Yield lines with the addresses of each path, and the commands that end the shell and use MPTCP."""
    names = max(len(lane.name) for lane in bed.lanes)
    clients = max(len(lane.client) for lane in bed.lanes)
    for lane in bed.lanes:
        kind = ", backup" if lane.backup else ""
        yield f"{lane.name:{names}}  this end {lane.client:{clients}}  server {lane.server}{kind}"
    if len(bed.lanes) > 1 and loaded.scenario.transport.multipath is not False:
        yield "hint: `mptcpize run PROGRAM` uses all paths; `ss -Mn` shows MPTCP; `exit` removes the network"
    else:
        yield "hint: `exit` removes the network"


@contextmanager
def _prompted(program: str, prompt: str) -> Iterator[tuple[list[str], dict[str, str]]]:
    """Yield a shell's command and variables with which its prompt begins with a text.

    Bash reads its own settings first. Other shells take the prompt from the environment, unless their
    settings replace it.
    """
    environment = {"PS1": f"{prompt}$ ", "PROMPT": f"{prompt}%# "}
    if Path(program).name != "bash":
        yield [program], environment
        return
    with tempfile.NamedTemporaryFile("w", prefix="anabranch-shell-", encoding="utf-8") as settings:
        settings.write(f'[ -f ~/.bashrc ] && . ~/.bashrc\nPS1={shlex.quote(prompt)}"${{PS1:-$ }}"\n')
        settings.flush()
        # The shell may run as the user who called sudo.
        Path(settings.name).chmod(0o644)
        yield [program, "--rcfile", settings.name], {}


@dataclass(frozen=True)
class _Asked:
    """The options of both commands."""

    scenario: str
    set: Sequence[str]
    serve: str | None
    pcapng: Path | None
    place: tuple[str, int] | Fault | None

    def loaded(self) -> Loaded:
        """Return the checked scenario."""
        from anabranch.cli import _commands

        given = _commands.Given(scenario=self.scenario, set=tuple(self.set))
        faults = [self.place] if isinstance(self.place, Fault) else []
        return _commands.opened(given, _commands.Files(pcapng=self.pcapng), faults)


def _run(
    asked: _Asked,
    loaded: Loaded,
    command: Sequence[str],
    *,
    opened: Callable[[Bed], None] = lambda _bed: None,
    environment: Mapping[str, str] | None = None,
) -> Emulated:
    """Run the programs, with a page if one is requested."""
    from anabranch.live import emulate as run

    with watched(asked.place) as shown:
        return run(
            loaded,
            command,
            serve=shlex.split(asked.serve or "") or None,
            pcapng=asked.pcapng,
            watch=shown,
            opened=opened,
            environment=environment,
        )


def _end(done: Emulated, serve: str | None, *, links: bool = True) -> None:
    """Print the links' counters and notes, and end with the program's exit code."""
    if links:
        _links(done)
    for note in done.notes:
        _console.note(f"warning: {note}")
    if done.status:
        raise typer.Exit(done.status)
    if done.served:
        message = f"--serve: the program ended with exit code {done.served}: `{serve}`"
        raise MissingError(message, hint="its own messages are above")


def _links(done: Emulated) -> None:
    """Print the links' counters after the program's own output."""
    late = done.summary["lateness"]
    for link in done.links:
        lost = {
            name.removeprefix("dropped_"): count
            for name, count in link.items()
            if name.startswith("dropped_") and count
        }
        dropped = ", ".join(f"{count:,} dropped ({name})" for name, count in lost.items()) or "none dropped"
        _console.note(f"{link['link']}: {link['delivered']:,} of {link['enqueued']:,} packets, {dropped}")
    if done.mptcp["tcp"]:
        _console.note(
            f"MPTCP connections: {done.mptcp['connections']}, further subflows: {done.mptcp['joined']}; "
            f"TCP connections and subflows in all: {done.mptcp['tcp']}"
        )
    _console.note(
        f"the network's own lateness: {late['median_ms']:.2f} ms in the median, "
        f"{late['p99_ms']:.2f} ms at the 99th percentile, {late['max_ms']:.2f} ms at most"
    )

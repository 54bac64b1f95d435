"""`anabranch measure`: this host's own paths, with its kernel's MPTCP."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from anabranch.cli import _console
from anabranch.cli._console import guarded

if TYPE_CHECKING:
    from anabranch.measure import Measured, Plan


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("measure")(measure)


@guarded
def measure(
    url: Annotated[str, typer.Argument(metavar="URL", help="A film or file, or an HLS playlist (.m3u8).")],
    paths: Annotated[
        str | None,
        typer.Option(metavar="NAME,NAME", help="Interfaces, instead of all with a route to the server."),
    ] = None,
    trials: Annotated[int, typer.Option(min=1, help="Number of trials.")] = 5,
    limit: Annotated[
        str, typer.Option(metavar="TIME", help="Film that each session plays, or time of a download.")
    ] = "60s",
    player: Annotated[
        str, typer.Option(metavar="NAME", help="Player of a stream: model, vlc or hlsjs.")
    ] = "model",
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    report: Annotated[
        Path | None, typer.Option(metavar="FILE.html", help="Write a page about the measurement.")
    ] = None,
    no_capture: Annotated[
        bool, typer.Option("--no-capture", help="Capture no headers, although this process may.")
    ] = False,
    captures: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="Keep the captures of the headers in this new folder."),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print what would be measured, and end.")
    ] = False,
) -> None:
    """Play a stream over this host's own paths: all together by MPTCP, and each alone by TCP.

    The sessions of each trial take turns. Nothing on the host is changed. The server must speak MPTCP, and
    this host needs the program `ip` (iproute2). An HLS stream is played by a model of a player, other files
    are downloaded. With --player, VLC or hls.js plays in real time, through a relay on 127.0.0.1.

    Prints the mean goodput, start-up time, time in stalls and height of each arm, each path's share of the
    bytes, and whether all paths together are better than the best one alone. With CAP_NET_RAW, packet headers
    are captured for UQ18's figures (--json, --report). After Ctrl-C, the results of the sessions that have
    ended are printed.

    For example:

      anabranch measure https://example.org/film/master.m3u8 --dry-run
      anabranch measure https://example.org/film/master.m3u8 --paths wlan0,wwan0 --report here.html
      anabranch measure https://example.org/file.bin --trials 10 --limit 20s --json
      anabranch measure https://example.org/film/master.m3u8 --player hlsjs
      sudo anabranch measure https://example.org/film/master.m3u8 --captures mine
    """
    from anabranch import measure as measuring
    from anabranch.cli import _outputs
    from anabranch.errors import InputError

    if report is not None and (fault := _outputs.unwritable(report, "--report")) is not None:
        raise InputError([fault])
    if captures is not None:
        _check_captures(captures, no_capture=no_capture)
    names = [name.strip() for name in paths.split(",") if name.strip()] if paths else []
    plan = measuring.planned(
        url, paths=names, trials=trials, limit_s=_seconds(limit), capture=not no_capture, player=player
    )
    _announce(plan, captures, no_capture=no_capture)
    if dry_run:
        return
    with _console.progress("measuring", unit="sessions") as bar:
        found = measuring.measure(plan, captures_folder=captures, progress=bar)
    _finish(found, report, as_json=as_json)


def _finish(found: Measured, report: Path | None, *, as_json: bool) -> None:
    """Write the page and print the results.

    Raises
    ------
    typer.Exit
        If no session was complete.
    """
    if report is not None:
        from anabranch.measure import page

        page.write(report, found)
        _console.note(f"report: {report}")
    if as_json:
        _console.out(json.dumps(_whole(found), indent=2))
    else:
        _text(found)
    if all(session.error for session in found.sessions):
        raise typer.Exit(1)


def _seconds(text: str) -> float:
    """Return a time in seconds."""
    from anabranch.errors import Fault, InputError
    from anabranch.scenario.units import time_ns

    try:
        found = time_ns(text) / 1e9
    except ValueError as error:
        raise InputError([Fault(message=str(error), where="--limit")]) from None
    if found <= 0:
        raise InputError([Fault(message=f"not above zero: `{text}`", where="--limit")])
    return found


def _check_captures(folder: Path, *, no_capture: bool) -> None:
    """Refuse a folder for captures that cannot be used.

    Raises
    ------
    InputError
        If it is the name of a file, cannot be written, has captures of an earlier measurement, or
        `--no-capture` is given too.
    MissingError
        If this process may not capture.
    """
    from anabranch.errors import Fault, InputError, MissingError
    from anabranch.measure import may_capture

    where = f"--captures {folder}"
    if no_capture:
        message = "there are no captures to keep: leave out --captures or --no-capture"
        raise InputError([Fault(message=message, where=where)])
    if folder.exists() and not folder.is_dir():
        raise InputError([Fault(message="not a folder", where=where)])
    existing = next(one for one in (folder.absolute(), *folder.absolute().parents) if one.exists())
    if not existing.is_dir() or not os.access(existing, os.W_OK):
        raise InputError([Fault(message=f"cannot make files or folders in {existing}", where=where)])
    if any(folder.glob("trial-*.pcapng")):
        message = "the folder has captures of an earlier measurement"
        raise InputError([Fault(message=message, where=where, hint="name a new folder: it is made")])
    if not may_capture():
        message = "this process may not capture packets: it lacks CAP_NET_RAW"
        raise MissingError(message, hint="run the command with sudo")


def _announce(plan: Plan, captures: Path | None, *, no_capture: bool) -> None:
    """Print the sessions of the plan, whether they are captured, and its notes."""
    address, port = plan.host.server
    paths = ", ".join(f"{path.name} ({path.address})" for path in plan.host.paths)
    _console.note(f"server {address}, port {port}; paths: {paths}")
    sessions = plan.trials * len(plan.arms)
    _console.note(
        f"{_counted(sessions, 'session')} of up to {plan.limit_s:g} s: {_counted(plan.trials, 'trial')} of "
        f"{', '.join(name for name, _ in plan.arms)}. Nothing on this host is changed."
    )
    if plan.is_captured:
        place = "and deleted after they were read" if captures is None else f"and kept in {captures}"
        _console.note(f"The headers of the sessions' packets are captured, without payload, {place}.")
    else:
        why = "--no-capture" if no_capture else "it needs CAP_NET_RAW: run the command with sudo"
        _console.note(f"No packets are captured ({why}). The figures come from tcp_info.")
    for note in plan.notes:
        _console.note(f"note: {note}")


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _text(found: Measured) -> None:
    """Print the means of each arm, the differences and the notes."""
    from anabranch.measure import sentence
    from anabranch.measure.page import table

    if all(session.error for session in found.sessions):
        _console.note("no session was complete")
    else:
        _console.table(*table(found))
    for difference in found.differences:
        _console.out(sentence(difference))
    if found.players:
        _console.out(f"Played by {', '.join(found.players)}.")
    for note in found.notes[len(found.plan.notes) :]:
        _console.note(f"note: {note}")
    for arm in found.arms:
        for error in sorted(set(arm.errors)):
            _console.note(
                f"note: {_counted(arm.errors.count(error), 'session')} of {arm.name} ended early: {error}"
            )


def _whole(found: Measured) -> dict[str, Any]:
    """Return everything for JSON."""
    import dataclasses

    from anabranch.measure import sentence

    host = found.plan.host
    return {
        "url": found.plan.url.geturl(),
        "server": list(host.server),
        "paths": [dataclasses.asdict(path) for path in host.paths],
        "trials": found.plan.trials,
        "limit_s": found.plan.limit_s,
        "captured": found.plan.is_captured,
        "players": found.players,
        "sessions": found.rows,
        "arms": [dataclasses.asdict(arm) for arm in found.arms],
        "differences": [
            {**dataclasses.asdict(one), "decided": one.is_decided, "sentence": sentence(one)}
            for one in found.differences
        ],
        "notes": found.notes,
    }

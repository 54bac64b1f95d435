"""`anabranch log`: what a player's log shows."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from anabranch import _numbers
from anabranch.cli import _console
from anabranch.cli._console import guarded

if TYPE_CHECKING:
    from anabranch import Run
    from anabranch.logs import PlayerLog

#: The most lines with faults that are printed one by one, and the most stalls.
_MOST_SHOWN = 20


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("log")(log)


@guarded
def log(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A player's log, also with gzip.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    report: Annotated[
        Path | None, typer.Option(metavar="FILE.html", help="Write a page about the session.")
    ] = None,
    kind: Annotated[
        str | None,
        typer.Option("--as", metavar="vlc|hlsjs|dashjs|cmcd", help="The kind of log (default: as it looks)."),
    ] = None,
    session: Annotated[
        str | None, typer.Option(metavar="SID", help="The session of a log with CMCD.")
    ] = None,
) -> None:
    """Read a player's log, and print what the viewer saw.

    The file has messages of `vlc -vv`, events of hls.js or dash.js (console text, JSON lines or a JSON
    array), or requests with Common Media Client Data (CMCD) in an access log or in JSON lines. Lines that
    cannot be read are named, and the others are used.

    For example:

      anabranch run adaptive-two-paths --cmcd requests.json
      anabranch log requests.json
      anabranch log requests.json --report session.html
      anabranch log requests.json --json
    """
    from anabranch import logs
    from anabranch.cli import _outputs
    from anabranch.errors import InputError

    if report is not None:
        faults = [_outputs.unwritable(report, "--report")]
        faults += _outputs.over_inputs([(report, "--report")], [(file, "the log")])
        if found := [fault for fault in faults if fault is not None]:
            raise InputError(found)
    read = logs.read(file, kind=kind, session=session)
    warn(read)
    run = logs.alone(read).run()
    if report is not None:
        run.report(report)
        _console.note(f"report: {report}")
    if as_json:
        _json(read, run)
    else:
        _text(read, run)


def warn(read: PlayerLog) -> None:
    """Warn about the lines that could not be read."""
    from anabranch.errors import Fault

    faults = [Fault(message=one.why, where=read.file, line=one.number) for one in read.bad[:_MOST_SHOWN]]
    if more := len(read.bad) - len(faults):
        faults.append(Fault(message=f"{more:,} more lines could not be read", where=read.file))
    if faults:
        _console.warn(faults)


def _json(read: PlayerLog, run: Run) -> None:
    """Write everything as one JSON object."""
    import json

    kept = ("log", "not_visible", "begin_unix_s")
    whole = {
        "file": read.file,
        **run.to_json(),
        **{name: run.summary[name] for name in kept},
        "sessions": [one for one in (read.session, *read.others) if one],
        "bad_lines": [{"line": one.number, "why": one.why} for one in read.bad],
        "playback": read.tables["playback"],
        "requests": read.tables["requests"],
    }
    _console.out(json.dumps(whole, indent=2))


def _text(read: PlayerLog, run: Run) -> None:
    """Write the session for a person."""
    from anabranch.metrics._viewer import stall_times
    from anabranch.report._log import counts

    clocks = {"wall": "with the time of day", "own": "with a time of its own", "none": "without times"}
    name = f", session {read.session}" if read.session else ""
    _console.out(f"{read.kind}, {clocks[read.clock]}{name}: {', '.join(counts(read.counts))}.")
    if read.others:
        _console.out(f"{len(read.others):,} other sessions: {', '.join(read.others[:5])} (--session).")
    if run.qoe is not None:
        dash = _numbers.or_dash
        latest = " at the latest" if read.starts_by and run.qoe["startup_delay_s"] is not None else ""
        _console.out(
            f"Started after {dash(run.qoe['startup_delay_s'], '{:.3g} s')}{latest}. "
            f"Stalled {run.qoe['buffer_underflows']:g} times, for {run.qoe['rebuffer_s']:.3g} s in all."
        )
        stalls = stall_times(run.rows("playback"), run.duration_s)
        if stalls:
            rows = [(f"{begin:.2f}", f"{end - begin:.2f}") for begin, end in stalls[:_MOST_SHOWN]]
            _console.table(("stall at s", "lasted s"), rows, left=0)
    for note in read.notes:
        _console.out(note)
    for what in run.summary["not_visible"]:
        _console.out(f"Not visible: {what}.")

"""`anabranch capture`: what a capture of a session shows."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from anabranch import _files, _numbers
from anabranch.cli import _console
from anabranch.cli._console import guarded

if TYPE_CHECKING:
    from collections.abc import Sequence

    from anabranch.capture import Capture, Session

#: The most sessions that are printed one by one.
_MOST_SHOWN = 20


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("capture")(capture)


@guarded
def capture(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A pcap or pcapng file, also with gzip.")],
    other: Annotated[
        Path | None,
        typer.Argument(metavar="[FILE2]", help="A capture of the same sessions at the other host."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    report: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE.html", help="Write a page about the largest session, or that of --session."
        ),
    ] = None,
    scenario: Annotated[
        Path | None,
        typer.Option(metavar="FILE.toml", help="Write the session as a scenario, with recordings beside it."),
    ] = None,
    session: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="The session of the page or scenario: `MPTCP 0`, `TCP 3`."),
    ] = None,
    samples: Annotated[
        Path | None,
        typer.Option(metavar="FILE.csv", help="Write rates and times every 0.1 s as CSV."),
    ] = None,
) -> None:
    """Read a capture of TCP or MPTCP, and print what each session and each path did.

    The file may come from tcpdump, Wireshark or `anabranch run --pcapng`, taken at the client or at the
    server. It may begin in the middle, and contain only headers. A damaged file is read as far as possible.
    With a second file, taken at the other host, true losses and one-way delays are printed.

    For example:

      anabranch run wifi-starlink --pcapng session.pcapng
      anabranch capture session.pcapng
      anabranch capture session.pcapng --report session.html
      anabranch capture session.pcapng --json --samples course.csv
      anabranch capture session.pcapng --scenario session.toml
      anabranch run wifi-starlink --pcapng server.pcapng --pcapng-at server
      anabranch capture session.pcapng server.pcapng
    """
    from anabranch import capture as captures
    from anabranch.cli import _capture_pair
    from anabranch.errors import Fault, InputError

    inputs = [(file, "the capture"), *([(other, "the second capture")] if other else [])]
    _refuse([(samples, "--samples"), (report, "--report"), (scenario, "--scenario")], inputs)
    if other is not None:
        if report is not None or session is not None or scenario is not None:
            message = "a page or scenario is about one capture: leave the second out"
            raise InputError([Fault(message=message, where=str(other))])
        _capture_pair.tell(file, other, as_json=as_json, samples=samples)
        return
    with _console.progress("reading", unit="bytes") as bar:
        read = captures.read(file, progress=bar)
    _warn(read)
    if samples is not None:
        _files.write(samples, read.samples().write_csv(), "the samples")
        _console.note(f"wrote {samples}")
    if report is not None or scenario is not None or session is not None:
        _write(read, session, report, scenario)
    found_sessions = captures.sessions(read)
    if as_json:
        _json(read, found_sessions, session)
    else:
        _text(read, found_sessions)


def _warn(read: Capture) -> None:
    """Warn about a damaged file, and about one without TCP."""
    from anabranch.errors import Fault

    if read.damage:
        after = f"{read.counts['records']:,} frames before that were read"
        _console.warn([Fault(message=f"{read.damage}; {after}", where=read.file)])
    if read.counts["tcp_segments"] == 0:
        _console.warn([Fault(message="no TCP segment in the capture", where=read.file)])


def _refuse(named: Sequence[tuple[Path | None, str]], inputs: Sequence[tuple[Path, str]]) -> None:
    """Refuse outputs that cannot be written, or would be written over an input."""
    from anabranch.cli import _outputs
    from anabranch.errors import InputError

    outputs = [(path, name) for path, name in named if path is not None]
    faults = [_outputs.unwritable(path, name) for path, name in outputs]
    faults += _outputs.over_inputs(outputs, inputs)
    if found := [fault for fault in faults if fault is not None]:
        raise InputError(found)


def _write(read: Capture, session: str | None, report: Path | None, scenario: Path | None) -> None:
    """Write the page and the scenario of a session."""
    from anabranch import capture as captures

    traced = captures.traced(read, session=session)
    run = traced.run()
    if report is not None:
        run.report(report)
        _console.note(f"report: {report}")
    if scenario is not None:
        for written in captures.write_scenario(scenario, read, traced, run):
            _console.note(f"wrote {written}")


def _json(read: Capture, found: Sequence[Session], session: str | None) -> None:
    """Write everything as one JSON object."""
    import dataclasses
    import json

    from anabranch import capture as captures

    whole: dict[str, Any] = {"file": read.file, "damage": read.damage or None, **read.found}
    whole["sessions"] = [
        {**dataclasses.asdict(session), "rtt_diff_ms": session.rtt_diff_ms} for session in found
    ]
    if found:
        run = captures.traced(read, session=session).run()
        kept = ("captured_at", "evidence", "begin_unix_s", "sessions", "not_visible", "uq18")
        whole["largest"] = {**run.to_json(), **{name: run.summary[name] for name in kept}}
    _console.out(json.dumps(whole, indent=2))


def _text(read: Capture, found: Sequence[Session]) -> None:
    """Write the sessions for a person."""
    counts = read.counts
    duration = counts["duration_s"]
    _console.out(
        f"{counts['records']:,} frames in {_seconds(duration)}: {counts['tcp_segments']:,} TCP segments, "
        f"{counts['mptcp_segments']:,} of them with MPTCP options."
    )
    if skipped := _skipped(counts):
        _console.out(f"Not read: {skipped}.")
    joins = read.found["orphan_joins"]
    if joins:
        tokens = len(read.found["orphan_tokens"])
        _console.out(
            f"{joins:,} joins to {tokens:,} connections whose beginning was not captured are left out."
        )
    for session in found[:_MOST_SHOWN]:
        _console.out()
        _session(session)
    if len(found) > _MOST_SHOWN:
        _console.out()
        _console.out(f"{len(found) - _MOST_SHOWN:,} more sessions: --json describes them.")
    if left := read.found["streams_not_described"]:
        _console.out(f"{left:,} more TCP connections are only counted.")


def _session(session: Session) -> None:
    """Write one session."""
    _console.heading(session.name)
    _console.out(
        f"{session.bytes:,} B to the client in {_seconds(session.duration_s)}, "
        f"{_numbers.or_dash(session.goodput_mbps, '{:.3g}')} Mb/s."
    )
    _console.out(session.evidence)
    if session.fallback:
        _console.out(f"No MPTCP: {session.fallback}.")
    if session.reinjected_bytes is not None and len(session.paths) > 1:
        waited = (
            ""
            if session.head_of_line_s is None
            else f" Data waited {_seconds(session.head_of_line_s)} in all for earlier data."
        )
        _console.out(f"{session.reinjected_bytes:,} B were reinjected on another path.{waited}")
    dash = _numbers.or_dash
    rows = [
        (
            path.client,
            path.server,
            f"{path.bytes:,}",
            dash(path.throughput_mbps, "{:.3g}"),
            dash(path.min_rtt_ms, "{:.1f}"),
            dash(path.rtt_ms, "{:.1f}"),
            dash(path.retransmitted_bytes, "{:,d}"),
            dash(path.out_of_order, "{:,d}"),
            dash(path.head_of_line_s, "{:.2f}"),
            f"{path.idle_s:.1f}",
        )
        for path in session.paths
    ]
    headers = (
        "client",
        "server",
        "bytes",
        "Mb/s",
        "least RTT ms",
        "median RTT ms",
        "retransmitted B",
        "out of order",
        "waited for s",
        "idle s",
    )
    _console.table(headers, rows, left=2)
    for what in session.not_visible:
        _console.out(f"Not visible: {what}.")


def _skipped(counts: dict[str, Any] | Any) -> str:  # noqa: ANN401 - a mapping of JSON
    """Return the frames without a TCP segment, in words."""
    kinds = (
        ("not_ip", "without IP"),
        ("not_tcp", "of other protocols"),
        ("no_tcp_header", "without a TCP header"),
        ("unknown_link_type", "of an unknown link type"),
        ("left_out", "of more TCP connections than can be kept apart"),
    )
    return ", ".join(f"{counts[key]:,} frames {words}" for key, words in kinds if counts[key])


def _seconds(value: float | None) -> str:
    """Return a duration for a person."""
    return _numbers.or_dash(value, "{:.3g} s")

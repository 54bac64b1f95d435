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

    from anabranch import Run
    from anabranch.capture import Capture, Rule, Session, Traced

#: The most sessions that are printed one by one.
_MOST_SHOWN = 20

_Scenario = Annotated[
    Path | None,
    typer.Option(metavar="FILE.toml", help="Write the session as a scenario, with recordings beside it."),
]
_Force = Annotated[
    bool, typer.Option("--force", help="Overwrite the scenario and its recordings if they exist.")
]
_Ladder = Annotated[
    str | None,
    typer.Option(
        metavar="LADDER", help="The film of the scenario: a name, a playlist or manifest, or its URL."
    ),
]
_Session = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="The session of the page or scenario: `MPTCP 0`, `TCP 3`."),
]
_Samples = Annotated[
    Path | None, typer.Option(metavar="FILE.csv", help="Write rates and times every 0.1 s as CSV.")
]
_Log = Annotated[
    Path | None, typer.Option(metavar="FILE", help="A log of the session's player (`anabranch log`).")
]
_LogOffset = Annotated[
    float | None,
    typer.Option(metavar="SECONDS", help="The log's first time, in seconds after the session's begin."),
]
_Store = Annotated[
    Path | None,
    typer.Option(metavar="FOLDER", help="Store the session as a trial in this folder of results."),
]
_Labels = Annotated[
    list[str] | None,
    typer.Option(
        "--label",
        metavar="KEY=VALUE",
        help="What stored sessions are compared by, for example `scheduler=linux`; repeatable.",
    ),
]


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("capture")(capture)


@guarded
def capture(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A pcap or pcapng file, also with gzip.")],
    other: Annotated[
        Path | None,
        typer.Argument(metavar="FILE2", help="A capture of the same sessions at the other host."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    report: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE.html", help="Write a page about the largest session, or that of --session."
        ),
    ] = None,
    scenario: _Scenario = None,
    ladder: _Ladder = None,
    session: _Session = None,
    samples: _Samples = None,
    log: _Log = None,
    log_offset: _LogOffset = None,
    store: _Store = None,
    label: _Labels = None,
    force: _Force = False,
) -> None:
    """Read a capture of TCP or MPTCP, and print what each session and each path did.

    The file may come from tcpdump, Wireshark or `anabranch run --pcapng`, taken at the client or at the
    server. It may begin in the middle, and contain only headers. A damaged file is read as far as possible.
    With a second file, taken at the other host, true losses and one-way delays are printed. With `--log`,
    a log of the player is put on the time axis of the capture.

    For example:

      anabranch run wifi-starlink --pcapng session.pcapng
      anabranch capture session.pcapng
      anabranch capture session.pcapng --report session.html
      anabranch capture session.pcapng --json --samples course.csv
      anabranch capture session.pcapng --scenario session.toml
      anabranch run adaptive-two-paths --pcapng film.pcapng --cmcd requests.json
      anabranch capture film.pcapng --log requests.json --report film.html
      anabranch run wifi-starlink --pcapng server.pcapng --pcapng-at server
      anabranch capture session.pcapng server.pcapng
      anabranch capture session.pcapng --store results/mine --label place=home
    """
    from anabranch import capture as captures
    from anabranch.cli import _capture_pair

    inputs = [(file, "the capture"), (other, "the second capture"), (log, "the log")]
    outputs = [(samples, "--samples"), (report, "--report"), (scenario, "--scenario")]
    _refuse(outputs, inputs, force=force)
    labels = _labels(label or [], store)
    wanted = any(one is not None for one in (report, session, scenario, log, ladder, store))
    _refuse_together(other if wanted else None, log_offset if log is None else None, ladder, scenario)
    if other is not None:
        _capture_pair.tell(file, other, as_json=as_json, samples=samples)
        return
    with _console.progress("reading", unit="bytes") as bar:
        read = captures.read(file, progress=bar)
    _warn(read)
    if samples is not None:
        _write_samples(read, samples)
    found = captures.sessions(read)
    run: Run | None = None
    logged: Sequence[Session] = ()
    if wanted or (as_json and found):
        traced = _traced(read, session, log, log_offset)
        run, logged = traced.run(), () if log is None else traced.session
        _write(read, traced, run, report, scenario, ladder)
        if store is not None:
            _keep(run, store, labels)
    _tell(read, found, run, logged, as_json=as_json)


def _labels(given: Sequence[str], store: Path | None) -> dict[str, str]:
    """Return the labels by key.

    Raises
    ------
    InputError
        With every fault.
    """
    from anabranch.errors import Fault, InputError

    faults: list[Fault] = []
    found: dict[str, str] = {}
    for text in given:
        key, equals, value = (part.strip() for part in text.partition("="))
        where = f"--label {text}"
        if not (key and equals and value):
            faults.append(Fault(message="a label is KEY=VALUE, such as `scheduler=linux`", where=where))
        elif key in found:
            faults.append(Fault(message=f"`{key}` is given twice", where=where))
        found[key] = value
    if given and store is None:
        faults.append(Fault(message="a label needs a folder: give `--store FOLDER`", where="--label"))
    if faults:
        raise InputError(faults)
    return found


def _keep(run: Run, folder: Path, labels: dict[str, str]) -> None:
    """Store a session in a folder of results."""
    from anabranch.study.captured import store

    stored = store(run, folder, labels)
    if stored.is_new:
        _console.note(f"stored as trial {stored.trial} of `{stored.cell}` in {folder}")
    else:
        _console.note(
            f"this session is there already: trial {stored.trial} of `{stored.cell}` in {folder}. "
            "It was left as it is: use another folder to store it with other labels or a log"
        )


def _tell(
    read: Capture, found: Sequence[Session], run: Run | None, logged: Sequence[Session], *, as_json: bool
) -> None:
    """Print the sessions, and the viewer of those in `logged`."""
    if as_json:
        _json(read, found, run)
    else:
        _text(read, found, logged=logged)
        _viewer(run)


def _write_samples(read: Capture, file: Path) -> None:
    """Write rates and times as CSV."""
    _files.write(file, read.samples().write_csv(), "the samples")
    _console.note(f"wrote {file}")


def _refuse_together(
    other: Path | None, offset_s: float | None, ladder: str | None, scenario: Path | None
) -> None:
    """Refuse a second capture beside options about one, an offset without a log, and an unusable ladder.

    Raises
    ------
    InputError
        When either is given.
    """
    from anabranch.errors import Fault, InputError

    if other is not None:
        message = "a page, scenario, log or stored session is about one capture: leave the second out"
        raise InputError([Fault(message=message, where=str(other))])
    if offset_s is not None:
        raise InputError([Fault(message="an offset needs a log: give `--log FILE`", where="--log-offset")])
    _refuse_ladder(ladder, scenario)


def _refuse_ladder(ladder: str | None, scenario: Path | None) -> None:
    """Refuse a ladder without a scenario, and one that cannot be read.

    Raises
    ------
    InputError
        When either is given.
    """
    from anabranch.errors import Fault, InputError

    if ladder is None:
        return
    if scenario is None:
        message = "a ladder is the film of a scenario: give `--scenario FILE.toml`"
        raise InputError([Fault(message=message, where="--ladder")])
    from anabranch.media.ladders import open_ladder

    open_ladder(ladder, [scenario.parent])


def _warn(read: Capture) -> None:
    """Warn about a damaged file, and about one without TCP."""
    from anabranch.errors import Fault

    if read.damage:
        after = f"{read.counts['records']:,} frames before that were read"
        _console.warn([Fault(message=f"{read.damage}; {after}", where=read.file)])
    if read.counts["tcp_segments"] == 0:
        _console.warn([Fault(message="no TCP segment in the capture", where=read.file)])


def _refuse(
    outputs: Sequence[tuple[Path | None, str]], inputs: Sequence[tuple[Path | None, str]], *, force: bool
) -> None:
    """Refuse outputs that cannot be written or would replace an input, and an existing scenario."""
    from anabranch.cli import _outputs
    from anabranch.errors import InputError

    written = [(path, name) for path, name in outputs if path is not None]
    read = [(path, name) for path, name in inputs if path is not None]
    faults = [_outputs.unwritable(path, name) for path, name in written]
    faults += [*_outputs.twice(written), *_outputs.over_inputs(written, read)]
    if not any(faults):
        faults += [_outputs.exists(path, force=force) for path, name in written if name == "--scenario"]
    if found := [fault for fault in faults if fault is not None]:
        raise InputError(found)


def _traced(read: Capture, session: str | None, log: Path | None, offset_s: float | None) -> Traced:
    """Return the session of the page, together with its player's log."""
    from anabranch import capture as captures
    from anabranch import logs
    from anabranch.cli import _log

    traced = captures.traced(read, session=session)
    if log is None:
        return traced
    found = logs.read(log)
    _log.warn(found)
    return logs.merge(traced, found, offset_s=offset_s)


def _viewer(run: Run | None) -> None:
    """Write what the player's log shows, if there is one."""
    from anabranch.report._log import verdict

    if run is None or "log" not in run.summary:
        return
    _console.out()
    _console.heading("Player")
    sentences, _ = verdict(run)
    for sentence in sentences:
        _console.out(sentence)


def _write(
    read: Capture, traced: Traced, run: Run, report: Path | None, scenario: Path | None, ladder: str | None
) -> None:
    """Write the page and the scenario of a session."""
    from anabranch import capture as captures

    if report is not None:
        run.report(report)
        _console.note(f"report: {report}")
    if scenario is not None:
        written = captures.write_scenario(scenario, read, traced, run, ladder=ladder)
        for file in written.files:
            _console.note(f"wrote {file}")
        _tell_rule(written.rule)


def _tell_rule(rule: Rule | None) -> None:
    """Write which rule of adaptation agrees best with the session, and a warning if none repeats it."""
    if rule is None:
        return
    if rule.fault is None:
        for sentence in rule.sentences():
            _console.note(sentence)
    else:
        _console.warn([rule.fault])


def _json(read: Capture, found: Sequence[Session], run: Run | None) -> None:
    """Write everything as one JSON object."""
    import dataclasses
    import json

    whole: dict[str, Any] = {"file": read.file, "damage": read.damage or None, **read.found}
    whole["sessions"] = [
        {**dataclasses.asdict(session), "rtt_diff_ms": session.rtt_diff_ms} for session in found
    ]
    if run is not None:
        kept = ("captured_at", "evidence", "begin_unix_s", "sessions", "not_visible", "uq18", "log")
        shown = {name: run.summary[name] for name in kept if name in run.summary}
        whole["largest"] = {**run.to_json(), **shown}
    _console.out(json.dumps(whole, indent=2))


def _text(read: Capture, found: Sequence[Session], *, logged: Sequence[Session]) -> None:
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
        _session(session, logged=session in logged)
    if len(found) > _MOST_SHOWN:
        _console.out()
        _console.out(f"{len(found) - _MOST_SHOWN:,} more sessions: --json describes them.")
    if left := read.found["streams_not_described"]:
        _console.out(f"{left:,} more TCP connections are only counted.")


def _session(session: Session, *, logged: bool) -> None:
    """Write one session. With its player's log, the parts that only the log shows are left to that."""
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
            path.rtt_from or "-",
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
        "RTT from",
        "retransmitted B",
        "out of order",
        "waited for s",
        "idle s",
    )
    _console.table(headers, rows, left=2)
    from anabranch.capture import NEEDS_LOG

    for what in (one for one in session.not_visible if not (logged and one == NEEDS_LOG)):
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

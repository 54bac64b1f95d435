"""`anabranch trace`: show, convert or make recordings of links."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from anabranch.cli import _console, _groups
from anabranch.cli._console import guarded

if TYPE_CHECKING:
    from collections.abc import Sequence

    from anabranch.cli import _outputs
    from anabranch.traces import RecordingFacts, Trace
    from anabranch.traces._summary import Summary

trace = typer.Typer(
    cls=_groups.Group,
    help="Inspect, convert or make recordings of links.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.add_typer(trace, name="trace")


_SUFFIXES = {".csv": "anabranch", ".json": "sabre"}
_To = Annotated[
    str | None,
    typer.Option(
        "--to",
        help="Format: anabranch, mahimahi, pairs, pensieve or sabre (default: by the file name's ending).",
    ),
]
_RateUnit = Annotated[
    str | None,
    typer.Option(
        metavar="UNIT", help="Unit of the rates of two columns without names: bit/s, kbit/s or Mbit/s."
    ),
]
_TimeUnit = Annotated[str | None, typer.Option(metavar="UNIT", help="Unit of their times: s or ms.")]
_Gaps = Annotated[
    str,
    typer.Option(
        metavar="HOW", help="What a time without rows is: hold (unchanged), outage, or cut (left out)."
    ),
]
_Step = Annotated[str, typer.Option("--step", help="Length of a time window, for formats with windows.")]


@trace.command()
@guarded
def show(
    file: Annotated[Path, typer.Argument(help="A recording in any format.")],
    rate_unit: _RateUnit = None,
    time_unit: _TimeUnit = None,
    gaps: _Gaps = "hold",
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Summarise a recording: length, rates, delays and losses.

    For example:

      anabranch trace record wifi-starlink starlink starlink.csv
      anabranch trace show starlink.csv
    """
    from anabranch import traces
    from anabranch.traces._summary import summarise

    facts = _facts(rate_unit, time_unit, gaps)
    with _console.progress(f"reading {file.name}", unit="lines") as progress:
        read = traces.read(file, facts=facts, progress=progress)
    _console.warn(traces.doubts(read, str(file), facts))
    found = summarise(read)
    if as_json:
        import dataclasses
        import json

        _console.out(json.dumps(dataclasses.asdict(found), indent=2))
    else:
        _table(found)


@trace.command()
@guarded
def convert(
    source: Annotated[Path, typer.Argument(metavar="IN", help="A recording in any format.")],
    target: Annotated[Path, typer.Argument(metavar="OUT", help="The file to write.")],
    to: _To = None,
    step: _Step = "1 s",
    rate_unit: _RateUnit = None,
    time_unit: _TimeUnit = None,
    gaps: _Gaps = "hold",
) -> None:
    """Convert a recording to another format: .csv is anabranch's, .json Sabre's, any other ending Mahimahi's.

    For example:

      anabranch trace record wifi-starlink starlink starlink.csv
      anabranch trace convert starlink.csv starlink.down --step 100ms
    """
    from anabranch import traces

    facts = _facts(rate_unit, time_unit, gaps)
    form, step_ns = _checked(target, to, {"--step": step}, inputs=[(source, "what is read")])
    with _console.progress(f"reading {source.name}", unit="lines") as progress:
        read = traces.read(source, facts=facts, progress=progress)
    _console.warn(traces.doubts(read, str(source), facts))
    _write(read, target, form, step_ns["--step"])


@trace.command()
@guarded
def record(
    scenario: Annotated[
        str, typer.Argument(help="A scenario file, a name (`anabranch list scenarios`), or - for stdin.")
    ],
    path: Annotated[str, typer.Argument(help="A path or a link of the scenario.")],
    target: Annotated[Path, typer.Argument(metavar="OUT", help="The file to write.")],
    direction: Annotated[str, typer.Option(help="down or up.")] = "down",
    duration: Annotated[str, typer.Option(help="Duration of the recording.")] = "60 s",
    seed: Annotated[
        int | None, typer.Option(min=0, max=2**63 - 1, help="Seed, instead of the scenario's.")
    ] = None,
    run: Annotated[
        int, typer.Option(min=0, max=2**63 - 1, help="Another draw of the same seed, by number.")
    ] = 0,
    to: _To = None,
    step: _Step = "100 ms",
) -> None:
    """Record the rate, delay and loss of the link of a scenario's path without other traffic.

    For example:

      anabranch trace record wifi-starlink starlink starlink.csv --duration 2min
    """
    from anabranch.cli import _outputs
    from anabranch.errors import Fault, InputError, did_you_mean
    from anabranch.scenario import plan as plans
    from anabranch.scenario._overrides import Override
    from anabranch.scenario.load import load
    from anabranch.traces._record import record as from_link

    form, times = _checked(target, to, {"--duration": duration, "--step": step})
    overrides = [Override(key="seed", value=seed, origin=f"--seed {seed}")] if seed is not None else []
    loaded = load(scenario, overrides)
    faults = _outputs.over_inputs([(target, "OUT")], _outputs.inputs(loaded, scenario))
    if faults:
        raise InputError(faults)
    plan: dict[str, Any] = plans.build(loaded.scenario, None, run=run)
    links = [link["name"] for link in plan["links"]]
    name = f"{path}.{direction}"
    if name not in links:
        hint = did_you_mean(name, links)
        raise InputError([Fault(message=f"no such link: `{name}`", where="PATH, --direction", hint=hint)])
    found = from_link(plan, name, length_ns=times["--duration"], step_ns=times["--step"])
    _write(found, target, form, times["--step"])


def _facts(rate_unit: str | None, time_unit: str | None, gaps: str) -> RecordingFacts:
    """Return the facts that options give.

    Raises
    ------
    InputError
        If a value is not known; the error names each.
    """
    from anabranch import traces
    from anabranch.errors import Fault, InputError, did_you_mean

    given: dict[str, tuple[str | None, Sequence[str]]] = {
        "rate_unit": (rate_unit, tuple(traces.RATES)),
        "time_unit": (time_unit, tuple(traces.TIMES)),
        "gaps": (gaps, traces.GAPS),
    }
    faults = [
        Fault(
            message=f"not a value: `{value}`",
            where=f"--{key.replace('_', '-')}",
            hint=did_you_mean(value, known, otherwise=" or ".join(known)),
        )
        for key, (value, known) in given.items()
        if value is not None and value not in known
    ]
    if faults:
        raise InputError(faults)
    facts: dict[str, Any] = {key: value for key, (value, _) in given.items()}
    return traces.RecordingFacts(**facts)


def _checked(
    target: Path, to: str | None, times: dict[str, str], *, inputs: Sequence[_outputs.Named] = ()
) -> tuple[str, dict[str, int]]:
    """Return the form to write and the times in nanoseconds; every fault of the options at once."""
    from anabranch.cli import _outputs
    from anabranch.errors import Fault, InputError, did_you_mean
    from anabranch.scenario import units
    from anabranch.traces import FORMS

    faults = [_outputs.unwritable(target, "OUT"), *_outputs.over_inputs([(target, "OUT")], inputs)]
    form = _SUFFIXES.get(target.suffix, "mahimahi") if to is None else to
    if form not in FORMS:
        hint = did_you_mean(form, FORMS)
        faults.append(Fault(message=f"no such form of trace: `{form}`", where=f"--to {form}", hint=hint))
    found = {}
    for option, text in times.items():
        try:
            found[option] = units.positive_time_ns(text)
        except units.UnitError as error:
            faults.append(Fault(message=str(error), where=f"{option} {text}", hint=error.hint))
    if any(faults):
        raise InputError(fault for fault in faults if fault is not None)
    return form, found


def _write(found: Trace, target: Path, form: str, step_ns: int) -> None:
    """Write a recording, and print what was left out and its summary."""
    from anabranch import _files, traces

    text, lost = traces.write(found, form, step_ns=step_ns)
    with _files.whole(target, "the trace") as part:
        part.write_text(text, encoding="utf-8")
    if lost:
        _console.note(f"left out, as {form} has no place for them: {' and '.join(lost)}")
    mean, length = found.mean_bps() / 1e6, found.length_ns / 1e9
    _console.out(f"{target}: {form}, {length:g} s, mean {mean:.3f} Mb/s")


def _table(found: Summary) -> None:
    """Write the statistics for a person."""
    quantiles = "  ".join(f"{value:.2f}" for value in found.rate_mbps)
    known = found.autocorrelation is not None
    correlation = f"{found.autocorrelation:.2f}" if known else "- (needs three seconds with different rates)"
    rows = [
        ("form", found.form),
        ("length", f"{found.length_s:g} s"),
        ("mean rate", f"{found.mean_mbps:.3f} Mb/s"),
        ("rate, 5 25 50 75 95 %", f"{quantiles} Mb/s"),
        ("seconds below 0.1 Mb/s", f"{found.idle_share * 100:.1f} %"),
        ("longest gap", f"{found.longest_gap_s:g} s"),
        ("autocorrelation at 1 s", correlation),
    ]
    if found.delay_ms is not None:
        delays = "  ".join(f"{value:.1f}" for value in found.delay_ms)
        rows.append(("one-way delay, 5 50 95 %", f"{delays} ms"))
    if found.loss:
        rows.append(("loss", f"{found.loss * 100:.2f} %"))
    _console.table(("", ""), rows)

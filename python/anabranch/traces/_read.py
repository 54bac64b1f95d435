"""Reading recordings: every fault at once, each with file and line."""

from __future__ import annotations

import json
import math
import re
from functools import partial
from typing import TYPE_CHECKING, Any

from anabranch import _files
from anabranch.errors import Fault, InputError, did_you_mean
from anabranch.traces import _facts
from anabranch.traces._facts import RecordingFacts
from anabranch.traces._trace import Step, Trace

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

#: The formats, with a description of their files.
FORMS = {
    "anabranch": "CSV with a header: t_s, rate_mbps and, if wanted, delay_ms or rtt_ms, and loss",
    "mahimahi": "a whole number of milliseconds a line: when 1500 bytes may leave",
    "pairs": "second,bits/s a line",
    "pensieve": "second and Mb/s a line, separated by spaces or a tab",
    "sabre": "JSON: a list of duration_ms, bandwidth_kbps, latency_ms",
}
#: The columns of our own format: what each one is, and its unit in s, Mb/s, ms of one direction, or 1. A link
#: carries one direction, so it has half of a round trip.
_COLUMNS = {
    "t_s": ("time", 1.0),
    "t_ms": ("time", 1e-3),
    "rate_mbps": ("rate", 1.0),
    "rate_kbps": ("rate", 1e-3),
    "rate_bps": ("rate", 1e-6),
    "delay_ms": ("delay", 1.0),
    "rtt_ms": ("delay", 0.5),
    "loss": ("loss", 1.0),
    "loss_percent": ("loss", 0.01),
}
_MS = 10**6
_SECOND = 10**9
_MOST_FAULTS = 20
_LARGEST = 256 * 2**20
# The number of lines between two reports of progress.
_REPORTED = 2**16
# The limits of a recording: 115 days, 10 Tbit/s, an hour of delay.
_MOST_S = 10**7
_MOST_BPS = 10**13
_MOST_DELAY_MS = 3_600_000
# The latest second of a recording in pairs, whose seconds may count from 1970 or from any other year.
_MOST_CLOCK_S = 10**11
_LIMITS = {"time": _MOST_S, "rate": _MOST_BPS / 1e6, "delay": _MOST_DELAY_MS, "loss": 1}
_ONE_A_LINE = "one number a line is the time of a packet in Mahimahi's form; rates need times: second Mb/s"
_IN_MS = 'a time in milliseconds? Give time_unit = "ms" (`--time-unit ms`)'
#: The separators of the values in a line, with their names in messages.
_SEPARATORS = {",": "a comma", ";": "a semicolon", None: "a space or a tab"}

#: The keys of an entry of Sabre's form, and the largest value of each.
_SABRE = {
    "duration_ms": _MOST_S * 1000,
    "bandwidth_kbps": _MOST_BPS / 1000,
    "latency_ms": 2 * _MOST_DELAY_MS,
}


class _Reading:
    """A file that is being read as a trace: its name, and its faults so far."""

    def __init__(
        self,
        where: str,
        progress: Callable[[float, float], None] | None = None,
        facts: RecordingFacts | None = None,
    ) -> None:
        self.where = where
        self.facts = RecordingFacts() if facts is None else facts
        self.faults: list[Fault] = []
        self._progress = progress

    def passing(self, lines: Sequence[tuple[int, str]]) -> Iterator[tuple[int, str]]:
        """Yield numbered lines, and report how many have been read."""
        for place, line in enumerate(lines):
            if self._progress is not None and place % _REPORTED == 0:
                self._progress(place, len(lines))
            yield line

    def fault(self, message: str, line: int | None, hint: str = "") -> None:
        self.faults.append(Fault(message=message, where=self.where, line=line, hint=hint))

    def number(self, text: object, what: str, line: int | None, *, most: float, hint: str = "") -> float:
        """Return a number from 0 to `most`; otherwise add a fault and return 0. `hint` is for larger ones."""
        try:
            value = float(text) if isinstance(text, str | int | float) else math.nan
        except OverflowError:
            value = math.inf
        except ValueError:
            value = math.nan
        shown = f"`{str(text)[:40]}`"
        if isinstance(text, bool) or math.isnan(value):
            self.fault(f"{what} is not a number: {shown}", line)
        elif value < 0:
            self.fault(f"{what} is negative: {shown}", line)
        elif value > most:
            self.fault(f"{what} is above {most:,.0f}: {shown}", line, hint=hint)
        else:
            return value
        return 0.0

    def forward(self, at_ns: int, before_ns: int | None, line: int | None, *, strictly: bool = True) -> None:
        """Check that times increase, in the simulator's nanoseconds."""
        if before_ns is not None and (at_ns <= before_ns if strictly else at_ns < before_ns):
            at, before = at_ns / _SECOND, before_ns / _SECOND
            hint = "keep one row for each time" if at_ns == before_ns else "sort the rows by time"
            self.fault(f"the trace runs backwards: {at:.12g} s after {before:.12g} s", line, hint=hint)


def read(
    file: Path,
    *,
    where: str | None = None,
    facts: RecordingFacts | None = None,
    progress: Callable[[float, float], None] | None = None,
) -> Trace:
    """Return the recording in a file of any known format.

    Parameters
    ----------
    file
        The file.
    where
        How messages name it; default: its path.
    facts
        Facts that the file does not state; None leaves the units of the format, and rows hold over gaps.
    progress
        Receives the number of lines that have been read, and of all.

    Raises
    ------
    InputError
        With every fault found: it cannot be read, is larger than 256 MiB, empty, of no known form, runs
        backwards, has what is no number, a negative one or one beyond every recording (10^7 s, 10 Tbit/s, a
        delay of an hour), never serves anything, or states units or has no rows, although `facts` has them.
    """
    reading = _Reading(str(file) if where is None else where, progress, facts)
    try:
        text = _files.content(file, _LARGEST).decode("utf-8-sig")
    except UnicodeDecodeError:
        reading.fault("not UTF-8 text", None, hint="is this a trace?")
        raise InputError(reading.faults) from None
    except (OSError, ValueError) as error:
        reading.fault(f"cannot read the trace: {getattr(error, 'strerror', None) or error}", None)
        raise InputError(reading.faults) from None
    trace = _parse(reading, text)
    if trace is not None:
        trace = _with_facts(reading, trace)
    if trace is not None and not reading.faults and trace.mean_bps() == 0:
        reading.fault("the trace never serves anything", None)
    if trace is None or reading.faults:
        more = len(reading.faults) - _MOST_FAULTS
        kept = reading.faults[:_MOST_FAULTS]
        if more > 0:
            kept.append(Fault(message=f"and {more} more faults", where=reading.where))
        raise InputError(kept)
    return trace


def _with_facts(reading: _Reading, trace: Trace) -> Trace:
    """Return a trace with its gaps as given; add a fault for facts that its form states itself."""
    facts = reading.facts
    if facts.has_units and trace.form not in {form for form, _, _ in _PAIRS.values()}:
        hint = "leave rate_unit and time_unit out: they are for two columns without names"
        reading.fault(f"a recording of the form {trace.form} states its units", None, hint=hint)
    if facts.gaps != "hold" and (not trace.steps or trace.form == "sabre"):
        hint = f'leave gaps = "{facts.gaps}" out: the file states each time without service'
        reading.fault(f"a recording of the form {trace.form} has no gaps", None, hint=hint)
    return trace if reading.faults else _facts.without_gaps(trace, facts.gaps)


def _parse(reading: _Reading, text: str) -> Trace | None:
    """Return the trace of a text in a given format."""
    if text.lstrip().startswith(("[", "{")):
        return _sabre(reading, text)
    lines = [(number, line.strip()) for number, line in enumerate(text.splitlines(), 1)]
    lines = [(number, line) for number, line in lines if line and not line.startswith("#")]
    if not lines:
        reading.fault("the trace is empty", None)
        return None
    number, first = lines[0]
    separator = _separator(first)
    cells = _cells(first, separator)
    if any(cell.strip('"') in _COLUMNS for cell in cells):
        return _own(reading, (number, first), lines[1:], separator)
    if all(_is_number(cell) for cell in cells):
        if len(cells) == 1:
            return _mahimahi(reading, lines)
        if len(cells) == 2 and separator in _PAIRS:
            return _pairs(reading, lines, separator)
    reading.fault(f"not a known form of trace: `{first[:40]}`", number, hint=_advice(first, cells, separator))
    return None


def _separator(line: str) -> str | None:
    """Return the separator of the values in a line: a semicolon, a comma, or None for spaces and tabs.

    If digits are separated by spaces or tabs, a comma is a decimal sign.
    """
    if ";" in line:
        return ";"
    spaced = re.search(r"\d[ \t]+[\d.+-]", line) is not None
    return "," if "," in line and not spaced else None


def _cells(line: str, separator: str | None) -> list[str]:
    """Return the values of a line. If a spreadsheet separates by semicolons, it writes decimal commas."""
    cells = [cell.strip() for cell in line.split(separator)]
    return [cell.replace(",", ".") for cell in cells] if separator == ";" else cells


def _advice(first: str, cells: list[str], separator: str | None) -> str:
    """Return a hint for a file of unknown format, from its first line."""
    known = "; ".join(f"{name}: {what}" for name, what in FORMS.items())
    if len(cells) < 2 or (separator is None and "," not in first):
        return known
    if not all(_is_number(cell.replace(",", ".")) for cell in cells):
        return f"columns with names must be t_s,rate_mbps and, if wanted, delay_ms and loss; or {known}"
    if separator == "," and len(cells) > 2:
        return f"decimal points instead of decimal commas, and the header t_s,rate_mbps; or {known}"
    what = _SEPARATORS[separator]
    return f"numbers separated by {what} need the header t_s,rate_mbps, and decimal points; or {known}"


def _is_number(text: str) -> bool:
    """Return whether a text is a number."""
    try:
        float(text)
    except ValueError:
        return False
    return True


def _own(
    reading: _Reading, first: tuple[int, str], rows: list[tuple[int, str]], separator: str | None
) -> Trace | None:
    """Read our own format. Spreadsheets may write it with semicolons and quotation marks."""
    line, names = first
    header = [cell.strip('"') for cell in _cells(names, separator)]
    named = _named(reading, header, line)
    if named is None:
        return None
    steps: list[Step] = []
    before: int | None = None
    for number, row in reading.passing(rows):
        cells = [cell.strip('"') for cell in _cells(row, separator)]
        if len(cells) != len(header):
            reading.fault(f"{len(cells)} values under {len(header)} names", number)
            continue
        values = dict(zip(header, cells, strict=True))
        value = partial(_quantity, reading, named, values, number)
        at = round(value("time") * _SECOND)
        reading.forward(at, before, number)
        before = at
        steps.append(
            Step(
                at_ns=at,
                rate_bps=round(value("rate") * 1e6),
                delay_ns=round(value("delay") * _MS),
                loss=value("loss"),
            )
        )
    first_line = rows[0][0] if rows else line
    return _stepped(reading, "anabranch", steps, first_line, has_delays="delay" in named)


def _quantity(
    reading: _Reading,
    named: Mapping[str, tuple[str, float]],
    values: Mapping[str, str],
    number: int,
    what: str,
) -> float:
    """Return a quantity of a row in the unit of `_COLUMNS`; 0 if the recording has no column of it."""
    if what not in named:
        return 0.0
    name, unit = named[what]
    return reading.number(values[name], name, number, most=_LIMITS[what] / unit) * unit


def _named(reading: _Reading, header: Sequence[str], line: int) -> dict[str, tuple[str, float]] | None:
    """Return the column of each quantity with its unit; None with a fault if the header is not ours."""
    named: dict[str, tuple[str, float]] = {}
    for name in header:
        what, unit = _COLUMNS.get(name, ("", 0.0))
        if not what:
            hint = did_you_mean(name, _COLUMNS)
            reading.fault(f"unknown column: `{name[:40]}`", line, hint=hint)
        elif what in named and {name, named[what][0]} == {"delay_ms", "rtt_ms"}:
            hint = "an rtt_ms is twice a delay_ms"
            reading.fault("delay_ms and rtt_ms exclude each other", line, hint=hint)
        elif what in named:
            reading.fault(f"{named[what][0]} and {name} exclude each other", line)
        named[what] = (name, unit)
    for what in ("time", "rate"):
        if what not in named and not reading.faults:
            columns = " or ".join(name for name, (of, _) in _COLUMNS.items() if of == what)
            reading.fault(f"missing column: {columns}", line)
    return None if reading.faults else named


#: For each separator of pairs without a header: their format, a description of a line, and the rate's unit in
#: b/s.
_PAIRS: dict[str | None, tuple[str, str, float]] = {
    ",": ("pairs", "second,bits/s", 1.0),
    None: ("pensieve", "second Mb/s", 1e6),
}


def _pairs(reading: _Reading, lines: list[tuple[int, str]], separator: str | None) -> Trace | None:
    """Read pairs of second and rate. The seconds may start at any number."""
    form, expected, unit = _PAIRS[separator]
    facts = reading.facts
    unit = unit if facts.rate_unit is None else _facts.RATES[facts.rate_unit]
    to_s = _facts.TIMES[facts.time_unit or "s"]
    in_ms = "" if facts.time_unit == "ms" else _IN_MS
    if facts.has_units:
        usual = "bit/s" if separator else "Mbit/s"
        expected = f"{facts.time_unit or 's'}{separator or ' '}{facts.rate_unit or usual}"
    steps: list[Step] = []
    origin: float | None = None
    before: int | None = None
    for number, line in reading.passing(lines):
        cells = _cells(line, separator)
        if len(cells) != 2:
            reading.fault(f"expected {expected}: `{line[:40]}`", number)
            continue
        second = to_s * reading.number(cells[0], "the second", number, most=_MOST_CLOCK_S / to_s, hint=in_ms)
        origin = second if origin is None else origin
        at = round((second - origin) * _SECOND)
        if at > _MOST_S * _SECOND:
            message = f"more than {_MOST_S:,} s after the first: `{cells[0][:40]}`"
            reading.fault(message, number, hint=in_ms)
        reading.forward(at, before, number)
        before = at
        rate = reading.number(cells[1], "the rate", number, most=_MOST_BPS / unit)
        steps.append(Step(at_ns=at, rate_bps=round(rate * unit)))
    return _stepped(reading, form, steps, lines[0][0], has_delays=False)


def _stepped(reading: _Reading, form: str, steps: list[Step], line: int, *, has_delays: bool) -> Trace | None:
    """Return a trace of steps.

    The last step lasts as long as the one before it; a single step lasts one second.
    """
    if not steps:
        if not reading.faults:
            reading.fault("the trace is empty", None)
        return None
    if steps[0].at_ns != 0:
        reading.fault("the trace does not begin at 0", line)
    last = steps[-1].at_ns
    span = last - steps[-2].at_ns if len(steps) > 1 else _SECOND
    return Trace(form=form, length_ns=last + span, steps=tuple(steps), has_delays=has_delays)


def _mahimahi(reading: _Reading, lines: list[tuple[int, str]]) -> Trace | None:
    """Read delivery opportunities."""
    times: list[int] = []
    for number, line in reading.passing(lines):
        at = reading.number(line, "the millisecond", number, most=_MOST_S * 1000)
        if at != int(at):
            reading.fault(f"the millisecond is not whole: `{line[:40]}`", number, hint=_ONE_A_LINE)
        reading.forward(int(at) * _MS, times[-1] * _MS if times else None, number, strictly=False)
        times.append(int(at))
    if times[-1] == 0 and not reading.faults:
        reading.fault("the last opportunity lies at 0: the trace takes no time", lines[-1][0])
    return Trace(form="mahimahi", length_ns=max(times[-1], 1) * _MS, opportunities_ms=tuple(times))


def _sabre(reading: _Reading, text: str) -> Trace | None:
    """Read Sabre's JSON. Its latency is a round trip, so a link has half of it."""
    try:
        entries: Any = json.loads(text)
    except json.JSONDecodeError as error:
        reading.fault(f"not valid JSON: {error.msg[:1].lower()}{error.msg[1:]}", error.lineno)
        return None
    except (RecursionError, ValueError) as error:
        deep = isinstance(error, RecursionError)
        what = "it nests too deeply" if deep else "a number of thousands of digits"
        reading.fault(f"not valid JSON for a trace: {what}", None, hint=FORMS["sabre"])
        return None
    if not isinstance(entries, list) or not entries:
        empty = entries == []
        reading.fault("the trace is empty" if empty else "not a known form of trace", 1, hint=FORMS["sabre"])
        return None
    steps: list[Step] = []
    at = 0
    for place, entry in enumerate(entries, 1):
        if not isinstance(entry, dict) or not {"duration_ms", "bandwidth_kbps"} <= entry.keys():
            reading.fault(f"entry {place} lacks duration_ms or bandwidth_kbps", None, hint=FORMS["sabre"])
            continue
        numbers = [
            reading.number(entry.get(key, 0), f"{key} of entry {place}", None, most=most)
            for key, most in _SABRE.items()
        ]
        length, rate, delay = round(numbers[0] * _MS), round(numbers[1] * 1000), round(numbers[2] * _MS / 2)
        if length == 0 and not reading.faults:
            reading.fault(f"entry {place} takes no time", None)
        steps.append(Step(at_ns=at, rate_bps=rate, delay_ns=delay))
        at += length
    if at > _MOST_S * _SECOND:
        reading.fault(f"the trace is longer than {_MOST_S:,} s", None)
    has_delays = any(step.delay_ns for step in steps)
    return Trace(form="sabre", length_ns=at or 1, steps=tuple(steps), has_delays=has_delays)

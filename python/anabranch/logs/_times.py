"""Times in logs: of day, and others."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Any

#: Seconds since 1970 are above this, and other times below.
_LEAST_UNIX_S = 1e9
#: Milliseconds since 1970 are above this.
_LEAST_UNIX_MS = 1e11
#: Later times are none.
_MOST_S = 1e11
#: The time of nginx and Apache, `[28/Nov/2026:02:10:31 +0000]`.
_LOCAL = re.compile(r"(\d{1,2})/([A-Z][a-z]{2})/(\d{4}):(\d\d):(\d\d):(\d\d) ([+-]\d{4})")
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_ISO = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)?")
_CLOCK = re.compile(r"(\d{1,2}):(\d\d):(\d\d)(?:[.,](\d+))?")


def local(text: str) -> float | None:
    """Return the time of an access log in seconds since 1970; None without one."""
    if (found := _LOCAL.search(text)) is None or found[2] not in _MONTHS:
        return None
    day, year, zone = int(found[1]), found[3], found[7]
    month = _MONTHS.index(found[2]) + 1
    written = f"{year}-{month:02}-{day:02}T{found[4]}:{found[5]}:{found[6]}{zone[:3]}:{zone[3:]}"
    return _parsed(written)


def iso(text: str) -> float | None:
    """Return the first time in the form of ISO 8601 in seconds since 1970; None without one."""
    found = _ISO.search(text)
    return None if found is None else _parsed(found[0].replace(",", ".").replace("Z", "+00:00"))


def _parsed(written: str) -> float | None:
    """Return a time in ISO 8601 in seconds since 1970. A time without a zone is in UTC."""
    try:
        at = datetime.fromisoformat(written)
    except ValueError:
        return None
    if at.tzinfo is None:
        at = at.replace(tzinfo=UTC)
    try:
        return possible(at.timestamp())
    except (OverflowError, ValueError):
        return None


def possible(at_s: float | None) -> float | None:
    """Return a time in seconds; None for one that is before 0, too late or not a number."""
    return at_s if at_s is not None and 0 <= at_s <= _MOST_S else None


def clock(text: str) -> float | None:
    """Return a time of day such as `20:39:34.386` in seconds since midnight; None without one."""
    if (found := _CLOCK.match(text)) is None:
        return None
    return 3600 * int(found[1]) + 60 * int(found[2]) + float(f"{found[3]}.{(found[4] or '0')[:9]}")


def is_unix(at_s: float | None) -> bool:
    """Return whether a time counts from 1970."""
    return at_s is not None and at_s >= _LEAST_UNIX_S


def value(given: Any, *, milliseconds: bool) -> float | None:  # noqa: ANN401 - of JSON
    """Return a time of JSON in seconds.

    Parameters
    ----------
    given
        A number, or a text with a number or a date.
    milliseconds
        Whether a number that does not count from 1970 is in milliseconds.
    """
    if isinstance(given, bool) or given is None:
        return None
    if isinstance(given, str):
        if (at := iso(given) or local(given)) is not None:
            return at
        try:
            given = float(given)
        except ValueError:
            return None
    if not isinstance(given, int | float) or not 0 <= given <= 1e3 * _MOST_S:
        return None
    if given >= _LEAST_UNIX_MS:
        return possible(given / 1e3)
    return given / 1e3 if milliseconds and given < _LEAST_UNIX_S else float(given)


#: Times at the begin of a line: seconds, or month and day before a time of day.
_SECONDS = re.compile(r"\s*\[?(\d+\.\d{1,9})\]?\s")
_DAY = re.compile(r"\s*(?:[A-Z][a-z]{2} +\d{1,2}|\d\d-\d\d) +(?=\d\d:\d\d:\d\d)")


class Prefixes:
    """The times at the begins of lines, as `ts`, loggers and consoles write them."""

    def __init__(self) -> None:
        self._last_s: float | None = None
        self._days = 0

    def time(self, line: str) -> float | None:
        """Return a line's time in seconds: since 1970 if it has a date with a year; None without one.

        A time of day that is much earlier than the one before is of the next day.
        """
        start = line[:48]
        if (found := _SECONDS.match(start)) is not None:
            return possible(float(found[1]))
        if (dated := iso(start)) is not None:
            return dated
        at_s = clock(_DAY.sub("", start).lstrip())
        if at_s is None:
            return None
        if self._last_s is not None and at_s < self._last_s - 43_200:
            self._days += 1
        self._last_s = at_s
        return at_s + 86_400 * self._days

"""Requests with CMCD in access logs and JSON lines."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from anabranch.logs import _cmcd_values as values
from anabranch.logs import _times
from anabranch.logs._parsed import BadLine

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

#: A request in an access log.
_REQUEST = re.compile(r'"(?:GET|HEAD|POST|PUT) ([^\s"]+)(?: [^"]*)?" (\d{3}) (\d{1,15}|-)')
#: Fields in quotation marks. nginx writes a quotation mark inside as `\x22`.
_QUOTED = re.compile(r'"((?:[^"\\]|\\.)*)"')
_ESCAPED = re.compile(r"\\x([0-9A-Fa-f]{2})")
#: Seconds since 1970 with milliseconds, as `$msec` has them.
_MSEC = re.compile(r"(?<![\d.])(\d{10}\.\d{3})(?![\d.])")
#: How long the server took, by names that are in use for `$request_time`.
_TOOK = re.compile(r"\b(?:rt|request_time|req_time|urt)=\"?(\d{1,6}\.\d{1,9})")

#: The members of an object for each value, in the order in which they are tried.
_AT = ("t_s", "msec", "time_iso8601", "@timestamp", "timestamp", "time", "time_local", "ts", "date")
_ADDRESS = ("request_uri", "resource", "uri", "url", "path", "request", "cs-uri-stem")
_QUERY = ("args", "query", "query_string", "cs-uri-query")
_BYTES = ("body_bytes_sent", "bytes_sent", "bytes", "size", "sc-bytes")
_TAKEN = ("request_time", "rt", "time-taken")
#: The members with the body of a request.
_BODIES = ("request_body", "body", "postData", "payload")
#: A response takes less than this, in seconds.
_MOST_TAKEN_S = 1e6


@dataclass(frozen=True, kw_only=True)
class Request:
    """A request with its CMCD.

    Attributes
    ----------
    line
        The number of its line, from 1.
    t_s
        When it came, or if `ended`, when its line was written; None if the line has no time.
    ended
        Whether the time is the end of the response, because the line does not say how long that took.
    resource
        The path, without the argument `CMCD`.
    bytes
        Bytes of the response; None if not logged.
    cmcd
        The keys.
    """

    line: int
    t_s: float | None
    ended: bool
    resource: str
    bytes: int | None
    cmcd: Mapping[str, Any]


def requests(lines: Sequence[str]) -> tuple[list[Request], list[BadLine]]:
    """Return the requests with CMCD, and the lines that cannot be read. Other requests are left out."""
    found: list[Request] = []
    bad: list[BadLine] = []
    heads = _heads(lines)
    for number, line in enumerate(lines, 1):
        text = line.strip()
        if not text or number in heads.skipped:
            continue
        if number in heads.found:
            found.append(heads.found[number])
            continue
        try:
            if text.startswith(("{", "[{")):
                found += _values(number, text.rstrip(","))
            else:
                found += _text(number, text)
        except ValueError as error:
            bad.append(BadLine(number=number, why=str(error)))
    return found, bad


def _values(number: int, text: str) -> list[Request]:
    """Return the requests and reports of a line of JSON: an object, or a list of reports.

    Raises
    ------
    ValueError
        When the line is no JSON, or its CMCD is no list of keys.
    """
    try:
        whole = json.loads(text)
    except json.JSONDecodeError as error:
        message = f"no JSON: {error.msg} at column {error.colno}"
        raise ValueError(message) from None
    except RecursionError:
        message = "no JSON: it nests too deeply"
        raise ValueError(message) from None
    if not isinstance(whole, dict):
        return _of_body(number, whole)
    bodies = [whole[name] for name in _BODIES if name in whole]
    if _is_report(whole):
        bodies = [whole]
    if found := [one for body in bodies for one in _of_body(number, body)]:
        return found
    one = _object(number, whole)
    return [] if one is None else [one]


def _is_report(row: Any) -> bool:  # noqa: ANN401 - any value of JSON
    """Return whether a value is a report of an event: its keys are those of CMCD."""
    return isinstance(row, dict) and isinstance(row.get("e"), str) and ("ts" in row or "sid" in row)


def _of_body(number: int, body: Any) -> list[Request]:  # noqa: ANN401 - any value of JSON
    """Return the reports of events in the body of a request: lines of keys, or objects."""
    if isinstance(body, str):
        lists = (values.parsed(line) for line in body.splitlines())
        return [_report(number, one) for one in lists if _is_report(one) and one is not None]
    rows = body if isinstance(body, list) else [body]
    return [_report(number, one) for one in rows if _is_report(one)]


def _report(number: int, cmcd: Mapping[str, Any]) -> Request:
    """Return the report of an event. Its time is its own (`ts`)."""
    url = cmcd.get("url")
    return Request(
        line=number,
        t_s=None,
        ended=False,
        resource=_resource(url) if isinstance(url, str) else "",
        bytes=None,
        cmcd={key: value for key, value in cmcd.items() if value is not None and value is not False},
    )


def _object(number: int, row: Mapping[str, Any]) -> Request | None:
    """Return the request of an object; None if it has no CMCD.

    Raises
    ------
    ValueError
        When its CMCD is no list of keys.
    """
    address = next((row[name] for name in _ADDRESS if isinstance(row.get(name), str)), "")
    if address[:4].rstrip() in {"GET", "HEAD", "POST"}:
        address = address.split()[1] if len(address.split()) > 1 else ""
    query = next((row[name] for name in _QUERY if isinstance(row.get(name), str)), "")
    if query and "?" not in address:
        address = f"{address}?{query}"
    cmcd = _of_members(row) or values.of_address(address)
    if cmcd is None:
        _refuse_broken(address)
        return None
    if _is_report(cmcd):
        return _report(number, cmcd)
    end, taken = _time(row)
    count = next((row[name] for name in _BYTES if name in row), None)
    return Request(
        line=number,
        t_s=end if end is None or taken is None else end - taken,
        ended="t_s" not in row and taken is None and "ts" not in cmcd,
        resource=_resource(address),
        bytes=int(str(count)) if re.fullmatch(r"[0-9]{1,15}", str(count)) else None,
        cmcd=cmcd,
    )


def _time(row: Mapping[str, Any]) -> tuple[float | None, float | None]:
    """Return the time of an object, and how long the response took."""
    name = next((name for name in _AT if row.get(name) not in (None, "")), None)
    at_s = None if name is None else _times.value(row[name], milliseconds=name == "ts")
    taken = next((row[key] for key in _TAKEN if row.get(key) not in (None, "", "-")), None)
    try:
        took_s = None if taken is None or name == "t_s" else float(taken)
    except (TypeError, ValueError, OverflowError):
        return at_s, None
    return at_s, took_s if took_s is not None and 0 <= took_s <= _MOST_TAKEN_S else None


def _of_members(row: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the CMCD in the members of an object: one member, or one for each header field."""
    found: dict[str, Any] = {}
    for name, given in row.items():
        if "cmcd" not in name.lower():
            continue
        if isinstance(given, dict):
            found |= {key: value for key, value in given.items() if value is not None and value is not False}
        elif isinstance(given, str) and (part := values.parsed(given)) is not None:
            found |= part
    headers = row.get("headers") or row.get("request_headers")
    return found or (_of_members(headers) if isinstance(headers, dict) else None) or None


def _text(number: int, text: str) -> list[Request]:
    """Return the request of a line of text, or its reports of events; nothing if it has no CMCD.

    Raises
    ------
    ValueError
        When its CMCD is no list of keys.
    """
    if (own := values.parsed(text)) is not None and _is_report(own):
        return [_report(number, own)]
    asked = _REQUEST.search(text)
    address = asked[1] if asked is not None else text if text.startswith(("/", "http")) else ""
    cmcd = values.of_address(address)
    for quoted in _QUOTED.findall(text) if asked is not None and cmcd is None else ():
        plain = _ESCAPED.sub(lambda one: chr(int(one[1], 16)), quoted)
        if found := _of_body(number, plain):
            return found
        plain = re.sub(r"^CMCD-\w+:\s*", "", plain, flags=re.IGNORECASE).replace('\\"', '"')
        if "=" in plain or plain in {"su", "bs"}:
            part = values.parsed(plain)
            cmcd = cmcd if part is None else {**(cmcd or {}), **part}
    if cmcd is None:
        _refuse_broken(address)
        return []
    if _is_report(cmcd):
        return [_report(number, cmcd)]
    msec = _MSEC.search(text)
    end = float(msec[1]) if msec is not None else _times.local(text) or _times.iso(text)
    took = _TOOK.search(text)
    one = Request(
        line=number,
        t_s=end if end is None or took is None else end - float(took[1]),
        ended=took is None,
        resource=_resource(address),
        bytes=int(asked[3]) if asked is not None and asked[3] != "-" else None,
        cmcd=cmcd,
    )
    return [one]


def _refuse_broken(address: str) -> None:
    """Refuse an address whose argument CMCD cannot be read.

    Raises
    ------
    ValueError
        When it has one.
    """
    if "cmcd=" in address.lower():
        message = "CMCD is not a list of keys"
        raise ValueError(message)


def _resource(address: str) -> str:
    """Return an address as `requests` has it: the path, without the argument CMCD."""
    path, _, query = address.partition("?")
    kept = [one for one in query.split("&") if one and not one.lower().startswith("cmcd=")]
    path = re.sub(r"^https?://[^/]+", "", path).removeprefix("/")
    return f"{path}?{'&'.join(kept)}" if kept else path


@dataclass(frozen=True)
class _Heads:
    """Requests that are written as heads of HTTP: those by their first lines, and all other lines of them."""

    found: Mapping[int, Request]
    skipped: frozenset[int]


def _heads(lines: Sequence[str]) -> _Heads:
    """Return the requests that are written as heads, `GET /a HTTP/1.1` and lines `CMCD-Object: br=1`."""
    found: dict[int, Request] = {}
    skipped: set[int] = set()
    for first, target, fields in _blocks(lines):
        skipped |= set(range(first + 1, first + 1 + len(fields)))
        cmcd: dict[str, Any] = {}
        for name, _, text in (one.partition(":") for one in fields):
            if name.lower().startswith("cmcd-"):
                cmcd |= values.parsed(text) or {}
        own = cmcd or values.of_address(target)
        if own:
            found[first] = Request(
                line=first, t_s=None, ended=False, resource=_resource(target), bytes=None, cmcd=own
            )
        else:
            skipped.add(first)
    return _Heads(found, frozenset(skipped))


def _blocks(lines: Sequence[str]) -> Iterator[tuple[int, str, list[str]]]:
    """Yield each head: the number of its first line, its target, and its fields."""
    first, target, fields = 0, "", list[str]()
    for number, line in enumerate(lines, 1):
        if (asked := re.match(r"(?:GET|HEAD) (\S+) HTTP/", line)) is not None:
            if first:
                yield first, target, fields
            first, target, fields = number, asked[1], []
        elif first and re.match(r"[A-Za-z0-9-]+:", line):
            fields.append(line)
        elif first:
            yield first, target, fields
            first = 0
    if first:
        yield first, target, fields

"""Reading a player's log: its kind and its contents."""

from __future__ import annotations

import gzip
import io
import re
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

from anabranch import _files
from anabranch.errors import Fault, InputError
from anabranch.logs import _cmcd, _console, _json_events, _vlc
from anabranch.logs._cmcd_lines import requests
from anabranch.logs._events import Session

if TYPE_CHECKING:
    from collections.abc import Sequence

    from anabranch.logs._parsed import BadLine, PlayerLog

#: The kinds of logs, and the words of `--as` for them.
KINDS = {"cmcd": "CMCD", "vlc": "VLC", "hlsjs": "hls.js", "dashjs": "dash.js"}
#: The usual endings of logs.
_ENDINGS = (".log", ".txt", ".json", ".jsonl", ".gz")
#: How many lines show the kind of a log.
_ENOUGH = 400
#: The largest log in bytes, its longest line of text in characters, and its longest session.
_LARGEST, _LONGEST, _MOST_SPAN_S = 256 * 2**20, 16_384, 30 * 86_400.0
_EXPECTED = "expected `vlc -vv`, events of hls.js or dash.js, or an access log with CMCD"
#: The first bytes of other files that are given by mistake.
_MAGIC = (
    (b"\xd4\xc3\xb2\xa1", "a capture (pcap): read it with `anabranch capture`"),
    (b"\xa1\xb2\xc3\xd4", "a capture (pcap): read it with `anabranch capture`"),
    (b"\x4d\x3c\xb2\xa1", "a capture (pcap): read it with `anabranch capture`"),
    (b"\xa1\xb2\x3c\x4d", "a capture (pcap): read it with `anabranch capture`"),
    (b"\x0a\x0d\x0d\x0a", "a capture (pcapng): read it with `anabranch capture`"),
    (b"PAR1", "a Parquet table"),
    (b"PK\x03\x04", "a ZIP archive"),
    (b"%PDF", "a PDF document"),
    (b"\x89PNG", "a picture (PNG)"),
)
_TEXTS = (
    ("#EXTM3U", "an HLS playlist"),
    ("<?xml", "XML, for example a DASH manifest"),
    ("<MPD", "a DASH manifest"),
    ("<!DOCTYPE html", "a web page"),
    ("<html", "a web page"),
    ("[application]", "a scenario"),
)
#: Lines of other texts that belong to a session, but are no log of its player.
_OTHERS = (
    (re.compile(r"^\s*\[\[paths\]\]", re.MULTILINE), "a scenario"),
    (
        re.compile(r"^(?:tcp\s+)?(?:ESTAB|SYN-SENT|LISTEN)\s+\d+\s+\d+\s+\S+:\d+", re.MULTILINE),
        "sockets of `ss`",
    ),
    (re.compile(r"^#?(?:MPTcpExt|TcpExt|Tcp)[A-Z]\w+[: ]", re.MULTILINE), "the kernel's counters (`nstat`)"),
    (re.compile(r'^\s*\{[^{}\[\]]*"world":', re.MULTILINE), "the result of a run (`--json`)"),
)
#: The characters of a text in which they are searched.
_SEARCHED = 65_536


def read(file: str | Path, *, kind: str | None = None, session: str | None = None) -> PlayerLog:
    """Read a player's log.

    Parameters
    ----------
    file
        Messages of `vlc -vv`, events of hls.js or dash.js (console text, JSON lines or a JSON array), or an
        access log or JSON lines with CMCD. It may be compressed with gzip.
    kind
        `vlc`, `hlsjs`, `dashjs` or `cmcd`; None decides by the contents.
    session
        The session of a log with CMCD (`sid`); None is the one with the most requests.

    Returns
    -------
    PlayerLog
        Rows of a trace's tables, counts, and the values that the log cannot show.

    Raises
    ------
    InputError
        When the file cannot be read, is no log, or has no such session.

    Examples
    --------
    >>> import anabranch.logs
    >>> log = anabranch.logs.read("vlc.log")  # doctest: +SKIP
    >>> log.counts["lost_pictures"]  # doctest: +SKIP
    """
    where = str(file)
    text = _text(where)
    # A line of text is cut, because a search may take the square of its length. JSON is read whole.
    lines = (
        re.split(r"\r\n|\r|\n", text) if _is_json(text) else [line[:_LONGEST] for line in text.splitlines()]
    )
    found = kind or _kind(text, lines)
    if found is None:
        raise InputError([_other(where, text)])
    if found not in KINDS:
        hint = "kinds are " + ", ".join(KINDS)
        raise InputError([Fault(message=f"no such kind of log: `{found}`", where="--as", hint=hint)])
    made = _made(where, found, text, lines, session)
    if made.last_s > _MOST_SPAN_S:
        days = made.last_s / 86_400
        hint = "are there lines of another program, or times of two clocks?"
        message = f"the times of the log are {days:,.0f} days apart"
        raise InputError([Fault(message=message, where=where, hint=hint)])
    if not any(made.tables.values()) and not any(made.counts.values()):
        raise InputError(
            [Fault(message=f"no messages of {KINDS[found]} in the file", where=where, hint=_EXPECTED)]
        )
    return made


def _made(where: str, kind: str, text: str, lines: Sequence[str], session: str | None) -> PlayerLog:
    """Return the contents of a log of a kind."""
    if kind == "cmcd":
        return _cmcd.read(where, lines, session=session)
    if session is not None:
        message = f"a log of {KINDS[kind]} has one session"
        raise InputError([Fault(message=message, where="--session")])
    if kind == "vlc":
        return _vlc.read(where, lines)
    name = KINDS[kind]
    if not _is_json(text):
        read_text = _console.hlsjs if kind == "hlsjs" else _console.dashjs
        return Session(name, [one for _, one in read_text(lines)]).log(where)
    rows, bad = _json_events.rows(text, lines)
    events, refused = _json_events.events(rows, name)
    whole: list[BadLine] = sorted([*bad, *refused], key=lambda one: one.number)
    return Session(name, events).log(where, bad=whole)


def _text(where: str) -> str:
    """Return the text of a file.

    Raises
    ------
    InputError
        When it cannot be read, or is no text.
    """
    if Path(where).is_dir():
        raise InputError([Fault(message="a log is a file, not a folder", where=where, hint=_EXPECTED)])
    try:
        content = _files.content(Path(where), _LARGEST)
        if content.startswith(b"\x1f\x8b"):
            content = _unpacked(content)
    except FileNotFoundError:
        raise InputError([_files.missing("log", Path(where), _ENDINGS)]) from None
    except (OSError, EOFError, zlib.error, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise InputError([Fault(message=f"cannot read the log: {reason}", where=where)]) from None
    looks = next((what for magic, what in _MAGIC if content.startswith(magic)), None)
    if looks is not None:
        raise InputError([_refused(where, looks)])
    if b"\x00" in content[:4096] and not content.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise InputError([_refused(where, "a binary file")])
    wide = content.startswith((b"\xff\xfe", b"\xfe\xff"))
    text = content.decode("utf-16" if wide else "utf-8-sig", errors="replace")
    # A log may have some damaged bytes. In a file of another kind, most are no text.
    if text[:4096].count("\N{REPLACEMENT CHARACTER}") > len(text[:4096]) / 10:
        raise InputError([_refused(where, "a binary file")])
    return text


def _unpacked(content: bytes) -> bytes:
    """Return the content of a file of gzip.

    Raises
    ------
    ValueError
        When it is larger than a log may be.
    """
    with gzip.GzipFile(fileobj=io.BytesIO(content)) as opened:
        data = opened.read(_LARGEST + 1)
    if len(data) > _LARGEST:
        message = f"larger than {_LARGEST >> 20} MiB"
        raise ValueError(message)
    return data


def _refused(where: str, looks: str) -> Fault:
    """Return the fault of a file of another kind."""
    return Fault(message=f"not a player's log: it looks like {looks}", where=where, hint=_EXPECTED)


def _other(where: str, text: str) -> Fault:
    """Return the fault of a text that is no log."""
    start = text.lstrip()[:400]
    if not start:
        return Fault(message="the log is empty", where=where, hint=_EXPECTED)
    looks = next((what for begin, what in _TEXTS if start.lower().startswith(begin.lower())), None)
    if looks is None and _is_access_log(start):
        looks = "an access log without CMCD"
    looks = looks or next((what for line, what in _OTHERS if line.search(text[:_SEARCHED])), None)
    return _refused(where, looks or ("JSON without events of a player" if _is_json(text) else "other text"))


def _is_access_log(start: str) -> bool:
    """Return whether a text begins like an access log."""
    return '"GET ' in start and "HTTP/" in start


def _is_json(text: str) -> bool:
    """Return whether a text begins like JSON. Console text may begin with a bracket too."""
    start = text.lstrip()
    return start.startswith("{") or (start.startswith("[") and start[1:].lstrip()[:1] in {"{", "[", '"', "]"})


def _kind(text: str, lines: Sequence[str]) -> str | None:
    """Return the kind of a log by its contents; None if it is none."""
    rows: list[Any] = []
    if _is_json(text):
        rows = [row for _, row in _json_events.rows(text, lines[:_ENOUGH])[0]]
    asked, refused = requests(lines[:_ENOUGH])
    # Players' own logs come first, because the addresses in them may have the argument CMCD.
    found = {
        "hlsjs": any(map(_json_events.is_hlsjs, rows)) or any(map(_console.HLSJS.search, lines)),
        "dashjs": any(map(_json_events.is_dashjs, rows)) or any(map(_console.DASHJS.search, lines)),
        "cmcd": bool(asked) or any("CMCD" in one.why for one in refused),
        "vlc": any(map(_vlc.LINE.search, lines)),
    }
    return next((kind for kind, is_it in found.items() if is_it), None)

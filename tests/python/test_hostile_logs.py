"""Players' logs that are damaged or written to harm: a fault or a result, never a traceback or unbounded memory."""

from __future__ import annotations

import gzip
import json
import re
import tracemalloc

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from anabranch import logs
from anabranch.cli._app import app
from anabranch.errors import InputError

pytestmark = pytest.mark.module

_KINDS = ("vlc", "hlsjs", "dashjs", "cmcd", None)
_NUMBERS = (
    "0",
    "3",
    "-1",
    "2.5",
    "9" * 19,
    "9" * 400,
    "1e400",
    "-1e400",
    "NaN",
    "Infinity",
    "",
    "x",
    "1" * 5000,
)
_URLS = ("http://[", "//[x", "a.ts", "http://h/v/720p/3.ts?CMCD=br%3D1", "?CMCD=%", "\ud7ff", "/" * 300, "")
_TIMES = (
    *("", "12:00:01.5 ", "99:99:99 ", "1e9 ", "1764295831.123 ", "9" * 40 + ".5 ", "2026-13-45T99:99:99Z "),
    *("0000-00-00 00:00:00 ", "[28/Foo/2026:02:10:31 +9999] ", "[31/Feb/9999:23:59:59 -2400] "),
)
#: Lines of each kind. T at the begin is a time; N and U, if they are whole words, are a number and an address.
_LINES = (
    "Tmain debug: Stream buffering done (N ms in N ms)",
    "Tmain warning: picture is too late to be displayed (missing N ms)",
    "Tmain error: ES_OUT_SET_(GROUP_)PCR is called too late (pts_delay increased to N ms)",
    "Tadaptive debug: Retrieving U @N",
    "Tadaptive debug: BaseAdaptationSet N",
    "Tadaptive debug: Representation U",
    "Tadaptive debug:  Segment #N url=U stime N duration N",
    "T[log] > [stream-controller]: Loading fragment N cc: 0 of [0-9] level: N, target: 3",
    "T[log] > Loading N of [0 ,9],level N, currentTime:1,bufferEnd:2",
    "T[log] > [stream-controller]: Loaded fragment N of level N",
    "T[log] > playback not stuck anymore @N, after N ms",
    "T[warn] > Playback stalling at @N",
    "T[N][PlaybackController] Native video element event: playing",
    "T[N][StreamProcessor][video] Next fragment request url for media type video is U",
    "T[N][StreamProcessor][video] OnFragmentLoadingCompleted - Url: U",
    "T[N][AbrController] AbrController (video) switch from N to N/3 (buffer: N)",
    'T"GET U HTTP/1.1" 200 N rt=N "CMCD-Object: br=N,d=N,ot=v,tb=N,bl=N,sid=\\x22s\\x22,ts=N,v=N,bsd=(N N)"',
    "GET U HTTP/1.1",
    "CMCD-Request: bl=N,su,bsd=N,sta=r,pt=N",
    'e=ps,sta=r,ts=N,v=2,sid="s",bl=(N)',
    'e=rr,url="U",ts=N,ttfb=N,ttlb=N,br=(N N;v),d=N,ot=v,sid="s"',
)
#: Names of members of JSON that the readers use.
_KEYS = (
    *("event", "type", "name", "time", "timestamp", "ts", "data", "detail", "frag", "sn", "level", "levels"),
    *("stats", "loading", "start", "end", "total", "bitrate", "height", "currentDropped", "duration", "url"),
    *("request", "startDate", "endDate", "quality", "mediaType", "trace", "b", "trequest", "tresponse"),
    *("cmcd", "br", "d", "ot", "tb", "bl", "sid", "bsd", "v", "sta", "e", "t_s", "msec", "resource", "bytes"),
    *("body", "request_body", "headers", "CMCD-Object", "new", "relurl", "_quality", "_mediaduration"),
)
_WORDS = (
    *("hlsFragLoaded", "hlsFragLoading", "hlsManifestParsed", "hlsFpsDrop", "hlsLevelSwitched", "playing"),
    *(
        "waiting",
        "fragmentLoadingCompleted",
        "qualityChangeRendered",
        "MediaSegment",
        "video",
        "ps",
        "rr",
        "v",
    ),
    *("bufferStalledError", "p", "r", 'e=ps,sta=p,ts=5\ne=ps,sta=r,ts="'),
)

numbers = st.one_of(
    st.sampled_from((0, 1, -1, 2.5, 10**12, 10**30, float("nan"), float("inf"), -float("inf"))),
    st.integers(),
    st.floats(),
)
leaves = st.one_of(
    st.none(),
    st.booleans(),
    numbers,
    st.sampled_from(_WORDS),
    st.sampled_from(_URLS),
    st.sampled_from(_TIMES),
)
values = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4), st.dictionaries(st.sampled_from(_KEYS), inner, max_size=8)
    ),
    max_leaves=20,
)


@st.composite
def line(draw):
    """Return a line of a log with hostile values."""
    text = draw(st.sampled_from(_LINES))
    begin = draw(st.sampled_from(_TIMES)) if text.startswith("T") else ""
    given = {"N": st.sampled_from(_NUMBERS), "U": st.sampled_from(_URLS)}
    return begin + re.sub(r"\b[NU]\b", lambda mark: draw(given[mark[0]]), text.removeprefix("T"))


@st.composite
def rows(draw):
    """Return lines of JSON, or one array, that look like events."""
    found = draw(st.lists(values, min_size=1, max_size=6))
    if draw(st.booleans()):
        return json.dumps(found)
    return "\n".join(json.dumps(one) for one in found)


def read(file, kind=None):
    """Read a file by the command. Exit code 70 is a defect of the program."""
    result = CliRunner().invoke(app, ["log", str(file), *(["--as", kind] if kind else [])])
    assert result.exit_code in {0, 2}, result.output
    return result


_SETTINGS = settings(
    max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


@_SETTINGS
@given(st.lists(line(), min_size=1, max_size=8))
def test_lines_with_hostile_values(tmp_path, lines):
    file = tmp_path / "a.log"
    file.write_text("\n".join(lines), encoding="utf-8", errors="surrogatepass")
    read(file)


@_SETTINGS
@given(rows(), st.sampled_from(_KINDS))
def test_json_with_hostile_values(tmp_path, text, kind):
    file = tmp_path / "a.json"
    file.write_text(text, encoding="utf-8", errors="surrogatepass")
    read(file, kind)


@_SETTINGS
@given(st.binary(max_size=400), st.sampled_from(_KINDS))
def test_any_bytes(tmp_path, content, kind):
    file = tmp_path / "a.log"
    file.write_bytes(content)
    read(file, kind)


def events(*found):
    return "\n".join(json.dumps(one) for one in found)


@pytest.mark.parametrize(
    "text",
    [
        events({"event": "hlsFpsDrop", "time": 1, "data": {"currentDropped": 10**12}}),
        events({"event": "hlsFragLoaded", "time": 1, "data": {"frag": {"sn": 1, "level": 10**12}}}),
        events({"event": "hlsFragLoaded", "time": 1e300, "data": {"frag": {"sn": 1, "level": 1}}}),
        "[" * 200_000,
        '{"event":' * 100_000,
        '{"event": "playing", "time": ' + "9" * 10_000 + "}",
        "/a.ts?CMCD=br%3D1,ot%3Dv,bsd%3D(" + "%20".join(["1"] * 20_000) + ")",
    ],
)
def test_memory_is_bounded(tmp_path, text):
    file = tmp_path / "a.json"
    file.write_text(text, encoding="utf-8")
    tracemalloc.start()
    try:
        read(file)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 100 * 2**20


def test_a_compressed_file_that_grows_without_end_is_refused(tmp_path):
    file = tmp_path / "bomb.gz"
    piece = gzip.compress(bytes(2**20))
    # Members of a file of gzip follow one another: 300 of 1 MiB each.
    file.write_bytes(piece * 300)
    with pytest.raises(InputError, match="larger than 256 MiB"):
        logs.read(file)


def test_long_lines_are_read(tmp_path):
    """A search that begins again at each word would take hours."""
    for word in ("main ", "Loading fragment 1 ", "core ", 'GET "', "[1][A]", "(", "a=("):
        file = tmp_path / "a.log"
        file.write_text("12:00:00 main debug: Stream buffering done (1 ms in 1 ms)\n" + word * 200_000)
        read(file)

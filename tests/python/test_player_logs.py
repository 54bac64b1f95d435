"""Players' logs: a run's own CMCD, a log of VLC with its own statistics, and events of hls.js and dash.js."""

from __future__ import annotations

import json
from pathlib import Path
from urllib.parse import quote

import pytest
from typer.testing import CliRunner

import anabranch
from anabranch import capture, logs
from anabranch.cli._app import app
from anabranch.errors import InputError
from anabranch.metrics import cmcd
from anabranch.metrics._viewer import stall_times

pytestmark = pytest.mark.module

#: A fade to 100 kbit/s of the larger path stalls the player.
_KEYS = {
    "application.abr": "fixed",
    "application.duration": "200 s",
    "paths.lte.rate": "200 kbit/s",
    "events": [
        {"at": "40 s", "path": "wifi", "rate": "100 kbit/s"},
        {"at": "60 s", "path": "wifi", "rate": "3 Mbit/s"},
    ],
}
#: VLC 3.0.24 played an MP4 from a server whose rate fell twice, and its lines got times. Its statistics
#: (`libvlc_media_get_stats`) were read at 31.615 s: 70 pictures lost. It reported 3 underflows, at 7.580, 17.204
#: and 26.316 s (`MediaPlayerBuffering` below 100 %).
_VLC = Path(__file__).parent / "logs" / "vlc-mp4.log"


@pytest.fixture(scope="module")
def session(tmp_path_factory):
    """Return an adaptive run with stalls, and the capture of its packets at the client."""
    file = tmp_path_factory.mktemp("logs") / "session.pcapng"
    return anabranch.run("adaptive-two-paths", set=_KEYS, pcapng=file), file


def told(run, folder, *, version=1, form="json"):
    """Return the file of a run's CMCD."""
    file = folder / f"cmcd{version}.{form}"
    file.write_text(cmcd.text(cmcd.reports(run.tables, session="x", version=version), form), encoding="utf-8")
    return file


def true_stalls(run):
    """Return the run's stalls that end before its last request. A later one is in no report."""
    last = max(row["t_s"] for row in run.rows("requests"))
    found = stall_times(run.rows("playback"), run.duration_s)
    return [one for one in found if one[1] <= last]


@pytest.mark.parametrize("version", [1, 2])
def test_a_run_s_cmcd_gives_its_own_requests_and_stalls(session, tmp_path, version):
    run, _ = session
    log = logs.read(told(run, tmp_path, version=version))
    assert (log.kind, log.clock, list(log.bad)) == ("CMCD", "own", [])
    of = [
        sorted((row["t_s"], row["resource"]) for row in rows)
        for rows in (log.tables["requests"], run.rows("requests"))
    ]
    assert of[0] == of[1]
    stalls = true_stalls(run)
    assert len(stalls) >= 2
    got = stall_times(log.tables["playback"], log.last_s)[: len(stalls)]
    assert len(got) == len(stalls)
    for (begin, end), (read_begin, read_end) in zip(stalls, got, strict=True):
        # `bl` is rounded to 100 ms, and version 2 has lengths in whole milliseconds.
        assert read_begin == pytest.approx(begin, abs=0.06)
        assert read_end - read_begin == pytest.approx(end - begin, abs=0.06 if version == 1 else 0.001)
    if version == 2:
        start = next(row["t_s"] for row in log.tables["playback"] if row["event"] == "start")
        assert start == pytest.approx(run.qoe["startup_delay_s"], abs=0.001)


def test_forms_without_times_keep_the_order_and_the_counts(session, tmp_path):
    run, _ = session
    whole = logs.read(told(run, tmp_path, version=2))
    for form in ("query", "headers"):
        log = logs.read(told(run, tmp_path, version=2, form=form))
        assert log.clock == "none"
        names = [[row["resource"] for row in one.tables["requests"]] for one in (log, whole)]
        assert names[0] == names[1]
        assert log.counts["stalls"] == len(true_stalls(run))
        read = anabranch.read_log(told(run, tmp_path, version=2, form=form))
        assert read.qoe is None
        assert read.report(tmp_path / "page.html").is_file()
        assert any("times" in what for what in read.summary["not_visible"])


def test_a_log_gives_a_run_a_report_and_a_reason(session, tmp_path):
    run, _ = session
    read = anabranch.read_log(told(run, tmp_path, version=2))
    assert read.qoe["buffer_underflows"] >= len(true_stalls(run))
    assert read.qoe["resolution_changes"] == 0
    assert read.qoe["throughput_mean_mbps"] is None
    assert read.summary["uq18"]["DB_total"] is None
    page = read.report(tmp_path / "page.html").read_text(encoding="utf-8")
    assert "Stalled" in page
    assert "a capture shows them" in page
    assert read.why().sentences is not None
    assert read.plot() is not None


def test_a_log_and_a_capture_share_one_axis_of_time(session, tmp_path):
    run, file = session
    # The log's clock is 5 s ahead of the capture's. The first request aligns both.
    rows = [
        json.loads(line) for line in told(run, tmp_path, version=2).read_text(encoding="utf-8").splitlines()
    ]
    late = tmp_path / "late.json"
    late.write_text(
        "".join(json.dumps({**row, "t_s": row["t_s"] + 5}) + "\n" for row in rows), encoding="utf-8"
    )
    traced = capture.traced(capture.read(file, progress=False))
    both = logs.merge(traced, logs.read(late)).run()
    assert "first request" in both.summary["log"]["aligned_by"]
    # The player asks for the first playlist when it begins to connect. The request leaves, and is captured,
    # when the connection is open: 160 ms later, the round-trip time of WiFi.
    stalls = true_stalls(run)
    got = stall_times(both.rows("playback"), both.duration_s)[: len(stalls)]
    wanted = [one[0] + 0.160 for one in stalls]
    assert [one[0] for one in got] == pytest.approx(wanted, abs=0.06)
    assert both.qos["goodput_mbps"] > 0
    assert both.qoe["buffer_underflows"] >= len(stalls)
    assert both.summary["uq18"]["S_o"] is not None
    given = logs.merge(traced, logs.read(late), offset_s=-5.0)
    assert "given offset" in given.summary["log"]["aligned_by"]
    assert both.report(tmp_path / "both.html").is_file()
    assert both.why().sentences is not None


def test_wall_clocks_are_preferred_and_other_days_are_refused(session, tmp_path):
    run, _ = session
    file = tmp_path / "dated.pcapng"
    from datetime import UTC, datetime

    at = datetime(2026, 11, 28, 12, tzinfo=UTC)
    short = {**_KEYS, "application.duration": "20 s", "events": []}
    dated = anabranch.run("adaptive-two-paths", set=short, pcapng=file, pcapng_start=at)
    rows = [json.loads(line) for line in told(dated, tmp_path).read_text(encoding="utf-8").splitlines()]
    log = tmp_path / "access.json"
    for shift, refused in ((0.0, False), (86_400.0, True)):
        made = ({**row, "time": row["t_s"] + at.timestamp() + shift} for row in rows)
        log.write_text(
            "".join(json.dumps({k: v for k, v in row.items() if k != "t_s"}) + "\n" for row in made),
            encoding="utf-8",
        )
        traced = capture.traced(capture.read(file, progress=False))
        if refused:
            with pytest.raises(InputError, match=r"the log begins .86,400 s after"):
                logs.merge(traced, logs.read(log))
            continue
        both = logs.merge(traced, logs.read(log))
        assert "time of day" in both.summary["log"]["aligned_by"]
        first = min(row["t_s"] for row in dated.rows("requests"))
        assert both.summary["log"]["offset_s"] == pytest.approx(first, abs=0.001)
    assert run is not dated


def test_lost_pictures_of_vlc_are_those_of_its_statistics():
    log = logs.read(_VLC)
    assert (log.kind, log.clock) == ("VLC", "own")
    assert log.counts["lost_pictures"] == 70
    assert log.counts["rebuffers"] == 3
    # "Stream buffering done (1250 ms in N ms)": 676 at first, then 737, 839 and 955.
    assert (log.counts["first_fill_s"], log.counts["refill_s"]) == (0.676, 2.531)
    begins = [row["t_s"] for row in log.tables["playback"] if row["event"] == "underflow"]
    first = float(_VLC.read_text(encoding="utf-8").split()[0])
    assert [begin + first for begin in begins] == pytest.approx([7.580, 17.204, 26.316], abs=0.003)
    run = anabranch.read_log(_VLC)
    assert (run.qoe["picture_discards"], run.qoe["buffer_underflows"]) == (70, 3)
    assert run.qoe["frames"]["displayed"] is None
    assert run.why().sentences is not None


def test_vlc_without_times_has_counts(tmp_path):
    plain = tmp_path / "plain.log"
    lines = _VLC.read_text(encoding="utf-8").splitlines()
    plain.write_text("\n".join(line.partition(" ")[2] for line in lines), encoding="utf-8")
    log = logs.read(plain)
    assert (log.clock, log.counts["lost_pictures"], log.counts["rebuffers"]) == ("none", 70, 3)
    assert all(row["due_s"] is None for row in log.tables["frames"])
    run = anabranch.read_log(plain)
    assert run.qoe is None
    assert run.report(tmp_path / "page.html").is_file()


def combined(second, path, text, *, took="0.250", size=1000):
    """Return a line of nginx: combined, with `$msec` and `$request_time`."""
    return (
        f'10.0.0.1 - - [28/Nov/2026:12:00:{second:02} +0000] "GET {path}{text} HTTP/1.1" 200 {size} "-" "x" '
        f"rt={took} msec={1795867200 + second}.500"
    )


def test_access_logs_of_nginx(tmp_path):
    """Three requests of two sessions, as a query, encoded twice, and in header fields."""
    once = quote('br=3000,d=4000,ot=v,sid="a",bl=4000', safe="")
    twice = quote(quote('br=1000,d=4000,ot=v,sid="a",bs,bl=undefined', safe=""), safe="")
    fields = '"br=3000,d=4000,ot=v" "bl=500,nor=\\x22..%2Fb\\x22" "sid=\\x22b\\x22" "bs"'
    file = tmp_path / "access.log"
    lines = [
        combined(1, "/1.m4s", f"?CMCD={once}"),
        combined(6, "/2.m4s", f"?x=1&CMCD={twice}", took="2.000", size=2000),
        combined(7, "/robots.txt", ""),
        combined(8, "/3.m4s", "") + " " + fields,
        combined(9, "/4.m4s", "?CMCD=%22%22%22"),
    ]
    file.write_text("\n".join(lines), encoding="utf-8")
    log = logs.read(file)
    assert (log.clock, log.session, log.others) == ("wall", "a", ["b"])
    # The first request came at 12:00:01.500 less 0.250 s, the second at 12:00:06.500 less 2 s: 3.25 s later.
    assert log.zero_unix_s == pytest.approx(1795867201.25)
    rows = [(row["t_s"], row["resource"], row["bytes"]) for row in log.tables["requests"]]
    assert rows == [(0.0, "1.m4s", 1000), (pytest.approx(3.25), "2.m4s?x=1", 2000)]
    assert [(row["rendition"], row["duration_s"]) for row in log.tables["chunks"]] == [(1, 4.0), (0, 4.0)]
    assert [one.number for one in log.bad] == [5]
    (other,) = logs.read(file, session="b").tables["requests"]
    assert other["resource"] == "3.m4s"
    with pytest.raises(InputError, match="no such session: `c`"):
        logs.read(file, session="c")
    run = anabranch.read_log(file)
    assert run.qoe["resolution_changes"] == 1


def test_an_access_log_of_nginx_in_json(tmp_path):
    keys = {"br": "2000", "sid": '"a"'}
    row = {
        "time_iso8601": "2026-11-28T12:00:10+00:00",
        "request_time": "1.500",
        "body_bytes_sent": "70",
        "request": "GET /a/1.ts?CMCD=br%3D2000%2Cot%3Dav%2Csid%3D%22a%22 HTTP/1.1",
    }
    other = {"msec": "1795867215.000", "request_uri": "/a/2.ts", "http_cmcd_object": f"br={keys['br']},ot=av"}
    other["http_cmcd_session"] = f"sid={keys['sid']}"
    file = tmp_path / "access.json"
    file.write_text("\n".join(json.dumps(one) for one in (row, other)) + '\n{"broken', encoding="utf-8")
    log = logs.read(file)
    assert [(one["t_s"], one["resource"], one["bytes"]) for one in log.tables["requests"]] == [
        (0.0, "a/1.ts", 70),
        (6.5, "a/2.ts", None),
    ]
    assert log.bad[0].number == 3
    assert "no JSON" in log.bad[0].why


def events_of_hlsjs():
    """Return events of hls.js: chunks of 2 s, a stall from 6 to 7.5 s, one switch, and 3 dropped pictures."""
    levels = [{"bitrate": 500_000, "height": 360}, {"bitrate": 2_000_000, "height": 720}]
    result = [{"event": "hlsManifestParsed", "time": 1000, "data": {"levels": levels}}]
    for number, (level, start, end) in enumerate([(1, 1000, 2000), (0, 2000, 6400)]):
        frag = {
            "sn": number,
            "level": level,
            "duration": 2,
            "type": "main",
            "url": f"https://x/{level}/{number}.ts",
        }
        stats = {"loading": {"start": start, "first": start + 100, "end": end}, "total": 250_000}
        result.append({"event": "hlsFragLoading", "time": start, "data": {"frag": frag}})
        result.append({"event": "hlsFragLoaded", "time": end, "data": {"frag": {**frag, "stats": stats}}})
    result += [
        {"event": "playing", "time": 2500, "data": {"currentTime": 0}},
        {"event": "hlsLevelSwitched", "time": 4500, "data": {"level": 0}},
        {"event": "waiting", "time": 6000, "data": {"currentTime": 3.5}},
        {"event": "hlsError", "time": 6100, "data": {"details": "bufferStalledError", "fatal": False}},
        {"event": "playing", "time": 7500, "data": {"currentTime": 3.5}},
        {"event": "hlsFpsDrop", "time": 8000, "data": {"currentDropped": 3, "currentDecoded": 30}},
        {"event": "ended", "time": 9000, "data": {"currentTime": 5}},
    ]
    return result


@pytest.mark.parametrize("shape", ["lines", "array", "pairs"])
def test_events_of_hlsjs(tmp_path, shape):
    events = events_of_hlsjs()
    file = tmp_path / "hls.json"
    if shape == "lines":
        file.write_text("".join(json.dumps(one) + "\n" for one in events), encoding="utf-8")
    elif shape == "array":
        file.write_text(json.dumps(events, indent=1), encoding="utf-8")
    else:
        pairs = [[one["event"], one["time"], one["data"]] for one in events]
        file.write_text(json.dumps(pairs), encoding="utf-8")
    log = logs.read(file)
    assert (log.kind, log.clock, list(log.bad)) == ("hls.js", "own", [])
    # Times count from the first event, at 1,000 ms.
    loads = [
        (row["resource"], row["t_s"], row["first_byte_s"], row["done_s"]) for row in log.tables["requests"]
    ]
    assert loads == [
        ("1/0.ts", 0.0, pytest.approx(0.1), 1.0),
        ("0/1.ts", 1.0, pytest.approx(1.1), pytest.approx(5.4)),
    ]
    # 250,000 bytes are 2 Mbit: in 1 s, and in 4.4 s.
    assert [row["throughput_mbps"] for row in log.tables["chunks"]] == [
        pytest.approx(2.0),
        pytest.approx(2 / 4.4),
    ]
    assert [(row["t_s"], row["event"]) for row in log.tables["playback"]] == [
        (1.5, "start"),
        (3.5, "switch"),
        (5.0, "underflow"),
        (6.5, "resume"),
        *[(7.0, "drop")] * 3,
        (8.0, "end"),
    ]
    assert log.counts == {"stalls": 1, "switches": 1, "requests": 2, "dropped_pictures": 3}
    run = anabranch.read_log(file)
    assert (run.qoe["rebuffer_s"], run.qoe["startup_delay_s"]) == (1.5, 1.5)
    assert run.qoe["resolution_mean"] == 540
    assert run.report(tmp_path / "page.html").is_file()


def test_the_console_of_hlsjs(tmp_path):
    """Text as Firefox writes it. The stall lasted 1,200 ms until 12:00:10.200."""
    file = tmp_path / "console.txt"
    file.write_text(
        "12:00:01.000 [log] > [stream-controller]: Loading fragment 3 cc: 0 of [0-63] level: 2, target: 30 hls.js:1\n"
        "12:00:03.500 [log] > [stream-controller]: Loaded fragment 3 of level 2 hls.js:2\n"
        "12:00:04.000 [log] > [level-controller]: switching to level 1 from 2\n"
        "12:00:09.100 [warn] > Playback stalling at @12.5 due to low buffer ({})\n"
        "12:00:09.101 Error event: {details: 'bufferStalledError', fatal: false}\n"
        "12:00:10.200 [warn] > playback not stuck anymore @12.6, after 1200ms\n",
        encoding="utf-8",
    )
    log = logs.read(file)
    assert log.kind == "hls.js"
    assert [(row["t_s"], row["done_s"]) for row in log.tables["requests"]] == [(0.0, 2.5)]
    assert [(row["t_s"], row["event"]) for row in log.tables["playback"]] == [
        (pytest.approx(8.0), "underflow"),
        (pytest.approx(9.2), "resume"),
    ]
    assert any("start of playback" in what for what in log.unseen)


def test_the_console_of_dashjs(tmp_path):
    file = tmp_path / "dash.txt"
    next_request = "Next fragment request url for stream id 0 and media type video is"
    file.write_text(
        # The player sends CMCD itself, so its log has the argument, too.
        f"dash.all.debug.js:2513 [1000][StreamProcessor][video] {next_request} https://x/v/1.m4s?CMCD=br%3D1\n"
        "dash.all.debug.js:2513 [1800][StreamProcessor][video] OnFragmentLoadingCompleted for stream id 0 and media "
        "type video - Url: https://x/v/1.m4s\n"
        "Debug.js:236 [2000][PlaybackController] Native video element event: playing\n"
        "Debug.js:236 [6000][PlaybackController] Native video element event: waiting\n"
        "Debug.js:236 [6750][PlaybackController] Native video element event: playing\n",
        encoding="utf-8",
    )
    log = logs.read(file)
    assert log.kind == "dash.js"
    assert [(row["resource"], row["t_s"], row["done_s"]) for row in log.tables["requests"]] == [
        ("v/1.m4s", 0.0, 0.8)
    ]
    assert [(row["t_s"], row["event"]) for row in log.tables["playback"]] == [
        (1.0, "start"),
        (5.0, "underflow"),
        (5.75, "resume"),
    ]
    run = anabranch.read_log(file)
    assert (run.qoe["buffer_underflows"], run.qoe["rebuffer_s"]) == (1, 0.75)


def test_events_of_dashjs(tmp_path):
    """Dates of FragmentRequest are texts in ISO 8601; 500,000 bytes in 2 s are 2 Mb/s."""
    request = {
        "type": "MediaSegment",
        "mediaType": "video",
        "quality": 1,
        "index": 4,
        "duration": 4,
        "url": "https://x/v/4.m4s",
        "startDate": "2026-11-28T12:00:00.000Z",
        "firstByteDate": "2026-11-28T12:00:00.200Z",
        "endDate": "2026-11-28T12:00:02.000Z",
        "bytesLoaded": 500_000,
    }
    rows = [
        {"type": "fragmentLoadingCompleted", "timestamp": 1795867202000, "request": request},
        {"type": "playbackPlaying", "timestamp": 1795867203000},
        {"type": "qualityChangeRendered", "timestamp": 1795867204000, "mediaType": "video", "newQuality": 1},
        {"type": "bufferStalled", "timestamp": 1795867205000, "mediaType": "audio"},
        7,
    ]
    file = tmp_path / "dash.json"
    file.write_text("".join(json.dumps(one) + "\n" for one in rows), encoding="utf-8")
    log = logs.read(file)
    assert (log.kind, log.clock, log.zero_unix_s) == ("dash.js", "wall", 1795867200.0)
    (chunk,) = log.tables["chunks"]
    assert (chunk["rendition"], chunk["throughput_mbps"]) == (1, pytest.approx(2.0))
    assert [(row["t_s"], row["event"]) for row in log.tables["playback"]] == [(3.0, "start"), (4.0, "switch")]
    assert [one.number for one in log.bad] == [5]


@pytest.mark.parametrize(
    ("content", "looks"),
    [
        (b"\x0a\x0d\x0d\x0a\x1c\x00", "a capture"),
        (b"#EXTM3U\n", "an HLS playlist"),
        (b"<?xml version='1.0'?><MPD/>", "XML"),
        (b'1.2.3.4 - - [x] "GET /a HTTP/1.1" 200 3\n', "an access log without CMCD"),
        (
            b"### 1795718760.5\n--- mptcp\nESTAB 0      0      10.2.1.1%vc2:39931 10.1.0.1:80 sk:2d\n",
            "sockets of `ss`",
        ),
        (b"TcpInSegs:1430\nTcpOutSegs:1309\nMPTcpExtMPJoinSynTx:1\n", "the kernel's counters"),
        (b"#kernel\nTcpExtTCPOFOQueue               489                0.0\n", "the kernel's counters"),
        (b'name = "s1"\n[application]\nkind = "bulk"\n[[paths]]\nname = "wifi"\n', "a scenario"),
        (b'{\n  "status": 0,\n  "world": "live",\n  "digest": ""\n}\n', "the result of a run"),
        (b"hello\n", "other text"),
        (b"a note about CMCD\n", "other text"),
        (b'{"a": 1}', "JSON without events"),
        (b"\x00\x01", "a binary file"),
        (b"", "empty"),
    ],
)
def test_a_file_of_another_kind_is_named(tmp_path, content, looks):
    file = tmp_path / "file"
    file.write_bytes(content)
    with pytest.raises(InputError, match=looks):
        logs.read(file)


def command(*arguments):
    return CliRunner().invoke(app, list(map(str, arguments)))


def test_the_commands(session, tmp_path):
    run, file = session
    log = told(run, tmp_path, version=2)
    broken = tmp_path / "broken.json"
    broken.write_text(log.read_text(encoding="utf-8") + '{"broken\n', encoding="utf-8")
    text = command("log", broken, "--report", tmp_path / "log.html")
    assert text.exit_code == 0, text.output
    lines = len(run.rows("requests"))
    assert f"broken.json, line {lines + 1}" in text.output
    assert "Not visible: single pictures" in text.output
    assert "stall at s" in text.output
    found = json.loads(command("log", log, "--json").stdout)
    assert found["log"]["counts"]["requests"] == lines
    page = command("capture", file, "--log", log, "--report", tmp_path / "both.html")
    assert page.exit_code == 0, page.output
    assert "The log is aligned by the first request of both files." in page.output
    both = json.loads(command("capture", file, "--log", log, "--log-offset", "1", "--json").stdout)
    assert both["largest"]["log"]["offset_s"] == 1
    wrong = command("log", file)
    assert wrong.exit_code == 2
    assert "it looks like a capture" in wrong.output
    assert command("capture", file, "--log-offset", "1").exit_code == 2
    assert command("log", log, "--as", "vcl").exit_code == 2

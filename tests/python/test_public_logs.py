"""Shapes of players' logs as people attach them to public reports, with other names and numbers."""

from __future__ import annotations

import json

import pytest

import anabranch
from anabranch import logs

pytestmark = pytest.mark.module


def log_of(tmp_path, text, **options):
    file = tmp_path / "a.log"
    file.write_text(text, encoding="utf-8")
    return logs.read(file, **options)


def times(log, table, *names):
    return [tuple(row.get(name) for name in names) for row in log.tables[table]]


def test_hlsjs_before_version_1(tmp_path):
    """hls.js 0.x names the range of a live playlist in brackets (hls.js #1355, #1414 and #1602)."""
    log = log_of(
        tmp_path,
        "10:00:01.000 hls.js:125 [log] > Loading 735 of [0 ,738],level 1, currentTime:4376.2,bufferEnd:4382.2\n"
        "10:00:01.001 hls.js:125 [log] > main stream:IDLE->FRAG_LOADING\n"
        "10:00:01.750 hls.js:125 [log] > Loaded  735 of [0 ,738],level 1\n"
        "10:00:01.760 hls.js:125 [log] > latency/loading/parsing/append/kbps:12/79/42/5/29255\n"
        "10:00:01.800 hls.js:125 [log] > switching to level 4\n"
        "10:00:02.000 hls.js:125 [log] > level 4 loaded [0,739],duration:4412.2\n"
        "10:00:02.100 hls.js:125 [log] > Loading 736 of [0 ,739],level 4, currentTime:4376.9,bufferEnd:4388.2\n"
        "10:00:03.100 hls.js:125 [log] > Loaded  736 of [0 ,739],level 4\n",
    )
    assert log.kind == "hls.js"
    found = times(log, "chunks", "index", "rendition", "t_s", "done_s")
    assert found == [(735, 1, 0.0, 0.75), (736, 4, pytest.approx(1.1), pytest.approx(2.1))]
    assert log.counts["switches"] == 1


def test_hlsjs_in_the_consoles_of_safari_and_firefox(tmp_path):
    """Safari puts each part of a message in quotation marks (hls.js #5132); others add the place in the code (#4342)."""
    log = log_of(
        tmp_path,
        '[Log] [log] > – "[stream-controller]:" – "Loading fragment 19 cc: 0 of [0-1447] level: 1, target: 76.7" '
        "(hls.js, line 3472)\n"
        '[Log] [log] > – "[stream-controller]:" – "Loaded fragment 19 of level 1" (hls.js, line 3273)\n'
        "[log] > [stream-controller]: Loading fragment 20 cc: 0 of [0-15] level: 2, target: 9 hls.js@1.0.10:1:15\n"
        "[log] > [stream-controller]: Loaded fragment 20 of level 2 hls.js@1.0.10:1:15\n",
    )
    assert times(log, "chunks", "index", "rendition") == [(19, 1), (20, 2)]
    assert log.clock == "none"


def test_dashjs_of_versions_3_and_4(tmp_path):
    """The name before the brackets, and a switch of the sound, which is none of the pictures (dash.js #2741, #4117)."""
    log = log_of(
        tmp_path,
        "[1000][ScheduleController][audio] OnFragmentLoadingCompleted - Url: https://a.example/135/audio_1.mp4 D.js:236\n"
        "[1100][AbrController] AbrController (video) switch from 0 to 1/3 (buffer: 17.97) . Debug.js:236:12\n"
        "[1200][AbrController] AbrController (audio) switch from 0 to 1/2 (buffer: 6.008) . Debug.js:236:12\n"
        "dash.all.debug.js:2513 [1300][StreamProcessor][video] OnFragmentLoadingCompleted for stream id defaultId_0 "
        "and media type video - Url: https://a.example/v/track1_2.m4s \n"
        "dash.all.debug.js:2513 [1500][PlaybackController] Native video element event: playing \n"
        "[2500][PlaybackController] Native video element event: waiting Debug.js:236:12\n"
        "13:29:25.855 Debug.js:236 [4000][PlaybackController] Native video element event: playing\n",
    )
    assert log.kind == "dash.js"
    assert times(log, "requests", "resource", "done_s") == [
        ("135/audio_1.mp4", 0.0),
        ("v/track1_2.m4s", pytest.approx(0.3)),
    ]
    assert times(log, "playback", "t_s", "event") == [
        (pytest.approx(0.5), "start"),
        (pytest.approx(1.5), "underflow"),
        (pytest.approx(3.0), "resume"),
    ]


@pytest.mark.parametrize(
    "prefix",
    [
        "[00007fd50c34cf80] main {}: ",
        "[0x7f5ff80009b8] main input {}: ",
        "main {}: ",
        "2023-09-12 22:24:06,375 (30400) | VLC | {} | main: ",
        "11-18 15:35:19.459: W/VLC(25593): core video output {}: ",
    ],
)
def test_prefixes_of_vlc(tmp_path, prefix):
    """VLC 2 and 3 on a desktop, in Python and on Android (vlcj #441 and #884, gridplayer #173, AndroidPlayerLibrary #9)."""
    warning, error, debug = (prefix.format(level) for level in ("warning", "error", "debug"))
    log = log_of(
        tmp_path,
        f"{debug}Stream buffering done (1004 ms in 350 ms)\n"
        f"{warning}picture is too late to be displayed (missing 271 ms)\n"
        f"{debug}picture might be displayed late (missing 9 ms)\n"
        f"{error}ES_OUT_SET_(GROUP_)PCR  is called too late (pts_delay increased to 1000 ms)\n"
        f"{error}ES_OUT_RESET_PCR called\n"
        f"{error}ES_OUT_SET_(GROUP_)PCR  is called too late (jitter of 49192 ms ignored)\n",
    )
    wanted = {"lost_pictures": 1, "late_pictures": 1, "rebuffers": 1, "ignored_jitters": 1}
    assert {name: log.counts[name] for name in wanted} == wanted
    assert log.clock == (
        "wall" if prefix.startswith("2023") else "own" if prefix.startswith("11") else "none"
    )


def test_vlc_s_adaptive_demuxer(tmp_path):
    """It lists the segments of each rendition (iptv #38987, Vlc-sdk-lib #39), and logs no switch.

    A switch is therefore a segment of another rendition than the one before. The second set is the sound.
    """
    host = "https://a.example"
    listed = "".join(
        f"adaptive debug: Representation {host}/{name}/index.m3u8?token=x\n"
        f"adaptive debug: Segment #0 url={host}/{name}/0.ts?token=x duration 4000000\n"
        f"adaptive debug: Segment #1 url={host}/{name}/1.ts?token=x stime 4000000 duration 3800000\n"
        for name in ("low", "high")
    )
    sound = (
        "adaptive debug: BaseAdaptationSet audio#1\n"
        f"adaptive debug: Representation {host}/sound/index.m3u8\n"
        f"adaptive debug: Segment #0 url={host}/sound/0.aac duration 4000000\n"
    )
    text = (
        f"adaptive debug: Period\nadaptive debug: BaseAdaptationSet default_id#0\n{listed}{sound}"
        f"adaptive debug: Retrieving {host}/low/0.ts?token=x @0\n"
        f"adaptive debug: Retrieving {host}/sound/0.aac @0\n"
        f"adaptive debug: Retrieving {host}/high/1.ts?token=y @0\n"
    )
    log = log_of(tmp_path, text)
    assert times(log, "chunks", "index", "rendition", "duration_s", "resource") == [
        (0, 0, 4.0, "low/0.ts"),
        (1, 1, 3.8, "high/1.ts"),
    ]
    assert len(log.tables["requests"]) == 3
    assert log.counts["switches"] == 1
    assert [row["name"] for row in log.tables["renditions"]] == [
        f"{host}/{n}/index.m3u8" for n in ("low", "high")
    ]


#: Reports of CMCD's event mode: the state starts at 0 s, plays from 1 s, rebuffers from 10 to 12.5 s, seeks at 20 s and
#: rebuffers for it, plays again, and ends at 60 s. The response came 250 ms after its request, and took 1 s in all.
_EVENTS = (
    'e=ps,sid="s",ts=1764295800000,sta=s,v=2',
    (
        'e=rr,sid="s",ts=1764295800100,ot=v,br=(1500),tb=(4000),d=4000,url="https://a.example/f/720p/0.m4s",rc=200,'
        "ttfb=250,ttlb=1000,bl=(0),v=2"
    ),
    'e=ps,sid="s",ts=1764295801000,sta=p,v=2',
    'e=t,sid="s",ts=1764295805000,sta=p,bl=(6000),v=2',
    'e=bc,sid="s",ts=1764295806000,br=(4000),v=2',
    'e=ps,sid="s",ts=1764295810000,sta=r,v=2',
    'e=ps,sid="s",ts=1764295812500,sta=p,v=2',
    'e=ps,sid="s",ts=1764295820000,sta=k,v=2',
    'e=ps,sid="s",ts=1764295820500,sta=r,v=2',
    'e=ps,sid="s",ts=1764295822000,sta=p,v=2',
    'e=ps,sid="s",ts=1764295860000,sta=e,v=2',
)


def _as_objects():
    """Return the reports as objects of JSON."""
    from anabranch.logs._cmcd_values import parsed

    return [parsed(one) for one in _EVENTS]


def _quoted(text):
    """Return a body as nginx writes it."""
    return text.replace('"', "\\x22").replace("\n", "\\x0A")


@pytest.mark.parametrize(
    "text",
    [
        "\n".join(_EVENTS),
        "\n".join(json.dumps(one) for one in _as_objects()),
        json.dumps(_as_objects()),
        "\n".join(
            json.dumps({"request": "POST /cmcd HTTP/1.1", "status": 204, "request_body": "\n".join(part)})
            for part in (_EVENTS[:6], _EVENTS[6:])
        ),
        "\n".join(
            '192.0.2.1 - - [28/Nov/2026:02:10:31 +0000] "POST /cmcd HTTP/1.1" 204 0 "-" "-" '
            f'"{_quoted(chr(10).join(part))}"'
            for part in (_EVENTS[:6], _EVENTS[6:])
        ),
        "\n".join(
            '192.0.2.1 - - [28/Nov/2026:02:10:31 +0000] "GET /c?CMCD='
            f"{one.replace(',', '%2C').replace('=', '%3D').replace(chr(34), '%22').replace('/', '%2F')} "
            'HTTP/1.1" 204 0 "-" "-"'
            for one in _EVENTS
        ),
    ],
    ids=["lines", "JSON lines", "JSON array", "bodies in JSON", "bodies in text", "queries"],
)
def test_cmcd_in_event_mode(tmp_path, text):
    """CTA-5004-B: reports by POST, one a line, or with their keys in a query; `ts` is the time of the event."""
    log = log_of(tmp_path, text)
    assert log.kind == "CMCD"
    assert times(log, "playback", "t_s", "event") == [
        (1.0, "start"),
        (6.0, "switch"),
        (10.0, "underflow"),
        (12.5, "resume"),
        (60.0, "end"),
    ]
    assert times(log, "requests", "t_s", "resource", "first_byte_s", "done_s") == [
        (pytest.approx(0.1), "f/720p/0.m4s", pytest.approx(0.35), pytest.approx(1.1))
    ]
    assert times(log, "renditions", "bandwidth_bps", "height") == [(1_500_000, 720), (4_000_000, None)]
    assert times(log, "player", "t_s", "buffer_s") == [(pytest.approx(0.1), 0.0), (5.0, 6.0)]
    assert log.counts == {"requests": 1, "events": 10, "stalls": 1}
    assert log.zero_unix_s == 1764295800.0
    run = anabranch.read_log(tmp_path / "a.log")
    assert (run.qoe["buffer_underflows"], run.qoe["rebuffer_s"], run.qoe["startup_delay_s"]) == (1, 2.5, 1.0)
    run.report(tmp_path / "a.html")
    assert "10 reports of events" in (tmp_path / "a.html").read_text(encoding="utf-8")


def test_requests_are_preferred_to_reports_of_their_responses(tmp_path):
    rows = [
        {"t_s": 1764295800.1, "resource": "f/0.m4s", "cmcd": {"ot": "v", "br": 1500, "d": 4000, "sid": "s"}},
        *_as_objects(),
    ]
    log = log_of(tmp_path, "\n".join(json.dumps(row) for row in rows))
    assert times(log, "requests", "resource") == [("f/0.m4s",)]
    assert log.counts["events"] == 11


def test_times_of_two_clocks_are_refused(tmp_path):
    text = "5.000 main debug: Stream buffering done (1 ms in 1 ms)\n1764295800.5 main error: ES_OUT_SET_(GROUP_)PCR is called too late\n"
    with pytest.raises(anabranch.errors.InputError, match="days apart"):
        log_of(tmp_path, text)

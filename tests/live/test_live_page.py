"""The page of a run over real packets: what it tells agrees with the trace, and a browser shows it moving."""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
import sys
import threading
import urllib.request
from pathlib import Path

import pytest

from anabranch.live import page, run_live
from anabranch.scenario.load import load

sys.path.insert(0, str(Path(__file__).parents[1] / "python"))
import browser

FILM = {
    "name": "two",
    "application": {"film": "demo", "duration": "7 s"},
    "paths": [
        {"name": "wifi", "rtt": "20 ms", "rate": "3 Mbit/s", "queue": "50 packets"},
        {"name": "lte", "rtt": "40 ms", "rate": "2 Mbit/s", "queue": "50 packets"},
    ],
    # The film is shown from about 2 s on, with a second or so in the buffer, and then starves.
    "events": [{"at": "3 s", "path": path, "rate": "200 kbit/s"} for path in ("wifi", "lte")],
}


def events(url):
    """Yield the page's events as they arrive, until its program ends."""
    with urllib.request.urlopen(f"{url}events") as stream:
        for line in stream:
            if line.startswith(b"data: "):
                yield json.loads(line.removeprefix(b"data: "))


class Listener(threading.Thread):
    """Hears all that a page tells, while a run has this process."""

    def __init__(self, url):
        super().__init__(daemon=True)
        self.url, self.told = url, []

    def run(self):
        for told in events(self.url):
            self.told.append(told)


def watched(given, **more):
    """Return a run, and its page's events while it ran."""
    with page.served() as shown:
        listener = Listener(shown.url)
        listener.start()
        run = run_live(load(given), watch=shown, **more)
    listener.join()
    assert listener.told[-1]["over"] == "done"
    assert listener.told[-1]["ended"]
    return run, listener.told


def test_live_reports_agree_with_the_final_trace():
    run, told = watched(FILM)
    running = [moment for one in told if one["over"] is None for moment in one["moments"]]
    # Or the event came at the end.
    assert len([one for one in told if one["over"] is None and one["moments"]]) > 10
    flowing = [moment for moment in running if all(path["throughput_mbps"] for path in moment["paths"])]
    assert len(flowing) > 20
    for moment in flowing:
        assert sum(path["share"] for path in moment["paths"]) == pytest.approx(1)
        assert sum(path["share_so_far"] for path in moment["paths"]) == pytest.approx(1)
    # No link carries more than its rate. Within a second, one more packet may leave the queue.
    assert max(moment["paths"][1]["throughput_mbps"] for moment in running if moment["t_s"] > 1) < 2.1
    assert max(moment["paths"][0]["queue_packets"] for moment in running) in range(5, 52)
    assert all(path["srtt_ms"] >= 20 for moment in flowing for path in moment["paths"] if path["srtt_ms"])

    last = [moment for one in told for moment in one["moments"]][-1]
    links = {row["link"]: row["bytes_delivered"] for row in run.rows("links")}
    assert [path["bytes"] for path in last["paths"]] == [links["wifi.down"], links["lte.down"]]
    # The player asks over several connections, each with its subflows.
    subflows = run.rows("subflows")
    acked = [sum(row["bytes"] for row in subflows if row["path"] == path) for path in ("wifi", "lte")]
    assert [path["bytes_acked"] for path in last["paths"]] == acked
    assert last["bytes_read"] == run.rows("connections")[0]["bytes_read"]
    assert last["t_s"] == pytest.approx(run.summary["duration_s"], abs=0.1)
    assert run.qoe["picture_discards"] + run.qoe["buffer_underflows"] > 0
    assert last["player"]["discards"] == run.qoe["picture_discards"]
    assert last["player"]["underflows"] == run.qoe["buffer_underflows"]

    # The windows are those of the table, which is written at its own moments.
    sampled = {(row["path"], row["cwnd_segments"]) for row in run.rows("samples")}
    seen = [(("wifi", "lte")[n], moment["paths"][n]["cwnd_segments"]) for moment in running for n in (0, 1)]
    seen = [one for one in seen if one[1] is not None]
    assert len([one for one in seen if one in sampled]) > len(seen) / 2


@pytest.mark.slow
@pytest.mark.parametrize("server", ["gateway", "kernel"])
def test_vlcs_buffer_and_lost_pictures_are_shown_while_it_plays(server):
    from anabranch.live.viewers import VIEWERS, origin

    lacks = VIEWERS["vlc"].lacks() or origin.lacks() or origin.lacks_mptcp()
    if lacks is not None:
        pytest.skip(lacks)
    # VLC needs longer to begin than our player, and runs dry later.
    events = [{**event, "at": "7 s"} for event in FILM["events"]]
    given = {**FILM, "application": {"film": "demo", "duration": "13 s"}, "events": events}
    run, told = watched(given, viewer="vlc", server=server)
    players = [moment["player"] for one in told for moment in one["moments"]]
    assert len({player["buffer_s"] for player in players}) > 10
    assert max(player["buffer_s"] for player in players) > 0.5
    positions = [player["position_s"] for player in players]
    assert positions == sorted(positions)
    assert positions[-1] > 0.5
    # Changes after the last moment are in the trace alone.
    assert run.qoe["buffer_underflows"] - 1 <= players[-1]["underflows"] <= run.qoe["buffer_underflows"]
    assert 0 <= players[-1]["discards"] <= run.qoe["picture_discards"]


@pytest.mark.slow
def test_a_kernel_that_serves_reports_its_windows_and_round_trips():
    given = {**FILM, "application": {"kind": "bulk", "duration": "2 s"}, "events": []}
    _, told = watched(given, server="kernel", client="anabranch")
    moments = [moment for one in told for moment in one["moments"]]
    assert max(moment["paths"][0]["throughput_mbps"] or 0 for moment in moments) > 1
    windows = [path["cwnd_segments"] for moment in moments for path in moment["paths"]]
    # Linux begins with ten segments (RFC 6928), and grows in the first round trips.
    assert max(window or 0 for window in windows) >= 10
    # The round trip of path wifi has 20 ms.
    assert all(moment["paths"][0]["srtt_ms"] >= 20 for moment in moments if moment["paths"][0]["srtt_ms"])
    assert {moment["player"] is None for moment in moments} == {True}


class Raises:
    """A reader of a run who stops after a while."""

    url = ""

    def __init__(self, after):
        self.after, self.called = after, 0

    def following(self, *_given, **_more):
        return self

    def __enter__(self):
        return self

    def __exit__(self, *_):
        return None

    def __call__(self, _moment):
        self.called += 1
        if self.called == self.after:
            raise ZeroDivisionError


def test_exception_in_the_watch_callback_stops_the_run():
    given = {**FILM, "application": {"kind": "bulk", "duration": "60 s"}, "events": []}
    raises, heard = Raises(3), []
    with pytest.raises(ZeroDivisionError):
        run_live(load(given), watch=raises, progress=lambda done_s, _: heard.append(done_s))
    # The function is not called again once it has raised, and sixty seconds have not passed.
    assert raises.called == 3
    assert len(heard) == 2
    assert heard[-1] < 5


def test_watch_prints_its_url_and_streams_the_end():
    words = (
        "live",
        "wifi-lte",
        "--application",
        "bulk",
        "--set",
        "application.duration=2s",
        "--json",
        "--watch",
    )
    with subprocess.Popen(
        [sys.executable, "-m", "anabranch", *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as program:
        url = re.fullmatch(r"watch it at (http://127\.0\.0\.1:\d+/)\n", program.stderr.readline()).group(1)
        told = list(events(url))
        out, _ = program.communicate()
    assert program.returncode == 0
    assert json.loads(out)["world"] == "live"
    assert told[0]["over"] is None
    assert told[-1]["over"] == "done"
    assert told[-1]["run"]["paths"] == ["wifi", "lte"]


def test_the_command_refuses_an_address_that_others_reach():
    words = ("live", "wifi-lte", "--application", "bulky", "--watch-at", "0.0.0.0:8000")
    done = subprocess.run(
        [sys.executable, "-m", "anabranch", *words], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert "not an address on loopback: 0.0.0.0 (--watch-at)" in done.stderr
    # All at once.
    assert "did you mean `bulk`" in done.stderr


@pytest.mark.slow
def test_watch_needs_root():
    words = ("live", "wifi-lte", "--application", "bulk", "--watch")
    done = subprocess.run(
        [sys.executable, "-m", "anabranch", *words],
        env={**os.environ, "ANABRANCH_ROOTLESS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 4
    assert "--watch needs root" in done.stderr


#: The visible values of the page: its state, the first tile, and each path's cells.
SHOWN = """[document.getElementById('state').textContent,
    ...[...document.querySelectorAll('#paths tr:not(.head)')].map(row => [...row.cells].map(c => c.textContent).join(' '))]"""
#: Panels that are seen, and how many points their curves have.
DRAWN = """Object.fromEntries([...document.querySelectorAll('.panel')].filter(p => p.checkVisibility()).map(p =>
    [p.id, [...p.querySelectorAll('.line, .area, .share')].reduce((n, c) => n + c.getAttribute('points').split(' ').length, 0)]))"""


@pytest.mark.slow
@pytest.mark.skipif(browser.found() is None, reason="no Chromium: the live page is not opened in one")
def test_a_browser_shows_it_move_and_keeps_the_end(tmp_path):
    async def look(made, shown, run):
        await made.open(shown.url, width=1280)
        waits = await made.value(SHOWN)
        run.start()
        seen, drawn = [], []
        # A page that stands still is not looked at for ever.
        while not seen or ("is over" not in seen[-1][0] and len(seen) < 300):
            await asyncio.sleep(0.2)
            seen.append(await made.value(SHOWN))
            drawn.append(await made.value(DRAWN))
        assert "is over" in seen[-1][0]
        # A reload, on a phone and in the dark.
        after = []
        for width, dark in ((1280, False), (390, True)):
            await made.open(shown.url, width=width, dark=dark)
            for _ in range(100):
                if "is over" in (await made.value(SHOWN))[0]:
                    break
                await asyncio.sleep(0.1)
            assert await made.value("document.documentElement.scrollWidth") <= width
            ground = await made.value("getComputedStyle(document.body).backgroundColor")
            assert (sum(map(int, re.findall(r"\d+", ground)[:3])) < 3 * 128) == dark
            after.append((await made.value(SHOWN), await made.value(DRAWN)))
        return waits, seen, drawn, after, made.errors, made.requests

    with page.served() as shown:
        run = threading.Thread(target=lambda: run_live(load(FILM), watch=shown))
        found = browser.in_page(tmp_path / "browser", lambda made: look(made, shown, run))
        run.join()
    waits, seen, drawn, after, errors, requests = found
    assert errors == []
    assert set(requests) <= {shown.url, f"{shown.url}events", "data:,"}
    assert waits == ["Waiting for the run."]
    running = [one for one in seen if one[0].startswith("Running")]
    # States and the numbers of both paths move.
    for place in range(3):
        assert len({one[place] for one in running}) > 5
    wanted = {
        f"panel-{name}" for name in ("throughput", "share", "cwnd", "srtt", "queue", "buffer", "discards")
    }
    assert set(drawn[-1]) == wanted
    for name in wanted:
        assert len({one[name] for one in drawn if name in one}) > 5
    for shows, draws in after:
        assert shows == seen[-1]
        assert draws == drawn[-1]

"""Failures while a viewer watches: their evidence, their effect on the viewer, and that nothing is left."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from anabranch.live import run_live
from anabranch.live.viewers import VIEWERS, origin
from anabranch.scenario.load import load

PATHS = [
    {"name": "wifi", "rtt": "20 ms", "rate": "8 Mbit/s", "queue": "100 packets"},
    {"name": "lte", "rtt": "40 ms", "rate": "8 Mbit/s", "queue": "100 packets"},
]
FILM = {"name": "faulty", "application": {"film": "demo", "duration": "9 s"}, "paths": PATHS}
SCENARIO = """
name = "faulty"
[application]
film = "demo"
duration = "40 s"
[[paths]]
name = "wifi"
rtt = "20 ms"
rate = "8 Mbit/s"
[[paths]]
name = "lte"
rtt = "40 ms"
rate = "8 Mbit/s"
"""
BULK = ("live", "bulk-two-paths", "--set", "application.bytes=100kB", "--json")


@pytest.fixture(autouse=True)
def vlc():
    lacks = VIEWERS["vlc"].lacks() or origin.lacks() or origin.lacks_mptcp()
    if lacks is not None:
        pytest.skip(lacks)


def programs(*words):
    """Return the processes whose command has these words in it."""
    found = []
    for place in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            told = place.read_bytes()
        except OSError:
            continue
        if all(word.encode() in told for word in words):
            found.append(int(place.parts[2]))
    return found


def children(process):
    """Return the processes that a process has started, and what those have."""
    found = []
    for place in Path(f"/proc/{process}/task").glob("*/children"):
        for child in map(int, place.read_text().split()):
            found += [child, *children(child)]
    return found


def left_behind(process):
    """Return what a process' run has left: namespaces, folders, and programs that know these."""
    folders = list(Path(tempfile.gettempdir()).glob(f"anabranch-*-{process}-*"))
    return [
        *Path("/run/netns").glob(f"anabranch-{process}-*"),
        *folders,
        *programs(f"anabranch-origin-{process}-"),
        *programs(f"anabranch-viewer-{process}-"),
    ]


def acked(run, path):
    """Return what was acknowledged on a path by when: its connections' subflows together."""
    latest, found = {}, []
    for row in run.rows("samples"):
        if row["path"] == path:
            latest[row["client"], row["subflow"]] = row["bytes_acked"]
            found.append((row["t_s"], sum(latest.values())))
    return found


def by(curve, t_s):
    """Return the last value of a curve by a time."""
    return max((value for at, value in curve if at <= t_s), default=0)


def watched_well(run):
    """Make sure that the viewer noticed nothing."""
    assert run.qoe["buffer_underflows"] == 0
    assert run.rows("connections")[0]["finished"]
    # Three seconds of pictures after the fault at 3 s, though a busy machine may begin late.
    assert run.qoe["frames"]["displayed"] > 120
    assert left_behind(os.getpid()) == []


@pytest.mark.slow
@pytest.mark.parametrize("state", ["link-down", "down"])
def test_a_path_that_is_cut_or_a_black_hole_leaves_the_film_to_the_other(state):
    events = [{"at": "3 s", "path": "lte", "state": state}]
    # Slow enough that the film is still coming in when the fault comes.
    slow = [{**path, "rate": "6 Mbit/s"} for path in PATHS]
    run = run_live(load({**FILM, "paths": slow, "events": events}), viewer="vlc")
    lte, wifi = acked(run, "lte"), acked(run, "wifi")
    assert by(lte, 3.0) > 500_000, "it carried before"
    # Data on its way at 3 s, 40 ms, is acknowledged at most.
    assert lte[-1][1] == by(lte, 3.3)
    assert wifi[-1][1] > by(wifi, 3.3) + 1_000_000, "the other goes on"
    if state == "down":
        assert next(row for row in run.rows("links") if row["link"] == "lte.down")["dropped_down"] > 0
    watched_well(run)


@pytest.mark.slow
def test_a_path_that_flaps_once_a_second_is_used_again_and_again():
    states = [("link-down", 0.0), ("up", 0.5)]
    flaps = [(state, 2 + second + part) for second in range(6) for state, part in states]
    events = [{"at": f"{at:g} s", "path": "lte", "state": state} for state, at in flaps]
    run = run_live(load({**FILM, "events": events}), viewer="vlc")
    lte = acked(run, "lte")
    assert by(lte, 2.0) > 200_000
    # While it is down nothing is acknowledged.
    for second in range(2, 8):
        assert by(lte, second + 0.45) == by(lte, second + 0.2)
    assert lte[-1][1] > by(lte, 2.2), "it carried between"
    watched_well(run)


@pytest.mark.slow
def test_a_viewer_that_vanishes_ends_the_run_and_is_reported():
    killed = []

    def kill(done_s, _total_s):
        if done_s > 4 and not killed:
            killed.extend(pid for pid in children(os.getpid()) if pid in programs("vlc_program"))
            for process in killed:
                os.kill(process, signal.SIGKILL)

    given = {**FILM, "application": {"film": "demo", "duration": "40 s"}}
    run = run_live(load(given), viewer="vlc", progress=kill)
    assert killed
    # A look every tenth of a second, and the ends of connections.
    assert 4 < run.summary["duration_s"] < 6
    assert not run.rows("connections")[0]["finished"]
    assert run.rows("frames")
    assert "VLC was killed during the run (SIGKILL)." in run.notes
    assert left_behind(os.getpid()) == []


@pytest.mark.slow
def test_an_origin_that_is_killed_is_reported():
    killed = []

    def kill(done_s, _total_s):
        if done_s > 3 and not killed:
            masters = programs(f"anabranch-origin-{os.getpid()}-")
            killed.extend([*masters, *(child for master in masters for child in children(master))])
            for process in killed:
                os.kill(process, signal.SIGKILL)

    given = {**FILM, "application": {"film": "demo", "duration": "40 s"}}
    run = run_live(load(given), viewer="vlc", progress=kill)
    assert killed
    assert "nginx, which served it, was killed during the run (SIGKILL)." in run.notes
    assert run.summary["duration_s"] < 30
    assert left_behind(os.getpid()) == []


@pytest.fixture
def full(tmp_path):
    """Return a folder on a disk of 512 KiB."""
    folder = tmp_path / "full"
    folder.mkdir()
    made = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=512k", "tmpfs", str(folder)], capture_output=True, check=False
    )
    if made.returncode:
        pytest.skip(f"no disk of its own: {made.stderr.decode().strip()}")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def command(*words):
    return [sys.executable, "-m", "anabranch", *words]


def film(tmp_path):
    """Return the words that play a film of 40 s, a capture of it beside."""
    file = tmp_path / "faulty.toml"
    file.write_text(SCENARIO, encoding="ascii")
    return ("live", str(file), "--application", "vlc", "--json")


@pytest.mark.slow
def test_a_disk_that_is_full_ends_the_run_with_a_sentence_and_no_half_capture(tmp_path, full):
    words = command(*film(tmp_path), "--pcapng", str(full / "capture.pcapng"))
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as program:
        # A busy machine takes long to start the program: the time of the film begins with the viewer.
        began = time.monotonic()
        while program.poll() is None and time.monotonic() < began + 60:
            if any(pid in programs("vlc_program") for pid in children(program.pid)):
                break
            time.sleep(0.05)
        began = time.monotonic()
        out, said = program.communicate(timeout=120)
    assert program.returncode == 4, said
    assert "No space left on device" in said
    assert "is the disk full?" in said
    assert out == ""
    # A film of 40 s: it ended with the disk, of which 8 Mb/s fill half a megabyte in a second.
    assert time.monotonic() - began < 40
    assert list(full.iterdir()) == []
    assert left_behind(program.pid) == []


class Playing:
    """A command that plays, as far as its viewer reads."""

    def __init__(self, words):
        self.program = subprocess.Popen(
            command(*words), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        until = time.monotonic() + 60
        self.viewers = []
        while not self.viewers and time.monotonic() < until:
            time.sleep(0.1)
            self.viewers = [pid for pid in children(self.program.pid) if pid in programs("vlc_program")]
        self.nginx = programs(f"anabranch-origin-{self.program.pid}-")
        time.sleep(3)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.program.kill()
        self.program.communicate()


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_all_of_it(tmp_path, number):
    capture = tmp_path / "capture.pcapng"
    with Playing((*film(tmp_path), "--pcapng", str(capture))) as playing:
        assert playing.viewers
        assert playing.nginx
        playing.program.send_signal(number)
        _, said = playing.program.communicate(timeout=30)
        assert playing.program.returncode == (130 if number == signal.SIGINT else 143), said
        assert left_behind(playing.program.pid) == []
        assert not set(playing.viewers) & set(programs("vlc_program"))
        assert list(tmp_path.glob("capture*")) == [], "no half of a capture stands for a whole one"


@pytest.mark.slow
def test_after_a_kill_the_next_run_clears_up(tmp_path):
    with Playing(film(tmp_path)) as playing:
        process = playing.program.pid
        playing.program.kill()
        playing.program.wait()
        # Namespaces, and the folders of VLC and nginx: until another run clears up, which may be another process'.
        assert left_behind(process)
        assert playing.viewers
        assert playing.nginx
        # VLC ends with its input, nginx with its parent.
        until = time.monotonic() + 10
        while {*playing.viewers, *playing.nginx} & {*programs("vlc_program"), *programs("nginx")}:
            assert time.monotonic() < until
            time.sleep(0.1)
    done = subprocess.run(command(*BULK), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["world"] == "live"
    assert left_behind(process) == []

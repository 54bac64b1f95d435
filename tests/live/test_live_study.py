"""A study over real packets: both worlds into one folder, on from where it was, and nothing left by an interrupt."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from anabranch.live.viewers import VIEWERS, origin
from anabranch.results import store
from anabranch.study.stored import open_run

STUDY = """
title = "One path and two"
source = "none"
question = "Does the second carry anything?"

[[parts]]
scenarios = ["two"]
"""
SCENARIO = """
name = "two"
[application]
film = "demo"
duration = "5 s"
[[paths]]
name = "wifi"
rtt = "20 ms"
rate = "6 Mbit/s"
[[paths]]
name = "lte"
rtt = "40 ms"
rate = "6 Mbit/s"
"""
LIVE = """
question = "?"
viewer = "vlc"
trials = 1
[[arms]]
name = "ours"
row = "two"
[[arms]]
name = "kernel"
row = "two"
server = "kernel"
set = { "transport.congestion" = "cubic" }
"""


@pytest.fixture
def study(tmp_path):
    lacks = VIEWERS["vlc"].lacks() or origin.lacks() or origin.lacks_mptcp()
    if lacks is not None:
        pytest.skip(lacks)
    folder = tmp_path / "one"
    folder.mkdir()
    for name, text in (("study", STUDY), ("two", SCENARIO), ("live", LIVE)):
        (folder / f"{name}.toml").write_text(text)
    return folder


def command(study, *options):
    return [sys.executable, "-m", "anabranch", "study", "live", str(study), "--out", "results", *options]


def left_behind(process):
    """Return the namespaces and programs of a process' runs that are still there."""
    spaces = [path.name for path in Path("/run/netns").glob("anabranch-*")]
    programs = [place.name for place in Path("/proc").glob("[0-9]*") if place.name in process]
    return [*(name for name in spaces if name.split("-")[1] in process), *programs]


def test_both_worlds_are_run_compared_and_kept(study, tmp_path):
    done = subprocess.run(
        command(study, "--json", "--docs", "docs"), cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "4 runs, 0 were there already" in done.stderr
    told = {(one["arm"], one["metric"]): one for one in json.loads(done.stdout)}
    for arm in ("ours", "kernel"):
        assert told[arm, "startup_delay_s"]["verdict"] in ("inside", "apart")
        assert 0.2 < told[arm, "startup_delay_s"]["viewer"][0] < 5
        assert told[arm, "goodput_mbps"]["viewer"][0] > 2
    rows = list(store.stored(tmp_path / "results", "runs"))
    live = next(row for row in rows if row["world"] == "live" and row["arm"] == "ours")
    assert min(live["bytes_wifi"], live["bytes_lte"]) > 100_000, "both paths carry"
    assert live["late.p99_ms"] > 0
    assert open_run(tmp_path / "results", live["identity"]).summary["world"] == "live"
    assert (tmp_path / "docs" / "one-2.html").stat().st_size < 300_000
    assert "the kernel" in (tmp_path / "docs" / "one.md").read_text()

    again = subprocess.run(command(study), cwd=tmp_path, capture_output=True, text=True, check=True)
    assert "0 runs, 4 were there already" in again.stderr


def test_an_interrupt_leaves_nothing_and_keeps_what_is_done(study, tmp_path):
    (study / "two.toml").write_text(SCENARIO.replace("5 s", "40 s"))
    process = subprocess.Popen(command(study), cwd=tmp_path, stderr=subprocess.PIPE, text=True)
    children = Path(f"/proc/{process.pid}/task")
    running: set[str] = set()
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        spaces = {path.name.split("-")[1] for path in Path("/run/netns").glob("anabranch-*-client")}
        found = {word for one in children.glob("*/children") for word in one.read_text().split()}
        running = spaces & found
        if len(running) >= 2 and len(list(store.stored(tmp_path / "results", "runs"))) >= 2:
            break
        time.sleep(0.2)
    assert running, "runs were under way"
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "repeat the command to go on" in said
    assert left_behind(running) == []
    worlds = {row["world"] for row in store.stored(tmp_path / "results", "runs")}
    assert worlds == {"simulator"}, "what was done is kept"

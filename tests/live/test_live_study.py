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
from anabranch.results.read import rows as rows_of
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


@pytest.mark.slow
def test_both_worlds_are_run_compared_and_kept(study, tmp_path):
    done = subprocess.run(
        command(study, "--json", "--docs", "docs"), cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "2 runs, 0 were there already" in done.stderr
    rows = rows_of(tmp_path / "results").to_dicts()
    assert {row["arm"]: row["scenario"] for row in rows} == {"ours": "two", "kernel": "two"}
    live = next(row for row in rows if row["arm"] == "ours")
    assert min(live["bytes_wifi"], live["bytes_lte"]) > 100_000, "both paths carry"
    assert live["late.p99_ms"] > 0
    assert open_run(tmp_path / "results", live["identity"]).summary["world"] == "live"
    again = subprocess.run(command(study), cwd=tmp_path, capture_output=True, text=True, check=True)
    assert "0 runs, 2 were there already" in again.stderr

    if void := [row["arm"] for row in rows if row["void"]]:
        pytest.skip(f"the machine is busy: packets came so late that nothing is told of {', '.join(void)}")
    assert (tmp_path / "docs" / "one-2.html").stat().st_size < 300_000
    assert "the kernel" in (tmp_path / "docs" / "one.md").read_text()
    told = {(one["arm"], one["metric"]): one for one in json.loads(done.stdout)}
    for arm in ("ours", "kernel"):
        assert told[arm, "startup_delay_s"]["verdict"] in ("inside", "apart")
        assert 0.2 < told[arm, "startup_delay_s"]["viewer"][0] < 5
        assert told[arm, "goodput_mbps"]["viewer"][0] > 2


@pytest.mark.slow
def test_interrupt_cleans_up_and_keeps_finished_runs(study, tmp_path):
    done = subprocess.run(command(study, "--only", "ours"), cwd=tmp_path, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    process = subprocess.Popen(
        command(study, "--only", "ours", "--trials", "3"), cwd=tmp_path, stderr=subprocess.PIPE, text=True
    )
    running: set[str] = set()
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline and len(running) < 2:
        spaces = {path.name.split("-")[1] for path in Path("/run/netns").glob("anabranch-*-client")}
        tasks = Path(f"/proc/{process.pid}/task").glob("*/children")
        running = spaces & {word for one in tasks for word in one.read_text().split()}
        time.sleep(0.1)
    assert len(running) == 2, "two runs were under way"
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "repeat the command to go on" in said
    assert left_behind(running) == []
    assert [row["run"] for row in rows_of(tmp_path / "results").to_dicts()] == [0], "what was done is kept"

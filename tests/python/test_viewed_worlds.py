"""Live studies whose arms run in several worlds, and their recorded runs, without any packet."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from anabranch.errors import InputError
from anabranch.live import testbed
from anabranch.live.viewers import origin
from anabranch.results.store import Store
from anabranch.study import sweep as sweeps
from anabranch.viewed import compare, lines, make, page, read, record
from anabranch.viewed import stored as results

STUDY = """
title = "t"
source = "none"
question = "?"
[[parts]]
scenarios = ["one", "two"]
"""
SCENARIO = """
name = "{name}"
[application]
kind = "{kind}"
{what}
duration = "5 s"
[[paths]]
name = "p1"
rtt = "20 ms"
rate = "6 Mbit/s"
"""
LIVE = """
question = "?"
viewer = "vlc"
trials = 2
client = "stock"
[[worlds]]
row = "one"
[[worlds]]
row = "two"
viewer = "hlsjs"
[[arms]]
name = "kernel"
server = "kernel"
[[arms]]
name = "ours"
set = { "transport.rto_max" = "1 s" }
"""
ROUND = [("one", "kernel"), ("one", "ours"), ("two", "kernel"), ("two", "ours")]


@pytest.fixture
def folder(tmp_path):
    folder = tmp_path / "study"
    folder.mkdir()
    (folder / "study.toml").write_text(STUDY)
    one = SCENARIO.format(name="one", kind="progressive", what='film = "papers-film"')
    two = SCENARIO.format(name="two", kind="adaptive", what='ladder = "uq18-va"')
    (folder / "one.toml").write_text(one)
    (folder / "two.toml").write_text(two)
    (folder / "live.toml").write_text(LIVE)
    return folder


def stored(at, what, rows):
    """Write rows to a folder of results as a live study does."""
    with Store(at, {**sweeps.manifest(what), "code": ""}).writing() as journal:
        for place, (cell, run, more) in enumerate(rows):
            head = {**dict(cell.labels), "identity": f"i{place}", "cell": cell.name, "run": run}
            head |= {"scenario": cell.scenario, "scheduler": "linux", "congestion": "cubic", "seed": 1}
            late = {"late.p99_ms": 0.25, "late.max_ms": 9.0, "voids": 0, "void": False}
            journal.add({"runs": [{**head, **late, **more}], "subflows": []}, {})


@pytest.mark.module
def test_every_arm_runs_in_every_world_with_the_worlds_viewer(folder):
    found = read.read(folder)
    what = read.sweep(folder, found)
    tasks = make._tasks(found, what, live=True)
    done = [(*dict(task.job.cell.labels).values(), task.job.run) for task in tasks]
    assert done == [(*one, run) for run in range(2) for one in ROUND]
    assert [task.viewer for task in tasks[:4]] == ["vlc", "vlc", "hlsjs", "hlsjs"]
    assert [task.server for task in tasks[:4]] == ["kernel", "gateway"] * 2
    assert {task.client for task in tasks} == {"stock"}
    assert [found.case_of(dict(cell.labels)) for cell in what.cells] == found.cases()
    settings = [{key: value for key, value, _ in cell.settings} for cell in what.cells]
    assert [one.get("transport.rto_max") for one in settings] == [None, "1 s"] * 2


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('name = "ours"', 'name = "ours"\nrow = "one"', "every arm runs in the worlds: `one`"),
        ('row = "two"', 'row = "one"', "another world has this name: `one`"),
        ('row = "two"', 'row = "tow"', "no such scenario: `tow`"),
        ('"hlsjs"', '"hlsj"', "no such viewer: `hlsj`"),
        ('[[worlds]]\nrow = "one"\n[[worlds]]\nrow = "two"\nviewer = "hlsjs"\n', "", "no scenario: `kernel`"),
    ],
)
def test_faults_of_worlds(folder, old, new, message):
    file = folder / "live.toml"
    file.write_text(file.read_text().replace(old, new, 1))
    with pytest.raises(InputError, match=message):
        read.read(folder)


@pytest.mark.module
def test_a_kernels_runs_with_and_without_nopush_are_not_the_same(folder):
    file = folder / "live.toml"
    file.write_text(
        f'{LIVE}[[arms]]\nname = "corked"\nserver = "kernel"\ntcp_nopush = true\n', encoding="utf-8"
    )
    found = read.read(folder)
    tasks = make._tasks(found, read.sweep(folder, found), live=True)
    assert [task.tcp_nopush for task in tasks[:3]] == [False, False, True]
    # Runs stored before the key existed all had it, and count for it alone.
    assert [make._world(case) for case in found.cases()[:3]] == [
        "kernel vlc stock without tcp_nopush",
        "gateway vlc stock",
        "kernel vlc stock",
    ]


@pytest.mark.parametrize(("given", "directive"), [(False, "tcp_nopush off;"), (True, "tcp_nopush on;")])
def test_nginx_sets_tcp_nopush_only_if_configured(tmp_path, given, directive):
    assert directive in origin._text(tmp_path, None, tcp_nopush=given)


def test_a_stock_client_has_no_timeouts_of_the_plan():
    transport = {"rto_max_ns": 10**9, "retries": 255, "mss": 1460}
    plan = {"paths": [], "transport": transport}
    assert testbed._stock(plan) == {"paths": [], "transport": {"mss": 1460}}
    assert testbed.timeouts(testbed._stock(plan)["transport"]) == {}
    assert transport["retries"] == 255, "the server has them"


@pytest.mark.module
def test_recorded_runs_count_as_done_and_are_compared(folder, tmp_path, monkeypatch):
    found = read.read(folder)
    what = read.sweep(folder, found)
    kernel, ours = what.cells[:2]
    at = tmp_path / "results"
    rows = [(kernel, 0, {"still_s": 1.5, "bytes_p1": 7}), (ours, 0, {"still_s": 0.0})]
    stored(at, what, [*rows, (ours, 1, {"still_s": 9.0, "void": True, "voids": 3})])
    assert record.write(folder, found, at) == 2, "a void run is not recorded"

    known = record.read(folder, what)
    assert [(one["row"], one["arm"], one["run"], one["still_s"]) for one in known] == [
        ("one", "kernel", 0, 1.5),
        ("one", "ours", 0, 0.0),
    ]
    assert (known[0]["bytes_p1"], known[1]["bytes_p1"]) == (7, None)
    assert record.missing(known, results.runs(at)) == []
    assert record.missing(known, results.runs(tmp_path / "elsewhere")) == known

    asked = []
    monkeypatch.setattr(make._Runners, "results", lambda _self, tasks: asked.extend(tasks) or iter(()))
    done = make.make(
        tmp_path / "elsewhere",
        found,
        what,
        workers=1,
        progress=lambda *_: None,
        recorded={(one["cell"], one["run"]) for one in known},
    )
    assert (done.total, done.before) == (8, 2)
    assert [(*dict(task.job.cell.labels).values(), task.job.run) for task in asked] == [
        *((*one, 0) for one in ROUND[2:]),
        *((*one, 1) for one in ROUND),
    ]

    simulated = [{"row": "one", "arm": arm, "still_s": 1.0} for arm in ("kernel", "ours")]
    compared = compare.compare(tmp_path / "nowhere", found, simulated, known)
    assert {(one.arm, one.apart) for one in compared.differences} == {
        ("one: kernel", -0.5),
        ("one: ours", 1.0),
    }
    with pytest.raises(InputError):
        compare.compare(tmp_path / "nowhere", found, simulated)
    text = page.page("X", found, compared, {})
    assert "VLC or hls.js plays" in text
    assert "### one\n\n| | kernel | ours |" in text

    # A run elsewhere adds to the recorded ones.
    other = tmp_path / "other"
    stored(other, what, [(kernel, 1, {"still_s": 2.5})])
    assert record.write(folder, found, other) == 3
    assert [one["still_s"] for one in record.read(folder, what)] == [1.5, 2.5, 0.0]

    # Recorded runs of a scenario that was edited are of another world.
    scenario = folder / "one.toml"
    scenario.write_text(scenario.read_text().replace("20 ms", "30 ms"))
    assert record.read(folder, read.sweep(folder, found)) == []


@pytest.mark.module
def test_a_part_of_a_study_keeps_the_recorded_runs_of_the_rest(folder, tmp_path):
    found = read.read(folder)
    what = read.sweep(folder, found)
    kernel, ours = what.cells[:2]
    first, part, old = (tmp_path / name for name in ("first", "part", "old"))
    stored(first, what, [(kernel, 1, {"still_s": 1.5}), (ours, 0, {"still_s": 2.5})])
    assert record.write(folder, found, first) == 2

    # As with `--only ours --trials 1`, whose one run is void here.
    only = read.sweep(folder, found, trials=1, only=["ours"])
    stored(part, only, [(ours, 0, {"still_s": 9.0, "void": True, "voids": 3})])
    assert record.write(folder, found, part) == 2
    known = record.read(folder, what)
    assert [(one["arm"], one["run"], one["still_s"]) for one in known] == [
        ("kernel", 1, 1.5),
        ("ours", 0, 2.5),
    ]
    assert record.missing(known, results.runs(part)) == known

    # Results of settings that the study no longer has are not recorded.
    stored(old, what, [(ours, 1, {"still_s": 4.5})])
    file = folder / "live.toml"
    file.write_text(file.read_text().replace('"1 s"', '"2 s"'))
    assert record.write(folder, read.read(folder), old) == 1


def test_a_run_has_the_share_of_the_processor_of_the_command(tmp_path):
    group = Path("/proc/self/autogroup")
    if not group.exists():
        pytest.skip("this kernel has no autogroups")
    # In a separate session, whose share is lowered; this needs no privilege.
    text = """
import subprocess, sys
from pathlib import Path
from anabranch.viewed import make
Path("/proc/self/autogroup").write_text("5")
child = subprocess.Popen(["sleep", "60"], start_new_session=True)
make._same_share(child.pid)
print(Path(f"/proc/{child.pid}/autogroup").read_text().split()[-1])
child.kill()
"""
    done = subprocess.run(
        [sys.executable, "-c", text], capture_output=True, text=True, check=True, start_new_session=True
    )
    assert done.stdout == "5\n"


@pytest.mark.module
def test_a_damaged_record_is_named_with_its_line(folder):
    found = read.read(folder)
    what = read.sweep(folder, found)
    (folder / record.FILE).write_text(f"row,arm,run,cell\none,ours,x,{what.cells[1].name}\n")
    with pytest.raises(InputError, match="no number: `x`") as caught:
        record.read(folder, what)
    assert caught.value.faults[0].line == 2


def test_a_time_line_has_the_standstill_the_buffer_and_the_paths_of_each_second():
    # 10 pictures a second; none between 0.9 and 2.4 s. Path p1 carries 125,000 bytes a second: 1 Mb/s.
    shown = [n / 10 for n in range(10)] + [2.4 + n / 10 for n in range(6)]
    frames = [
        {"client": 0, "index": n, "pts_s": n / 10, "fate": "displayed", "due_s": at, "shown_s": at}
        for n, at in enumerate(shown)
    ]
    tables = {
        "connections": columns([{"client": 0, "duration_s": 3.0, "finished": False}]),
        "frames": columns(frames),
        "playback": columns([{"client": 0, "t_s": 0.0, "event": "start", "pts_s": 0.0, "delay_ms": None}]),
        "player": columns([{"client": 0, "t_s": n / 10, "buffer_s": 2.0 - n / 20} for n in range(30)]),
        "samples": columns(
            [
                {"t_s": n / 10, "client": 0, "subflow": 0, "path": "p1", "bytes_acked": 12_500 * n}
                for n in range(31)
            ]
        ),
    }
    found = lines.of(tables)
    assert [one["t_s"] for one in found] == [0, 1, 2]
    assert [one["buffer_s"] for one in found] == [1.55, 1.05, 0.55]
    assert [one["mbps_p1"] for one in found] == pytest.approx([1.0, 1.0, 1.0])
    # The picture of 0.9 s is due until 1.0 s.
    assert [one["standing_s"] for one in found] == pytest.approx([0.0, 1.0, 0.4])


def columns(rows):
    """Return rows as the columns of a table."""
    return {key: [row[key] for row in rows] for key in rows[0]}

"""`make fidelity`: the drawn settings, the measurements, and the report."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

from anabranch.calibrate import compare, page, score
from anabranch.calibrate.compare import Target
from anabranch.calibrate.model import Leg

FOLDER = Path(__file__).resolve().parents[1] / "fidelity"


@pytest.fixture(scope="module")
def tools():
    """Return the modules of `make fidelity`."""
    sys.path.insert(0, str(FOLDER))
    try:
        yield {name: importlib.import_module(name) for name in ("draw", "laboratory", "report")}
    finally:
        sys.path.remove(str(FOLDER))


# RTT, rate, queue, loss, loss of acknowledgements of each path; pace. As the laboratory's own generator draws
# five settings of seed 1001.
KNOWN = {
    "R001": (
        "cubic",
        [(12.2, 13.27, 182, 0.02013, 0), (39.9, 3.57, 84, 0.0052, 0), (11.9, 12.27, 104, 0, 0)],
        0,
    ),
    "R002": (
        "reno",
        [(18.9, 5.51, 205, 0, 0.01818), (87.1, 3.99, 13, 0, 0), (75.1, 1.29, 60, 0.00175, 0.00058)],
        0,
    ),
    "R003": ("bbr", [(10.2, 7.17, 129, 0.02246, 0), (62.5, 28.83, 18, 0.00228, 0.02407)], 18423176),
    "R004": (
        "cubic",
        [(11.5, 1.35, 52, 0.00055, 0), (175.0, 1.21, 13, 0.0035, 0), (24.6, 16.74, 11, 0, 0)],
        8122088,
    ),
    "R005": ("reno", [(210.2, 1.44, 73, 0, 0), (144.2, 2.36, 210, 0.00248, 0)], 0),
}


def test_a_seed_draws_the_known_settings(tools):
    drawn = tools["draw"].settings(5, 1001)
    assert [one.case for one in drawn] == list(KNOWN)
    for one in drawn:
        congestion, legs, pace = KNOWN[one.case]
        assert (one.congestion, one.pace_bps, one.kind) == (congestion, pace, "paced" if pace else "bulk")
        assert (one.duration_s, one.multipath) == (40, True)
        assert one.legs == tuple(
            Leg(rtt_ms=rtt, rate_mbps=rate, queue_packets=queue, loss=loss, loss_up=up)
            for rtt, rate, queue, loss, up in legs
        )
    assert tools["draw"].settings(9, 1001)[:5] == drawn, "more of a seed begin with the same"
    assert tools["draw"].settings(5, 1002) != drawn


def test_a_setting_as_the_laboratory_takes_it(tools):
    third, fifth = (tools["draw"].case(tools["draw"].settings(5, 1001)[place]) for place in (2, 4))
    assert third == {
        "legs": [
            {"rtt": 10.2, "mb": 7.17, "q": 129, "loss": 0.02246, "up": 0},
            {"rtt": 62.5, "mb": 28.83, "q": 18, "loss": 0.00228, "up": 0.02407},
        ],
        "dur": 40,
        "ccs": ["bbr"],
        "proto": "mptcp",
        "pace": 18423176,
    }
    assert "pace" not in fifth


# A laboratory that measures requested runs at once: it is given a plan and writes a row a run that is
# missing, a quarter of a second of silence and 1 MB on each path.
PROGRAM = """\
import argparse, csv, json, os, pathlib
ask = argparse.ArgumentParser()
ask.add_argument("plan")
for name in ("trials", "jitter", "jobs", "kernel", "keep", "out", "file"):
    ask.add_argument("--" + name)
given = ask.parse_args()
assert given.jitter == "0.24" and given.trials == "1-2" and os.access(given.kernel, os.X_OK)
path = pathlib.Path(given.out) / given.file
rows = list(csv.DictReader(path.open())) if path.exists() else []
have = {row["run"] for row in rows}
for case, one in json.loads(pathlib.Path(given.plan).read_text()).items():
    for trial in (1, 2):
        row = dict(run=f"{case}_{trial}", case=case, proto=one["proto"], cc=one["ccs"][0], trial=trial, pace=one.get("pace", 0),
                   dur=one["dur"], goodput_mbps=1, max_read_gap_s=0.25)
        for n, leg in enumerate(one["legs"], 1):
            row |= {f"rtt{n}_ms": leg["rtt"], f"bw{n}_mbps": leg["mb"], f"loss{n}": leg["loss"], f"loss_up{n}": leg["up"],
                    f"queue{n}_packets": leg["q"], f"sf{n}_bytes_acked": 1e6, f"sf{n}_retrans_segs": 1,
                    f"sf{n}_cwnd_mean": 10, f"sf{n}_cwnd_median": 10, f"sf{n}_srtt_mean_ms": 100}
        if row["run"] not in have:
            print("measured", row["run"])
            rows.append(row)
keys = list(dict.fromkeys(key for row in rows for key in row))
with path.open("w", newline="") as file:
    writer = csv.DictWriter(file, keys)
    writer.writeheader()
    writer.writerows(rows)
"""


@pytest.fixture
def laboratory(tmp_path):
    """Return an environment with a laboratory."""
    guest = tmp_path / "lab" / "guest"
    guest.mkdir(parents=True)
    for name in ("init.sh", "off", "bulk2", "linkemu_step"):
        (guest / name).touch()
    (guest / "measure.py").write_text(PROGRAM, encoding="utf-8")
    kernel = tmp_path / "linux"
    kernel.write_text("", encoding="utf-8")
    kernel.chmod(0o755)
    return {**os.environ, "LAB": str(guest.parent), "UML": str(kernel)}


def test_laboratory_skips_measured_trials(tools, tmp_path, laboratory, capfd):
    folder = tmp_path / "1001"
    folder.mkdir()
    drawn = tools["draw"].settings(2, 1001)
    assert tools["laboratory"].missing(folder, drawn, 2) == [
        "R001 trial 1", "R001 trial 2", "R002 trial 1", "R002 trial 2"
    ]  # fmt: skip
    tools["laboratory"].measure(folder, drawn[:1], 2, laboratory)
    assert tools["laboratory"].missing(folder, drawn, 2) == ["R002 trial 1", "R002 trial 2"]
    assert capfd.readouterr().err.split("\n")[:2] == ["measured R001_1", "measured R001_2"]
    tools["laboratory"].measure(folder, drawn, 2, laboratory)
    assert tools["laboratory"].missing(folder, drawn, 2) == []
    assert capfd.readouterr().err.split("\n")[:2] == ["measured R002_1", "measured R002_2"]


@pytest.mark.parametrize(
    ("gone", "told"),
    [("LAB", "no laboratory"), ("UML", "no laboratory"), ("off", "off"), ("kernel", "linux")],
)
def test_a_laboratory_that_is_not_whole_is_reported(tools, tmp_path, laboratory, gone, told):
    if gone in laboratory:
        del laboratory[gone]
    elif gone == "kernel":
        (tmp_path / "linux").chmod(0o644)
    else:
        (tmp_path / "lab" / "guest" / gone).unlink()
    with pytest.raises(tools["laboratory"].MissingError, match=told):
        tools["laboratory"].measure(tmp_path, tools["draw"].settings(1, 1), 2, laboratory)


def test_a_laboratory_that_fails_is_reported(tools, tmp_path, laboratory):
    (tmp_path / "lab" / "guest" / "measure.py").write_text("raise SystemExit(3)", encoding="utf-8")
    with pytest.raises(tools["laboratory"].MissingError, match="ended with 3"):
        tools["laboratory"].measure(tmp_path, tools["draw"].settings(1, 1), 2, laboratory)


def judged(tools, *given):
    """Return settings of a draw with figures of (name, kernel, simulator), 1 allowed."""
    drawn = tools["draw"].settings(len(given), 1001)
    return [
        score.Judged(one, [compare.judge(name, [kernel], [found], Target(absolute=1)) for name, kernel, found in figures])
        for one, figures in zip(drawn, given, strict=True)
    ]  # fmt: skip


def test_shares_are_reported_by_controller_kind_and_paths(tools):
    found = judged(
        tools,
        [("goodput_mbps", 8, 8.5)],
        [("goodput_mbps", 8, 10)],
        [("goodput_mbps", 8, 9), ("sf1_retrans_segs", 1, 9)],
    )
    assert [cells[:4] for cells in tools["report"].rows(found)] == [
        ("all", "2 of 3", "0 of 1", "2 of 4"),
        ("bbr", "1 of 1", "0 of 1", "1 of 2"),
        ("cubic", "1 of 1", "0 of 0", "1 of 1"),
        ("reno", "0 of 1", "0 of 0", "0 of 1"),
        ("bulk", "1 of 2", "0 of 0", "1 of 2"),
        ("paced", "1 of 1", "0 of 1", "1 of 2"),
        ("2 paths", "1 of 1", "0 of 1", "1 of 2"),
        ("3 paths", "1 of 2", "0 of 0", "1 of 2"),
    ]
    # Goodput is listed first, although the retransmissions are eight times the permitted error.
    assert tools["report"].worst(found) == [
        ("R002 reno: goodput, Mb/s: kernel 8, simulator 10 (+25.0%, 2.0 times what is allowed); 18.9 ms, 5.51 Mb/s, "
        "1.82% loss of acknowledgements, queue 205 | 87.1 ms, 3.99 Mb/s, queue 13 | 75.1 ms, 1.29 Mb/s, 0.18% loss, "
        "0.06% loss of acknowledgements, queue 60"),
        ("R003 bbr: path 1: retransmissions: kernel 1, simulator 9 (+800.0%, 8.0 times what is allowed); 10.2 ms, "
        "7.17 Mb/s, 2.25% loss, queue 129 | 62.5 ms, 28.83 Mb/s, 0.23% loss, 2.41% loss of acknowledgements, queue 18, "
        "paced at 18.42 Mb/s"),
    ]  # fmt: skip
    assert len(tools["report"].worst(found, most=1)) == 1
    # A mean of 100.5 and an interval of ± 6.35: 104.1 is inside it, and 3.1 above both trials of a target of 3.
    outside = compare.judge("sf1_retrans_segs", [100, 101], [104.1], Target(absolute=3))
    assert "(+3.6%, outside every trial by more than the target)" in tools["report"].line(
        found[0].setting, outside
    )


def test_a_seeds_part_of_the_page_is_replaced_and_the_others_stay(tools):
    merged = tools["report"].merged
    begun = f"# A\n\n{page.random_settings('No settings were drawn yet.')}\n## Bulk\n"
    one = merged(begun, 1002, "### Seed 1002\n\nfirst\n")
    two = merged(one, 1001, "### Seed 1001\n\nsecond\n")
    assert two.startswith("# A\n\n## Random settings\n\n" + page.RANDOM[0])
    assert two.endswith(f"### Seed 1001\n\nsecond\n\n### Seed 1002\n\nfirst\n\n{page.RANDOM[1]}\n\n## Bulk\n")
    assert "drawn yet" not in two
    again = merged(two, 1002, "### Seed 1002\n\nthird\n")
    assert again == two.replace("first", "third")
    bare = merged("# A\n", 1, "### Seed 1\n\nx\n")
    assert bare.startswith("# A\n\n## Random settings\n")


def test_without_a_laboratory_it_is_reported(tmp_path):
    environment = {name: value for name, value in os.environ.items() if name not in ("LAB", "UML")}
    command = [sys.executable, str(FOLDER), "-n", "1", "--seed", "-1"]
    told = subprocess.run(command, check=False, capture_output=True, text=True, env=environment, cwd=tmp_path)
    assert told.returncode == 2
    assert "4 of 4 runs of the kernel are missing: R001 trial 1 is the first" in told.stderr
    assert "no laboratory: LAB names its folder" in told.stderr


@pytest.mark.slow
@pytest.mark.module
def test_a_seed_is_measured_run_and_judged(tmp_path, laboratory):
    docs = tmp_path / "page.md"
    docs.write_text("# A\n", encoding="utf-8")
    command = [
        sys.executable, str(FOLDER), "-n", "1", "--seed", "1001", "--trials", "2", "--runs", "1", "--workers", "1",
        "--work", str(tmp_path / "work"), "--docs", str(docs),
    ]  # fmt: skip
    told = subprocess.run(command, check=False, capture_output=True, text=True, env=laboratory)
    assert told.returncode == 0, told.stderr
    assert told.stdout.splitlines()[1].split()[:4] == ["all", "0", "of", "1"]
    assert "R001 cubic: goodput, Mb/s: kernel 1, simulator " in told.stdout
    text = docs.read_text(encoding="utf-8")
    assert "### Seed 1001\n\n1 settings, 2 trials and 1 runs each, the simulator of commit " in text
    # Rows that do not match the draw are left out: those of the other seed.
    work = tmp_path / "work"
    (work / "1002").mkdir()
    (work / "1001" / "rows.csv").rename(work / "1002" / "rows.csv")
    other = subprocess.run(
        [word.replace("1001", "1002") for word in command],
        check=False,
        capture_output=True,
        text=True,
        env=laboratory,
    )
    assert "not measured, or not as drawn, and left out: bulk/R001/cubic" in other.stderr
    assert other.returncode == 2

"""A study's figures: every one is there with its numbers, and the same each time."""

from __future__ import annotations

import csv
import re
import statistics
from collections import Counter
from itertools import pairwise

import pytest
from typer.testing import CliRunner

import anabranch
from anabranch import plugins
from anabranch.cli._app import app
from anabranch.figures import colours, first_trials, study
from anabranch.figures.picture import Picture
from anabranch.study import study as studies

STUDY = """
title = "t"
source = "s"
question = "q"
[[parts]]
scenarios = ["one"]
[parts.grid]
"transport.congestion" = ["cubic", "reno"]
"transport.scheduler" = ["min-rtt"]
[assumptions.rate]
what = "w"
why = "y"
set = { "paths.a.rate" = "5 Mbit/s" }
sweep = [{ "paths.a.rate" = "9 Mbit/s" }]
"""


def read(file):
    with file.open(encoding="utf-8", newline="") as rows:
        return list(csv.DictReader(rows))


ONE = (
    'name = "one"\n[application]\nfilm = "papers-film"\nduration = "20 s"\n'
    '[[paths]]\nname = "a"\nrtt = "50 ms"\nrate = "5 Mbit/s"\nloss = "1 %"\n'
    '[[paths]]\nname = "b"\nrtt = "80 ms"\nrate = "2 Mbit/s"\n'
)


def made(tmp_path, scenario, *options):
    folder = tmp_path / "studies" / "mine"
    folder.mkdir(parents=True)
    (folder / "study.toml").write_text(STUDY)
    (folder / "one.toml").write_text(scenario)
    out = tmp_path / "out"
    call("study", "run", folder, "--workers", "1", "--out", out, *options)
    return out


def call(*given):
    result = CliRunner().invoke(app, [str(one) for one in given])
    assert result.exit_code == 0, result.stderr
    return result


@pytest.fixture
def results(tmp_path):
    return made(tmp_path, ONE, "--vary", "rate", "--trials", "3")


@pytest.mark.slow
@pytest.mark.module
def test_every_figure_has_its_numbers_beside_it(results, tmp_path):
    for place in ("first", "second"):
        call("study", "figures", results, "--out", tmp_path / place)
    first = tmp_path / "first"
    names = {"picture-discards", "buffer-underflows", "retransmissions", "retransmissions-by-flow"}
    names |= {"discards-retransmissions", "throughput-delay", "throughput-by-flow", "recovery-time-s"}
    assert {file.name for file in first.iterdir()} == {
        f"{name}.{end}" for name in names for end in ("svg", "png", "csv")
    }
    for name in names:
        assert (first / f"{name}.svg").read_bytes() == (tmp_path / "second" / f"{name}.svg").read_bytes()
    table = read(first / "retransmissions.csv")
    # Runs of another value of the assumption are left out.
    assert [(row["series"], row["run"]) for row in table] == [
        (name, run) for name in ("cubic", "reno") for run in "012"
    ]
    cells = read(first / "discards-retransmissions.csv")
    for cell in cells:
        own = [float(row["retransmissions"]) for row in table if row["series"] == cell["series"]]
        assert float(cell["retransmissions"]) == pytest.approx(statistics.fmean(own))
        # Student's t for three runs.
        half = 4.302653 * statistics.stdev(own) / 3**0.5
        assert float(cell["retransmissions_ci95"]) == pytest.approx(half, rel=1e-5)
    # All connections of a path together are the run's retransmissions.
    flows = read(first / "retransmissions-by-flow.csv")
    for row in table:
        own = [
            float(flow["retransmissions"])
            for flow in flows
            if (flow["series"], flow["run"]) == (row["series"], row["run"])
        ]
        assert len(own) == 2
        assert sum(own) == float(row["retransmissions"])
    # The film is 5.244 Mb/s, and both paths together carry 7 Mb/s at most, less headers.
    shares = read(first / "throughput-by-flow.csv")
    assert [(row["series"], row["run"], row["path"]) for row in shares] == [
        (row["series"], row["run"], row["path"]) for row in flows
    ]
    for row in table:
        own = [
            float(share["throughput_mbps"])
            for share in shares
            if (share["series"], share["run"]) == (row["series"], row["run"])
        ]
        assert 0 < own[0] < 5
        assert 0 < own[1] < 2
    svg = (first / "discards-retransmissions.svg").read_text().lower()
    assert colours.CONTROLS["cubic"].lower() in svg
    assert colours.CONTROLS["reno"].lower() in svg


def test_each_path_has_its_colour_in_every_panel_of_flows(tmp_path):
    """The first panel has one path, the second both: their one legend tells them apart."""
    paths = {"one": ("a",), "two": ("a", "b")}
    rows = [
        {"row": row, "series": "cubic", "path": path, "retransmissions": 10 * number + run}
        for row, names in paths.items()
        for number, path in enumerate(names)
        for run in range(3)
    ]
    svg = Picture(chart=study.flows(rows), data=rows).save_all(tmp_path / "flows.svg")[0].read_text().lower()
    colour = {path: found.lower() for path, found in colours.of_paths("ab").items()}
    drawn = Counter(re.findall(r'fill="(#[0-9a-f]{6})"', svg))
    # A bar and a square of the legend have it: a is in both panels, b in one.
    assert [drawn[colour[path]] for path in "ab"] == [3, 2]
    # 95 % intervals of 0, 1, 2 and of 10, 11, 12: 1 and 11, by Student's t for three runs.
    ends = {
        (row["series"], row["path"]): (row["low"], row["high"])
        for row in study._of_flows(rows[3:], "retransmissions")
    }
    half = 4.302653 / 3**0.5
    assert ends["cubic", "a"] == pytest.approx((0, 1 + half), rel=1e-5)
    assert ends["cubic", "b"] == pytest.approx((11 - half, 11 + half), rel=1e-5)


def test_a_panel_that_another_one_would_flatten_has_its_own_axis():
    """A window of 3,400 segments hides one of 40, but not one of 1,000."""
    rows = [
        {"series": name, "t_s": t, "subflow": 0, "path": "a", "cwnd_segments": top * t / 10}
        for name, top in (("compound", 3400.0), ("bbr", 1000.0), ("cubic", 40.0))
        for t in range(11)
    ]
    chart = first_trials.curves(rows, "cwnd_segments", "cwnd").to_dict()
    found = {panel["title"]: panel["encoding"]["y"]["scale"]["domain"][1] for panel in chart["concat"]}
    assert found == {"compound": 3400, "bbr": 3400, "cubic (own vertical axis)": 40}


def test_cells_of_one_control_and_scheduler_have_marks_of_their_own():
    """UQ18's cells differ in settings that no plug-in has: each has a separate mark."""
    said = {"row": "one", "control": "cubic", "scheduler": "dft", "retransmissions": 5, "picture_discards": 0}
    cells = [{**said, "series": name} for name in ("multipath false", "multipath true")]

    def marks(rows):
        chart = study.cross(rows, "retransmissions", "picture_discards").to_dict()
        return next(
            layer["encoding"]["shape"]
            for layer in chart["concat"][0]["layer"]
            if "shape" in layer["encoding"]
        )

    found = marks(cells)
    assert found["field"] == "series"
    assert found["scale"]["domain"] == ["multipath false", "multipath true"]
    assert len(set(found["scale"]["range"])) == 2
    found = marks([{**cells[0], "scheduler": "spd"}, cells[1]])
    assert (found["field"], found["scale"]["domain"]) == ("scheduler", ["spd", "dft"])
    assert found["scale"]["range"] == [colours.SCHEDULERS["spd"], colours.SCHEDULERS["dft"]]
    # A stroke has nothing that could be filled: it would not be seen.
    assert "stroke" not in colours.SCHEDULERS.values()


@pytest.mark.slow
@pytest.mark.module
def test_first_trial_curves_match_its_trace(tmp_path):
    results = made(tmp_path, ONE, "--trials", "2")
    call("study", "figures", results, "--out", tmp_path / "out2", "--first-trials")
    sequences = read(tmp_path / "out2" / "sequence-numbers-one.csv")
    windows = read(tmp_path / "out2" / "congestion-windows-one.csv")
    delays = read(tmp_path / "out2" / "round-trip-times-one.csv")
    assert {row["series"] for row in sequences} == {"cubic", "reno"}
    for row in anabranch.load(results).filter(run=0).iter_rows(named=True):
        run = anabranch.Run.open(results, row["identity"])
        sampled = {sample["subflow"] for sample in run.rows("samples")}
        assert len(sampled) >= 2
        for flow in (flow for flow in run.rows("subflows") if flow["subflow"] in sampled):
            # The last sample is at most a tenth of a second before the end, at 9 Mb/s together.
            own = [
                float(point["acked_mb"])
                for point in sequences
                if (point["series"], point["subflow"]) == (row["congestion"], str(flow["subflow"]))
            ]
            assert own == sorted(own)
            assert own[-1] == pytest.approx(flow["bytes"] / 1e6, abs=0.12)
        seen = {
            (point["t_s"], point["subflow"]): float(point["cwnd_segments"])
            for point in windows
            if point["series"] == row["congestion"]
        }
        for sample in run.rows("samples")[40:400:40]:
            place = str(round(sample["t_s"], 3)), str(sample["subflow"])
            assert seen[place] == sample["cwnd_segments"]
            delay = [
                float(point["srtt_ms"])
                for point in delays
                if (point["series"], point["t_s"], point["subflow"]) == (row["congestion"], *place)
            ]
            assert delay == [round(sample["srtt_ms"], 1)]
    assert not (tmp_path / "out2" / "resolution.svg").exists()


@pytest.mark.slow
@pytest.mark.module
def test_world_budget_matches_its_path_capacity(tmp_path):
    """Without loss bulk data fills 7 Mb/s of links, whatever the film takes and the study sets of it."""
    scenario = ONE.replace('loss = "1 %"\n', "")
    results = made(tmp_path, scenario, "--trials", "1", "--set", "application.player.prefetch=64 KiB")
    for _ in range(2):
        call("study", "figures", results, "--out", tmp_path / "out2", "--budget", "2", "--workers", "1")
    cells = read(tmp_path / "out2" / "budget.csv")
    assert [cell["series"] for cell in cells] == ["cubic", "reno"]
    assert [cell["runs"] for cell in cells] == ["2", "2"]
    for cell in cells:
        assert 0.85 * 7 < float(cell["goodput_mbps"]) < 7
        # The film of 409 MB and 624 s.
        assert float(cell["takes_film_mbps"]) == pytest.approx(409 * 8 / 624)
        assert float(cell["goodput_mbps_ci95"]) < 0.5
    runs = anabranch.load(tmp_path / "out-budget")
    assert set(runs["duration_s"].round()) == {20.0}
    assert ">film<" in (tmp_path / "out2" / "budget.svg").read_text()


@pytest.mark.slow
@pytest.mark.module
def test_resolution_band_matches_the_playback_events(tmp_path):
    """A ladder's session on a path that is cut to less than its lowest rendition."""
    scenario = (
        'name = "one"\n[application]\nkind = "adaptive"\nladder = "uq18-jp"\nabr = "throughput"\n'
        'duration = "100 s"\n[[paths]]\nname = "a"\nrtt = "50 ms"\nrate = "5 Mbit/s"\n'
        '[[events]]\nat = "30 s"\npath = "a"\nrate = "0.1 Mbit/s"\n'
    )
    results = made(tmp_path, scenario, "--trials", "1")
    call("study", "figures", results, "--out", tmp_path / "out2", "--first-trials")
    bands = [row for row in read(tmp_path / "out2" / "resolution.csv") if row["series"] == "cubic"]
    (row,) = anabranch.load(results).filter(congestion="cubic").iter_rows(named=True)
    still = [float(band["to_s"]) - float(band["from_s"]) for band in bands if not band["lines"]]
    assert sum(still) == pytest.approx(row["rebuffer_s"], abs=0.01)
    assert sum(still) > 5
    events = anabranch.Run.open(results, row["identity"]).rows("playback")
    heights = [int(band["lines"]) for band in bands if band["lines"]]
    changes = sum(one != other for one, other in pairwise(heights))
    assert changes == sum(event["event"] == "switch" for event in events) > 1
    assert "stands still" in (tmp_path / "out2" / "resolution.svg").read_text()


def test_every_control_and_scheduler_of_the_studies_looks_like_itself():
    from anabranch.claims import cells

    for name in ("PC16", "SD18", "HO20", "LEO24", "UQ18"):
        folder = studies.find(name)
        for cell in cells.of_study(folder, studies.read(folder)):
            labels = dict(cell.labels)
            assert labels["transport.scheduler"] in colours.SCHEDULERS
            assert labels.get("transport.congestion", "cubic") in colours.CONTROLS
    assert len(set(colours.CONTROLS.values())) == len(colours.CONTROLS)
    # No two have the same mark, those without one of their own included.
    assert len(set(colours.SCHEDULERS.values())) == len(colours.SCHEDULERS)
    together = [*[*colours.SCHEDULERS][:-2], "mine.py:Mine", "rtx-aware(spd, hold=2)"]
    marks = colours.of_schedulers(together)
    assert list(marks) == together
    assert len(set(marks.values())) == len(together)
    assert marks["spd"] == colours.SCHEDULERS["spd"]


def test_a_control_with_parameters_has_its_familys_colour():
    names = ["compound(gamma=auto)", "cubic", "compound", "mine.py:Mine"]
    found = colours.of_controls(names)
    assert list(found) == names
    assert found["compound"] == colours.CONTROLS["compound"]
    assert found["mine.py:Mine"] == colours.OTHER_COLOUR
    # Next to the plain one it is a lighter shade; alone it has the colour itself.
    assert len(set(found.values())) == len(names)
    assert all(one > other for one, other in zip(_rgb(found[names[0]]), _rgb(found["compound"]), strict=True))
    assert colours.of_controls(names[:1])[names[0]] == colours.CONTROLS["compound"]


def _rgb(colour):
    return [int(colour[at : at + 2], 16) for at in (1, 3, 5)]


def test_no_interval_reaches_below_nothing():
    from anabranch.figures import study

    row = {"row": "r", "series": "s", "control": "c", "scheduler": "d"}
    ends = study._whiskers({**row, "a": 1.0, "a_ci95": 3.0, "b": 9.0, "b_ci95": 2.0}, "a", "b")
    assert (ends["left"], ends["right"], ends["low"], ends["high"]) == (0, 4, 7, 11)


def test_a_reversed_axis_is_labelled():
    from anabranch.figures import study

    row = {
        "row": "r",
        "series": "s",
        "control": "cubic",
        "scheduler": "dft",
        "srtt_ms": 9.0,
        "goodput_mbps": 5.0,
    }
    turned = study.cross([row], "srtt_ms", "goodput_mbps", turned=True).to_json()
    assert "better is up and right" in turned
    assert "better is up and right" not in study.cross([row], "srtt_ms", "goodput_mbps").to_json()


def test_a_folder_without_results_is_reported(tmp_path):
    result = CliRunner().invoke(app, ["study", "figures", str(tmp_path)])
    assert result.exit_code == 2
    assert "no folder of results" in result.stderr


def test_classes_in_python_have_colours_of_their_own_and_short_names():
    found = colours.of_controls(["cubic", "Aimd", "Vegas", "Vegas(alpha=2)"])
    assert found["Aimd"] == colours.OTHER_COLOUR
    assert len(set(found.values())) == 4
    assert plugins.short(
        ["deep/mine.py:Mine", 'rtx-aware("a,b/mine.py:Mine", hold=2)', "other.py:blest", "blest"]
    ) == {
        "deep/mine.py:Mine": "deep/mine.py:Mine",
        'rtx-aware("a,b/mine.py:Mine", hold=2)': 'rtx-aware("a,b/mine.py:Mine", hold=2)',
        "other.py:blest": "other.py:blest",
        "blest": "blest",
    }
    assert plugins.short(["far/deep/mine.py:Mine", "far/deep/other.py:Mine", "lte 40 ms"]) == {
        "far/deep/mine.py:Mine": "mine.py:Mine",
        "far/deep/other.py:Mine": "other.py:Mine",
        "lte 40 ms": "lte 40 ms",
    }
    assert plugins.short(['rtx-aware("a,b/mine.py:Mine", hold=2)']) == {
        'rtx-aware("a,b/mine.py:Mine", hold=2)': "rtx-aware(Mine, hold=2)"
    }


def test_a_figure_in_a_page_cuts_no_letter_off():
    """Where a reader lacks the fonts that it was laid out with, letters are wider than the figure knows."""
    from anabranch.figures import study
    from anabranch.figures.picture import Picture

    rows = [{"row": "a", "series": "s", "control": "cubic", "goodput_mbps": 1.0}]
    drawn = Picture(chart=study.bars(rows, [], "goodput_mbps")).inline()
    assert 'overflow="visible"' in drawn.partition(">")[0]


# -- quality over the differences between paths --------------------------------------------------------


def test_differences_are_of_the_largest_and_the_smallest_mean():
    from anabranch.figures import differences

    paths = {
        "a": {"srtt_ms": 20.0, "throughput_mbps": 9.0},
        "b": {"srtt_ms": 364.0, "throughput_mbps": 8.9},
        "c": {"srtt_ms": 90.0, "throughput_mbps": None},
    }
    found = differences.between(paths)
    assert found["rtt_difference_ms"] == 344
    assert found["throughput_difference_mbps"] == pytest.approx(0.1)
    alone = differences.between({"a": paths["a"]})
    assert set(alone.values()) == {None}, "one path has no difference"


def test_a_correlation_has_fishers_interval():
    """Four points with r = 0.8: atanh(0.8) = 1.0986, and the standard error of four points is 1."""
    from anabranch.figures import differences

    cells = [{"x": x, "y": y} for x, y in ((1, 1), (2, 3), (3, 2), (4, 4))]
    found = differences.correlated(cells, "x", "y")
    assert found.value == pytest.approx(0.8)
    # tanh(1.0986 - 1.96) and tanh(1.0986 + 1.96)
    assert (found.low, found.high) == pytest.approx((-0.6969, 0.9956), abs=1e-4)
    assert differences.correlated(cells[:2], "x", "y").low is None, "two points always lie on a line"
    flat = [{"x": 1, "y": 1}, {"x": 1, "y": 2}]
    assert differences.correlated(flat, "x", "y").value is None
    cells = [{**cell, "row": "r", "series": "s", "resolution_mean": 5.0 * cell["y"]} for cell in cells]
    (panel,) = differences.chart(cells, "x").to_dict()["concat"]
    assert panel["title"] == "r = 0.80 [-0.70, 1.00], 4 cells"


def test_bars_show_the_smallest_and_the_largest_trial(tmp_path):
    """Trials of 2, 3 and 7 in a panel of 130 pixels whose axis ends at 7: the line is 5/7 of the panel."""
    rows = [
        {"row": "one", "series": "cubic", "control": "cubic", "run": run, "startup_s": value}
        for run, value in enumerate((2.0, 3.0, 7.0))
    ]
    layers = study.bars(rows, [], "startup_s").to_dict()["concat"][0]["layer"]
    ends = [
        (layer["encoding"]["y"]["aggregate"], layer["encoding"]["y2"]["aggregate"])
        for layer in layers
        if layer["mark"]["type"] == "rule" and "aggregate" in layer["encoding"]["y"]
    ]
    assert ends == [("min", "max")]
    svg = (
        Picture(chart=study.bars(rows, [], "startup_s"), data=rows)
        .save_all(tmp_path / "b.svg")[0]
        .read_text()
    )
    lines = [abs(float(y)) for y in re.findall(r'x2="0" y2="(-?[\d.]+)" stroke="#8a8a8a"', svg)]
    assert lines == [pytest.approx(130 * 5 / 7, abs=0.2)]

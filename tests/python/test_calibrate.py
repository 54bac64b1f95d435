"""Kernel beside simulator: statistics and judging by hand-made numbers, reading, and whole runs."""

from __future__ import annotations

import functools
import gzip
import json
import pickle
import shutil

import pytest
from typer.testing import CliRunner

import anabranch
from anabranch._intervals import half_width, of_share
from anabranch.calibrate import compare, measure, page, read, settings, simulate, statistics, words
from anabranch.calibrate.compare import Target
from anabranch.calibrate.model import Change, Leg, Measured, Setting, Trial
from anabranch.cli import _calibrate
from anabranch.cli._app import app
from anabranch.errors import DefectError, Fault, InputError, MissingError
from anabranch.figures import calibration

SHIPPED = functools.cache(read.shipped)
#: The measurements of the first of its folders.
OWN = functools.cache(lambda: read.read(read.SHIPPED))


@pytest.fixture(autouse=True)
def read_once(monkeypatch):
    """Read what came with the program once for all tests."""
    monkeypatch.setattr(read, "shipped", SHIPPED)


P1 = (Leg(rtt_ms=50, rate_mbps=5, loss=0.005), Leg(rtt_ms=100, rate_mbps=5, loss=0))


def setting(**given):
    known = {
        "kind": "bulk",
        "case": "P1",
        "congestion": "cubic",
        "multipath": True,
        "legs": P1,
        "duration_s": 60.0,
    }
    return Setting(**{**known, **given})


def call(*arguments):
    return CliRunner().invoke(app, ["calibrate", *map(str, arguments)])


# Statistics.


def test_the_interval_of_a_mean_is_students():
    # t(0.975, 2) = 4.3027: the sample 1, 2, 3 has a standard error of 1/sqrt(3).
    assert half_width([1, 2, 3]) == pytest.approx(4.3027 / 3**0.5, rel=1e-4)
    assert half_width([5.0]) is None


def test_the_interval_of_a_share_is_exact():
    low, high = of_share(0, 10)
    assert low == 0
    assert high == pytest.approx(1 - 0.025**0.1)
    assert of_share(10, 10) == pytest.approx((0.025**0.1, 1))
    # Clopper and Pearson's of 5 in 10, as it is tabulated.
    assert of_share(5, 10) == pytest.approx((0.1871, 0.8129), abs=5e-5)


OVERSHOOT = [83, 88, 92, 93, 98, 109, 120, 172, 191, 192, 199, 210, 210, 222]


def test_two_kinds_of_trial_are_found():
    split = statistics.two_modes(OVERSHOOT)
    assert 120 < split.value < 172
    assert split.apart == pytest.approx(102, abs=3)


def test_one_kind_of_trial_is_not_split():
    assert statistics.two_modes([82, 82, 85, 86, 87, 87, 89, 89, 91, 91, 93, 95, 95, 97, 106]) is None
    assert statistics.two_modes([7.0] * 15) is None
    assert statistics.two_modes([1, 1, 1, 9, 9]) is None, "five values have no modes of three"


def test_equal_sides_are_as_far_apart_as_can_be():
    assert statistics.two_modes([1, 1, 1, 9, 9, 9]).value == 5


# Judging.


def test_a_mean_inside_its_target_is_fine():
    kernel, target = [100, 101, 99], Target(relative=0.02)
    assert compare.judge("goodput_mbps", kernel, [101.9], target).verdict == "ok"
    # The interval of three trials with a standard deviation of 1 is ± 2.484, less than twice the target.
    assert compare.judge("goodput_mbps", kernel, [102.5], target).verdict == "miss"
    assert compare.judge("goodput_mbps", kernel, [97.5], target).verdict == "miss"


def test_the_wider_of_share_and_amount_holds():
    target = Target(relative=0.15, absolute=10)
    assert compare.judge("sf1_retrans_segs", [20, 21, 22], [30.9], target).verdict == "ok"
    assert compare.judge("sf1_retrans_segs", [200, 201, 202], [231], target).verdict == "ok"
    assert compare.judge("sf1_retrans_segs", [200, 201, 202], [232], target).verdict == "miss"


def test_bytes_are_held_against_all_subflows():
    one = compare.judge("sf1_bytes_acked", [100, 101], [110], Target(relative=0.05), whole=1000)
    assert (one.allowed, one.verdict) == (50, "ok")


def test_many_trials_judge_by_their_interval_where_it_is_wider():
    wide = [10 + 2 * (place % 4) for place in range(12)]
    one = compare.judge("goodput_mbps", wide, [13.9], Target(relative=0.02))
    assert one.why == "interval of the kernel's mean"
    assert one.allowed == pytest.approx(one.half_width)
    assert one.verdict == "ok"
    assert compare.judge("goodput_mbps", wide[:11], [13.9], Target(relative=0.02)).verdict == "miss"
    assert compare.judge("goodput_mbps", wide, [16], Target(relative=0.02)).verdict == "miss"


def test_modes_are_compared_by_share():
    target = Target(relative=0.15, absolute=10)
    half = compare.judge("sf1_retrans_segs", OVERSHOOT, [90, 200], target)
    assert half.modes.kernel == half.modes.simulator == 0.5
    assert half.verdict == "ok"
    never = compare.judge("sf1_retrans_segs", OVERSHOOT, [90] * 20, target)
    assert never.verdict == "miss"
    assert "50% of the kernel's" in words.verdict_words(never)


def test_modes_closer_than_the_target_are_no_matter():
    one = compare.judge("sf1_cwnd_mean", [value + 1000 for value in OVERSHOOT], [1150], Target(relative=0.1))
    assert one.modes is None
    assert one.verdict == "ok"


def test_figure_without_a_target_is_not_judged():
    one = compare.judge("sf1_cwnd_median", [1, 1, 1], [50], None)
    assert (one.verdict, one.why, one.allowed) == ("not judged", "no target", None)


def test_targets_differ_by_controller_and_kind():
    assert compare.target(setting(), "goodput_mbps").relative == 0.02
    assert compare.target(setting(congestion="bbr"), "goodput_mbps").relative == 0.03
    assert compare.target(setting(), "sf2_bytes_acked").relative == 0.05
    assert compare.target(setting(kind="paced"), "sf2_bytes_acked") is None
    assert compare.target(setting(kind="paced"), "split_1_percent").absolute == 8


def test_figures_that_both_sides_have_are_compared():
    trial = Trial(run="a", number=1, figures={"sf1_bytes_acked": 60.0, "sf2_bytes_acked": 40.0, "other": 1.0})
    found = compare.compare(
        Measured(setting=setting(), trials=(trial,)), [{"sf1_bytes_acked": 63.0, "sf2_bytes_acked": 34.0}]
    )
    assert [(one.figure, one.verdict) for one in found] == [
        ("sf1_bytes_acked", "ok"),
        ("sf2_bytes_acked", "miss"),
    ]
    assert [one.allowed for one in found] == [5, 5]


# The laboratory's values, computed from a trace.


def samples(times, **columns):
    path = ["path1"] * len(times)
    return {"samples": {"t_s": times, "path": path, **columns}}


def test_samples_begin_at_the_accept_and_are_200_ms_apart():
    # With an RTT of 50 ms, accept() returns after 75 ms, so the first sample that counts is that at 100 ms.
    times = [0.0, 0.1, 0.2, 0.3, 0.4, 0.5]
    tables = samples(
        times,
        cwnd_segments=[1, 10, 99, 30, 99, 20],
        srtt_ms=[None, 50.0, 99.0, 70.0, 99.0, 60.0],
        bytes_acked=[0, 0, 5, 7, 8, 9],
        retransmissions=[0, 0, 1, 2, 3, 4],
    )
    rows = measure.samples(setting(), tables)["path1"]
    assert [row["t_s"] for row in rows] == [0.0, 0.2, 0.4]
    assert measure.subflow(rows) == {
        "bytes_acked": 9.0,
        "retrans_segs": 4.0,
        "cwnd_mean": 20.0,
        "cwnd_median": 20.0,
        "srtt_mean_ms": 60.0,
    }


def test_the_median_of_an_even_number_is_the_upper_middle():
    rows = [
        {"cwnd_segments": n, "srtt_ms": 1.0, "bytes_acked": 0, "retransmissions": 0} for n in (1, 2, 5, 9)
    ]
    assert measure.subflow(rows)["cwnd_median"] == 5


def test_a_hand_over_ends_with_the_longest_silence_around_the_cut():
    gaps = {"t_s": [5.0, 19.9, 20.9, 30.0], "gap_s": [3.0, 0.8, 0.4, 9.0]}
    assert measure.resume_s(gaps, 20.0) == pytest.approx(0.7)
    assert measure.resume_s(gaps, 40.0) == 0.0
    assert measure.resume_s({"t_s": [20.0], "gap_s": [0.14]}, 20.0) == 0.0, (
        "the laboratory tells 150 ms or more"
    )


# Settings.


def test_a_setting_is_a_scenario():
    one = setting(kind="handoff", how="linkdown+epdel", duration_s=45.0)
    tables = settings.scenario(one, cut_at_s=19.992)
    assert tables["events"] == [{"at": "19.992000 s", "path": "path1", "state": "removed"}]
    assert tables["application"] == {"kind": "bulk", "duration": "45.000000 s"}
    assert tables["paths"][0]["loss"] == "0.5 %"
    assert tables["transport"]["multipath"] is True
    assert one.name == "handoff/P1/cubic/linkdown+epdel"


def test_random_loss_is_run_often_and_the_rest_is_not():
    plain = setting(case="P3", legs=(Leg(rtt_ms=50, rate_mbps=6, loss=0),))
    trial = Trial(run="a", number=1, figures={})
    measured = [Measured(setting=one, trials=(trial,)) for one in (setting(), plain)]
    tasks = simulate.tasks(measured, {}, runs=40)
    assert [run for task in tasks if task.place == 0 for run in task.runs] == list(range(40))
    assert [run for task in tasks if task.place == 1 for run in task.runs] == list(range(30))


def test_links_are_as_late_as_the_trials_tell():
    told = [Trial(run=str(n), number=n, figures={}, lateness_us=(10.0 * n, 5.0)) for n in (1, 2)]
    one = Measured(setting=setting(), trials=tuple(told))
    assert one.lateness_us == (15.0, 5.0)
    (task, *_) = simulate.tasks([one], {}, runs=1)
    assert task.lateness_us == (15.0, 5.0)
    # The delay is drawn uniformly up to twice the mean.
    paths = settings.scenario(setting(), lateness_us=task.lateness_us)["paths"]
    assert [path["jitter"] for path in paths] == ["30.000 us", "10.000 us"]
    silent = Measured(setting=setting(), trials=(*told, Trial(run="c", number=3, figures={})))
    assert silent.lateness_us == ()
    usual = settings.scenario(setting(), lateness_us=silent.lateness_us)["paths"]
    assert [path["jitter"] for path in usual] == ["0.24 ms", "0.24 ms"]


def test_row_records_the_lateness_of_its_links():
    measured = {one.setting.name: one for one in read.read(read.SHIPPED / "odd", name="odd").measured}
    late = measured["odd/bulk/HB/reno"].lateness_us
    assert len(late) == 2
    assert all(10 < mean < 40 for mean in late)
    assert len(measured["odd/bulk/HJ/reno"].lateness_us) == 1


def test_the_same_losses_are_those_of_the_trials_by_turns():
    trials = tuple(Trial(run=str(seed), number=n, figures={}, seed=seed) for n, seed in enumerate((7, 90), 1))
    one = Measured(setting=setting(), trials=trials)
    assert one.seeds == (7, 90)
    # Each trial is used equally often, so eleven runs become twelve.
    tasks = simulate.tasks([one], {}, runs=11, same_losses=True)
    assert [run for task in tasks for run in task.runs] == list(range(12))
    assert {task.seeds for task in tasks} == {(7, 90)}
    assert simulate.tasks([one], {}, runs=11)[0].seeds == ()
    # The laboratory's programs add a path's number from 1.
    paths = settings.scenario(setting(), seed=90)["paths"]
    assert [path["emulator_seed"] for path in paths] == [91, 92]
    assert "emulator_seed" not in settings.scenario(setting())["paths"][0]
    untold = Measured(setting=setting(), trials=(*trials, Trial(run="c", number=3, figures={})))
    assert untold.seeds == ()
    with pytest.raises(ValueError, match="no seeds of bulk/P1/cubic"):
        simulate.tasks([untold], {}, runs=1, same_losses=True)


@pytest.mark.module
def test_replayed_losses_match_the_kernel_loss_count():
    """Row lossy_S1_cubic_5: 87 of the first 18,479 packets are lost; ten trials have 83 to 103."""
    measured = next(one for one in read.shipped().measured if one.setting.name == "bulk/S1/cubic")
    run = measured.seeds.index(897_888)
    tasks = simulate.tasks([measured], {}, runs=1, same_losses=True)
    links = simulate.trace(tasks[0], run)[1]["links"]
    down = list(links["link"]).index("path1.down")
    entered, lost = links["enqueued"][down], links["dropped_loss"][down]
    assert abs(entered - 18_479) < 500
    assert abs(lost - 87) <= 3


def test_the_same_losses_need_loss_and_seeds(tmp_path):
    told = call("--same-losses", "--only", "bulk/P3", "--runs", 1)
    assert told.exit_code == 2
    assert "no setting here has random loss and a table with the seeds of the emulator" in told.stderr
    both = call("--same-losses", "--docs", tmp_path / "page.md")
    assert both.exit_code == 2
    assert "--docs writes a whole page" in both.stderr


# Reading.


@pytest.fixture
def folder(tmp_path):
    """Return a copy of the measurements without their time series."""
    copy = tmp_path / "measured"
    shutil.copytree(read.SHIPPED, copy, ignore=shutil.ignore_patterns("ts"))
    return copy


def edit(file, *changes):
    content = file.read_text(encoding="utf-8")
    for old, new in changes:
        assert old in content
        content = content.replace(old, new, 1)
    file.write_text(content, encoding="utf-8")


@pytest.mark.module
def test_the_shipped_measurements_are_read_and_pooled():
    truth = OWN()
    by_name = {one.setting.name: one for one in truth.measured}
    assert len(by_name) == len(truth.measured)
    assert len(by_name["bulk/P1/reno"].trials) == 15, "bulk.csv and lossy.csv together"
    assert len(by_name["bulk/P3/reno"].trials) == 3
    cut = by_name["handoff/P4/cubic/linkdown+epdel"]
    assert [leg.rate_mbps for leg in cut.setting.legs] == [18, 18]
    assert cut.trials[0].cut_at_s == pytest.approx(19.996)
    assert by_name["vlc/H1/bbr/v524.ts"].setting.legs[0].loss == 0.005
    film = truth.films["v524.mp4"]
    assert film.size_bytes == 59_013_583
    assert film.duration_ns == pytest.approx(90e9, abs=1e3)


@pytest.mark.module
def test_shipped_ground_truth_contains_every_folder():
    truth = read.shipped()
    by_name = {one.setting.name: one for one in truth.measured}
    assert truth.refused == ()
    assert len(by_name) == len(truth.measured)
    assert by_name["bulk/P1/reno"].folder == read.SHIPPED
    # groundtruth/odd/README.md: 1 % of the acknowledgements; queues of 8; 2 Mb/s from 20 to 40 s; 512 KiB.
    ha, hb, hf, hi, hj = (
        by_name[f"odd/bulk/{case}/cubic"].setting for case in ("HA", "HB", "HF", "HI", "HJ")
    )
    assert by_name["odd/bulk/HA/cubic"].folder == read.SHIPPED / "odd"
    assert ([leg.loss_up for leg in ha.legs], ha.lossy, hb.lossy) == ([0.01, 0], True, False)
    assert [leg.queue_packets for leg in (*hb.legs, *hj.legs)] == [8, 8, 25]
    assert hf.changes == (Change(at_s=20, path=1, rate_mbps=2), Change(at_s=40, path=1, rate_mbps=10))
    film = by_name["papers-kernel/film/P2/lia"]
    assert (film.setting.kernel, film.setting.duration_s, film.setting.lossy) == ("mptcp-0.94", 624, True)
    # groundtruth/papers-kernel/README.md: 2p-e is 100 ms, 5 Mb/s and 0.5 % beside 100 ms and 5 Mb/s, queues of 60.
    assert [(leg.rtt_ms, leg.rate_mbps, leg.loss, leg.queue_packets) for leg in film.setting.legs] == [
        (100, 5, 0.005, 60), (100, 5, 0, 60)
    ]  # fmt: skip
    assert film.values("stalls") == [27, 26, 26, 26]
    assert by_name["papers-kernel/bulk/P1/lia/redundant"].setting.scheduler == "redundant"
    assert by_name["bulk/P1/reno"].setting.kernel == "linux-6.18"
    assert (hi.receive_buffer_bytes, hj.receive_buffer_bytes, hj.multipath) == (524_288, None, False)


@pytest.mark.module
def test_a_kernel_is_one_of_those_known(folder):
    for given, message in (
        (("--kernel", "mptcp-0.49", "--against", folder), "did you mean `mptcp-0.94`?"),
        (("--kernel", "mptcp-0.94"), "--kernel needs --against"),
    ):
        told = call(*given)
        assert told.exit_code == 2
        assert message in told.stderr


@pytest.mark.module
def test_every_fault_is_reported_at_once(folder):
    edit(
        folder / "bulk.csv",
        ("bulk_P1_bbr_1,P1,mptcp,bbr,", "bulk_P1_bbr_1,P1,mptpc,bbbr,"),
        ("bbr,2,731923,0,60,50,5,0.005", "bbr,2,731923,0,60,50,fast,1.5"),
        ("bbr,3,834870,0,60,50,", "bbr,3,834870,0,60,nan,"),
    )
    edit(folder / "paced.csv", ("goodput_mbps", "goodput_mbs"))
    edit(
        folder / "handoff.csv",
        ("blackhole,bulk", "blakhole,bulkk"),
        ("P4_bbr_2", "P9_bbr_2"),
    )
    edit(folder / "vlc.csv", ("gH1_bbr_1,H1", "gH1_bbr_1,H7"))
    (folder / "v524.mp4.frames.csv.gz").unlink()
    with (folder / "lossy.csv").open("a") as file:
        file.write("short,row\n")
    told = call("--against", folder, "--only", "bulk/S4/reno", "--runs", 1)
    assert told.exit_code == 2
    assert "goodput, Mb/s" in told.stdout, "what is understood is judged"
    assert "12 refused, told above" in told.stderr
    for expected in (
        "unknown protocol: `mptpc`", "did you mean `mptcp`?", "unknown congestion control: `bbbr`",
        "not a number: `fast`", "out of range: `1.5`", "out of range: `nan`", "bulk.csv, line 3",
        "missing column: `goodput_mbps`", "is it the column `goodput_mbs`?",
        "unknown kind of hand-over: `blakhole`", "unknown mode: `bulkk`", "unknown case: `P9`",
        "unknown case: `H7`", "2 cells in a table of 58 columns", "v524.mp4.frames.csv.gz", "key: bw1_mbps",
    ):  # fmt: skip
        assert expected in told.stderr, expected


@pytest.mark.module
def test_a_case_has_one_description(folder):
    edit(folder / "bulk.csv", ("bbr,3,834870,0,60,50,", "bbr,3,834870,0,60,51,"))
    told = call("--against", folder, "--only", "bulk/S4/reno", "--runs", 1)
    assert told.exit_code == 2
    assert "case with other paths than before: `P1`" in told.stderr
    assert "1 refused, told above" in told.stderr


@pytest.mark.parametrize(
    ("content", "message"),
    [(b"", "an empty file"), (b"\xff\xfe\x00", "not UTF-8"), (b"run\n1\n", "missing column: `goodput_mbps`")],
)
def test_invalid_bulk_csv_raises_an_input_error(tmp_path, content, message):
    (tmp_path / "bulk.csv").write_bytes(content)
    with pytest.raises(InputError, match=message):
        read.read(tmp_path)


def test_a_folder_without_measurements_is_reported(tmp_path):
    for place, message in ((tmp_path, "no measurements"), (tmp_path / "gone", "no such folder")):
        told = call("--against", place)
        assert told.exit_code == 2
        assert message in told.stderr


@pytest.mark.module
def test_a_pattern_that_names_nothing_is_reported():
    told = call("--only", "P1/cubci", "--only", "S4")
    assert told.exit_code == 2
    assert "did you mean `bulk/P1/cubic`?" in told.stderr


@pytest.mark.module
def test_patterns_choose_settings():
    truth = OWN()
    chosen = [one.setting.name for one in _calibrate.chosen(truth, ["S?/reno", "vlc/H1"])]
    assert chosen == [
        "bulk/S1/reno",
        "bulk/S2/reno",
        "bulk/S4/reno",
        "paced/S1/reno",
        "vlc/H1/bbr/v524.ts",
        "vlc/H1/cubic/v524.ts",
    ]


# Whole runs. Values with a wide margin are checked here, so that a regression is noticed.


@pytest.mark.module
@pytest.mark.parametrize("case", ["S2", *(pytest.param(one, marks=pytest.mark.slow) for one in ("P3", "S4"))])
def test_goodput_is_the_kernels_where_nothing_is_lost_at_random(case):
    told = call("--only", f"bulk/{case}/", "--runs", 2, "--workers", 1, "--json")
    found = {
        (one["name"], figure["figure"]): figure
        for one in json.loads(told.stdout)["settings"]
        for figure in one["figures"]
    }
    for congestion in ("bbr", "cubic", "reno"):
        figure = found[f"bulk/{case}/{congestion}", "goodput_mbps"]
        assert figure["verdict"] == "ok"
        assert abs(figure["error_percent"]) < 1
        assert found[f"bulk/{case}/{congestion}", "sf1_cwnd_mean"]["verdict"] == "ok"


@pytest.mark.slow
@pytest.mark.module
def test_a_run_over_processes_is_the_same_as_in_one():
    truth = read.read(read.SHIPPED)
    tasks = simulate.tasks(_calibrate.chosen(truth, ["bulk/S1/cubic"]), truth.films, runs=12)
    assert simulate.simulate(tasks, workers=2) == simulate.simulate(tasks, workers=1)


@pytest.mark.slow
@pytest.mark.module
def test_calibration_page_keeps_hand_written_text(tmp_path):
    docs = tmp_path / "calibration.md"
    first = call("--only", "S4/reno", "--runs", 1, "--workers", 1, "--docs", docs)
    assert first.exit_code == 0
    text = docs.read_text(encoding="utf-8")
    assert "![bulk s4: kernel and simulator over time, reno](calibration/bulk-s4.svg)" in text
    assert (tmp_path / "calibration" / "bulk-s4.svg").stat().st_size < 100_000
    assert "Nothing misses its target." in text
    edit(docs, ("Nobody has written this yet.", "The clocks differ."))
    assert call("--only", "S4/reno", "--runs", 1, "--workers", 1, "--docs", docs).exit_code == 0
    again = docs.read_text(encoding="utf-8")
    assert "The clocks differ." in again
    assert again == text.replace("Nobody has written this yet.", "The clocks differ.")


@pytest.mark.module
def test_a_miss_fails(folder):
    rows = (folder / "bulk.csv").read_text(encoding="utf-8").splitlines()
    head = rows[0].split(",")
    only = [row.split(",") for row in rows[1:] if ",S4,tcp,reno," in row]
    for row in only:
        row[head.index("goodput_mbps")] = "12.0"
    for file in folder.glob("*.csv"):
        file.unlink()
    (folder / "mine.csv").write_text("\n".join([rows[0], *map(",".join, only)]), encoding="utf-8")
    told = call("--against", folder, "--workers", 1, "--runs", 2)
    assert told.exit_code == 1
    assert "bulk/S4/reno" in told.stdout
    assert "1 miss" in told.stderr
    assert told.stdout.splitlines()[-1].split()[:4] == ["all", "0", "of", "1"]
    assert told.stdout.splitlines()[-1].endswith("1 of 1       5 of 6  +44.3 % (bulk/S4/reno)")


@pytest.mark.module
def test_a_column_that_is_unknown_is_refused_and_the_rest_is_judged(folder):
    edit(folder / "bulk.csv", ("emu2_late_max_us", "delay_var2_ms"))
    (folder / "hand-over.csv").write_text("run,how\na,blackhole\n", encoding="utf-8")
    told = call("--against", folder, "--only", "bulk/S4/reno", "--runs", 1, "--json")
    assert told.exit_code == 2
    found = json.loads(told.stdout)
    assert [one["name"] for one in found["settings"]] == ["bulk/S4/reno"]
    column, table = found["refused"]
    assert column.startswith("error: unknown column: `delay_var2_ms`")
    assert "bulk.csv, line 1" in column
    assert table.startswith("error: unknown table: `hand-over.csv`")
    assert "is it `handoff.csv`?" in table


@pytest.mark.module
def test_settings_are_written_as_they_are_done(monkeypatch, capsys):
    truth = OWN()
    measured = _calibrate.chosen(truth, ["bulk/S4/reno", "bulk/S2/reno"])
    seen = []

    def each(todo, **_):
        for place, one in enumerate(measured):
            # The text is written when the next setting is requested.
            seen.append(capsys.readouterr().out)
            yield place, [{"goodput_mbps": one.values("goodput_mbps")[0]}]

    monkeypatch.setattr(simulate, "each", each)
    _calibrate._compared(measured, [], workers=1, tables=True)
    assert seen[0] == ""
    assert "bulk/S2/reno" in seen[1]
    assert "bulk/S4/reno" in capsys.readouterr().out


def test_a_setting_is_there_when_its_tasks_and_all_before_it_are(monkeypatch):
    def task(place, *runs):
        return simulate.Task(place=place, setting=setting(), film=None, runs=runs, cuts=())

    order = [task(1, 0), task(0, 10, 11), task(2, 0), task(0, 0, 1)]
    monkeypatch.setattr(
        simulate,
        "done",
        lambda *_, **__: ((at, [{"x": one.place + n} for n in one.runs]) for at, one in enumerate(order)),
    )
    told = []
    found = simulate.each(order, workers=1, progress=lambda *at: told.append(at))
    assert next(found) == (0, [{"x": 0}, {"x": 1}, {"x": 10}, {"x": 11}])
    assert told == [(1, 6), (3, 6), (4, 6), (6, 6)], "the first setting's last task came last"
    assert list(found) == [(1, [{"x": 1}]), (2, [{"x": 2}])]


@pytest.mark.parametrize(
    "error",
    [
        InputError([Fault(message="a", where="b.csv", line=3), Fault(message="c", hint="d")]),
        MissingError("a", hint="b"),
        DefectError("a", replay="b"),
    ],
)
def test_errors_cross_between_processes(error):
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), str(again)) == (type(error), str(error))


@pytest.mark.module
def test_an_earlier_page_that_is_no_text_is_not_overwritten(tmp_path, folder):
    docs = tmp_path / "page.md"
    docs.write_bytes(b"\xff\xfe")
    told = call("--against", folder, "--only", "bulk/S4/reno", "--docs", docs)
    assert told.exit_code == 2
    assert "not a page of text" in told.stderr


@pytest.mark.module
def test_a_series_that_is_missing_is_reported_before_anything_runs(tmp_path, folder):
    (folder / "ts").mkdir()
    with gzip.open(folder / "ts" / "bulk_S4_reno_1.csv.gz", "wt") as file:
        file.write("t,remote,cwnd,rtt_us,bytes_acked\n0.0,192.0.2.1,10,50000,0\n")
    told = call("--against", folder, "--only", "bulk/S4/reno", "--docs", tmp_path / "page.md")
    assert told.exit_code == 2
    assert "no address of a path: `192.0.2.1`" in told.stderr
    assert "bulk_S4_reno_1.rx.csv.gz" in told.stderr


def test_only_text_between_the_marks_is_kept():
    assert page.kept(f"a\n{page.KEPT[0]}\n\nb\n\n{page.KEPT[1]}\nc") == "b"
    assert page.kept(f"{page.KEPT[1]} {page.KEPT[0]}") == page.kept("") == "Nobody has written this yet."


def test_lines_lose_only_points_that_do_not_change_them():
    line = [(float(t), 10.0) for t in range(50)] + [(50.0, 40.0)] + [(float(t), 10.0) for t in range(51, 100)]
    assert calibration.thinned(line, 1.0) == [
        (0.0, 10.0),
        (49.0, 10.0),
        (50.0, 40.0),
        (51.0, 10.0),
        (99.0, 10.0),
    ]
    assert calibration.thinned([], 1.0) == []


@pytest.mark.module
def test_silences_are_written_down():
    one = setting(
        kind="handoff",
        case="P4",
        how="blackhole",
        legs=tuple(Leg(rtt_ms=rtt, rate_mbps=18, loss=0) for rtt in (50, 100)),
        duration_s=10.0,
    )
    run = anabranch.run(settings.scenario(one, cut_at_s=5.0))
    gaps = run.rows("gaps")
    assert all(row["gap_s"] >= 0.1 for row in gaps)
    assert max(row["gap_s"] for row in gaps) == run.rows("connections")[0]["max_read_gap_s"]
    assert any(4.9 < row["t_s"] < 5.1 for row in gaps)
    assert 0.3 < measure.resume_s(run.tables["gaps"], 5.0) < 2

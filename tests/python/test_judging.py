"""How measurements are judged: the targets of docs/calibration.md, and each boundary by arithmetic."""

from __future__ import annotations

import math
import statistics as plain

import numpy as np
import pytest

from anabranch.calibrate import compare, page, simulate, statistics, words
from anabranch.calibrate.compare import Target
from anabranch.calibrate.model import Leg, Measured, Setting, Trial

LEG = Leg(rtt_ms=50, rate_mbps=5, loss=0)
KINDS = ("bulk", "paced", "handoff", "vlc")

# What docs/calibration.md promises, as (share, amount): "Goodput within 2 % (bbr: 3 %); a subflow's bytes
# within 5 % of all; retransmissions within 15 % or 10 segments; mean congestion window and mean smoothed RTT
# within 10 %; of a paced application the split between the subflows within 8 points, in place of their bytes;
# data again after the loss of a path within 15 % or 100 ms; VLC's start within 0.3 s, its rebuffers within 2,
# their seconds within 20 %, lost pictures within 25 %."
DOCUMENTED = {
    "goodput_mbps": (0.02, 0),
    "sf1_bytes_acked": (0.05, 0),
    "sf1_retrans_segs": (0.15, 10),
    "sf2_retrans_segs": (0.15, 10),
    "sf1_cwnd_mean": (0.10, 0),
    "sf1_srtt_mean_ms": (0.10, 0),
    "split_1_percent": (0, 8),
    "resume_after_cut_s": (0.15, 0.1),
    "startup_s": (0, 0.3),
    "rebuffer_count": (0, 2),
    "rebuffer_s": (0.20, 0),
    "lost_pictures": (0.25, 0),
}
TOLD_ONLY = ("max_read_gap_s", "sf1_cwnd_median", "displayed_pictures")


def setting(kind="bulk", congestion="cubic", **given):
    known = {"case": "P1", "multipath": True, "legs": (LEG,), "duration_s": 60.0, **given}
    return Setting(kind=kind, congestion=congestion, **known)


def found(figure, kind="bulk", congestion="cubic"):
    target = compare.target(setting(kind, congestion), figure)
    return None if target is None else (target.relative, target.absolute)


# The targets.


@pytest.mark.parametrize("figure", DOCUMENTED)
def test_a_target_is_the_documented_one(figure):
    assert found(figure) == DOCUMENTED[figure]


@pytest.mark.parametrize("congestion", ["reno", "cubic", "lia"])
def test_only_bbrs_goodput_may_be_three_percent_away(congestion):
    assert found("goodput_mbps", congestion=congestion) == (0.02, 0)
    assert found("goodput_mbps", congestion="bbr") == (0.03, 0)
    assert found("sf1_cwnd_mean", congestion="bbr") == (0.10, 0)


@pytest.mark.parametrize("kind", KINDS)
def test_bytes_are_judged_of_bulk_transfers_alone(kind):
    assert found("sf2_bytes_acked", kind) == ((0.05, 0) if kind == "bulk" else None)
    assert found("split_1_percent", kind) == (0, 8)


@pytest.mark.parametrize("figure", TOLD_ONLY)
def test_other_figures_are_told(figure):
    assert [found(figure, kind) for kind in KINDS] == [None] * 4


def test_the_page_names_every_target():
    head = " ".join(page._HEAD.split())
    for words_of_it in (
        "Goodput within 2 % (bbr: 3 %)", "a subflow's bytes within 5 % of all",
        "retransmissions within 15 % or 10 segments", "mean congestion window and mean smoothed RTT within 10 %",
        "the split between the subflows within 8 points", "the loss of a path within 15 % or 100 ms",
        "VLC's start within 0.3 s, its rebuffers within 2, their seconds within 20 %, lost pictures within 25 %",
        "With {interval} trials or more", "more than {spread:.0%} of their mean apart",
    ):  # fmt: skip
        assert words_of_it in head
    assert (compare.TRIALS_FOR_INTERVAL, compare.SPREAD, simulate.RUNS_WITHOUT_LOSS) == (12, 0.25, 30)


# The verdict, at its boundaries. A half, a quarter and an eighth are exact in binary.


@pytest.mark.parametrize(
    ("simulator", "verdict"), [(12, "ok"), (12.125, "miss"), (4, "ok"), (3.875, "miss"), (8, "ok")]
)
def test_a_mean_at_its_bound_is_fine(simulator, verdict):
    one = compare.judge("x", [8, 8, 8], [simulator], Target(relative=0.5))
    assert (one.allowed, one.verdict, one.why) == (4, verdict, "")


def test_means_are_compared_and_not_medians():
    one = compare.judge("x", [7, 8, 8, 9], [0, 8, 8, 16.5], Target(absolute=0.25))
    assert (one.kernel, one.simulator, one.error, one.verdict) == (8, 8.125, 0.125, "ok")
    assert (one.trials, one.runs) == (4, 4)


@pytest.mark.parametrize(
    ("kernel", "judged"),
    # The largest less the smallest is a quarter of the mean of 8; then a little more.
    [([7, 8, 9], True), ([6.75, 8.25, 9], False), ([7, 7.5, 9.5], False)],
)
def test_few_trials_a_quarter_apart_are_judged(kernel, judged):
    assert (compare.judge("x", kernel, [8], Target(relative=0.5)).verdict != "not judged") == judged


def test_twelve_trials_far_apart_are_judged_and_eleven_are_not():
    kernel = [4, 12, 4, 12, 4, 12, 4, 12, 4, 12, 8, 8]
    # The deviations' squares sum to 160: t(0.975, 11) sqrt(160 / 11 / 12).
    half_width = 2.200985 * math.sqrt(160 / 11 / 12)
    one = compare.judge("x", kernel, [8], Target(relative=0.125))
    assert one.half_width == pytest.approx(half_width, abs=1e-5)
    assert one.allowed == pytest.approx(half_width, abs=1e-5)
    assert one.why == "interval of the kernel's mean"
    wide = compare.judge("x", kernel, [8], Target(relative=0.5))
    assert (wide.allowed, wide.why) == (4, ""), "the target is wider than the interval"
    few = compare.judge("x", kernel[1:], [8], Target(relative=0.5))
    assert (few.verdict, few.why) == ("not judged", "11 trials 96% apart")


def test_nothing_is_allowed_around_nothing():
    one = compare.judge("x", [0, 0, 0], [0], Target(relative=0.5))
    assert (one.allowed, one.verdict) == (0, "ok")
    assert compare.judge("x", [0, 0, 0], [0.125], Target(relative=0.5)).verdict == "miss"
    assert one.to_json()["error_percent"] is None


def test_one_trial_has_no_interval_and_is_judged():
    one = compare.judge("x", [8], [8.5], Target(absolute=0.5))
    assert (one.half_width, one.allowed, one.verdict) == (None, 0.5, "ok")


def test_a_comparison_as_json():
    one = compare.judge("x", [8, 8], [7, 8], Target(absolute=1))
    assert one.to_json() == {
        "figure": "x",
        "kernel": {"mean": 8, "trials": 2, "t95_half_width": 0},
        "simulator": {"mean": 7.5, "runs": 2},
        "error": -0.5,
        "error_percent": -6.25,
        "allowed": 1,
        "modes": None,
        "verdict": "ok",
        "why": "",
    }


# Seven trials around 1 and seven around 9; by the binomial law half of 14 may be 23.04 to 76.96 %.
MODES = [0, 1, 2, 0, 1, 2, 1, 8, 9, 10, 8, 9, 10, 9]


@pytest.mark.parametrize(
    ("below", "of", "verdict"),
    [(1, 2, "ok"), (24, 100, "ok"), (23, 100, "miss"), (76, 100, "ok"), (77, 100, "miss")],
)
def test_the_share_of_the_lower_mode_is_judged(below, of, verdict):
    one = compare.judge("x", MODES, [0] * below + [9] * (of - below), Target(absolute=2))
    assert (one.modes.split, one.modes.kernel, one.modes.simulator) == (5, 0.5, below / of)
    assert (one.modes.low, one.modes.high) == pytest.approx((0.2304, 0.7696), abs=1e-4)
    assert (one.verdict, one.allowed, one.why) == (verdict, None, "two modes: the share of each")


@pytest.mark.parametrize(("allowed", "judged_by_share"), [(7.875, True), (8, False), (9, False)])
def test_modes_as_far_apart_as_is_allowed_are_one(allowed, judged_by_share):
    one = compare.judge("x", MODES, [5], Target(absolute=allowed))
    assert (one.modes is not None) == judged_by_share


def test_eleven_trials_have_no_modes():
    assert compare.judge("x", MODES[1:12], [5], Target(absolute=2)).modes is None


def test_a_setting_is_compared_by_what_both_sides_have():
    figures = [
        {"goodput_mbps": 8.0, "sf1_bytes_acked": 60.0, "sf2_bytes_acked": 30.0, "kernel_only": 1.0},
        {"goodput_mbps": 8.0, "sf1_bytes_acked": 64.0, "sf2_bytes_acked": 46.0, "kernel_only": 1.0},
    ]
    trials = tuple(Trial(run=str(n), number=n, figures=one) for n, one in enumerate(figures, 1))
    runs = [
        {"sf1_bytes_acked": 60.0, "sf2_bytes_acked": 44.0, "own": 1.0},
        {"goodput_mbps": 9.0, "sf1_bytes_acked": 60.0},
    ]
    goodput, first, second = compare.compare(Measured(setting=setting(), trials=trials), runs)
    assert (goodput.figure, goodput.runs, goodput.simulator, goodput.allowed) == (
        "goodput_mbps",
        1,
        9.0,
        0.16,
    )
    # Means of 62 and 38 bytes: 5 % of 100.
    assert (first.figure, first.allowed, first.verdict) == ("sf1_bytes_acked", 5, "ok")
    assert (second.figure, second.simulator, second.verdict) == ("sf2_bytes_acked", 44, "not judged")


def test_a_figure_of_some_trials_is_theirs():
    trials = tuple(
        Trial(run=str(n), number=n, figures=one) for n, one in enumerate([{"a": 1.0}, {"b": 2.0}, {"a": 3.0}])
    )
    assert Measured(setting=setting(), trials=trials).values("a") == [1.0, 3.0]


# Statistics.


def test_the_interval_of_two_values():
    # t(0.975, 1) = 12.7062; the standard error of 1 and 3 is 1.
    assert statistics.half_width([1, 3]) == pytest.approx(12.7062, abs=1e-4)
    assert statistics.half_width([2, 2, 2]) == 0


def test_the_interval_of_one_in_two():
    # Both in the one-sided tails of 2.5 %: 1 - (1 - p)^2 and p^2.
    low, high = statistics.share_interval(1, 2)
    assert (low, high) == pytest.approx((1 - math.sqrt(0.975), math.sqrt(0.975)))
    assert statistics.share_interval(2, 2) == (pytest.approx(math.sqrt(0.025)), 1)


@pytest.mark.parametrize(
    ("values", "place", "distance"),
    [
        # Means 1 and 12, variances 1 and 4: 11 / sqrt(2.5).
        ([0, 1, 2, 10, 12, 14], 3, 11 / math.sqrt(2.5)),
        # Means 1.5 and 22, variances 5/3 and 4; a split behind three would be worse.
        ([0, 1, 2, 3, 20, 22, 24], 4, 20.5 / math.sqrt((5 / 3 + 4) / 2)),
        # The least side has three values, though two would part better.
        ([0, 1, 20, 21, 22, 23], 3, 15 / math.sqrt((127 + 1) / 2)),
        ([0, 1, 2, 3, 20, 21], 3, 41 / 3 / math.sqrt((1 + 307 / 3) / 2)),
        ([4, 4, 4, 4, 4, 4], 3, 0),
        ([1, 1, 1, 2, 2, 2], 3, math.inf),
    ],
)
def test_values_are_split_where_the_sides_vary_least(values, place, distance):
    ((found_place,), (apart,)) = statistics._splits(np.asarray([values], dtype=float))
    assert found_place == place
    assert apart == pytest.approx(distance)


def test_rows_are_split_each_by_itself():
    places, _ = statistics._splits(
        np.asarray([[0, 1, 2, 3, 20, 21, 22], [0, 1, 2, 20, 21, 22, 23]], dtype=float)
    )
    assert list(places) == [4, 3]


def test_two_modes_lie_around_the_middle_between_them():
    split = statistics.two_modes([12, 0, 14, 1, 13, 2, 12, 1])
    assert (split.value, split.apart) == (7, 12.75 - 1)
    assert statistics.two_modes([0, 1, 2, 10, 12]) is None


def test_chance_is_what_one_sample_in_a_hundred_exceeds():
    # Other draws than the program's, and the distance by the textbook. Of 4000 about 40 exceed a bound that was
    # itself read off 4000: 40 ± 9, so that 10 to 70 is more than three standard deviations.
    draws = np.sort(np.random.default_rng(7).standard_normal((4000, 6)), axis=1)

    def distance(row):
        low, high = row[:3], row[3:]
        return (plain.fmean(high) - plain.fmean(low)) / math.sqrt(
            (plain.variance(low) + plain.variance(high)) / 2
        )

    bound = statistics._chance(6)
    assert 10 < sum(distance(list(row)) > bound for row in draws) < 70


# Words.


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"), (7, "7"), (-7, "-7"), (1234567, "1,234,567"), (1234.5678, "1,235"), (999.96, "1000.0"),
        (123.456, "123.5"), (100.25, "100.2"), (99.996, "100.00"), (12.3456, "12.35"), (10.126, "10.13"),
        (9.8765, "9.877"), (-0.12345, "-0.123"),
    ],
)  # fmt: skip
def test_numbers_bear_four_digits(value, text):
    assert words.number(value) == text


def test_figures_have_names_for_people():
    assert words.figure_name("sf2_retrans_segs") == "path 2: retransmissions"
    assert words.figure_name("goodput_mbps") == "goodput, Mb/s"


def test_a_verdict_comes_with_its_reason():
    fine = compare.judge("x", [8], [8], Target(absolute=1))
    told = compare.judge("x", [8], [8], None)
    assert (words.verdict_words(fine), words.verdict_words(told)) == ("ok", "not judged (no target)")
    shared = compare.judge("x", MODES, [0, 9, 9, 9], Target(absolute=2))
    assert words.verdict_words(shared) == (
        "ok (two modes: below 5 are 50% of the kernel's, 23% to 77%, and 25% of the simulator's)"
    )


# What a player counts, and how often a setting is run.


def test_settings_are_named_by_what_they_are():
    assert setting("vlc", film="v524.ts").name == "vlc/P1/cubic/v524.ts"
    assert setting("handoff", how="linkdown", pace_bps=5.24e6).name == "handoff/P1/cubic/linkdown/paced"
    assert setting("paced", pace_bps=5.24e6).name == "paced/P1/cubic"
    assert not setting().lossy
    assert setting(legs=(LEG, Leg(rtt_ms=1, rate_mbps=1, loss=1e-6))).lossy


def test_runs_come_in_chunks_with_their_cuts_and_film():
    trials = tuple(
        Trial(run=str(n), number=n, figures={}, cut_at_s=cut) for n, cut in enumerate([20.5, None, 19.5])
    )
    one = Measured(setting=setting("handoff", how="blackhole", film="f"), trials=trials)
    tasks = simulate.tasks([one], {"f": "the film"}, runs=25)
    assert [task.runs for task in tasks] == [tuple(range(10)), tuple(range(10, 20)), tuple(range(20, 25))]
    assert {(task.place, task.cuts, task.film) for task in tasks} == {(0, (20.5, 19.5), "the film")}

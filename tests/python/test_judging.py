"""How measurements are judged: the targets of docs/calibration.md, and each boundary by arithmetic."""

from __future__ import annotations

import math
import statistics as plain

import numpy as np
import pytest

from anabranch import _numbers
from anabranch._intervals import half_width, of_share
from anabranch.calibrate import compare, page, score, simulate, statistics, words
from anabranch.calibrate.compare import Target
from anabranch.calibrate.model import Leg, Measured, Setting, Trial

LEG = Leg(rtt_ms=50, rate_mbps=5, loss=0)
KINDS = ("bulk", "paced", "handoff", "vlc")

# The promises of docs/calibration.md, as (share, amount): "Goodput within 2 % (bbr: 3 %); a subflow's bytes
# within 5 % of all; retransmissions within 15 % or 10 segments; mean congestion window and mean smoothed RTT
# within 10 %, of hand-overs too; the largest gap between reads within 15 % or 100 ms; of a paced application
# the split between the subflows within 8 points, in place of their bytes; data again after the loss of a path
# within 15 % or 100 ms; stalls within 2 or 25 %; VLC's start within 0.3 s, its rebuffers within 2, their
# seconds within 20 %, lost pictures within 25 %."
DOCUMENTED = {
    "goodput_mbps": (0.02, 0),
    "max_read_gap_s": (0.15, 0.1),
    "sf1_bytes_acked": (0.05, 0),
    "sf1_retrans_segs": (0.15, 10),
    "sf2_retrans_segs": (0.15, 10),
    "sf1_cwnd_mean": (0.10, 0),
    "sf3_cwnd_mean": (0.10, 0),
    "sf1_srtt_mean_ms": (0.10, 0),
    "split_1_percent": (0, 8),
    "resume_after_cut_s": (0.15, 0.1),
    "stalls": (0.25, 2),
    "startup_s": (0, 0.3),
    "rebuffer_count": (0, 2),
    "rebuffer_s": (0.20, 0),
    "lost_pictures": (0.25, 0),
}
TOLD_ONLY = ("sf1_cwnd_median", "displayed_pictures")


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
def test_of_a_paced_application_the_split_is_judged(kind):
    assert found("sf2_bytes_acked", kind) == (None if kind == "paced" else (0.05, 0))
    assert found("split_1_percent", kind) == (0, 8)
    paced = setting("handoff", pace_bps=5.24e6)
    assert compare.target(paced, "sf2_bytes_acked") is None
    assert compare.target(paced, "sf2_cwnd_mean").relative == 0.10


@pytest.mark.parametrize("figure", TOLD_ONLY)
def test_other_figures_are_reported(figure):
    assert [found(figure, kind) for kind in KINDS] == [None] * 4


def test_the_page_names_every_target():
    text = " ".join(page._HOW.split())
    for words_of_it in (
        "| goodput | 2 % (bbr: 3 %) |", "| a subflow's bytes | 5 % of all bytes |",
        "| split between the subflows of a paced application (instead of their bytes) | 8 points |",
        "| retransmissions | 15 % or 10 segments |",
        "| mean congestion window and mean smoothed RTT, also of hand-overs | 10 % |",
        "| largest gap between reads | 15 % or 100 ms |", "| stalls | 2 or 25 % |",
        "| time until data arrives again after the loss of a path | 15 % or 100 ms |",
        "| VLC: startup | 0.3 s |", "| VLC: rebuffers | 2 |", "| VLC: seconds of rebuffering | 20 % |",
        "| VLC: lost pictures | 25 % |",
        "unchanged with {interval} trials or more, with fewer up to {most:g} times the target",
        "outside the range of all trials by more than the target, it is a miss in any case",
        "The denominator of a share is every figure with a target",
    ):  # fmt: skip
        assert words_of_it in text
    assert (compare.TRIALS_FOR_INTERVAL, compare.INTERVAL_MOST, simulate.RUNS_WITHOUT_LOSS) == (12, 2, 30)


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
    ("simulator", "verdict"), [(46.89, "miss"), (46.91, "ok"), (87.09, "ok"), (87.11, "miss"), (500, "miss"), (5000, "miss")]
)  # fmt: skip
def test_few_trials_far_apart_allow_twice_the_target_and_no_more(simulator, verdict):
    # A mean of 67; 15 % are 10.05 and twice that 20.1; the t-interval, 4.3027 * 28.58 / sqrt(3), is ± 71.
    one = compare.judge("sf1_retrans_segs", [34, 83, 84], [simulator], Target(relative=0.15, absolute=10))
    assert one.half_width == pytest.approx(71.0, abs=0.05)
    assert one.allowed == pytest.approx(20.1)
    assert (one.verdict, one.why) == (verdict, "3 trials: 2 times the target")


def test_an_interval_of_few_trials_below_twice_the_target_stands_in():
    # A mean of 100, a standard deviation of 1: 4.3027 / sqrt(3) = 2.4842, beside targets of 2, 1 and 3.
    kernel = [99, 100, 101]
    between, capped, wide = (compare.judge("x", kernel, [102.4], Target(absolute=aim)) for aim in (2, 1, 3))
    assert (between.allowed, between.why) == (
        pytest.approx(2.4842, abs=1e-4),
        "interval of the kernel's mean",
    )
    assert (capped.allowed, capped.why) == (2, "3 trials: 2 times the target")
    assert (wide.allowed, wide.why) == (3, "")
    assert [one.verdict for one in (between, capped, wide)] == ["ok", "miss", "ok"]
    assert compare.judge("x", kernel, [102.5], Target(absolute=2)).verdict == "miss"


@pytest.mark.parametrize(
    ("figure", "kernel", "simulator"),
    # Trials of paced/P6/reno and bulk/P3/reno: windows on path 2 and retransmissions on path 1.
    [("sf2_cwnd_mean", [42, 77, 101], 11.7), ("sf1_retrans_segs", [34, 83, 84], 126)],
)
def test_a_mean_outside_every_trial_is_a_miss(figure, kernel, simulator):
    one = compare.judge(figure, kernel, [simulator], compare.target(setting(), figure))
    assert one.verdict == "miss"


def test_outside_every_trial_no_interval_helps():
    # Eleven zeros and 120: a mean of 10, a deviation of 34.64, ± 2.201 * 10 = 22.0; lowest trial 0.
    kernel = [0] * 11 + [120]
    one = compare.judge("x", kernel, [-11.5], Target(absolute=10))
    assert one.half_width == pytest.approx(22.01, abs=0.01)
    assert (one.verdict, one.why) == ("miss", "outside every trial by more than the target")
    assert compare.judge("x", kernel, [-9.5], Target(absolute=10)).verdict == "ok"
    # The same above: a mean of 91.7 with an interval of ± 18.3.
    high = [100] * 11 + [0]
    assert compare.judge("x", high, [102.1], Target(absolute=2)).verdict == "miss"
    assert compare.judge("x", high, [101.9], Target(absolute=2)).verdict == "ok"


def test_figure_missing_from_the_simulator_is_a_miss():
    one = compare.judge("x", [8, 8], [], Target(relative=0.5))
    assert (one.simulator, one.runs, one.error, one.verdict) == (None, 0, None, "miss")
    assert one.why == "the simulator has none"
    assert one.to_json()["simulator"] == {"mean": None, "runs": 0}
    assert one.to_json()["error_percent"] is None
    assert words.error_words(one) == ""
    assert compare.judge("x", [0, 4] * 7, [], Target(absolute=1)).verdict == "miss", "with modes too"


def test_twelve_trials_far_apart_are_judged_by_their_interval_and_eleven_by_the_target():
    kernel = [4, 12, 4, 12, 4, 12, 4, 12, 4, 12, 8, 8]
    # The deviations' squares sum to 160: t(0.975, 11) sqrt(160 / 11 / 12).
    half_width = 2.200985 * math.sqrt(160 / 11 / 12)
    one = compare.judge("x", kernel, [8], Target(relative=0.125))
    assert one.half_width == pytest.approx(half_width, abs=1e-5)
    assert one.allowed == pytest.approx(half_width, abs=1e-5)
    assert one.why == "interval of the kernel's mean"
    wide = compare.judge("x", kernel, [8], Target(relative=0.5))
    assert (wide.allowed, wide.why) == (4, ""), "the target is wider than the interval"
    # Mean 92/11: twice an eighth of it is below the interval of eleven.
    few = compare.judge("x", kernel[1:], [8], Target(relative=0.125))
    assert few.allowed == pytest.approx(2 * 92 / 11 / 8)
    assert (few.verdict, few.why) == ("ok", "11 trials: 2 times the target")


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
    assert (one.verdict, one.allowed, one.why) == (
        verdict,
        None,
        "two modes: the share and the place of each",
    )


# Trials of 1 and 9 with deviations of sqrt(4/6) = 0.8165: by t(0.975, 6) = 2.4469 an interval of ± 0.7551.
@pytest.mark.parametrize(
    ("simulator", "target", "verdict"),
    [
        ([1, 1_000_000], Target(absolute=2), "miss"),
        ([-1_000_000, 9], Target(absolute=2), "miss"),
        ([3, 9], Target(absolute=2), "ok"), ([3.01, 9], Target(absolute=2), "miss"),
        ([-1, 11], Target(absolute=2), "ok"), ([1, 11.01], Target(absolute=2), "miss"),
        # A mode's own tenth: 0.1 and 0.9; of the lower one twice that is allowed, its interval is wider.
        ([1.19, 9], Target(relative=0.1), "ok"), ([1.21, 9], Target(relative=0.1), "miss"),
        ([1, 9.89], Target(relative=0.1), "ok"), ([1, 9.91], Target(relative=0.1), "miss"),
        # Between the target of half a unit and twice that the interval holds.
        ([1.75, 9], Target(absolute=0.5), "ok"), ([1.76, 9], Target(absolute=0.5), "miss"),
        # The mean of a mode's runs is compared, not each run.
        ([-1, 3, 9, 9], Target(absolute=0.5), "ok"),
    ],
)  # fmt: skip
def test_a_mode_lies_where_the_kernels_does(simulator, target, verdict):
    one = compare.judge("x", MODES, simulator, target)
    assert one.modes.simulator == 0.5
    assert one.verdict == verdict


def test_a_mode_without_a_run_is_judged_by_its_share():
    # 23 to 77 % may be below.
    assert compare.judge("x", MODES, [9, 9], Target(absolute=2)).verdict == "miss"
    one = compare.two_modes(MODES, [9, 9], Target(absolute=2))
    assert (one.lower.simulator, one.lower.holds, one.upper.holds, one.hold) == (None, True, True, False)


def test_modes_with_twelve_trials_each_have_their_interval_whole():
    # Twelve of 0 and 2 by turns: a mean of 1, 2.201 * 1.0445 / sqrt(12) = 0.6636; eleven of them less.
    kernel = [0, 2] * 6 + [100, 102] * 6
    one = compare.two_modes(kernel, [1.66, 101], Target(absolute=0.1))
    assert one.lower.allowed == pytest.approx(0.6636, abs=1e-4)
    assert one.hold
    few = compare.two_modes(kernel[1:], [1.66, 101], Target(absolute=0.1))
    assert few.lower.allowed == 0.2
    assert not few.hold


@pytest.mark.parametrize(("allowed", "judged_by_share"), [(7.875, True), (8, False), (9, False)])
def test_modes_as_far_apart_as_is_allowed_are_one(allowed, judged_by_share):
    one = compare.judge("x", MODES, [5], Target(absolute=allowed))
    assert (one.modes is not None) == judged_by_share


def test_eleven_trials_have_no_modes():
    assert compare.judge("x", MODES[1:12], [5], Target(absolute=2)).modes is None


def test_settings_are_compared_by_common_figures():
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
    # Means of 62 and 38 bytes: 5 % of 100, and twice that for two trials as far apart.
    assert (first.figure, first.allowed, first.verdict) == ("sf1_bytes_acked", 10, "ok")
    assert (second.figure, second.simulator, second.allowed, second.verdict) == (
        "sf2_bytes_acked",
        44,
        10,
        "ok",
    )


def test_a_figure_with_a_target_that_no_run_has_is_compared_nevertheless():
    trials = (
        Trial(run="1", number=1, figures={"sf1_cwnd_mean": 10.0, "sf1_cwnd_median": 10.0}),
        Trial(run="2", number=2, figures={"sf1_cwnd_mean": 10.0, "sf1_srtt_mean_ms": 50.0}),
    )
    found = compare.compare(Measured(setting=setting(), trials=trials), [{"sf1_cwnd_mean": 10.0}])
    assert [(one.figure, one.trials, one.verdict) for one in found] == [
        ("sf1_cwnd_mean", 2, "ok"),
        ("sf1_srtt_mean_ms", 1, "miss"),
    ]


def test_a_figure_of_some_trials_is_theirs():
    trials = tuple(
        Trial(run=str(n), number=n, figures=one) for n, one in enumerate([{"a": 1.0}, {"b": 2.0}, {"a": 3.0}])
    )
    assert Measured(setting=setting(), trials=trials).values("a") == [1.0, 3.0]


# Statistics.


def test_the_interval_of_two_values():
    # t(0.975, 1) = 12.7062; the standard error of 1 and 3 is 1.
    assert half_width([1, 3]) == pytest.approx(12.7062, abs=1e-4)
    assert half_width([2, 2, 2]) == 0


def test_the_interval_of_one_in_two():
    # Both in the one-sided tails of 2.5 %: 1 - (1 - p)^2 and p^2.
    low, high = of_share(1, 2)
    assert (low, high) == pytest.approx((1 - math.sqrt(0.975), math.sqrt(0.975)))
    assert of_share(2, 2) == (pytest.approx(math.sqrt(0.025)), 1)


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


def test_chance_bound_is_exceeded_by_one_percent_of_samples():
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


# Shares.


def test_shares_are_of_every_figure_with_a_target():
    of = (
        ("goodput_mbps", 8.4, 0.25),
        ("sf1_retrans_segs", 8, 1),
        ("sf2_retrans_segs", None, 1),
        ("x", 9, None),
    )
    figures = [
        compare.judge(
            name, [8, 8], [] if found is None else [found], None if aim is None else Target(absolute=aim)
        )
        for name, found, aim in of
    ]
    inside = [compare.judge("goodput_mbps", [8], [7.9], Target(absolute=1))]
    found = [score.Judged(setting(), figures), score.Judged(setting("paced", "bbr"), inside)]
    both = score.score(found)
    assert (both.goodput, both.retransmissions, both.everything) == ((1, 2), (1, 2), (2, 4))
    assert both.worst_goodput == ("bulk/P1/cubic", pytest.approx(5))
    assert score.sentence(both) == (
        "goodput 1 of 2, all figures 2 of 4, retransmissions 1 of 2, worst goodput +5.0 % (`bulk/P1/cubic`)"
    )
    kinds = score.by(found, lambda one: one.kind)
    assert {name: one.everything for name, one in kinds.items()} == {"bulk": (1, 3), "paced": (1, 1)}
    assert score.row("paced", kinds["paced"]) == (
        "paced",
        "1 of 1",
        "0 of 0",
        "1 of 1",
        "-1.2 % (paced/P1/bbr)",
    )
    assert score.score([]).everything.percent is None
    assert both.everything.percent == 50


# Words.


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"), (7, "7"), (-7, "-7"), (1234567, "1,234,567"), (1234.5678, "1,235"), (999.96, "1000.0"),
        (123.456, "123.5"), (100.25, "100.2"), (99.996, "100.00"), (12.3456, "12.35"), (10.126, "10.13"),
        (9.8765, "9.877"), (-0.12345, "-0.123"),
    ],
)  # fmt: skip
def test_numbers_of_a_calibration_have_about_four_digits(value, text):
    assert _numbers.four_digits(value) == text


def test_figures_have_names_for_people():
    assert words.figure_name("sf2_retrans_segs") == "path 2: retransmissions"
    assert words.figure_name("goodput_mbps") == "goodput, Mb/s"


def test_a_verdict_comes_with_its_reason():
    fine = compare.judge("x", [8], [8], Target(absolute=1))
    told = compare.judge("x", [8], [8], None)
    assert (words.verdict_words(fine), words.verdict_words(told)) == ("ok", "not judged (no target)")
    shared = compare.judge("x", MODES, [0, 9, 9, 9], Target(absolute=2))
    assert words.verdict_words(shared) == (
        "ok (two modes: below 5 are 50% of the kernel's, 23% to 77%, and 25% of the simulator's; "
        "means 0 beside 1 ± 2, 9 beside 9 ± 2)"
    )


# The counters of a player, and how often a setting is run.


def test_setting_names_are_built_from_their_fields():
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

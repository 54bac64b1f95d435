"""Verdicts on synthetic results with a known truth: how often they err, and the effects that they find."""

import dataclasses

import numpy
import pytest

from anabranch.claims import _logic, around, cells, judge, measure, pilot, statement
from anabranch.claims.stored import Runs
from anabranch.results import paired

METRIC = measure.parse("buffer_underflows")


def cell(name):
    return cells.Cell(labels=(("row", name),), said=(("row", name),), shown=(("row", name),), paths=())


def stated(test="less", *, by=1.0, within=None, number=1, copies=1, needed=None, inferred=None):
    """A claim that `left` compares with `right`, `copies` times."""
    claim = statement.Claim(
        id=f"A.{number}",
        place="p",
        says="s",
        parts=[statement.Part(test="less")],
        at_least=needed,
        inferred=inferred,
    )
    whole = test in ("better", "worse", "alike")
    comparisons = tuple(
        statement.Comparison(
            test=test,
            metric=None if whole else METRIC,
            of=cell(f"left{number}.{copy}"),
            than=None if test == "between" else cell(f"right{number}.{copy}"),
            within=within,
            by={"buffer_underflows": by, "picture_discards": 10.0},
        )
        for copy in range(copies)
    )
    return statement.Stated(claim=claim, comparisons=comparisons)


def runs(sides, exact=()):
    """Results: a list of values by cell, or of pairs of underflows and discards."""
    rows = []
    for name, values in sides.items():
        for run, value in enumerate(values):
            underflows, discards = value if isinstance(value, tuple) else (value, 0)
            numbers = {"buffer_underflows": underflows, "picture_discards": discards}
            rows.append({"row": name, "run": run, "cell": name, "seed": 1, **numbers})
    return Runs(rows, ["row"], exact)


def verdict(claim, left, right=None, exact=()):
    sides = {"left1.0": left} | ({} if right is None else {"right1.0": right})
    (one,) = judge.judge([claim], runs(sides, exact))
    return one.verdict


def normal(random, count, *, mean):
    """Pairs that share most of their luck."""
    luck = random.normal(10, 3, count)
    return luck + random.normal(mean, 1, count), luck + random.normal(0, 1, count)


def poisson(random, count, *, mean):
    """Counts of events, of which one side has more."""
    return random.poisson(2 + max(mean, 0), count), random.poisson(2 + max(-mean, 0), count)


def rare(random, count, *, mean):
    """Mostly nothing, and in one run of four some events at once: what underflows look like."""
    hit = random.random(count) < 0.25
    return numpy.where(hit, 4 * max(mean, 0), 0.0), numpy.where(hit, 4 * max(-mean, 0), 0.0)


DRAWS = 400
#: The most of 400 draws that may be wrong where 5 % are on average: five standard deviations above them.
MOST = 400 * 0.05 + 5 * (400 * 0.05 * 0.95) ** 0.5


@pytest.mark.parametrize(
    "count", [5, pytest.param(10, marks=pytest.mark.slow), pytest.param(30, marks=pytest.mark.slow)]
)
@pytest.mark.parametrize(
    "draw", [rare, *(pytest.param(one, marks=pytest.mark.slow) for one in (normal, poisson))]
)
@pytest.mark.parametrize(
    "test", [*(pytest.param(one, marks=pytest.mark.slow) for one in ("less", "more")), "equal"]
)
def test_false_verdicts_are_rare_at_the_threshold(draw, count, test):
    """The true difference is just what matters: neither verdict may come more often than its level says."""
    random = numpy.random.default_rng(7)
    sign = {"less": -1, "more": 1, "equal": 1}[test]
    found = [verdict(stated(test), *draw(random, count, mean=sign * 1.0)) for _ in range(DRAWS)]
    assert found.count("reproduced") <= MOST, found.count("reproduced")
    assert found.count("not reproduced") <= MOST, found.count("not reproduced")


@pytest.mark.parametrize("draw", [normal, pytest.param(poisson, marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    ("test", "mean", "expected"),
    [
        ("less", -3, "reproduced"),
        ("less", 0, "not reproduced"),
        ("less", 3, "not reproduced"),
        ("more", 3, "reproduced"),
        ("equal", 3, "not reproduced"),
        ("equal", 0, "reproduced"),
    ],
)
def test_large_differences_are_detected(draw, test, mean, expected):
    """Power: with thirty pairs nearly every draw has the right verdict, and the wrong one hardly ever."""
    random = numpy.random.default_rng(8)
    by, size = (1.5, 4 * mean // 3) if draw is poisson else (1.0, mean)
    found = [verdict(stated(test, by=by), *draw(random, 30, mean=size)) for _ in range(50)]
    wrong = {"reproduced": "not reproduced", "not reproduced": "reproduced"}[expected]
    assert found.count(expected) >= 40, found.count(expected)
    assert found.count(wrong) <= 1


def test_thirty_trials_decide_more_than_five():
    random = numpy.random.default_rng(9)
    few = [verdict(stated(), *poisson(random, 5, mean=-2.5)) for _ in range(50)]
    many = [verdict(stated(), *poisson(random, 30, mean=-2.5)) for _ in range(50)]
    assert few.count("undecided") > 30
    assert many.count("undecided") < 20


def needed(claim, left, right, exact=()):
    (one,) = pilot.needed([claim], runs({"left1.0": left, "right1.0": right}, exact))
    return one


@pytest.mark.slow
@pytest.mark.parametrize(("mean", "outcome"), [(-1.6, "holds"), (-0.4, "fails")])
def test_as_many_trials_as_a_pilot_asks_for_decide_four_times_in_five(mean, outcome):
    random = numpy.random.default_rng(14)
    # Means and spreads that are just what is drawn from below: differences of 1, 0.6 from what matters.
    right = numpy.tile([0.0, 1.0], 50)
    left = right + mean + numpy.tile([1.0, 1.0, -1.0, -1.0], 25)
    found = needed(stated(), left, right)
    assert found.outcome == outcome
    # ((t of 0.975 + t of 0.8) / 0.6)^2 with as many trials.
    assert 22 <= found.trials <= 26
    said = "reproduced" if outcome == "holds" else "not reproduced"
    # Both sides are drawn with a spread of 1: their difference has twice that variance, and needs twice as many.
    drawn = [verdict(stated(), *normal(random, 2 * found.trials, mean=mean)) for _ in range(100)]
    assert 70 <= drawn.count(said) <= 92
    drawn = [verdict(stated(), *normal(random, found.trials, mean=mean)) for _ in range(100)]
    assert drawn.count(said) < 70


def test_pilot_reports_undecidable_and_deterministic_claims():
    right = numpy.zeros(8)
    border = needed(stated(), right - 1 + numpy.tile([0.5, -0.5], 4), right)
    assert (border.trials, border.outcome) == (None, "unknown")
    exact = needed(stated(), [1.0], [3.0], exact=("left1.0", "right1.0"))
    assert (exact.trials, exact.outcome) == (1, "holds")
    untested = stated()
    assert pilot.needed([untested], runs({"left1.0": right})) == []


@pytest.mark.slow
def test_the_detectable_effect_is_detected_four_times_in_five():
    random = numpy.random.default_rng(10)
    size = paired.detectable(numpy.array([-1.0, 1.0] * 10) * (19 / 20) ** 0.5)  # of a spread of 1
    seen = sum(paired.difference(random.normal(size, 1, 20)).low > 0 for _ in range(500))
    assert 0.72 < seen / 500 < 0.9


@pytest.mark.slow
def test_the_interval_covers_the_mean_nineteen_times_in_twenty():
    random = numpy.random.default_rng(11)
    covered = sum(
        effect.low <= 2 <= effect.high
        for effect in (paired.difference(random.poisson(2, 30).astype(float)) for _ in range(500))
    )
    assert 0.91 < covered / 500 < 0.98


@pytest.mark.parametrize("pairs", [2, 5, 11])
def test_the_interval_of_few_pairs_covers_as_often(pairs):
    """The bootstrap's would hold the mean in 52, 83 and 91 %."""
    random = numpy.random.default_rng(13)
    means = [paired.difference(random.normal(2, 1, pairs)) for _ in range(500)]
    sides = [(random.normal(6, 1, pairs), random.normal(3, 0.3, pairs)) for _ in range(500)]
    quotients = [paired.quotient(*one) for one in sides]
    for found in (means, quotients):
        assert 0.92 < sum(one.low <= 2 <= one.high for one in found) / 500 < 0.98


@pytest.mark.parametrize("many", [15, pytest.param(40, marks=pytest.mark.slow)])
def test_the_share_of_false_verdicts_within_a_paper_is_bounded(many):
    """Twenty claims at the border, where every verdict is false; alone, some would come in most papers."""
    random = numpy.random.default_rng(12)
    claims = [stated(number=number) for number in range(20)]
    papers, plain = 0, 0
    for _ in range(many):
        sides = {}
        for number in range(20):
            sides[f"left{number}.0"], sides[f"right{number}.0"] = normal(random, 15, mean=-1.0)
        found = judge.judge(claims, runs(sides))
        papers += any(one.verdict != "undecided" for one in found)
        plain += any(finding.state != "open" for one in found for finding in one.findings)
    assert papers <= many * 0.05 + 5 * (many * 0.05 * 0.95) ** 0.5
    assert plain > many / 2


def test_all_parts_have_to_hold():
    random = numpy.random.default_rng(13)
    sides = {}
    for copy, mean in enumerate((-3, -3, 0)):
        sides[f"left1.{copy}"], sides[f"right1.{copy}"] = normal(random, 30, mean=mean)
    for copies, needed, expected in (
        (2, None, "reproduced"),
        (3, None, "not reproduced"),
        (3, 2, "reproduced"),
        (3, 1, "reproduced"),
    ):
        (one,) = judge.judge([stated(copies=copies, needed=needed)], runs(sides))
        assert one.verdict == expected, (copies, needed)


def test_chances_of_so_many_of_some():
    chances = [_logic.Chance(false_if_holds=low, false_if_fails=1 - low) for low in (0.01, 0.02, 0.9)]
    every = _logic.every(chances)
    assert (every.false_if_holds, every.false_if_fails) == (0.9, pytest.approx(0.3))
    some = _logic.at_least(1, chances)
    assert (some.false_if_holds, some.false_if_fails) == (pytest.approx(0.03), 0.99)
    two = _logic.at_least(2, chances)
    assert (two.false_if_holds, two.false_if_fails) == (pytest.approx(0.04), 1.0)


def test_better_is_fewer_of_one_and_not_more_of_the_other():
    many, few = [(5, 100), (6, 110), (5, 105)] * 10, [(0, 101), (1, 108), (0, 106)] * 10
    assert verdict(stated("better"), few, many) == "reproduced"
    assert verdict(stated("worse"), many, few) == "reproduced"
    assert verdict(stated("alike"), few, few[::-1]) == "reproduced"
    assert verdict(stated("alike"), few, many) == "not reproduced"
    assert verdict(stated("better"), many, many) == "not reproduced"
    traded = [(underflows, discards + 50) for underflows, discards in few]
    assert verdict(stated("better"), traded, many) == "not reproduced"


def test_equal_zeros_are_decided_by_enough_of_them():
    """Five runs without an underflow would miss what comes in one of five; thirty would not."""
    claim = stated("equal")
    assert verdict(claim, [0] * 5, [0] * 5) == "undecided"
    assert verdict(claim, [0] * 30, [0] * 30) == "reproduced"
    assert verdict(stated("less"), [0] * 30, [0] * 30) == "not reproduced"


def test_cells_that_draw_nothing_need_one_run():
    claim = stated("less")
    both = ("left1.0", "right1.0")
    assert verdict(claim, [0], [3], exact=both) == "reproduced"
    assert verdict(claim, [3], [0], exact=both) == "not reproduced"
    assert verdict(claim, [0], [3]) == "undecided"
    # Its one run stands for each trial of the other side.
    assert verdict(claim, [0], [3, 4, 5, 4] * 5, exact=("left1.0",)) == "reproduced"


def test_ratios_and_bounds():
    random = numpy.random.default_rng(14)
    right = random.normal(100, 10, 30)
    left = right * 3 + random.normal(0, 5, 30)
    assert verdict(stated("ratio", within=(2.0, 3.5)), left, right) == "reproduced"
    assert verdict(stated("ratio", within=(10.0, float("inf"))), left, right) == "not reproduced"
    assert verdict(stated("ratio", within=(float("-inf"), 0.5)), right, left) == "reproduced"
    assert verdict(stated("ratio", within=(2.0, 3.5)), [0] * 30, [0] * 30) == "undecided"
    # Nothing against something is a quotient of zero, which has no spread.
    assert verdict(stated("ratio", within=(2.0, 3.5)), [0] * 30, right) == "not reproduced"
    assert verdict(stated("ratio", within=(0.4, 0.6)), right / 2, right) == "reproduced"
    assert verdict(stated("between", within=(90.0, 110.0)), right) == "reproduced"
    assert verdict(stated("between", within=(120.0, float("inf"))), right) == "not reproduced"


def test_verdicts_without_judgement_give_a_reason():
    random = numpy.random.default_rng(15)
    left, right = normal(random, 30, mean=-3)
    found = {"left1.0": left, "right1.0": right}
    inferred = stated(inferred="the queue")
    absent = stated(number=2)
    claim = statement.Claim(id="A.3", place="p", says="s", missing="a clock")
    missing = statement.Stated(claim=claim, comparisons=())
    verdicts = judge.judge([inferred, absent, missing], runs(found))
    assert [one.verdict for one in verdicts] == ["inferred", "undecided", "not testable"]
    assert [one.note for one in verdicts] == ["the queue", "2 of 2 cells were not run: left2.0", "a clock"]
    assert judge.counted(verdicts)["reproduced"] == 0


def test_pairs_are_runs_of_the_same_number():
    """Shuffled luck hides what pairs show, and a run that the other side lacks is left out."""
    random = numpy.random.default_rng(16)
    luck = random.normal(0, 20, 30)
    left, right = luck - 3 + random.normal(0, 0.5, 30), luck + random.normal(0, 0.5, 30)
    assert verdict(stated(), left, right) == "reproduced"
    assert verdict(stated(), left, random.permutation(right)) == "undecided"
    (one,) = judge.judge([stated()], runs({"left1.0": left, "right1.0": right[:20]}))
    assert one.findings[0].effect.pairs == 20


# -- sessions that never start, and pictures that stand still ------------------------------------------------


def started(name, values, *, never=(), dead=(), still=None):
    """Rows of a cell: underflows by run and seconds without a new picture; some never start, and some die."""
    return [
        {
            "row": name, "run": run, "cell": name, "seed": 1, "buffer_underflows": 0 if run in never else value,
            "picture_discards": 0, "startup_delay_s": None if run in never else 1.0,
            "unstarted_sessions": int(run in never), "unreached_sessions": int(run in {*never, *dead}),
            **({} if still is None else {"still_s": still[run], "unplayed_s": 0.0}),
        }
        for run, value in enumerate(values)
    ]  # fmt: skip


def judged(claim, left, right):
    (one,) = judge.judge([claim], Runs([*left, *right], ["row"]))
    return one


def test_a_claim_is_void_if_a_share_of_the_runs_never_started():
    # The left side has fewer underflows only because two of its 40 runs never started.
    right = started("right1.0", [10.0] * 40)
    one = judged(stated(), started("left1.0", [8.0] * 40, never=(3, 4)), right)
    assert (one.verdict, one.q) == ("undecided", None)
    assert one.note == "void: 2 of 40 runs of left1.0 never started"
    # The same holds for the other side.
    other = started("left1.0", [10.0] * 40)
    one = judged(stated("more"), other, started("right1.0", [8.0] * 40, never=(3, 4)))
    assert one.note.startswith("void: 2 of 40 runs of right1.0")


def test_a_claim_is_void_if_a_share_of_the_runs_died():
    # A session that dies at once has few underflows.
    right = started("right1.0", [10.0] * 40)
    one = judged(stated(), started("left1.0", [8.0] * 40, dead=(3, 4)), right)
    assert (one.verdict, one.note) == ("undecided", "void: 2 of 40 runs of left1.0 did not reach the end")
    bound = stated("between", within=(float("-inf"), 20.0))
    assert judged(bound, started("left1.0", [8.0] * 40, dead=(3, 4)), []).verdict == "undecided"
    # One of 40 is less than one in twenty, and is left out.
    one = judged(stated(), started("left1.0", [8.0] * 40, dead=(3,)), right)
    assert (one.verdict, one.findings[0].effect.pairs) == ("reproduced", 39)


def test_a_claim_is_void_if_a_share_of_the_runs_stands_still():
    # A transfer has no player, so only the standstill shows that it died.
    (comparison,) = stated("more").comparisons
    comparison = dataclasses.replace(
        comparison, metric=measure.parse("goodput_mbps"), by={"goodput_mbps": 1.0}
    )
    claim = dataclasses.replace(stated("more"), comparisons=(comparison,))

    def rows(name, rate, stuck=()):
        head = {"row": name, "cell": name, "seed": 1, "goodput_mbps": rate}
        return [{**head, "run": run, **({"standstill_s": 2.0} if run in stuck else {})} for run in range(40)]

    assert judged(claim, rows("left1.0", 9.0), rows("right1.0", 5.0)).verdict == "reproduced"
    one = judged(claim, rows("left1.0", 9.0), rows("right1.0", 5.0, stuck=(3, 4)))
    assert (one.verdict, one.note) == ("undecided", "void: 2 of 40 runs of right1.0 stand still")


def test_film_that_is_not_shown_counts_for_sessions_that_died():
    (comparison,) = stated("more").comparisons
    metric = measure.parse("unplayed_s")
    comparison = dataclasses.replace(comparison, metric=metric, by={"unplayed_s": 1.0})
    claim = dataclasses.replace(stated("more"), comparisons=(comparison,))
    left, right = ([*started(name, [0.0] * 40, dead=(3, 4))] for name in ("left1.0", "right1.0"))
    rows = [{**row, "unplayed_s": 9.0} for row in left], [{**row, "unplayed_s": 2.0} for row in right]
    assert judged(claim, *rows).verdict == "reproduced"


@pytest.mark.parametrize("short", ["never", "dead"])
def test_a_void_claim_holds_nowhere_and_no_number_of_trials_decides_it(short):
    def found(**short):
        rows = started("left1.0", [8.0] * 40, **short) + started("right1.0", [10.0] * 40)
        return Runs(rows, ["row"])

    assert around.spread(stated(), found(), {}).where == "everywhere"
    void = found(**{short: (3, 4)})
    assert around.spread(stated(), void, {}).where == "unknown"
    (one,) = pilot.needed([stated()], void)
    assert (one.trials, one.outcome) == (None, "unknown")


def test_a_single_run_that_never_started_does_not_count():
    # One of 40 is less than one in twenty. Its 0 underflows are not used.
    left = started("left1.0", [10.0] * 40, never=(7,))
    one = judged(stated("equal", by=0.1), left, started("right1.0", [10.0] * 40))
    assert one.verdict == "reproduced"
    assert one.findings[0].effect.pairs == 39


def test_results_of_before_tell_of_no_start_by_the_delay():
    rows = started("left1.0", [8.0] * 40, never=(3, 4))
    for row in rows:
        del row["unstarted_sessions"]
    assert judged(stated(), rows, started("right1.0", [10.0] * 40)).note.startswith("void: 2 of 40")


@pytest.mark.parametrize(("seconds", "expected"), [(3.0, "reproduced"), (9.0, "not reproduced")])
def test_better_is_not_to_stand_still_for_longer(seconds, expected):
    claim = stated("better")
    both = {"buffer_underflows": 1.0, "picture_discards": 10.0, **statement.STILL}
    comparisons = tuple(dataclasses.replace(one, by=both) for one in claim.comparisons)
    claim = dataclasses.replace(claim, comparisons=comparisons)
    random = numpy.random.default_rng(1)
    # 3 underflows fewer, and 3 s less or 3 s more without a new picture than the 6 s of the other side.
    noise = random.normal(0, 0.2, 30)
    left = started("left1.0", list(2 + noise), still=list(seconds + noise))
    right = started("right1.0", list(5 - noise), still=list(6 - noise))
    assert judged(claim, left, right).verdict == expected

"""Claims about a share of runs, about a quotient of quotients, and about two sides that are the same runs."""

import numpy as np
import pytest
from scipy import stats

from anabranch.claims import _tests, around, cells, judge, measure, page, pilot, statement
from anabranch.claims import stored as claimed
from anabranch.study.variants import Reach


def cell(name):
    labels = (("row", name),)
    return cells.Cell(labels=labels, said=labels, shown=labels, paths=())


def stated(**more):
    values = {"metric": measure.parse("still_s"), "of": cell("of"), "than": None, "by": {}}
    comparison = statement.Comparison(**{**values, "within": (0.1, 0.9), **more})
    part = statement.Part(test=comparison.test)
    claim = statement.Claim(id="A", place="p", says="s", parts=[part])
    return statement.Stated(claim=claim, comparisons=(comparison,))


def runs(sides, *, identities=None, varied=None):
    rows = [
        {
            "cell": name,
            "row": name,
            "run": run,
            "seed": 1,
            "still_s": value,
            "varied": varied,
            "identity": (identities or {}).get(name, name) + str(run),
        }
        for name, values in sides.items()
        for run, value in enumerate(values)
    ]
    return claimed.Runs(rows, ["row"], (), varied)


def verdict(claim, found):
    (one,) = judge.judge([claim], found)
    return one


def share_of(counted, count):
    return runs({"of": [2.0] * counted + [0.0] * (count - counted)})


@pytest.mark.parametrize(
    ("counted", "count", "expected"),
    [
        # 15 of 30: the interval of Clopper and Pearson is 0.313 to 0.687.
        (15, 30, "reproduced"),
        (0, 60, "not reproduced"),
        (60, 60, "not reproduced"),
        # 1 of 5 is compatible with any share from 0.005 to 0.72.
        (1, 5, "undecided"),
        # 3 of 30 are exactly the lower bound.
        (3, 30, "undecided"),
    ],
)
def test_a_claim_about_a_share_of_runs(counted, count, expected):
    claim = stated(test="share", least=1.0)
    found = verdict(claim, share_of(counted, count))
    assert found.verdict == expected
    (finding,) = found.findings
    assert finding.effect.value == pytest.approx(counted / count)
    wanted = stats.binomtest(counted, count).proportion_ci(method="exact")
    assert (finding.effect.low, finding.effect.high) == pytest.approx((wanted.low, wanted.high))


@pytest.mark.parametrize(("counted", "count"), [(0, 7), (2, 20), (6, 30), (20, 20)])
def test_the_p_values_of_a_share_are_the_binomials(counted, count):
    low = _tests.share_within(counted, count, (0.2, np.inf), trials=None)
    more = stats.binomtest(counted, count, 0.2, alternative="greater").pvalue
    less = stats.binomtest(counted, count, 0.2, alternative="less").pvalue
    assert (low.false_if_holds, low.false_if_fails) == pytest.approx((more, less))
    high = _tests.share_within(counted, count, (-np.inf, 0.2), trials=None)
    assert (high.false_if_holds, high.false_if_fails) == pytest.approx((less, more))


def test_a_share_at_the_border_is_rarely_decided():
    """If the share is exactly the bound, either verdict is false: each in less than 5 % of 400 cases."""
    chance = np.random.default_rng(3)
    claim = stated(test="share", least=1.0, within=(0.3, np.inf))
    found = [verdict(claim, share_of(int(chance.binomial(30, 0.3)), 30)).verdict for _ in range(400)]
    assert found.count("reproduced") < 20
    assert found.count("not reproduced") < 20


def test_as_many_trials_as_a_pilot_asks_for_decide_four_times_in_five():
    """Before adjustment. The number of runs is whole, so the power is not exactly 80 %: 72 to 92 % of 400."""
    chance = np.random.default_rng(8)
    claim = stated(test="share", least=1.0, within=(0.3, np.inf))
    (found,) = pilot.needed([claim], share_of(15, 30))
    assert found.outcome == "holds"
    counts = chance.binomial(found.trials, 0.5, 400)
    levels = [judge.weighed(claim, share_of(int(count), found.trials))[1].false_if_holds for count in counts]
    assert 0.72 < np.mean([level <= judge.ALPHA for level in levels]) < 0.92


def test_a_share_of_pairs_compares_runs_of_the_same_number():
    """A run counts if it is at most one below the other: 10 of 20."""
    claim = stated(test="share", than=cell("than"), least=-1.0, within=(0.2, 0.8))
    found = verdict(claim, runs({"of": [5.0, 1.0] * 10, "than": [6.0, 6.0] * 10}))
    assert found.findings[0].effect.value == 0.5
    assert found.verdict == "reproduced"


def test_a_share_in_a_world_around_is_not_that_of_the_mean():
    """Five of ten runs stand still for 2 s. Their mean of 1 s would count in all or in none."""
    claim = stated(test="share", least=1.5, within=(0.4, 0.6))
    world = around.World(assumption="a", said="b", reaches=(Reach(rows=frozenset({"of"})),))
    other = runs({"of": [2.0, 0.0] * 5}, varied="b")
    assert around.spread(claim, share_of(0, 10), {world: other}).worlds == {world: True}
    assert around.spread(claim, share_of(0, 10), {world: other}).own is False


def quotients(of, than, above, below, within):
    sides = {"of": of, "than": than, "above": above, "below": below}
    claim = stated(test="ratio", than=cell("than"), against=(cell("above"), cell("below")), within=within)
    return verdict(claim, runs(sides))


def test_a_quotient_of_quotients():
    """(2 / 8) / (6 / 8) is a third."""
    chance = np.random.default_rng(4)
    near = [mean + chance.normal(0, 0.1, 30) for mean in (2.0, 8.0, 6.0, 8.0)]
    found = quotients(*near, within=(-np.inf, 0.5))
    assert found.verdict == "reproduced"
    assert found.findings[0].effect.value == pytest.approx(1 / 3, rel=0.05)
    assert quotients(*near, within=(0.5, np.inf)).verdict == "not reproduced"
    assert quotients(*near, within=(0.33, 0.34)).verdict == "undecided"
    zero = quotients(near[0], near[1], [0.0] * 30, near[3], within=(0, 1))
    assert zero.verdict == "undecided"


def test_the_interval_of_a_quotient_of_quotients_covers_it():
    """Lognormal values: the interval covers the true 1 in 95 % of cases; 400 cases, within 92 to 98 %."""
    chance = np.random.default_rng(6)
    hits = 0
    for _ in range(400):
        sides = [chance.lognormal(0, 0.3, 30) for _ in range(4)]
        effect = quotients(*sides, within=(0.5, 2)).findings[0].effect
        hits += effect.low <= 1 <= effect.high
    assert 368 <= hits <= 392


@pytest.mark.parametrize(("count", "told"), [(5, True), (13, True), (14, False)])
def test_equal_zeros_say_how_many_pairs_are_needed(count, told):
    """0.8^13 is 0.055, and 0.8^14 is 0.044."""
    claim = stated(test="equal", than=cell("than"), by={"still_s": 0.5}, within=None)
    found = verdict(claim, runs({"of": [0.0] * count, "than": [0.0] * count}))
    assert ("that are equal, and 14 are needed" in page.line(found.findings[0])) == told


def test_two_sides_with_equal_settings_give_no_verdict():
    """A null study: both arms are the same runs, so that no claim about them is tested."""
    values = {"of": [1.0] * 30, "than": [1.0] * 30}
    for test, by, within in (("less", 0.5, None), ("equal", 0.5, None), ("ratio", None, (0.9, 1.1))):
        claim = stated(test=test, than=cell("than"), by={"still_s": by} if by else {}, within=within)
        alike = verdict(claim, runs(values, identities={"than": "of"}))
        assert alike.verdict == "undecided"
        assert "same runs" in alike.findings[0].note
        assert verdict(claim, runs(values)).verdict != "undecided"

"""The rule of verdicts: what decides, what does not, the trials needed, and equal arms in a grid."""

from __future__ import annotations

import numpy
import pytest

from anabranch.comparison import measures
from anabranch.report import _folder
from anabranch.results import judging
from anabranch.results.judging import HELPS, HURTS, NO_GAIN, NOTHING, UNDECIDED

(WAITING,) = (one for one in measures.PROGRESSIVE if one.is_score)


def judged(differences, *, better=1, matters=0.1, comparisons=1, exact=False):
    """The verdict on pairs with these differences."""
    luck = range(10, 10 + len(differences))
    left = {run: one + own for run, (one, own) in enumerate(zip(differences, luck, strict=True))}
    right = dict(enumerate(luck))
    return judging.judge(
        left, right, better=better, matters=matters, comparisons=comparisons, exact=(exact, exact)
    )


@pytest.mark.parametrize(
    ("differences", "verdict"),
    [
        # Mean 1, standard deviation 0.5: Student's t of 4 degrees has 2.776, so 1 +- 0.62.
        ([0.5, 0.75, 1.0, 1.0, 1.75], HELPS),
        ([-0.5, -0.75, -1.0, -1.0, -1.75], HURTS),
        # The difference is 0.02 +- 0.02, and differences below 0.1 do not matter.
        ([0.0, 0.01, 0.02, 0.03, 0.04], NOTHING),
        # -0.5 +- 0.6: no gain, but it may hurt.
        ([-1.1, -0.8, -0.5, -0.2, 0.1], NO_GAIN),
        ([-1.0, 2.0, -1.0, 2.0, -1.0], UNDECIDED),
        # The difference is certain, but smaller than the smallest one that matters.
        ([0.05, 0.051, 0.052], NOTHING),
    ],
)
def test_one_rule_gives_each_verdict(differences, verdict):
    assert judged(differences).verdict == verdict
    mirrored = judged([-one for one in differences], better=-1)
    assert mirrored.verdict == verdict, "less of what is bad is the same as more of what is good"


def test_one_or_two_trials_decide_nothing():
    for differences in ([5.0], [5.0, 5.0], [5.0, 5.1], []):
        found = judged(differences)
        assert found.verdict == UNDECIDED
        assert found.needed >= judging.FEWEST
        assert ("at least 3 trials are needed" in found.advice) == (len(differences) < 2)
    # A world that draws nothing has one run.
    assert judged([5.0], exact=True).verdict == HELPS


def test_the_trials_that_are_needed_decide_four_times_in_five():
    # Mean 0.5, standard deviation 1: (1.96 + 0.84)^2 / 0.5^2 = 31 by the normal distribution, some more by t.
    pilot = judged([0.5 - 0.866, 0.5 + 0.866] * 2 + [0.5])
    assert pilot.verdict == UNDECIDED
    spread = numpy.std([-0.866, 0.866] * 2 + [0.0], ddof=1)
    wanted = ((1.96 + 0.8416) * spread / 0.5) ** 2
    assert wanted < pilot.needed <= wanted + 4
    random = numpy.random.default_rng(3)
    decided = sum(judged(random.normal(0.5, spread, pilot.needed)).verdict == HELPS for _ in range(100))
    assert 70 <= decided <= 92


def test_a_small_harm_needs_few_trials_to_be_no_gain():
    # Mean -0.099, standard deviation 0.5. The interval has to end below 0.1, which is 0.199 away:
    # ((1.96 + 0.84) * 0.5 / 0.199)^2 = 50 trials by the normal distribution, some more by t.
    pilot = judged([-0.599, 0.401] * 4 + [-0.099])
    assert pilot.verdict == UNDECIDED
    assert 49 < pilot.needed <= 54
    assert judged([0.599, -0.401] * 4 + [0.099], better=-1).needed == pilot.needed


def test_more_comparisons_need_a_clearer_difference():
    differences = [0.5, 0.75, 1.0, 1.0, 1.75]
    # At 0.05 / 45 Student's t of 4 degrees has 8: 1 +- 1.7.
    assert judged(differences, comparisons=45).verdict == UNDECIDED


def null_world(random, arms, runs, draw):
    """Arms without any difference: each world has a random deviation, and each session another one."""
    luck = draw(random, runs)
    return [
        _folder.Cell(
            setting="",
            name=f"arm{arm}",
            runs=runs,
            exact=False,
            values={WAITING.column: dict(enumerate(luck + draw(random, runs)))},
        )
        for arm in range(arms)
    ]


@pytest.mark.parametrize(
    ("arms", "draw"),
    [
        (2, lambda random, runs: random.normal(10, 2, runs)),
        # Most sessions wait for a second, some for long.
        (2, lambda random, runs: 1 + random.exponential(3, runs) * (random.random(runs) < 0.4)),
        (4, lambda random, runs: random.exponential(3, runs)),
    ],
)
# From 12 runs on, the means in the sentence are resampled, which takes most of the time.
@pytest.mark.parametrize("runs", [5, pytest.param(12, marks=pytest.mark.slow)])
def test_of_400_null_worlds_at_most_28_get_a_verdict(arms, draw, runs):
    # One of twenty is 20 of 400, with a standard deviation of 4.4.
    random = numpy.random.default_rng(39)
    found = [_folder.best(null_world(random, arms, runs, draw), measures.PROGRESSIVE) for _ in range(400)]
    assert sum(text.startswith("best by") for text in found) <= 28


def test_a_true_difference_in_a_grid_is_found():
    random = numpy.random.default_rng(40)
    cells = null_world(random, 4, 12, lambda random, runs: random.normal(10, 1, runs))
    late = {run: value + 6 for run, value in cells[2].values[WAITING.column].items()}
    cells[2] = _folder.Cell(setting="", name="late", runs=12, exact=False, values={WAITING.column: late})
    text = _folder.best(cells, measures.PROGRESSIVE)
    assert text.startswith("best by waiting is arm")
    assert "; late has" in text
    assert "cannot be told from it" in text
    assert "corrected for 6 comparisons" in text


def test_a_varying_worst_cell_does_not_hide_a_certain_difference():
    # 3 s instead of 1 s in each run are certain; 1 s and 7 s in turns are 4 s, but undecided.
    waits = {"good": [1.0] * 6, "late": [3.0] * 6, "varying": [1.0, 7.0] * 3}
    cells = [
        _folder.Cell(
            setting="", name=name, runs=6, exact=False, values={WAITING.column: dict(enumerate(own))}
        )
        for name, own in waits.items()
    ]
    text = _folder.best(cells, measures.PROGRESSIVE)
    assert text.startswith(
        "best by waiting is good: 1 s, and varying cannot be told from it; late has 3 s (+2)"
    )
    assert _folder.best(cells[::2], measures.PROGRESSIVE).startswith("no cell can be told from another")


def test_a_grid_does_not_fall_through_to_another_measure():
    # The score is the same, but the numbers of discarded pictures clearly differ.
    random = numpy.random.default_rng(41)
    cells = null_world(random, 2, 12, lambda random, runs: random.normal(10, 1, runs))
    for cell, count in zip(cells, (0, 90), strict=True):
        cell.values["picture_discards"] = {run: count + run % 3 for run in range(12)}
    text = _folder.best(cells, measures.PROGRESSIVE)
    assert text.startswith("no cell can be told from another by waiting")
    assert "trials" in text

"""Student's t, the beta distribution, adjusted p-values and the bootstrap, which need no scipy.

Expected values: closed forms (one and two degrees of freedom, beta with a parameter of 1), a definition worked by
hand, and scipy, from which they may differ by 1e-12.
"""

from __future__ import annotations

import math

import pytest

from anabranch._distributions import beta_quantile, discoveries, student_below, student_quantile


def close(expected):
    return pytest.approx(expected, rel=1e-12, abs=0)


@pytest.mark.parametrize("value", [-1000.0, -3.0, -1e-8, 0.0, 0.4, 1.0, 12.0])
def test_student_with_one_and_two_degrees_of_freedom_has_closed_forms(value):
    # atan2 and the other form of the difference keep the digits of the lower tail.
    one = math.atan2(1, -value) / math.pi
    root = math.sqrt(2 + value * value)
    two = (root + value) / (2 * root) if value > 0 else 1 / ((root - value) * root)
    assert student_below(value, 1) == close(one)
    assert student_below(value, 2) == close(two)


@pytest.mark.parametrize("share", [0.025, 0.5, 0.8, 0.975])
def test_quantiles_of_student_have_closed_forms(share):
    assert student_quantile(share, 1) == pytest.approx(
        math.tan(math.pi * (share - 0.5)), rel=1e-12, abs=1e-15
    )
    two = (2 * share - 1) * math.sqrt(2 / (4 * share * (1 - share)))
    assert student_quantile(share, 2) == pytest.approx(two, rel=1e-12, abs=1e-15)


def test_student_at_the_ends():
    assert student_below(math.inf, 3) == 1
    assert student_below(-math.inf, 3) == 0
    assert math.isnan(student_below(math.nan, 3))


@pytest.mark.parametrize("count", [1, 5, 40])
def test_quantiles_of_beta_with_a_parameter_of_one_are_roots(count):
    assert beta_quantile(0.025, count, 1) == close(0.025 ** (1 / count))
    assert beta_quantile(0.975, 1, count) == close(-math.expm1(math.log(0.025) / count))


def test_adjusted_levels_are_those_of_benjamini_and_hochberg():
    # By hand: the largest p-value stays 0.04. The third is min(0.03 * 4 / 3, 0.04), the second is limited by
    # the third, and the first is 0.001 * 4.
    assert discoveries([0.04, 0.001, 0.025, 0.03]) == close([0.04, 0.004, 0.04, 0.04])
    assert discoveries([0.9, 0.95]) == close([0.95, 0.95])
    assert discoveries([]) == []


@pytest.mark.slow
def test_all_agree_with_scipy():
    special, stats = pytest.importorskip("scipy.special"), pytest.importorskip("scipy.stats")
    for freedom in (1, 2, 3, 5, 8, 19, 30, 31, 99, 1000, 50_000):
        for share in (0.001, 0.025, 0.2, 0.6, 0.8, 0.975, 0.9999):
            assert student_quantile(share, freedom) == close(float(special.stdtrit(freedom, share)))
        for value in (-300.0, -12.0, -2.0, -0.1, 0.3, 1.0, 4.0):
            assert student_below(value, freedom) == close(float(special.stdtr(freedom, value)))
    for total in (1, 2, 7, 66, 1000, 20_000):
        for count in sorted({0, total // 3, total - 1}):
            for share in (0.025, 0.975):
                expected = float(special.betaincinv(count + 1, total - count, share))
                assert beta_quantile(share, count + 1, total - count) == close(expected)
    levels = [((k * 37) % 101 / 101) ** 4 for k in range(1, 90)]
    assert discoveries(levels) == close(stats.false_discovery_control(levels).tolist())


@pytest.mark.slow
@pytest.mark.parametrize("count", [12, 13, 40, 300])
@pytest.mark.parametrize("of", ["mean", "quotient"])
def test_the_bootstrap_is_that_of_scipy(count, of):
    import numpy as np

    from anabranch.results import paired

    bootstrap = pytest.importorskip("scipy.stats").bootstrap
    chance = np.random.default_rng(count)
    above, below = chance.exponential(3.0, count), 5 + chance.normal(size=count)
    data = (above,) if of == "mean" else (above, below)

    def statistic(*sides, axis=-1):
        return sides[0].mean(axis=axis) / (1 if of == "mean" else sides[1].mean(axis=axis))

    expected = bootstrap(
        data,
        statistic,
        paired=True,
        vectorized=True,
        n_resamples=paired._RESAMPLES,
        confidence_level=paired.LEVEL,
        random_state=np.random.default_rng(paired._SEED),
    ).confidence_interval
    assert paired._between(above, None if of == "mean" else below) == close((expected.low, expected.high))


def test_resamples_that_are_nearly_all_alike_have_no_interval():
    import numpy as np

    from anabranch.results import paired

    # The divisor is zero in some resamples, so that the quotient is not a number there.
    below = np.array([1.0] + [0.0] * 11)
    assert paired._between(np.arange(12.0) * 0, below) == (0.0, 0.0)
    assert paired._between(np.arange(12.0), below) == (None, None)

"""Numbers as texts: digits, zeros at the end, and exponents. Expected texts are rounded by hand."""

from __future__ import annotations

import math

import pytest

from anabranch import _numbers


@pytest.mark.parametrize(
    ("value", "digits", "text"),
    [
        (123.456, 2, "120"), (1234.5, 4, "1234"), (0.00012345, 2, "0.00012"), (1.5, 4, "1.5"), (-9.996, 3, "-10"),
        (1e9, 4, "1000000000"), (123456, 2, "123456"), (0.0, 4, "0"), (math.inf, 4, "inf"), (math.nan, 4, "nan"),
    ],
)  # fmt: skip
def test_significant_digits_have_no_exponent(value, digits, text):
    assert _numbers.significant(value, digits) == text


@pytest.mark.parametrize(
    ("value", "signed", "text"),
    [(1234.5, False, "1,234"), (12.34, True, "+12.3"), (1.50, True, "+1.5"), (-0.126, False, "-0.13"), (100.0, False, "100")],
)  # fmt: skip
def test_about_three_digits_are_shown(value, signed, text):
    assert _numbers.three_digits(value, signed=signed) == text


@pytest.mark.parametrize(
    ("value", "text"), [(12.345678, "12.3457"), (0.00001, "0.00001"), (2e6, "2000000"), (math.inf, "inf")]
)
def test_six_digits_have_no_exponent(value, text):
    assert _numbers.six_digits(value) == text


@pytest.mark.parametrize(("value", "places", "text"), [(1.25, 1, "1.2"), (10.0, 3, "10"), (0.1004, 3, "0.1")])
def test_zeros_at_the_end_of_decimals_go(value, places, text):
    assert _numbers.decimal(value, places) == text


def test_zeros_of_whole_numbers_stay():
    assert [_numbers.trimmed(text) for text in ("100", "100.00", "1,000.50")] == ["100", "100", "1,000.5"]


@pytest.mark.parametrize(
    ("mean", "half", "is_signed", "text"),
    [
        (4.25, 0.123, False, "4.25 ± 0.12"), (4.25, None, False, "4.25"), (2.5, 5.0, False, "2.5 (0 to 7.5)"),
        (2.5, 5.0, True, "2.5 (-2.5 to 7.5)"), (-2.5, 5.0, False, "-2.5 (-7.5 to 2.5)"), (0.0, 1.0, False, "0 (0 to 1)"),
    ],
)  # fmt: skip
def test_an_interval_contains_its_mean(mean, half, is_signed, text):
    assert _numbers.with_half(mean, half, is_signed=is_signed) == text


def test_a_missing_number_is_a_dash():
    assert _numbers.or_dash(None, "{:.2f} s") == "-"
    assert _numbers.or_dash(0.256, "{:.1f} %", scale=100) == "25.6 %"
    assert _numbers.or_dash(1234, "{:,}") == "1,234"

"""Numbers as texts for people and files."""

from __future__ import annotations

import math


def trimmed(text: str) -> str:
    """Return the text of a decimal number without trailing zeros."""
    return text.rstrip("0").rstrip(".") if "." in text else text


def decimal(value: float, places: int) -> str:
    """Return a number with at most the given number of decimal places."""
    return trimmed(f"{value:.{places}f}")


def significant(value: float, digits: int) -> str:
    """Round to significant digits, and write no exponent: 120, not 1.2e+02.

    Whole numbers keep all digits.
    """
    if not isinstance(value, float) or not math.isfinite(value) or value == 0:
        return str(value) if not isinstance(value, float) else f"{value:g}"
    behind = digits - 1 - math.floor(math.log10(abs(value)))
    return decimal(round(value, behind), max(behind, 0))


def six_digits(value: float) -> str:
    """Return a number without an exponent: with six significant digits, or twelve places below 1e-4."""
    text = f"{value:.6g}"
    return text if "e" not in text or not math.isfinite(value) else decimal(value, 12)


def four_digits(value: float) -> str:
    """Return a number with about four digits: three decimal places below 10, none from 1,000."""
    size = abs(value)
    if value == round(value) or size >= 1000:
        return f"{value:,.0f}"
    return f"{value:.1f}" if size >= 100 else f"{value:.2f}" if size >= 10 else f"{value:.3f}"


def three_digits(value: float, *, signed: bool = False) -> str:
    """Return a number with about three digits: at most two decimal places below 10, none from 100."""
    digits = 0 if abs(value) >= 100 else 1 if abs(value) >= 10 else 2
    return trimmed(f"{value:+,.{digits}f}" if signed else f"{value:,.{digits}f}")


def with_half(
    mean: float, half_width: float | None, *, is_signed: bool = True, places: int | None = None
) -> str:
    """Return a mean with half the width of its interval; if that contains zero, with both ends in brackets.

    Parameters
    ----------
    mean, half_width
        The mean, and half the width of its interval; None is no interval.
    is_signed
        Whether the values can be negative; otherwise the interval of a mean from zero begins at zero.
    places
        The decimal places of all numbers. None is four significant digits of the mean and two of the others.
    """

    def number(value: float, digits: int) -> str:
        # Adding zero turns -0.0 into 0.0.
        return significant(value, digits) if places is None else f"{round(value, places) + 0.0:,.{places}f}"

    text = number(mean, 4)
    if not half_width:
        return text
    if mean - half_width < 0 < mean + half_width:
        from anabranch._intervals import ends

        low, high = ends(mean, half_width, is_signed=is_signed)
        return f"{text} ({number(low, 2)} to {number(high, 2)})"
    return f"{text} ± {number(half_width, 2)}"


def argument(value: object) -> str:
    """Return a value in the notation of the command line."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def or_dash(value: float | None, form: str, *, scale: float | None = None) -> str:
    """Return a number in a format such as `{:.2f} s`; None becomes a dash.

    Parameters
    ----------
    value
        The number.
    form
        A template of `str.format` with one field.
    scale
        A factor for the number. Without one, whole numbers stay whole.
    """
    if value is None:
        return "-"
    return form.format(value if scale is None else value * scale)

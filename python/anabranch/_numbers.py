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


def with_half(value: float, wide: float | None, *, least: float = -math.inf) -> str:
    """Return a mean with half the width of its interval; if that contains zero, with both ends in brackets.

    Parameters
    ----------
    value, wide
        The mean, and half the width of its interval; None is no interval.
    least
        The smallest possible value.
    """
    text = significant(value, 4)
    if not wide:
        return text
    if value - wide < 0 < value + wide:
        return f"{text} ({significant(max(value - wide, least), 2)} to {significant(value + wide, 2)})"
    return f"{text} ± {significant(wide, 2)}"


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

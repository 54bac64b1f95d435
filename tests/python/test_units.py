"""Quantities with units: their values, and refused texts."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch.scenario import units


@pytest.mark.parametrize(
    ("text", "ns"),
    [
        ("50 ms", 50_000_000),
        ("50ms", 50_000_000),
        ("0.1 ms", 100_000),
        ("10 s", 10_000_000_000),
        ("624 s", 624_000_000_000),
        ("1 min", 60_000_000_000),
        ("10 min 24 s", 624_000_000_000),
        ("2 us", 2_000),
        ("2 µs", 2_000),
        ("1e3 ns", 1_000),
        ("1 h", 3_600_000_000_000),
        ("0 s", 0),
    ],
)
def test_times(text, ns):
    assert units.time_ns(text) == ns


@pytest.mark.parametrize(
    ("text", "bps"),
    [
        ("5 Mbit/s", 5_000_000),
        ("5 Mb/s", 5_000_000),
        ("5Mbps", 5_000_000),
        ("500 kbit/s", 500_000),
        ("1 Gbit/s", 1_000_000_000),
        ("5.24 Mb/s", 5_240_000),
        ("1 MB/s", 8_000_000),
        ("1 KiB/s", 8_192),
        ("9600 bit/s", 9_600),
        ("unlimited", None),
    ],
)
def test_rates(text, bps):
    assert units.rate_bps(text) == bps


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("6 MiB", 6 * 2**20),
        ("150 kB", 150_000),
        ("64 KiB", 65_536),
        ("1460 B", 1460),
        ("409 MB", 409_000_000),
    ],
)
def test_sizes(text, size):
    assert units.size_bytes(text) == size


@pytest.mark.parametrize(("text", "share"), [("0.5 %", 0.005), ("0.5%", 0.005), ("100 %", 1.0), ("0 %", 0.0)])
def test_percentages(text, share):
    assert units.fraction(text) == share


@pytest.mark.parametrize(
    ("text", "limit"),
    [
        ("100 packets", {"packets": 100}),
        ("1 packet", {"packets": 1}),
        ("64 KiB", {"bytes": 65_536}),
        ("150 kB", {"bytes": 150_000}),
        ("unlimited", None),
    ],
)
def test_queues(text, limit):
    assert units.queue(text) == limit


@pytest.mark.parametrize(
    ("parse", "value", "message", "hint"),
    [
        (units.time_ns, 50, "a bare number where a time is required: 50", 'add a unit: 50 -> "50 ms"'),
        (units.time_ns, "50", "a bare number where a time is required: 50", 'add a unit: 50 -> "50 ms"'),
        (units.fraction, 0.5, "a bare number", '0.5 -> "0.5 %", or "50 %" if a share is meant'),
        (units.limited_rate_bps, 0, "a rate must be more than zero: `0`", ""),
        (units.rate_bps, "0.0", "a rate must be more than zero: `0.0`", ""),
        (units.size_bytes, 0, "a size must be more than zero: `0`", ""),
        (units.queue, 0, "a queue must be more than zero: `0`", ""),
        (units.positive_time_ns, 0, "a time must be more than zero: `0`", ""),
        (units.time_ns, 0, "a bare number where a time is required: 0", 'add a unit: 0 -> "0 ms"'),
        (units.rate_bps, True, "expected a rate, got true", ""),
        (units.fraction, 0.005, "a bare number where a percentage is required: 0.005", '"0.5 %"'),
        (units.rate_bps, "5 Mbits/s", "unknown unit `Mbits/s` for a rate", "did you mean `Mbit/s`?"),
        (units.rate_bps, "-5 Mbit/s", "a rate must not be negative", ""),
        (units.rate_bps, "0 Mbit/s", "a rate must be more than zero", ""),
        (units.fraction, "120 %", "a percentage must not be above 100 %", ""),
        (units.fraction, "-1 %", "must not be negative", ""),
        (units.queue, "100", "a bare number where a queue length is required", '"100 packets"'),
        # White space and underscores that the pattern of a number allows, and `float` does not.
        (units.rate_bps, "0\x1f", "a rate must be more than zero", ""),
        (units.rate_bps, "1__0", "a bare number where a rate is required: 1__0", "add a unit"),
        (units.fraction, "1_", "a bare number where a percentage is required: 1_", "add a unit"),
        # No quantity is negative, so the hint must not propose a negative one.
        (units.rate_bps, -5, "a rate must not be negative: -5", 'for example "5 Mbit/s"'),
        (units.time_ns, "-5", "a time must not be negative: -5", 'for example "50 ms"'),
        (units.queue, -7, "a queue length must not be negative: -7", 'for example "100 packets"'),
        (units.fraction, -0.5, "a percentage must not be negative: -0.5", 'for example "0.5 %"'),
        (units.size_bytes, "-1e3", "a size must not be negative: -1e3", 'for example "6 MiB"'),
        (units.fraction, "0,5 %", "a comma in a percentage: `0,5 %`", 'with a point, "0.5 %"'),
        (units.rate_bps, "1,500 kbit/s", "a comma in a rate: `1,500 kbit/s`", 'without one, "1500 kbit/s"'),
        (units.time_ns, "-5 sec", "unknown unit `sec`", 'write "5 s"'),
        (units.time_ns, "- 5 m", "unknown unit `m`", '"5 min" is minutes, "5 ms"'),
        (units.rate_bps, "-5 MB", "unknown unit `MB`", 'write "40 Mbit/s"'),
        (units.time_ns, "fast", "cannot read a time: `fast`", "50 ms"),
        (units.time_ns, "", "empty", "50 ms"),
        (units.time_ns, True, "expected a time, got true", "50 ms"),
        (units.time_ns, ["50 ms"], "expected a time, got an array", "50 ms"),
        (units.time_ns, {"ms": 50}, "expected a time, got a table", "50 ms"),
        (units.rate_bps, "5 Mbit/s 3 kbit/s", "cannot read a rate", "5 Mbit/s"),
        (units.time_ns, "1e40 h", "too large", ""),
        (units.size_bytes, "6 MiBs", "unknown unit", "did you mean `MiB`?"),
    ],
)
def test_refusals(parse, value, message, hint):
    with pytest.raises(units.UnitError) as caught:
        parse(value)
    assert message in str(caught.value)
    assert hint in caught.value.hint


@given(
    st.integers(min_value=0, max_value=10**6),
    st.sampled_from(sorted(units.TIME_UNITS)),
    st.text(" ", max_size=3),
)
def test_integer_times_convert_exactly(count, unit, space):
    assert units.time_ns(f"{count}{space}{unit}") == count * int(units.TIME_UNITS[unit])


@given(st.decimals(min_value=0, max_value=100, places=4))
def test_percentages_stay_within_one(percent):
    assert units.fraction(f"{percent} %") == pytest.approx(float(percent) / 100)


@given(
    st.one_of(st.text(max_size=20), st.integers(), st.floats(), st.none(), st.booleans(), st.lists(st.text()))
)
def test_anything_else_is_refused_in_words(value):
    for parse in (
        units.time_ns,
        units.rate_bps,
        units.size_bytes,
        units.fraction,
        units.queue,
        units.pictures,
    ):
        try:
            parse(value)
        except units.UnitError as error:
            assert str(error)  # noqa: PT017 - either way of ending is right; only other errors are not


@given(st.integers(min_value=1, max_value=10**15))
def test_a_time_shown_reads_back_as_itself(ns):
    assert units.time_ns(units.show_time(ns)) == ns


def test_rates_are_shown_as_people_write_them():
    assert units.show_rate(5_240_000) == "5.24 Mbit/s"
    assert units.show_rate(None) == "unlimited"
    assert units.show_rate(800) == "800 bit/s"

"""The figure of the calibration page. Expected values are the page's own cells, and arithmetic by hand."""

from __future__ import annotations

from anabranch.figures import goodput

_PAGE = """# Calibration

## In short

| Bulk | 18 of 18 |

## Bulk: as much as the paths take

| bbr | kernel | n | simulator | error | allowed | |
|---|--:|--:|--:|--:|--:|---|
| goodput, Mb/s | 9.000 ± 0.006 | 3 | 9.207 | +2.3% | ± 0.276 | ok |
| path 1: retransmissions | 0 | 3 | 0 | 0 | ± 10 | ok |

## papers-kernel: Bulk: as much as the paths take

| goodput, Mb/s | 18 | 2 | 10.00 | -44.4% | ± 0.360 | miss (2 trials: 2 times the target) |
"""


def test_a_point_is_a_row_with_its_kernel_and_verdict():
    assert goodput.points(_PAGE) == [
        goodput.Point(kernel="", mbps=9.0, error=2.3, inside=True),
        goodput.Point(kernel="papers-kernel", mbps=18.0, error=-44.4, inside=False),
    ]


def test_points_beyond_the_axes_are_drawn_at_the_edge_and_misses_have_a_ring():
    picture = goodput.svg(_PAGE)
    assert "1 of 2 settings" in picture
    # 64 + 9 / 36 * 680, and 286 - 12.3 / 15 * 210.
    assert '<circle class="k0" cx="234.0" cy="113.8" r="3.5" opacity="0.75"/>\n' in picture
    # 64 + 18 / 36 * 680, and the lower edge.
    assert '<circle class="miss" cx="404.0" cy="286.0" r="7"/>' in picture

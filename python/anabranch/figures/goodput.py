"""A figure for the whole calibration page: the difference between each setting's goodput and the kernel's."""

from __future__ import annotations

import re
from dataclasses import dataclass

_ROW = re.compile(
    r"^\| goodput, Mb/s \| (?P<kernel>[\d.]+)[^|]*\| \d+ \| [\d.]+ "
    r"\| (?P<error>[+-][\d.]+)% \|[^|]*\| (?P<verdict>\w+)",
    re.MULTILINE,
)
_CHAPTER = re.compile(r"^## (?:([\w-]+): )?\w", re.MULTILINE)

#: The plot's edges in pixels, and the range of both axes.
_LEFT, _RIGHT, _TOP, _BOTTOM = 64, 744, 76, 286
_MBPS, _PERCENT = (0, 36), (-10, 5)
#: The target for goodput, in percent (docs/calibration.md); bbr has 3 %.
_TARGET = 2

_KERNELS = {"": "Linux 6.18", "odd": "Linux 6.18, unusual settings", "papers-kernel": "MPTCP v0.94"}
_STYLE = """\
.card{fill:#fff}.text{fill:#333}.grid{stroke:#ddd}.band{fill:#e4efe4}
.k0{fill:#0b6fb8}.k1{fill:#8a4fa3}.k2{fill:#b96a00}.miss{fill:none;stroke:#c62828;stroke-width:2}
@media (prefers-color-scheme:dark){.card{fill:#1b1e23}.text{fill:#ddd}.grid{stroke:#444}.band{fill:#22382a}
.k0{fill:#6db7ef}.k1{fill:#cf9be6}.k2{fill:#f0a840}.miss{stroke:#ff7a70}}
text{font:13px sans-serif}.title{font:bold 15px sans-serif}"""


@dataclass(frozen=True)
class Point:
    """The goodput of one setting.

    Attributes
    ----------
    kernel
        The folder of measurements, as in the page's headings: empty, `odd` or `papers-kernel`.
    mbps
        The kernel's mean.
    error
        How far the simulator's mean is from it, in percent.
    inside
        Whether that is within the target.
    """

    kernel: str
    mbps: float
    error: float
    inside: bool


def points(page: str) -> list[Point]:
    """Return the goodputs in the tables of a calibration page."""
    chapters = [(found.start(), found.group(1) or "") for found in _CHAPTER.finditer(page)]
    result = []
    for row in _ROW.finditer(page):
        folder = [name for start, name in chapters if start < row.start()][-1]
        kernel = folder if folder in _KERNELS else ""
        inside = row["verdict"] == "ok"
        result.append(Point(kernel, float(row["kernel"]), float(row["error"]), inside))
    return result


def svg(page: str) -> str:
    """Return the figure as SVG: the simulator's error over the kernel's goodput."""
    shown = points(page)
    parts = [
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 760 340" width="760" height="340" role="img">',
        "<title>Goodput of the simulator compared with Linux kernels</title>",
        f"<style>{_STYLE}</style>",
        '<rect class="card" width="760" height="340" rx="8"/>',
        f'<text class="text title" x="{_LEFT}" y="28">{_headline(shown)}</text>',
        *_legend(),
        _band(),
        *(_line(percent) for percent in range(_PERCENT[0], _PERCENT[1] + 1, 5)),
        *(_centred(_x(mbps), _BOTTOM + 20, str(mbps)) for mbps in range(0, 36, 5)),
        _centred((_LEFT + _RIGHT) / 2, _BOTTOM + 42, "goodput of the kernel, Mb/s"),
        *map(_mark, shown),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def _headline(shown: list[Point]) -> str:
    """Return the sentence above the figure."""
    inside = sum(point.inside for point in shown)
    return f"Simulated goodput minus measured: {inside} of {len(shown)} settings are within their targets"


def _legend() -> list[str]:
    """Return the legend: the kernels, the target, and the sign of a miss."""
    parts, x = [], _LEFT
    for place, (name, width) in enumerate(zip(_KERNELS.values(), (112, 232, 136), strict=True)):
        parts.append(f'<circle class="k{place}" cx="{x + 5}" cy="52" r="5"/>')
        parts.append(f'<text class="text" x="{x + 16}" y="57">{name}</text>')
        x += width
    parts.append(f'<rect class="band" x="{x}" y="45" width="14" height="14"/>')
    parts.append(f'<text class="text" x="{x + 20}" y="57">± {_TARGET} %</text>')
    parts.append(f'<circle class="miss" cx="{x + 93}" cy="52" r="6"/>')
    parts.append(f'<text class="text" x="{x + 105}" y="57">misses</text>')
    return parts


def _band() -> str:
    """Return the band of errors within the target."""
    top, bottom = _y(_TARGET), _y(-_TARGET)
    return f'<rect class="band" x="{_LEFT}" y="{top:g}" width="{_RIGHT - _LEFT}" height="{bottom - top:g}"/>'


def _centred(x: float, y: float, text: str) -> str:
    """Return a label that is centred at a point."""
    return f'<text class="text" text-anchor="middle" x="{x:g}" y="{y:g}">{text}</text>'


def _line(percent: int) -> str:
    """Return a grid line with its label."""
    y, sign = _y(percent), "+" if percent > 0 else ""
    return (
        f'<line class="grid" x1="{_LEFT}" x2="{_RIGHT}" y1="{y:g}" y2="{y:g}"/>'
        f'<text class="text" text-anchor="end" x="{_LEFT - 8}" y="{y + 4:g}">{sign}{percent} %</text>'
    )


def _mark(point: Point) -> str:
    """Return the mark of a setting, with a ring if it misses its target."""
    place = list(_KERNELS).index(point.kernel)
    at = f'cx="{_x(point.mbps):.1f}" cy="{_y(point.error):.1f}"'
    ring = "" if point.inside else f'<circle class="miss" {at} r="7"/>'
    return f'<circle class="k{place}" {at} r="3.5" opacity="0.75"/>{ring}'


def _x(mbps: float) -> float:
    """Return the horizontal place of a goodput; values beyond the axis are at its edge."""
    share = (min(mbps, _MBPS[1]) - _MBPS[0]) / (_MBPS[1] - _MBPS[0])
    return _LEFT + share * (_RIGHT - _LEFT)


def _y(percent: float) -> float:
    """Return the vertical place of an error; values beyond the axis are at its edge."""
    inside = max(_PERCENT[0], min(percent, _PERCENT[1]))
    return _BOTTOM - (inside - _PERCENT[0]) / (_PERCENT[1] - _PERCENT[0]) * (_BOTTOM - _TOP)

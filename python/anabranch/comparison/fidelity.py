"""The distance of the simulator from the Linux kernel, on the measured setting that is nearest to a scenario.

`calibrated.csv` has the settings of docs/calibration.md, each measured on a kernel and repeated in the
simulator. The distance of two settings is the mean over their paths of the differences of rate and RTT in
doublings, and of the square roots of the losses in tenths (a window goes with 1 / sqrt(loss)).
"""

from __future__ import annotations

import csv
from dataclasses import dataclass
from functools import cache
from itertools import permutations
from math import inf, log2, sqrt
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_TABLE = Path(__file__).with_name("calibrated.csv")
_PAGE = "docs/calibration.md"
#: From this distance on a setting is far: a rate or an RTT differs by more than a factor of two.
_FAR = 1.0
#: The settings of the other kernel begin so.
_OTHER_KERNEL = "papers-kernel"
#: Round-trip time in ms, rate in Mb/s and loss of a path.
Leg = tuple[float, float, float]


@dataclass(frozen=True, kw_only=True)
class Measured:
    """A measured setting.

    Attributes
    ----------
    setting, anchor
        Its name, and its place on the page of calibration.
    congestion
        The congestion control.
    legs
        Its paths.
    kernel_mbps, simulator_mbps, error_percent
        Mean goodput on the kernel and in the simulator, and the difference.
    """

    setting: str
    anchor: str
    congestion: str
    legs: tuple[Leg, ...]
    kernel_mbps: float
    simulator_mbps: float
    error_percent: float


@dataclass(frozen=True, kw_only=True)
class Fidelity:
    """The nearest measured setting.

    Attributes
    ----------
    nearest
        The setting; None if none is comparable.
    distance
        Its distance in doublings.
    congestion
        The scenario's congestion control.
    """

    nearest: Measured | None
    distance: float
    congestion: str

    @property
    def sentence(self) -> str:
        """The distance in words, with the place on the page."""
        one = self.nearest
        if one is None:
            return (
                "fidelity: no setting measured on a Linux kernel is comparable, since paths follow models or "
                f"recordings, or are more than those measured ({_PAGE})"
            )
        legs = " | ".join(_leg(leg) for leg in one.legs)
        far = (
            "" if self.distance < _FAR else f"; it is far from yours, by {self.distance:.1f} doublings a path"
        )
        other = "" if one.congestion == self.congestion else f", not {self.congestion}"
        return (
            f"fidelity: on the nearest setting measured on a Linux kernel ({one.setting}, "
            f"{one.congestion}{other}: {legs}) the simulator's goodput was {one.error_percent:+g} % from the "
            f"kernel's, {one.simulator_mbps:g} instead of {one.kernel_mbps:g} Mb/s{far} ({self.link})"
        )

    @property
    def link(self) -> str:
        """The place on the page of calibration."""
        return _PAGE if self.nearest is None else f"{_PAGE}#{self.nearest.anchor}"

    def to_json(self) -> dict[str, Any]:
        """Return it as an object for JSON."""
        one = self.nearest
        return {
            "setting": None if one is None else one.setting,
            "congestion": None if one is None else one.congestion,
            "distance_doublings": None if one is None else round(self.distance, 2),
            "goodput_error_percent": None if one is None else one.error_percent,
            "link": self.link,
            "sentence": self.sentence,
        }


def _leg(leg: Leg) -> str:
    """Return a path in words."""
    rtt_ms, rate_mbps, loss = leg
    return f"{rtt_ms:g} ms, {rate_mbps:g} Mb/s" + (f", {100 * loss:g} % loss" if loss else "")


def of(raw: Mapping[str, Any], congestion: str, paths: Sequence[str] = ()) -> Fidelity:
    """Return the measured setting that is nearest to a scenario.

    Parameters
    ----------
    raw
        The tables of a valid scenario.
    congestion
        The congestion control.
    paths
        The paths that are used; empty is all.
    """
    from anabranch.scenario import units

    legs: list[Leg] = []
    for path in raw["paths"]:
        if paths and path["name"] not in paths:
            continue
        rate = units.rate_bps(path["rate"]) if "rate" in path else None
        if rate is None or "rtt" not in path or path.get("model") or path.get("trace"):
            return Fidelity(nearest=None, distance=inf, congestion=congestion)
        loss = path.get("loss")
        share = units.fraction(loss) if loss is not None and not isinstance(loss, dict) else 0.0
        legs.append((units.time_ns(path["rtt"]) / 1e6, rate / 1e6, share))
    transport = raw.get("transport", {})
    is_other = transport.get("profile") == "mptcp-0.94"
    is_lost = bool(raw.get("handoffs"))
    known = [
        one
        for one in _table()
        if len(one.legs) == len(legs)
        and one.setting.startswith(_OTHER_KERNEL) == is_other
        and ("handoff" in one.setting) == is_lost
    ]
    known = [one for one in known if one.congestion == congestion] or known
    nearest = min(known, key=lambda one: _distance(legs, one.legs), default=None)
    distance = inf if nearest is None else _distance(legs, nearest.legs)
    return Fidelity(nearest=nearest, distance=distance, congestion=congestion)


def _distance(legs: Sequence[Leg], others: Sequence[Leg]) -> float:
    """Return the distance of two settings: that of the best assignment of their paths."""
    return min(
        sum(_apart(one, other) for one, other in zip(legs, order, strict=True)) / len(legs)
        for order in permutations(others)
    )


def _apart(one: Leg, other: Leg) -> float:
    """Return the distance of two paths in doublings."""
    rtt, rate = (abs(log2(max(one[at], 0.1) / max(other[at], 0.1))) for at in (0, 1))
    return max(rtt, rate, 10 * abs(sqrt(one[2]) - sqrt(other[2])))


@cache
def _table() -> tuple[Measured, ...]:
    """Return the measured settings."""
    with _TABLE.open(encoding="utf-8", newline="") as file:
        return tuple(
            Measured(
                setting=row["setting"],
                anchor=row["anchor"],
                congestion=row["congestion"],
                legs=tuple(_read(text) for text in row["paths"].split(";")),
                kernel_mbps=float(row["kernel_mbps"]),
                simulator_mbps=float(row["simulator_mbps"]),
                error_percent=float(row["error_percent"]),
            )
            for row in csv.DictReader(file)
        )


def _read(text: str) -> Leg:
    """Return a path of the table."""
    rtt_ms, rate_mbps, loss = map(float, text.split())
    return rtt_ms, rate_mbps, loss

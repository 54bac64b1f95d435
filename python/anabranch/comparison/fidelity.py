"""The distance of the simulator from the Linux kernel, on the measured setting that is nearest to a scenario.

`calibrated.csv` has the settings of docs/calibration.md, each measured on a kernel and repeated in the
simulator. The distance of two settings is the largest difference over their paths. A difference in rate or
RTT counts in doublings. A difference in loss counts as ten times that of the square roots, because a
congestion window is proportional to 1 / sqrt(loss).

The distance compares only RTTs, rates and losses. A scenario with anything else is not comparable, and the
sentence names the reason.
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
#: A setting at this distance or more is reported as far: a rate or an RTT differs by a factor of two.
_FAR = 1.0
#: The prefix of the settings of the out-of-tree kernel.
_OTHER_KERNEL = "papers-kernel"
#: Round-trip time in ms, rate in Mb/s and loss of a path.
Leg = tuple[float, float, float]
#: Tables of a scenario that make it incomparable: no measured setting has them.
_WORLD = ("links", "cross_traffic", "events")
#: Keys of a path that the distance compares, or that have no influence on packets.
_COMPARED = frozenset(
    [
        "name",
        "rtt",
        "rate",
        "loss",
        "loss_at",
        "queue",
        "icmp",
        "family",
        "price_per_gb",
        "cap_gb_per_month",
        "weight",
        "emulator_seed",
    ]
)


@dataclass(frozen=True, kw_only=True)
class Measured:
    """A measured setting.

    Attributes
    ----------
    setting, anchor
        Its name, and its anchor on docs/calibration.md.
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
    reason
        Why no setting is comparable.
    unlike
        Properties other than paths in which the nearest setting differs from the scenario.
    """

    nearest: Measured | None
    distance: float
    congestion: str
    reason: str = ""
    unlike: tuple[str, ...] = ()

    @property
    def sentence(self) -> str:
        """The distance in words, with the link to the page."""
        one = self.nearest
        if one is None:
            why = f": {self.reason}" if self.reason else ""
            return f"fidelity: no setting measured on a Linux kernel is comparable{why} ({_PAGE})"
        legs = " | ".join(_leg(leg) for leg in one.legs)
        far = (
            "" if self.distance < _FAR else f"; it is far from yours, by up to {self.distance:.1f} doublings"
        )
        unlike = "".join(f"; {one}" for one in self.unlike)
        other = "" if one.congestion == self.congestion else f", not {self.congestion}"
        return (
            f"fidelity: on the nearest setting measured on a Linux kernel ({one.setting}, "
            f"{one.congestion}{other}: {legs}) the simulator's goodput was "
            f"{one.error_percent + 0.0:+g} % from the kernel's, "
            f"{one.simulator_mbps:g} instead of {one.kernel_mbps:g} Mb/s{far}{unlike} ({self.link})"
        )

    @property
    def link(self) -> str:
        """The link to the setting on docs/calibration.md."""
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


def of_scenario(raw: Mapping[str, Any]) -> Fidelity:
    """Return the measured setting that is nearest to a scenario with its own congestion control.

    Parameters
    ----------
    raw
        The tables of a valid scenario.
    """
    from anabranch.scenario import profiles
    from anabranch.scenario.models import Transport

    filled: Any = profiles.with_defaults({"transport": {}, **raw})
    given = filled["transport"].get("congestion", Transport.model_fields["congestion"].get_default())
    name = given.get("name", given) if isinstance(given, dict) else getattr(given, "name", given)
    return of(filled, str(name))


def of(raw: Mapping[str, Any], congestion: str) -> Fidelity:
    """Return the measured setting that is nearest to a scenario.

    Parameters
    ----------
    raw
        The tables of a valid scenario.
    congestion
        The congestion control.
    """
    from anabranch.scenario import units

    def incomparable(reason: str) -> Fidelity:
        return Fidelity(nearest=None, distance=inf, congestion=congestion, reason=reason)

    for key in _WORLD:
        if raw.get(key):
            return incomparable(f"the scenario has `{key}`")
    if raw.get("clients", 1) != 1:
        return incomparable("the scenario has several clients")
    legs: list[Leg] = []
    for path in raw["paths"]:
        rate = units.rate_bps(path["rate"]) if "rate" in path else None
        if extra := sorted(key for key in path if key not in _COMPARED and _is_set(path[key])):
            return incomparable(f"path `{path['name']}` has `{extra[0]}`")
        if rate is None or "rtt" not in path:
            return incomparable(f"path `{path['name']}` has no fixed rate and RTT")
        if path.get("family", "ipv4") != "ipv4" or path.get("loss_at", "exit") != "exit":
            return incomparable(f"path `{path['name']}` has IPv6, or losses before its queue")
        loss, queue = path.get("loss"), path.get("queue")
        if isinstance(loss, dict):
            return incomparable(f"path `{path['name']}` has bursty loss")
        if isinstance(queue, dict) and queue.get("name", "drop-tail") != "drop-tail":
            return incomparable(f"path `{path['name']}` has the queue `{queue['name']}`")
        share = 0.0 if loss is None else units.fraction(loss)
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
    if not known:
        lost = ", with a loss of a path" if is_lost else ""
        return incomparable(f"none has as many paths ({len(legs)}){lost}")
    scheduler = _scheduler(transport)
    known = [one for one in known if _scheduler_of(one) == scheduler] or known
    kind = raw.get("application", {}).get("kind", "progressive")
    known = [one for one in known if _kind_of(one) == kind] or known
    known = [one for one in known if one.congestion == congestion] or known
    nearest = min(known, key=lambda one: _distance(legs, one.legs))
    unlike = []
    if _kind_of(nearest) != kind:
        unlike.append(f"its application is {_kind_of(nearest)}, yours is {kind}")
    if len(legs) > 1 and _scheduler_of(nearest) != scheduler:
        unlike.append(f"its scheduler is {_scheduler_of(nearest)}, yours is {scheduler}")
    return Fidelity(
        nearest=nearest,
        distance=_distance(legs, nearest.legs),
        congestion=congestion,
        unlike=tuple(unlike),
    )


def _is_set(value: object) -> bool:
    """Return whether a path's key has an effect: `"0 s"` and `"0 %"` have none."""
    return bool(value) and not (isinstance(value, str) and value.split()[0] == "0")


def _scheduler(transport: Mapping[str, Any]) -> str:
    """Return the name of a scenario's scheduler."""
    found = transport.get("scheduler", "dft" if transport.get("profile") == "mptcp-0.94" else "linux")
    return str(found.get("name", found) if isinstance(found, dict) else found)


def _scheduler_of(one: Measured) -> str:
    """Return the scheduler of a measured setting."""
    last = one.setting.split()[-1]
    default = "dft" if one.setting.startswith(_OTHER_KERNEL) else "linux"
    return {"redundant": "redundant", "roundrobin": "round-robin"}.get(last, default)


def _kind_of(one: Measured) -> str:
    """Return the application of a measured setting. Handovers were measured with bulk transfers."""
    return "paced" if "paced" in one.setting.split() else "bulk"


def _distance(legs: Sequence[Leg], others: Sequence[Leg]) -> float:
    """Return the distance of two settings, with their paths assigned so that it is smallest."""
    return min(
        max(_apart(one, other) for one, other in zip(legs, order, strict=True))
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
    """Read the columns of one path."""
    rtt_ms, rate_mbps, loss = map(float, text.split())
    return rtt_ms, rate_mbps, loss

"""Random settings: the same number and seed always give the same settings.

A setting has two paths, or three in three of ten settings. Each path has an RTT of 10 to 300 ms, a rate of 1
to 30 Mb/s and a queue of 8 to 300 packets, all log-uniform. Every second path loses 0.05 to 3 % of the data,
and every fifth path loses as much of the acknowledgements. The controller is cubic, reno or bbr in turn. One
setting in four is paced at 30 to 90 % of the sum of the rates. Each lasts 40 s. The order of the draws must
not change: it determines the settings.
"""

from __future__ import annotations

import math
import random
from typing import Any

from anabranch.calibrate.model import Leg, Setting

CONTROLS = ("cubic", "reno", "bbr")
DURATION_S = 40
_RTT_MS = (10, 300)
_RATE_MBPS = (1, 30)
_QUEUE = (8, 300)
_LOSS = (0.0005, 0.03)
_TWO_PATHS = 0.7
_LOSSY = 0.5
_LOSSY_UP = 0.2
_PACED = 0.25
_PACE = (0.3, 0.9)


def settings(count: int, seed: int) -> list[Setting]:
    """Return the first `count` settings of a seed."""
    chance = random.Random(seed)
    return [_setting(number, chance) for number in range(1, count + 1)]


def _setting(number: int, chance: random.Random) -> Setting:
    """Draw the next setting."""
    legs = tuple(_leg(chance) for _ in range(2 if chance.random() < _TWO_PATHS else 3))
    pace = 0
    if chance.random() < _PACED:
        pace = round(chance.uniform(*_PACE) * sum(leg.rate_mbps for leg in legs) * 1e6)
    return Setting(
        kind="paced" if pace else "bulk",
        case=f"R{number:03d}",
        congestion=CONTROLS[(number - 1) % len(CONTROLS)],
        multipath=True,
        legs=legs,
        duration_s=DURATION_S,
        pace_bps=pace,
    )


def _leg(chance: random.Random) -> Leg:
    """Draw the next path."""

    def between(least: float, most: float) -> float:
        return math.exp(chance.uniform(math.log(least), math.log(most)))

    rtt, rate, queue = round(between(*_RTT_MS), 1), round(between(*_RATE_MBPS), 2), round(between(*_QUEUE))
    loss = round(between(*_LOSS), 5) if chance.random() < _LOSSY else 0
    loss_up = round(between(*_LOSS), 5) if chance.random() < _LOSSY_UP else 0
    return Leg(rtt_ms=rtt, rate_mbps=rate, loss=loss, loss_up=loss_up, queue_packets=queue)


def case(setting: Setting) -> dict[str, Any]:
    """Return a setting in the format of the laboratory's program."""
    legs = [
        {"rtt": leg.rtt_ms, "mb": leg.rate_mbps, "q": leg.queue_packets, "loss": leg.loss, "up": leg.loss_up}
        for leg in setting.legs
    ]
    result = {"legs": legs, "dur": setting.duration_s, "ccs": [setting.congestion], "proto": "mptcp"}
    return result | ({"pace": setting.pace_bps} if setting.pace_bps else {})

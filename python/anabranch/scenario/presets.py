"""Presets of `[transport]`: the keys that each sets, and the rules for outages.

The gateway reads them at its start, without the scenario's models and pydantic.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from anabranch.scenario import linux_timeouts

if TYPE_CHECKING:
    from collections.abc import Mapping

PresetName = Literal["kernel", "video"]

#: The keys that a preset sets in `[transport]` if the scenario does not.
PRESETS: Mapping[str, Mapping[str, Any]] = {
    "kernel": {},
    "video": {
        "scheduler": "min-rtt-0.9x",
        "congestion": "bbr3",
        "rto_max": "1 s",
        "stack": {"outage": "dsack"},
    },
}

#: The values of `--preset kernel`: Linux's values for the keys that presets set.
KERNEL_KEYS: Mapping[str, Any] = {
    "scheduler": "linux",
    "congestion": "cubic",
    "rto_max": linux_timeouts.RTO_MAX,
    "stack.outage": "kernel",
}

OutageWord = Literal["kernel", "timeouts", "dsack"]


def preset(name: object) -> Mapping[str, Any]:
    """Return the keys that a preset sets in `[transport]`; none for an unknown name (refused later)."""
    return PRESETS.get(name, {}) if isinstance(name, str) else {}


def preset_keys(name: str) -> dict[str, Any]:
    """Return the keys of a preset as dotted keys."""
    keys: dict[str, Any] = {}
    for key, value in preset(name).items():
        inner = value if isinstance(value, dict) else {"": value}
        keys |= {f"{key}.{part}".rstrip("."): one for part, one in inner.items()}
    return keys

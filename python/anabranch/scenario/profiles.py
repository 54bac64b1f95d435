"""Kernel generations: the parts that can be switched, and the defaults of each profile."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field

from anabranch.scenario._base import Table
from anabranch.scenario.presets import OutageWord, preset

if TYPE_CHECKING:
    from collections.abc import Mapping

ProfileName = Literal["linux-6.18", "mptcp-0.94"]

#: The defaults of a profile that differ from those of the default profile. For each table of the scenario, it
#: has the keys as a file would. In that profile, a fragment of written data has 45 segments of 1,428 bytes,
#: as many as one large buffer holds (`tcp_xmit_size_goal`).
_DEFAULTS: Mapping[str, Mapping[str, Mapping[str, Any]]] = {
    "mptcp-0.94": {
        "transport": {"scheduler": "dft", "receive_buffer_initial": "87380 B"},
        "host": {"send_fragment": "64260 B"},
    },
}


class Stack(Table):
    """Parts of the profile that a scenario switches; parts left out are as in the profile."""

    sack: bool | None = Field(default=None, description="selective acknowledgements")
    rack: bool | None = Field(default=None, description="loss detection by time, beside or without a count")
    tlp: bool | None = Field(default=None, description="tail loss probes")
    hystart: bool | None = Field(default=None, description="CUBIC's early end of slow start")
    prr: bool | None = Field(default=None, description="proportional rate reduction in recovery")
    receive_autotuning: bool | None = Field(
        default=None, description="a receive buffer that follows what is read"
    )
    opportunistic_retransmission: bool | None = Field(
        default=None, description="`dft` sends the head of line once more on a faster subflow"
    )
    penalisation: bool | None = Field(
        default=None, description="`dft` halves the window of a subflow that holds up the others"
    )
    outage_probe: bool | None = Field(
        default=None, description="BBR's search for the minimum RTT after an outage"
    )
    outage: OutageWord = Field(
        default="kernel", description="how the acknowledgements after an outage are judged"
    )


def with_defaults(raw: object) -> object:
    """Return a scenario's tables, with missing keys from its preset and its profile."""
    transport = raw.get("transport") if isinstance(raw, dict) else None
    if not isinstance(raw, dict) or not isinstance(transport, dict):
        return raw
    with_preset = _filled(transport, preset(transport.get("preset")))
    profile = transport.get("profile")
    defaults = _DEFAULTS.get(profile, {}) if isinstance(profile, str) else {}
    return _filled({**raw, "transport": with_preset}, defaults)


def _filled(table: Mapping[str, Any], defaults: Mapping[str, Any]) -> dict[str, Any]:
    """Return a table with defaults where it has no key; tables within it are filled in turn."""
    filled = dict(table)
    for key, value in defaults.items():
        given = filled.setdefault(key, value)
        if isinstance(value, dict) and isinstance(given, dict) and given is not value:
            filled[key] = _filled(given, value)
    return filled

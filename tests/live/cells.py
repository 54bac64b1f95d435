"""The cells of the interoperability matrix: server, client, address family, and impairment of the packets.

Each impairment has a check that it took effect. A cell without this evidence fails.
"""

from __future__ import annotations

from typing import Any

from impairments import BYTES, IMPAIRMENTS, Impairment

#: The server and the client.
ROLES = {
    "our server, MPTCP": ("gateway", "kernel", True),
    "our server, TCP": ("gateway", "kernel", False),
    "our client, MPTCP": ("kernel", "anabranch", True),
    "our client, TCP": ("kernel", "anabranch", False),
}

FAMILIES = ("ipv4", "ipv6")

#: Cells in which the kernel violates RFC 8684, by role and impairment, with its behaviour. They end with
#: wrong bytes, also between two kernels.
KERNEL_FAULTS = {
    ("our client, MPTCP", "data stripped"): (
        "a server of Linux 6.18 that has had the third packet's MP_CAPABLE does not fall back when"
        " acknowledgements have no DATA_ACK (section 3.7): when the window is full it sends the data that lacks"
        " one once more, as new bytes of the subflow that has become plain TCP for its client"
    )
}


def scenario(impairment: Impairment, *, multipath: bool, family: str) -> dict[str, Any]:
    """Return the scenario of a cell."""
    both = {"rate": "20 Mbit/s", "queue": "100 packets", "family": family, **impairment.paths}
    wifi = {"name": "wifi", "rtt": "20 ms", **both, **impairment.first}
    lte = {"name": "lte", "rtt": "30 ms", **both, **impairment.second}
    return {
        "name": "interop",
        "application": {"kind": "bulk", "bytes": f"{BYTES} B", **impairment.application},
        "transport": {"multipath": multipath, **impairment.transport},
        "paths": [wifi, lte],
        "events": list(impairment.events),
    }


def cells() -> list[tuple[str, str, str]]:
    """Return the role, family and impairment of every cell."""
    return [(role, family, name) for role in ROLES for family in FAMILIES for name in IMPAIRMENTS]


def means_nothing(role: str, name: str) -> str:
    """Return why an impairment is not applicable to a role; empty if it is."""
    return "" if ROLES[role][2] else IMPAIRMENTS[name].nothing_to_tcp

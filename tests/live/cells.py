"""The cells of the interop matrix: who serves, who asks, over which addresses, and what befalls the packets.

Each impairment has evidence that it took effect; a cell without the evidence is no pass.
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

#: Cells in which the kernel does not follow RFC 8684, by role and impairment, with its behaviour: they end
#: in wrong bytes, between two kernels as well.
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
    """Return role, family and impairment of every cell."""
    return [(role, family, name) for role in ROLES for family in FAMILIES for name in IMPAIRMENTS]


def means_nothing(role: str, name: str) -> str:
    """Return why an impairment means nothing to a role; empty where it does."""
    return "" if ROLES[role][2] else IMPAIRMENTS[name].nothing_to_tcp

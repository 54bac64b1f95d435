"""The cells of the interop matrix: who serves, who asks, over which addresses, and what befalls the packets.

Each impairment says how it shows that it took effect; a cell in which it did not is no pass.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from anabranch import Run

#: What each cell carries, of which every byte is compared by its position.
BYTES = 400_000


def total(run: Run, column: str, ending: str = "") -> int:
    """Return the sum of a column over the links whose names end so."""
    return sum(row[column] for row in run.rows("links") if row["link"].endswith(ending))


def carried(run: Run) -> dict[str, int]:
    """Return how many bytes of packets came to the client over each path."""
    return {
        row["link"].removesuffix(".down"): row["bytes_delivered"]
        for row in run.rows("links")
        if row["link"].endswith(".down")
    }


def counted(run: Run, name: str) -> int:
    """Return one of the kernel's own counts of MPTCP."""
    return sum(kernel[name] for kernel in run.summary["kernels"].values())


def both_carry(run: Run) -> bool:
    """Tell whether each path carried a tenth of the data at least."""
    return min(carried(run).values()) > BYTES / 10


def clean(run: Run) -> bool:
    """Tell whether nothing was lost."""
    return total(run, "dropped_loss") == total(run, "reordered") == 0


@dataclass(frozen=True, kw_only=True)
class Impairment:
    """What befalls the packets of a cell.

    Attributes
    ----------
    paths
        Keys of both paths.
    first, second
        Keys of the first path, and of the second.
    transport, application
        Keys of these tables.
    events
        What changes meanwhile.
    took_effect
        Whether the run shows that it took place.
    mptcp
        Whether MPTCP is in use at the end; None is where either is right.
    both
        Whether both paths carry data, where MPTCP is in use.
    tcp
        Whether it means anything to plain TCP.
    """

    took_effect: Callable[[Run], bool]
    paths: dict[str, Any] = field(default_factory=dict)
    first: dict[str, Any] = field(default_factory=dict)
    second: dict[str, Any] = field(default_factory=dict)
    transport: dict[str, Any] = field(default_factory=dict)
    application: dict[str, Any] = field(default_factory=dict)
    events: tuple[dict[str, Any], ...] = ()
    mptcp: bool = True
    both: bool = True
    tcp: bool = True


IMPAIRMENTS = {
    "clean": Impairment(took_effect=clean),
    "loss": Impairment(
        paths={"down": {"loss": "2 %"}, "up": {"loss": "1 %"}},
        took_effect=lambda run: total(run, "dropped_loss", ".down") > 0 < total(run, "dropped_loss", ".up"),
    ),
    "reorder": Impairment(
        paths={"reorder": {"share": "5 %", "delay": "8 ms"}},
        took_effect=lambda run: total(run, "reordered") > 0,
    ),
    "duplicate": Impairment(paths={"duplicate": "5 %"}, took_effect=lambda run: total(run, "duplicated") > 0),
    "50 ms": Impairment(
        paths={"rtt": "50 ms"}, took_effect=lambda run: run.rows("connections")[0]["connect_s"] > 0.0499
    ),
    "checksums": Impairment(
        transport={"checksum": True}, took_effect=lambda run: counted(run, "DataCsumErr") == 0, tcp=False
    ),
    "options stripped": Impairment(
        paths={"strips_mptcp": True},
        took_effect=lambda run: run.rows("connections")[0]["finished"] and min(carried(run).values()) < 2_000,
        mptcp=False,
        tcp=False,
    ),
    "options stripped on the join": Impairment(
        second={"strips_mptcp": True},
        took_effect=lambda run: (
            counted(run, "MPJoinSynTx") + counted(run, "MPJoinSynRx") >= 0
            and min(carried(run).values()) < 2_000
        ),
        both=False,
        tcp=False,
    ),
    "backup": Impairment(
        second={"backup": True},
        took_effect=lambda run: min(carried(run).values()) < BYTES / 10,
        both=False,
        tcp=False,
    ),
    "address removed": Impairment(
        application={"bytes": "1500 kB"},
        events=({"at": "300 ms", "path": "lte", "state": "removed"},),
        took_effect=lambda run: counted(run, "RmAddr") + counted(run, "RmAddrTx") > 0,
        tcp=False,
    ),
    "path down and back": Impairment(
        application={"bytes": "2 MB"},
        events=(
            {"at": "300 ms", "path": "lte", "state": "down"},
            {"at": "900 ms", "path": "lte", "state": "up"},
        ),
        took_effect=lambda run: total(run, "dropped_down") > 0,
        tcp=False,
    ),
}

#: Who serves and who asks.
ROLES = {
    "our server, MPTCP": ("gateway", "kernel", True),
    "our server, TCP": ("gateway", "kernel", False),
    "our client, MPTCP": ("kernel", "anabranch", True),
    "our client, TCP": ("kernel", "anabranch", False),
}

FAMILIES = ("ipv4", "ipv6")


def scenario(impairment: Impairment, *, multipath: bool, family: str) -> dict[str, Any]:
    """Return the scenario of a cell."""
    path = {"queue": "100 packets", "family": family}
    wifi = {
        "name": "wifi",
        "rtt": "20 ms",
        "rate": "20 Mbit/s",
        **path,
        **impairment.paths,
        **impairment.first,
    }
    lte = {
        "name": "lte",
        "rtt": "30 ms",
        "rate": "20 Mbit/s",
        **path,
        **impairment.paths,
        **impairment.second,
    }
    return {
        "name": "interop",
        "application": {"kind": "bulk", "bytes": f"{BYTES} B", **impairment.application},
        "transport": {"multipath": multipath, **impairment.transport},
        "paths": [wifi, lte],
        "events": list(impairment.events),
    }


def cells() -> list[tuple[str, str, str]]:
    """Return role, family and impairment of every cell that means something."""
    return [
        (role, family, name)
        for role, (_, _, multipath) in ROLES.items()
        for family in FAMILIES
        for name, impairment in IMPAIRMENTS.items()
        if multipath or impairment.tcp
    ]

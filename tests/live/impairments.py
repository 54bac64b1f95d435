"""The impairments of a cell's packets, and the evidence that each took effect.

The expected effect of stripped options is that of RFC 8684 section 3.7. Both hosts fall back to plain TCP if
`MP_CAPABLE` is missing in the SYN, the SYN/ACK or the third packet, or if a DSS is missing before the first
`DATA_ACK`. A join without `MP_JOIN` in a packet of its handshake, or without its DSS, is closed, and the
connection continues over its other subflows.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from anabranch import plugins
from capture import is_join_syn, mappings, requires_checksums

if TYPE_CHECKING:
    from collections.abc import Callable

    from anabranch import Run
    from capture import Packet

#: The amount of data of each cell, in which every byte is compared by its position. It takes 0.2 s on both
#: paths, so that a busy host that joins late still sends a part over the second path.
BYTES = 1_000_000

#: The reason why cells of plain TCP are left out for impairments of MPTCP's options.
_OPTIONS = "plain TCP has no MPTCP options"
_SUBFLOWS = "plain TCP has one path"


@dataclass(frozen=True, kw_only=True)
class Seen:
    """The results of a cell: its run and its packets as they passed the client."""

    run: Run
    packets: list[Packet] = field(repr=False)

    def total(self, column: str, ending: str = "") -> int:
        """Return the sum of a column over the links whose names have this ending."""
        return sum(row[column] for row in self.run.rows("links") if row["link"].endswith(ending))

    def carried(self) -> dict[str, int]:
        """Return the bytes of the packets that arrived at the client over each path."""
        return {
            row["link"].removesuffix(".down"): row["bytes_delivered"]
            for row in self.run.rows("links")
            if row["link"].endswith(".down")
        }

    def both_carry(self) -> bool:
        """Return whether each path carried at least a tenth of the data."""
        return min(self.carried().values()) > BYTES / 10

    def counted(self, *names: str) -> int:
        """Return the sum of some of the kernel's MPTCP counters."""
        return sum(kernel[name] for kernel in self.run.summary["kernels"].values() for name in names)

    @property
    def kernel_serves(self) -> bool:
        """Whether the kernel is the server."""
        return "server" in self.run.summary["kernels"]

    def stripped(self, path: str) -> int:
        """Return how many segments lost their options on a path."""
        count: int = self.run.summary["stripped_segments"][path]
        return count

    def payload(self, *, path: int | None = None, source: str | None = None, since: float = 0.0) -> int:
        """Return the payload bytes that passed the client, optionally on one path, from one address, or since
        a time.
        """
        return sum(
            packet.payload
            for packet in self.packets
            if path in (None, packet.path) and source in (None, packet.source) and packet.at >= since
        )

    def joins(self) -> list[bytes]:
        """Return the `MP_JOIN` of every SYN that passed the client."""
        return [option for packet in self.packets for option in packet.mptcp if is_join_syn(option)]


@dataclass(frozen=True, kw_only=True)
class Impairment:
    """An impairment of the packets of a cell.

    Attributes
    ----------
    paths
        Keys of both paths.
    first, second
        Keys of the first path, and of the second.
    transport, application
        Keys of these tables.
    events
        Changes during the run.
    announced
        The second path's server announces its address there.
    took_effect
        Returns whether the cell shows that the impairment took effect.
    mptcp
        Whether MPTCP is in use at the end.
    both
        Whether both paths carry data if MPTCP is in use; None if both outcomes are correct.
    tshark
        Whether tshark has no complaint about MPTCP in a capture of the cell.
    nothing_to_tcp
        Why the impairment is not applicable to plain TCP; empty if it is.
    """

    took_effect: Callable[[Seen], bool]
    paths: dict[str, Any] = field(default_factory=dict)
    first: dict[str, Any] = field(default_factory=dict)
    second: dict[str, Any] = field(default_factory=dict)
    transport: dict[str, Any] = field(default_factory=dict)
    application: dict[str, Any] = field(default_factory=dict)
    events: tuple[dict[str, Any], ...] = ()
    announced: bool = False
    mptcp: bool = True
    both: bool | None = True
    tshark: bool = True
    nothing_to_tcp: str = ""


def _clean(seen: Seen) -> bool:
    """Return whether nothing was lost and no checksum was used."""
    return seen.total("dropped_loss") == seen.total("reordered") == 0 and not any(mappings(seen.packets))


def _checksums(seen: Seen) -> bool:
    """Return whether both hosts requested checksums, every mapping had one, and the kernel found no wrong
    one.
    """
    asked = [packet for packet in seen.packets if packet.syn and any(map(requires_checksums, packet.mptcp))]
    with_one = mappings(seen.packets)
    both = len({packet.source for packet in asked}) == 2
    return both and len(with_one) > BYTES / 65_536 and all(with_one) and seen.counted("DataCsumErr") == 0


#: The parts of a handshake's options that remain if one kind of segment is stripped: SYN, SYN/ACK, third
#: packet.
_THROUGH = {
    "syn": (False, False, False),
    "syn-ack": (True, False, False),
    "third-ack": (True, True, False),
    "data": (True, True, True),
}


def _stripped(kind: str, path: str, counters: tuple[str, str, str]) -> Callable[[Seen], bool]:
    """Return whether segments of a kind were stripped on a path, and the kernel counted the other segments as
    expected.
    """

    def took_effect(seen: Seen) -> bool:
        through = dict(zip(counters, _THROUGH[kind], strict=True))
        syn, syn_ack, third = counters
        heard = (syn, third) if seen.kernel_serves else (syn_ack,)
        return seen.stripped(path) > 0 and all((seen.counted(name) > 0) == through[name] for name in heard)

    return took_effect


def _first_stripped(kind: str) -> Impairment:
    """Return the cell in which the first path strips one kind of segment."""
    return Impairment(
        first={"strips_mptcp": [kind]},
        took_effect=_stripped(kind, "wifi", ("MPCapableSYNRX", "MPCapableSYNACKRX", "MPCapableACKRX")),
        mptcp=False,
        tshark=False,
        nothing_to_tcp=_OPTIONS,
    )


def _join_stripped(kind: str) -> Impairment:
    """Return the cell in which the second path strips one kind of segment."""
    return Impairment(
        second={"strips_mptcp": [kind]},
        took_effect=_stripped(kind, "lte", ("MPJoinSynRx", "MPJoinSynAckRx", "MPJoinAckRx")),
        both=False,
        tshark=False,
        nothing_to_tcp=_OPTIONS,
    )


def _announced(seen: Seen) -> bool:
    """Return whether the second address was announced, echoed and joined, and sent a tenth of the data."""
    told = ("AddAddrTx", "EchoAdd") if seen.kernel_serves else ("AddAddr", "EchoAddTx")
    ipv6 = seen.run.plan["paths"][1].get("family") == "ipv6"
    address = plugins.module().path_addresses(1, ipv6)[1]
    carries = seen.payload(source=address) > BYTES / 10
    return all(seen.counted(name) > 0 for name in told) and carries


def _removed_and_back(seen: Seen) -> bool:
    """Return whether the address was removed, joined again, and carried data again."""
    removed = seen.counted("RmAddr", "RmAddrTx") > 0
    return removed and len(set(seen.joins())) == 2 and seen.payload(path=1, since=0.9) > BYTES / 10


IMPAIRMENTS = {
    "clean": Impairment(took_effect=_clean),
    "loss": Impairment(
        paths={"down": {"loss": "2 %"}, "up": {"loss": "1 %"}},
        took_effect=lambda seen: seen.total("dropped_loss", ".down") > 0 < seen.total("dropped_loss", ".up"),
    ),
    "reorder": Impairment(
        paths={"reorder": {"share": "5 %", "delay": "8 ms"}},
        took_effect=lambda seen: seen.total("reordered") > 0,
    ),
    "duplicate": Impairment(
        paths={"duplicate": "5 %"}, took_effect=lambda seen: seen.total("duplicated") > 0
    ),
    "50 ms": Impairment(
        paths={"rtt": "50 ms"},
        took_effect=lambda seen: seen.run.rows("connections")[0]["connect_s"] > 0.0499,
    ),
    "checksums": Impairment(
        transport={"checksum": True}, took_effect=_checksums, nothing_to_tcp="plain TCP has no DSS"
    ),
    "options stripped": Impairment(
        paths={"strips_mptcp": True},
        took_effect=_stripped("syn", "wifi", ("MPCapableSYNRX", "MPCapableSYNACKRX", "MPCapableACKRX")),
        mptcp=False,
        tshark=False,
        nothing_to_tcp=_OPTIONS,
    ),
    **{f"{kind} stripped": _first_stripped(kind) for kind in _THROUGH},
    "options stripped on the join": Impairment(
        second={"strips_mptcp": True},
        took_effect=_stripped("syn", "lte", ("MPJoinSynRx", "MPJoinSynAckRx", "MPJoinAckRx")),
        both=False,
        tshark=False,
        nothing_to_tcp=_OPTIONS,
    ),
    **{f"{kind} stripped on the join": _join_stripped(kind) for kind in _THROUGH},
    "backup": Impairment(
        second={"backup": True},
        took_effect=lambda seen: bool(seen.joins()) and all(option[2] & 1 for option in seen.joins()),
        both=False,
        nothing_to_tcp=_SUBFLOWS,
    ),
    "address announced": Impairment(
        announced=True, took_effect=_announced, both=None, nothing_to_tcp=_SUBFLOWS
    ),
    "address removed": Impairment(
        application={"bytes": "3 MB"},
        events=({"at": "300 ms", "path": "lte", "state": "removed"},),
        took_effect=lambda seen: seen.counted("RmAddr", "RmAddrTx") > 0,
        nothing_to_tcp=_SUBFLOWS,
    ),
    "address removed and back": Impairment(
        application={"bytes": "8 MB"},
        events=(
            {"at": "300 ms", "path": "lte", "state": "removed"},
            {"at": "900 ms", "path": "lte", "state": "up"},
        ),
        took_effect=_removed_and_back,
        nothing_to_tcp=_SUBFLOWS,
    ),
    "path down and back": Impairment(
        application={"bytes": "8 MB"},
        events=(
            {"at": "300 ms", "path": "lte", "state": "down"},
            {"at": "900 ms", "path": "lte", "state": "up"},
        ),
        took_effect=lambda seen: (
            seen.total("dropped_down") > 0 and seen.payload(path=1, since=0.9) > BYTES / 10
        ),
        nothing_to_tcp=_SUBFLOWS,
    ),
}

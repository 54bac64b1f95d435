"""Two network namespaces, for client and server, with a TUN device in each for every path.

Names of everything that is created contain the program's name and process ID. It is removed at the end, or by
the next run if the process was killed. Nothing else on the host is changed.
"""

from __future__ import annotations

import fcntl
import os
import re
import signal
import socket
import struct
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

from anabranch import _extras, _pieces
from anabranch.errors import MissingError
from anabranch.live import leftovers
from anabranch.scenario import linux_timeouts

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

#: The name of each of our namespaces: process, start of the process, end of the connection.
_OURS = re.compile(r"anabranch-(\d+)-(\d+)-(client|server|trial)")
#: Where namespaces are named.
_NAMED = Path("/run/netns")
#: Path names that are valid as device names.
_DEVICE = re.compile(r"[a-z][a-z0-9-]{0,14}")
#: Names with another meaning in /proc/sys/net.
_RESERVED = {"lo", "all", "default"}
#: Bytes of an IPv4 and a TCP header without options.
_HEADERS = 40
#: The number of the client's first routing table; there is one table for each path.
_FIRST_TABLE = 101
#: Bits of the prefix of a path's network.
_PREFIX = {"ipv4": 16, "ipv6": 64}
#: `TUNSETIFF` and `TUNSETPERSIST`, and the flags of a device that carries IP packets and nothing else.
_TUNSETIFF, _TUNSETPERSIST, _IFF_TUN, _IFF_NO_PI = 0x400454CA, 0x400454CB, 0x0001, 0x1000
#: `IFA_F_NODAD`: the IPv6 address can be used at once, also after its interface comes back.
_NO_DETECTION = 0x02
#: `MPTCP_PM_ADDR_FLAG_SIGNAL`, `MPTCP_PM_ADDR_FLAG_SUBFLOW` and `MPTCP_PM_ADDR_FLAG_BACKUP`.
_SIGNAL, _SUBFLOW, _BACKUP = 1 << 0, 1 << 1, 1 << 2


@dataclass(frozen=True, kw_only=True)
class Lane:
    """A path as the two kernels see it.

    Attributes
    ----------
    name
        The path's name in the scenario.
    device
        The name of its device, in both namespaces.
    family
        `ipv4` or `ipv6`.
    client, server
        The addresses of the two ends.
    backup
        Whether its subflow is a backup.
    announced
        Whether the client joins over this path only after the server has announced its address (`ADD_ADDR`).
    """

    name: str
    device: str
    family: str
    client: str
    server: str
    backup: bool
    announced: bool = False


@dataclass(kw_only=True)
class Bed:
    """Two namespaces, made by [`testbed`][anabranch.live.testbed.open_bed].

    Attributes
    ----------
    client, server
        The names of the namespaces.
    lanes
        The paths in their order.
    """

    client: str
    server: str
    lanes: Sequence[Lane]
    _sockets: dict[str, Any] = field(default_factory=dict, repr=False)

    def place(self, end: str) -> str:
        """Return the file of an end's namespace."""
        return str(_NAMED / getattr(self, end))

    def counters(self, end: str) -> dict[str, int]:
        """Return the MPTCP counters of an end's kernel: `MPTcpExt` of /proc/net/netstat, by name."""
        with inside(getattr(self, end)):
            lines = Path("/proc/thread-self/net/netstat").read_text(encoding="ascii").splitlines()
        names, values = (line.split()[1:] for line in lines if line.startswith("MPTcpExt:"))
        return {name: int(value) for name, value in zip(names, values, strict=True)}

    def up(self) -> None:
        """Bring up all devices, which must be open, and the client's routes with them."""
        for end in ("server", "client"):
            route = self._sockets[end]
            for number, lane in enumerate(self.lanes):
                index = route.link_lookup(ifname=lane.device)[0]
                route.link("set", index=index, state="up")
                if end == "client":
                    _route(route, number, lane, index)

    def interface(self, path: str, what: str) -> None:
        """Change the client's interface on a path: `link-down`, `removed` or `up`."""
        number, lane = next((n, lane) for n, lane in enumerate(self.lanes) if lane.name == path)
        route = self._sockets["client"]
        index = route.link_lookup(ifname=lane.device)[0]
        mptcp = self._sockets["mptcp"]
        known = any(_id(entry) == number + 1 for entry in mptcp.endpoint("show"))
        if what == "removed" and known:
            mptcp.endpoint("del", **_address(lane), id=number + 1)
        route.link("set", index=index, state="up" if what == "up" else "down")
        if what == "up":
            _route(route, number, lane, index)
            if not lane.announced and not known:
                _endpoint(mptcp, number, lane)


def lanes(plan: Mapping[str, Any], announced: Collection[str] = ()) -> list[Lane]:
    """Return the paths of a plan as the two kernels see them.

    `announced` has the names of announced paths.
    """
    from anabranch import plugins

    result = []
    given = {path["name"] for path in plan["paths"]}
    free = (name for name in (f"path{number}" for number in count()) if name not in given)
    for number, path in enumerate(plan["paths"]):
        family = path.get("family", "ipv4")
        client, server = plugins.module().path_addresses(number, family == "ipv6")
        name = path["name"]
        fits = _DEVICE.fullmatch(name) and name not in _RESERVED
        result.append(
            Lane(
                name=name,
                device=name if fits else next(free),
                family=family,
                client=client,
                server=server,
                backup=path["backup"],
                announced=name in announced,
            )
        )
    return result


def missing() -> str | None:
    """Return a sentence that names what this host lacks for real packets; None if nothing is missing."""
    if not Path("/dev/net/tun").exists():
        return "/dev/net/tun is not there: load the kernel module tun"
    if os.geteuid() != 0:
        return "network namespaces take root here: run it with sudo"
    lacks = _pieces.unimportable("pyroute2")
    if lacks is not None:
        return f"pyroute2 is missing or broken ({lacks}): {_extras.command('live')}"
    if not Path("/proc/sys/net/mptcp/enabled").exists():
        return "this kernel has no Multipath TCP (CONFIG_MPTCP)"
    return _forbidden()


def _forbidden() -> str | None:
    """Return the permission that even root lacks here, as in many containers; None if none is missing."""
    from pyroute2 import netns

    name = _name("trial")
    try:
        os.close(os.open("/dev/net/tun", os.O_RDWR | os.O_CLOEXEC))
        netns.create(name)
        netns.remove(name)
    except Exception as error:  # noqa: BLE001 - pyroute2's own errors are no OSError
        why = getattr(error, "strerror", None) or _pieces.reason(error)
        return f"namespaces and TUN devices may not be made here: {why}"
    return None


def needed() -> None:
    """Check that this host supports real packets.

    Raises
    ------
    MissingError
        When this host lacks something.
    """
    lacks = missing()
    if lacks is not None:
        raise MissingError(lacks, hint="`anabranch doctor` lists what this host has")


@contextmanager
def open_bed(
    plan: Mapping[str, Any],
    *,
    congestion: str | None = None,
    announced: Collection[str] = (),
    stock_client: bool = False,
) -> Iterator[Bed]:
    """Make the two namespaces of a plan, and remove them after the block.

    Parameters
    ----------
    plan
        The plan, for its paths and its transport's buffers.
    congestion
        The congestion control of both kernels, if they allow it in a namespace; None leaves theirs.
    announced
        Paths on which a server kernel announces its address. A client kernel has no MPTCP endpoint on them.
    stock_client
        Whether the client's kernel keeps its own timeouts and retries.

    Raises
    ------
    MissingError
        If a required kernel setting cannot be set. The caller must check everything else (`needed`).
    """
    _sweep()
    from pyroute2 import netns

    bed = Bed(client=_name("client"), server=_name("server"), lanes=lanes(plan, announced))
    with ExitStack() as stack:
        for end in ("client", "server"):
            name = getattr(bed, end)
            netns.create(name)
            stack.callback(_remove, name)
            own = _stock(plan) if stock_client and end == "client" else plan
            _furnish(stack, bed, end, own, congestion)
        yield bed


def _stock(plan: Mapping[str, Any]) -> dict[str, Any]:
    """Return a plan without its timeouts and retries."""
    kept = {key: value for key, value in plan["transport"].items() if key not in ("rto_max_ns", "retries")}
    return {**plan, "transport": kept}


def _furnish(stack: ExitStack, bed: Bed, end: str, plan: Mapping[str, Any], congestion: str | None) -> None:
    """Give a namespace its devices, addresses, routes and settings."""
    from pyroute2 import MPTCP, IPRoute

    with inside(getattr(bed, end)):
        route = stack.enter_context(IPRoute())
        mptcp = stack.enter_context(MPTCP())
        _settings(plan, end, congestion)
        for lane in bed.lanes:
            _tun(lane.device)
            _set(f"ipv6/conf/{lane.device}/addr_gen_mode", 1)
            _set(f"ipv6/conf/{lane.device}/accept_dad", 0)
            _set(f"ipv6/conf/{lane.device}/router_solicitations", 0)
            # Otherwise an interface that goes down would have no IPv6 address when it is up again.
            _set(f"ipv6/conf/{lane.device}/keep_addr_on_down", 1)
    route.link("set", index=1, state="up")
    for number, lane in enumerate(bed.lanes):
        index = route.link_lookup(ifname=lane.device)[0]
        mtu = plan["transport"]["mss"] + _HEADERS
        route.link("set", index=index, mtu=mtu, txqlen=10_000)
        address = lane.client if end == "client" else lane.server
        flags = {"flags": _NO_DETECTION} if lane.family == "ipv6" else {}
        route.addr("add", index=index, address=address, prefixlen=_PREFIX[lane.family], **flags)
        if end == "client":
            _rule(route, number, lane)
        if lane.announced == (end == "server"):
            _endpoint(mptcp, number, lane)
    accepted = sum(lane.announced for lane in bed.lanes)
    mptcp.limits("set", subflows=min(len(bed.lanes) - 1, 8), rcv_add_addrs=accepted)
    bed._sockets[end] = route
    if end == "client":
        bed._sockets["mptcp"] = mptcp


def _rule(route: Any, number: int, lane: Lane) -> None:  # noqa: ANN401
    """Route packets from a path's address by a separate table."""
    family, bits = (socket.AF_INET6, 128) if lane.family == "ipv6" else (socket.AF_INET, 32)
    table = _FIRST_TABLE + number
    route.rule("add", src=lane.client, src_len=bits, table=table, family=family, priority=table)


def _route(route: Any, number: int, lane: Lane, index: int) -> None:  # noqa: ANN401
    """Route packets from a path's address to its device, whatever their destination."""
    family = socket.AF_INET6 if lane.family == "ipv6" else socket.AF_INET
    route.route("replace", dst="default", oif=index, table=_FIRST_TABLE + number, family=family)


def _endpoint(mptcp: Any, number: int, lane: Lane) -> None:  # noqa: ANN401
    """Configure the client's MPTCP to open subflows here, or the server's to announce its address."""
    flags = _SIGNAL if lane.announced else _SUBFLOW
    flags |= _BACKUP if lane.backup else 0
    mptcp.endpoint("add", **_address(lane), id=number + 1, flags=flags)


def _address(lane: Lane) -> dict[str, str]:
    """Return the address of a path's end point, the client's or an announced one, by its family."""
    address = lane.server if lane.announced else lane.client
    return {"addr6" if lane.family == "ipv6" else "addr4": address}


def _id(entry: Any) -> int | None:  # noqa: ANN401
    """Return an MPTCP end point's identifier."""
    address = entry.get_attr("MPTCP_PM_ATTR_ADDR")
    found: int | None = None if address is None else address.get_attr("MPTCP_PM_ADDR_ATTR_ID")
    return found


def _settings(plan: Mapping[str, Any], end: str, congestion: str | None) -> None:
    """Apply the plan's settings of the hosts, in the namespace of the calling thread."""
    given = plan["transport"]
    ecn = {"off": 0, "request": 1, "accept": 2}[given.get("ecn", {}).get(end, "accept")]
    settings: dict[str, Any] = {
        "ipv4/conf/all/rp_filter": 0,
        "ipv4/conf/default/rp_filter": 0,
        "ipv4/tcp_no_metrics_save": 1,
        "ipv4/tcp_ecn": ecn,
        "ipv4/tcp_rmem": f"4096 {given['receive_buffer_initial']} {given['receive_buffer_max']}",
        "ipv4/tcp_wmem": f"4096 16384 {given['send_buffer_max']}",
        "mptcp/enabled": 1,
        "mptcp/checksum_enabled": int(given["checksum"]),
        "ipv6/conf/all/disable_ipv6": int(all(path.get("family") != "ipv6" for path in plan["paths"])),
    }
    for name, value in {**settings, **timeouts(given)}.items():
        _set(name, value)
    if congestion is not None:
        _set("ipv4/tcp_congestion_control", congestion, needed=False)


def timeouts(transport: Mapping[str, Any]) -> dict[str, int]:
    """Return the values under net/ for a plan's longest timeout and retries."""
    return linux_timeouts.settings(transport.get("rto_max_ns"), transport.get("retries"))


def _set(name: str, value: object, *, needed: bool = True) -> None:
    """Set a value under /proc/sys/net of the namespace that the thread is in."""
    try:
        Path("/proc/sys/net", name).write_text(f"{value}\n", encoding="ascii")
    except OSError as error:
        if needed and Path("/proc/sys/net", name).exists():
            message = f"net/{name} cannot be set to {value}: {error.strerror}"
            raise MissingError(message) from None


def _tun(name: str) -> None:
    """Make a device that exists while it is not open, in the namespace of the calling thread."""
    device = os.open("/dev/net/tun", os.O_RDWR | os.O_CLOEXEC)
    try:
        request = struct.pack("16sH22x", name.encode(), _IFF_TUN | _IFF_NO_PI)
        fcntl.ioctl(device, _TUNSETIFF, request)
        fcntl.ioctl(device, _TUNSETPERSIST, 1)
    finally:
        os.close(device)


@contextmanager
def inside(name: str) -> Iterator[None]:
    """Move this thread into a namespace for the duration of the block."""
    from pyroute2 import netns

    netns.pushns(name)
    try:
        yield
    finally:
        netns.popns()


def _name(which: str) -> str:
    """Return the name of a namespace of this process."""
    return f"anabranch-{leftovers.owner()}-{which}"


def _end_all(name: str) -> None:
    """End every program in one of our namespaces, which it would keep alive."""
    try:
        there = (_NAMED / name).stat()
    except OSError:
        return
    for entry in Path("/proc").glob("[0-9]*/ns/net"):
        try:
            found, process = entry.stat(), int(entry.parts[2])
            if (found.st_dev, found.st_ino) == (there.st_dev, there.st_ino) and process != os.getpid():
                os.kill(process, signal.SIGKILL)
        except OSError:
            # It has ended already.
            continue


def _sweep() -> None:
    """Remove the namespaces, programs and folders of processes that were killed."""
    for place in _NAMED.glob("anabranch-*"):
        found = _OURS.fullmatch(place.name)
        if found and not leftovers.lives(*found.groups()[:2]):
            _remove(place.name)
    leftovers.sweep()


def _remove(name: str) -> None:
    """Remove a namespace together with its devices, addresses, routes, settings and programs."""
    from pyroute2 import netns

    _end_all(name)
    try:
        netns.remove(name)
    except FileNotFoundError:
        return

"""The paths of this host to a server: interfaces with an address and a route."""

from __future__ import annotations

import ipaddress
import json
import shutil
import socket
import subprocess
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from anabranch.errors import Fault, InputError, MissingError, nearest

if TYPE_CHECKING:
    from collections.abc import Sequence

#: Types of `ip mptcp endpoint` at which the kernel opens further subflows.
_OPENS = {"subflow", "fullmesh"}


@dataclass(frozen=True, kw_only=True)
class Path:
    """A path: the name of the interface, and its source address to the server."""

    name: str
    address: str


@dataclass(frozen=True, kw_only=True)
class Host:
    """The parts of this host that a measurement uses.

    Attributes
    ----------
    server
        The server's address, port and address family.
    paths
        The paths to it. The first one has the default route.
    multipath
        Whether the kernel opens MPTCP connections.
    lacking
        Names of paths at which the kernel opens no further subflow, because `ip mptcp endpoint` does not list
        their address.
    """

    server: tuple[str, int]
    family: socket.AddressFamily
    paths: tuple[Path, ...]
    multipath: bool
    lacking: tuple[str, ...]


def find(server: str, port: int, wanted: Sequence[str] = ()) -> Host:
    """Return the paths of this host to a server.

    Parameters
    ----------
    server, port
        Name or address of the server, and its port.
    wanted
        The names of interfaces to use; empty for all with a route.

    Raises
    ------
    InputError
        If the server has no address, or a wanted interface has no route to it.
    MissingError
        If the program `ip` is missing.
    """
    family, address = _resolved(server, port)
    names = [name for name in _interfaces() if name != "lo" or "lo" in wanted]
    faults = [_unknown(name, names) for name in wanted if name not in names]
    if faults:
        raise InputError(faults)
    default = _route(address)
    found = []
    for name in wanted or names:
        route = _route(address, name)
        if route is not None and (wanted or _leads(name, address)):
            found.append(Path(name=name, address=route["prefsrc"]))
        elif wanted:
            faults.append(Fault(message=f"the interface {name} has no route to {address}", where="--paths"))
    if not found and not faults:
        faults.append(Fault(message=f"no interface has a route to {address}", where=server))
    if faults:
        raise InputError(faults)
    first = default["dev"] if default is not None else found[0].name
    found.sort(key=lambda path: path.name != first)
    opens = _endpoints()
    return Host(
        server=(address, port),
        family=family,
        paths=tuple(found),
        multipath=_multipath(),
        lacking=tuple(path.name for path in found[1:] if path.address not in opens),
    )


def _unknown(name: str, names: Sequence[str]) -> Fault:
    close = nearest(name, names)
    hint = f"did you mean `{close}`?" if close else f"interfaces with an address: {', '.join(names)}"
    return Fault(message=f"no interface {name}", where="--paths", hint=hint)


def _resolved(server: str, port: int) -> tuple[socket.AddressFamily, str]:
    try:
        family, _, _, _, address = socket.getaddrinfo(server, port, type=socket.SOCK_STREAM)[0]
    except (OSError, UnicodeError) as error:
        message = f"cannot find the server {server}: {getattr(error, 'strerror', None) or error}"
        raise InputError([Fault(message=message, where=server)]) from None
    return family, str(address[0])


def _ip(*arguments: str) -> Any:  # noqa: ANN401 - its JSON
    """Return the output of the program `ip`; None if it fails, as for a host without a route."""
    found = shutil.which("ip") or shutil.which("ip", path="/usr/sbin:/sbin")
    if found is None:
        message = "the program ip is missing: apt install iproute2"
        raise MissingError(message)
    done = subprocess.run([found, "-j", *arguments], capture_output=True, text=True, check=False)
    if done.returncode:
        return None
    try:
        return json.loads(done.stdout or "[]")
    except ValueError:
        return None


def _interfaces() -> list[str]:
    """Return the names of interfaces that are up and have an address."""
    listed = _ip("addr", "show", "up") or []
    return [one["ifname"] for one in listed if one.get("addr_info")]


def _route(address: str, interface: str | None = None) -> dict[str, Any] | None:
    """Return the route to an address through an interface; None without a route."""
    through = [] if interface is None else ["oif", interface]
    listed = _ip("route", "get", address, *through)
    return listed[0] if listed and "prefsrc" in listed[0] else None


def _leads(interface: str, address: str) -> bool:
    """Return whether a route of an interface, in any table, covers an address.

    Without one, `ip route get` takes every address for a neighbour, as on the bridge of a container host.
    """
    family = "-6" if ":" in address else "-4"
    listed = _ip(family, "route", "show", "table", "all", "dev", interface) or []
    return any(_covers(str(one.get("dst", "")), address) for one in listed if one.get("type") is None)


def _covers(prefix: str, address: str) -> bool:
    """Return whether a prefix of `ip route`, which may be `default`, contains an address."""
    if prefix == "default":
        return True
    try:
        return ipaddress.ip_address(address) in ipaddress.ip_network(prefix)
    except ValueError:
        return False


def _endpoints() -> set[str]:
    """Return the addresses at which the kernel opens further subflows."""
    listed = _ip("mptcp", "endpoint", "show") or []
    return {str(one["address"]) for one in listed if _OPENS & set(_flags(one))}


def _flags(endpoint: dict[str, Any]) -> list[str]:
    """Return the flags of an endpoint: a list, or in older versions of the program a key for each."""
    flags = endpoint.get("flags")
    return list(flags) if isinstance(flags, list) else [name for name in _OPENS if endpoint.get(name)]


def _multipath() -> bool:
    """Return whether the kernel makes MPTCP sockets."""
    try:
        socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_MPTCP).close()
    except OSError:
        return False
    return True

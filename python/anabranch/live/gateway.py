"""The gateway: MPTCP and TCP from clients, plain TCP to one origin."""

from __future__ import annotations

import errno
import ipaddress
import re
import signal
import socket
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

from anabranch.errors import AnabranchError, Fault, InputError, MissingError, did_you_mean, shown
from anabranch.live.deadline import deadline
from anabranch.plugins import module
from anabranch.plugins.load import Finder, raised

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from types import FrameType

    from anabranch.plugins import Kind

#: The settings that SIGHUP reads again.
RELOADED = ("connections", "per_source", "per_site", "memory", "idle_s", "grace_s")
#: Commands to the gateway: continue, accept no new clients and finish, stop at once.
SERVE, FINISH, STOP = 0, 1, 2
#: The signals that end a gateway: the first one lets connections finish, and the second one ends at once.
_ENDING = (signal.SIGTERM, signal.SIGINT)
#: The signal that opens the log again and reads the limits again.
_RELOAD = signal.SIGHUP
_MOST_PORT = 65_535
#: The number of parts of an IPv4 socket address: address and port. Over IPv6 there are a flow and a scope
#: too.
_IN_IPV4 = 2
#: The largest number of announced addresses: identifiers have one byte, and 0 is the initial address.
_MOST_ANNOUNCED = 255
_LEAST_BUFFER = 64 << 10
#: Descriptors that a gateway needs in addition to one for each connection: for its device, threads, metrics,
#: log and plug-ins.
_OTHER_DESCRIPTORS = 64
#: A device's name that is valid for the kernel and needs no quotes in a shell.
_DEVICE = re.compile(r"(?!\.{1,2}$)[\w.-]{1,15}", re.ASCII)


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The settings of a gateway. Addresses are converted to one canonical form.

    Attributes
    ----------
    tun
        The device.
    offload
        Whether the device offloads: it cuts bursts, merges segments and fills in checksums.
    listen
        The addresses and ports at which connections are accepted, as `ADDRESS:PORT`. The addresses belong to
        the gateway.
    origin
        The origin's addresses, in the order in which they are tried.
    announce
        Further addresses of the gateway, which clients may join.
    scheduler, congestion
        The plug-ins, by name or short form, or `FILE.py:CLASS`.
    rto_max_s
        The longest retransmission timeout, in seconds.
    outage
        How the acknowledgements after an outage are judged: `kernel`, `timeouts` or `dsack`.
    multipath
        Whether MPTCP is supported.
    proxy_protocol
        Whether the origin receives the client's address in a header of the PROXY protocol, version 2.
    wait_for_client
        Whether the origin is connected only after the client has sent a byte.
    metrics
        The address of the metrics; None disables them.
    log
        The file with a line for each connection that has ended; None is stdout.
    backlog
        The number of incomplete handshakes above which SYN cookies are sent.
    half_open_s, idle_s, grace_s
        In seconds: the longest duration of a handshake, the longest time without a byte, and the time that
        connections have after the gateway starts to finish.
    connect_s
        The longest time for an attempt to connect to one address of the origin, in seconds.
    connections, per_source, per_site
        The limits for all connections, one source, and one IPv6 /48; None is four times `per_source`.
    memory
        The bytes that all connections together may hold.
    receive_buffer, send_buffer
        The largest buffers of a connection, and of a subflow of it, bytes.
    """

    tun: str
    listen: tuple[str, ...]
    origin: tuple[str, ...]
    offload: bool = True
    announce: tuple[str, ...] = ()
    scheduler: str = "linux"
    congestion: str = "cubic"
    rto_max_s: float = 120.0
    outage: str = "kernel"
    multipath: bool = True
    proxy_protocol: bool = False
    wait_for_client: bool = False
    metrics: str | None = None
    log: str | None = None
    backlog: int = 256
    half_open_s: float = 10.0
    connect_s: float = 5.0
    idle_s: float = 300.0
    grace_s: float = 30.0
    connections: int = 1024
    per_source: int = 64
    per_site: int | None = None
    memory: int = 512 << 20
    receive_buffer: int = 4 << 20
    send_buffer: int = 4 << 20

    def __post_init__(self) -> None:
        """Convert every address to its canonical form."""
        for name in ("listen", "origin"):
            object.__setattr__(self, name, tuple(_spelt(place) for place in getattr(self, name)))
        object.__setattr__(self, "announce", tuple(canonical(address) for address in self.announce))
        if self.metrics is not None:
            object.__setattr__(self, "metrics", _spelt(self.metrics))

    def faults(self, finder: Finder) -> Iterator[Fault]:
        """Yield all faults. `finder` finds the plug-ins."""
        if not _DEVICE.fullmatch(self.tun):
            hint = "at most 15 letters, digits, dots, dashes and underscores"
            yield Fault(message=f"not a device's name: {shown(self.tun)}", where="--tun", hint=hint)
        yield from self._listen_faults()
        if len(set(self.announce)) < len(self.announce):
            yield Fault(message="an address is announced twice", where="--announce")
        if len(self.announce) > _MOST_ANNOUNCED:
            yield Fault(message=f"more than {_MOST_ANNOUNCED} addresses are announced", where="--announce")
        own = {address for address, _ in self.places()}
        for address in self.announce:
            message = _unfit(address) or ("the gateway listens there" if address in own else None)
            if message is not None:
                yield Fault(message=f"{message}: {shown(address)}", where="--announce")
        for place in self.origin:
            address = _parts(place)[1]
            if address in {*own, *self.announce} and _unfit(address) is None:
                hint = "name the server that receives the bytes; it has another address than the gateway"
                yield Fault(message=f"the gateway itself: {shown(place)}", where="--origin", hint=hint)
        if self.metrics is not None and isinstance(found := split(self.metrics, "--metrics"), Fault):
            yield found
        yield from _plugin_faults("scheduler", self.scheduler, finder)
        yield from _plugin_faults("congestion", self.congestion, finder)
        yield from self._timeout_faults()
        if self.connect_s <= 0:
            yield Fault(message="no time to connect in", where="--connect-timeout", hint="5 s")
        most_s = dict(module().limits())["most_half_open_ns"] / 1e9
        if self.half_open_s > most_s:
            yield Fault(message=f"more than {most_s:.0f} s", where="--half-open")
        for name in ("receive_buffer", "send_buffer"):
            if getattr(self, name) < _LEAST_BUFFER:
                option = f"--{name.replace('_', '-')}"
                yield Fault(message=f"less than {_LEAST_BUFFER >> 10} KiB", where=option)

    def places(self) -> list[tuple[str, int]]:
        """Return the valid addresses and ports at which the gateway listens."""
        return [found for place in self.listen if not isinstance(found := split(place), Fault)]

    def _timeout_faults(self) -> Iterator[Fault]:
        """Yield what is wrong with the retransmission timeout and the rule for outages."""
        from anabranch.scenario import limits
        from anabranch.scenario.presets import OutageWord

        least, most = limits.LEAST_RTO_MAX_NS / 1e9, limits.MOST_RTO_MAX_NS / 1e9
        if not least <= self.rto_max_s <= most:
            message = f"not between {least:g} and {most:g} s: {shown(self.rto_max_s)}"
            yield Fault(message=message, where="rto_max_s")
        if self.outage not in (words := get_args(OutageWord)):
            hint = did_you_mean(self.outage, words)
            yield Fault(message=f"unknown rule: {shown(self.outage)}", where="outage", hint=hint)

    def _listen_faults(self) -> Iterator[Fault]:
        """Yield the faults of the addresses at which connections are accepted."""
        if not self.listen:
            yield Fault(message="no address to listen at", where="--listen", hint="--listen 10.9.0.1:443")
        for place in self.listen:
            found = split(place)
            if isinstance(found, Fault):
                yield found
            elif (message := _unfit(found[0])) is not None:
                hint = "an address of the gateway's own, which the host routes into the device"
                yield Fault(message=f"{message}: {shown(found[0])}", where="--listen", hint=hint)
        if len(set(self.listen)) < len(self.listen):
            yield Fault(message="an address is given twice", where="--listen")


def _unfit(address: str) -> str | None:
    """Return why an address cannot be the gateway's own."""
    try:
        found = ipaddress.ip_address(address)
    except ValueError:
        return "not an IP address"
    if "%" in address:
        return "not an address without a scope"
    if found.is_unspecified:
        return "not one address"
    if found.is_multicast or found.is_loopback or found.is_link_local:
        return "not an address that packets are routed to"
    return None


def _plugin_faults(kind: Kind, given: str, finder: Finder) -> Iterator[Fault]:
    """Yield what is wrong with a plug-in."""
    for fault in finder.check(kind, given, typed=True):
        hint = fault.hint or (did_you_mean(given, fault.known) if fault.known else "")
        where = fault.where or f"--{kind}"
        key = ".".join(fault.path)
        yield Fault(message=fault.message, where=where, line=fault.line, key=key, hint=hint)


def split(place: str, option: str = "--listen") -> tuple[str, int] | Fault:
    """Return the IP address and port of `ADDRESS:PORT`, `[ADDRESS]:PORT` over IPv6."""
    host, bare, port = _parts(place)
    hint = "for example 10.9.0.1:443 or [fd09::1]:443"
    if port is None:
        return Fault(message=f"not an address with a port: {shown(place)}", where=option, hint=hint)
    try:
        address = ipaddress.ip_address(bare)
    except ValueError:
        return Fault(message=f"not an IP address: {shown(bare)}", where=option, hint=hint)
    if (address.version == 6) != host.startswith("["):
        return Fault(message=f"not an address with a port: {shown(place)}", where=option, hint=hint)
    return canonical(bare), port


def canonical(address: str) -> str:
    """Return an IP address in canonical form, which can be compared. Other texts are returned unchanged.

    The form is that of RFC 5952. An IPv4 address in IPv6 notation (`::ffff:10.9.0.1`) becomes an IPv4
    address, because packets never contain it in IPv6 notation.
    """
    try:
        found = ipaddress.ip_address(address)
    except ValueError:
        return address
    return str(getattr(found, "ipv4_mapped", None) or found)


def _spelt(place: str) -> str:
    """Return `ADDRESS:PORT` with a canonical address. Other texts are returned unchanged."""
    found = split(place)
    return place if isinstance(found, Fault) else _place(*found)


def _place(address: str, port: int) -> str:
    """Return an address and a port as one text."""
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"


def _parts(place: str) -> tuple[str, str, int | None]:
    """Return the host of `HOST:PORT`, the same without brackets, and the port; None if there is no port."""
    host, _, port = place.rpartition(":")
    valid = port.isascii() and port.isdigit() and 0 < int(port) <= _MOST_PORT
    return host, host.removeprefix("[").removesuffix("]"), int(port) if host and valid else None


def resolve(origin: str) -> tuple[str, ...]:
    """Return the addresses of an origin `HOST:PORT`, in the order in which the system would try them.

    Raises
    ------
    InputError
        If the text is not an origin, or has no address.
    """
    _, host, port = _parts(origin)
    if not host or port is None:
        fault = Fault(
            message=f"not a host with a port: {shown(origin)}", where="--origin", hint="127.0.0.1:8080"
        )
        raise InputError([fault])
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        said = getattr(error, "strerror", None) or str(error)
        fault = Fault(message=f"no address of {shown(host)}: {said}", where="--origin")
        raise InputError([fault]) from None
    return tuple(dict.fromkeys(_place(canonical(_scoped(address)), port) for *_, address in found))


def _scoped(address: tuple[Any, ...]) -> str:
    """Return the IP address of a socket's address, its scope as a number."""
    bare = str(address[0]).partition("%")[0]
    scope = address[3] if len(address) > _IN_IPV4 else 0
    return f"{bare}%{scope}" if scope else bare


def _raise_descriptor_limit(connections: int) -> None:
    """Raise the soft limit of descriptors to the hard limit, and check that it suffices for all connections.

    Raises
    ------
    InputError
        If the hard limit is too low.
    """
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    unlimited = resource.RLIM_INFINITY
    if soft != hard:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        except (OSError, ValueError):  # for example a hard limit beyond fs.nr_open
            hard = soft
    needed = connections + _OTHER_DESCRIPTORS
    if hard != unlimited and hard < needed:
        room = hard - _OTHER_DESCRIPTORS
        fewer = f"--connections {room}, or " if room > 0 else ""
        raise InputError(
            [
                Fault(
                    message=f"{connections} connections need {needed} descriptors; the limit is {hard}",
                    where="--connections",
                    hint=f"{fewer}a higher limit: ulimit -Hn {needed}, or LimitNOFILE={needed} in the unit",
                )
            ]
        )


def _exposed_metrics(place: str | None) -> str | None:
    """Return a warning if other hosts can read the metrics."""
    found = split(place, "--metrics") if place is not None else None
    if found is None or isinstance(found, Fault) or ipaddress.ip_address(found[0]).is_loopback:
        return None
    return (
        f"warning: {place} is not a loopback address: anyone who reaches it can read the metrics; "
        "let a firewall allow only the monitoring host"
    )


class _Signals:
    """Handles the signals of a gateway, and collects notes about them for the operator.

    Parameters
    ----------
    grace_s
        The time that connections have to end.
    """

    def __init__(self, grace_s: float) -> None:
        self.wish, self.reload = SERVE, False
        self.notes: list[str] = []
        self.grace_s = grace_s

    def heard(self, number: int, _: FrameType | None) -> None:
        """Handle a signal. The first one ends the gateway gently, the second one at once."""
        name = signal.Signals(number).name
        if number == _RELOAD:
            self.reload = True
        elif self.wish == SERVE:
            self.wish = FINISH
            text = f"{name}: no more connections; those that are open have {self.grace_s:g} s to end"
            self.notes.append(text)
        elif self.wish == FINISH:
            self.wish = STOP
            self.notes.append(f"{name}: ending at once")

    def reloaded(self, settings: Settings, reread: Callable[[], Settings]) -> Settings | None:
        """Return new settings if they must be read again, and None otherwise."""
        if not self.reload:
            return None
        self.reload = False
        try:
            found = reread()
            _raise_descriptor_limit(found.connections)
        except Exception as error:  # noqa: BLE001 - no fault of a file may end a gateway that serves
            told = str(error) if isinstance(error, AnabranchError) else f"{type(error).__name__}: {error}"
            self.notes += [*told.splitlines(), "SIGHUP: the limits stay as they were"]
            return settings
        self.grace_s = found.grace_s
        limits = ", ".join(f"{name} = {getattr(found, name)}" for name in RELOADED)
        self.notes.append(f"SIGHUP: limits: {limits}")
        return found

    @contextmanager
    def handled(self) -> Iterator[None]:
        """Handle signals inside `with`, except those that were ignored when the program started."""
        before = {number: signal.getsignal(number) for number in (*_ENDING, _RELOAD)}
        for number, handler in before.items():
            if handler is not signal.SIG_IGN:
                signal.signal(number, self.heard)
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


def serve(settings: Settings, *, ready: str, reread: Callable[[], Settings] | None = None) -> None:
    """Run a gateway until a signal ends it.

    Separate threads write the log and stderr. An output that fails or is not read loses lines, but no
    connection.

    Parameters
    ----------
    settings
        The settings.
    ready
        The line that is printed on stderr when the gateway accepts connections.
    reread
        Returns the settings with the limits that SIGHUP reads again.

    Raises
    ------
    InputError
        With all faults of the settings.
    MissingError
        If the device cannot be opened, or an address cannot be listened at.
    """
    finder = Finder(Path.cwd())
    faults = list(settings.faults(finder))
    if faults:
        raise InputError(faults)
    _raise_descriptor_limit(settings.connections)
    signals = _Signals(settings.grace_s)
    signals.notes.append(ready)
    if (exposed := _exposed_metrics(settings.metrics)) is not None:
        signals.notes.append(exposed)
    current = settings

    def watch(failures: Sequence[Exception]) -> tuple[int, list[str], Settings | None]:
        nonlocal current
        changed = signals.reloaded(current, reread or (lambda: settings))
        current = changed or current
        notes, signals.notes = signals.notes, []
        notes += [line for failure in failures for line in str(_failed(finder, failure)).splitlines()]
        return signals.wish, notes, changed

    plugged = any(finder.found.values())
    timed = deadline(serve.__code__, watch.__code__) if plugged else nullcontext()
    with signals.handled(), timed:
        try:
            module().gateway(settings, watch, finder.found)
        except OSError as error:
            raise _missing(settings, error) from None


def _failed(finder: Finder, failure: Exception) -> Fault:
    """Return the fault of a plug-in that ended its connection, with the file and line."""
    kind, name, *rest = failure.args
    plugged = finder.found[kind][name]
    if isinstance(failure, module().AnswerError):
        return plugged.fault(*rest)
    fault = raised(f"the {kind} `{name}` failed", rest[0], plugged.own_files())
    return Fault(message=fault.message, where=fault.where, line=fault.line)


def _missing(settings: Settings, error: OSError) -> MissingError:
    """Return the error for something that the host does not permit or have."""
    said = str(error.strerror or error)
    hints = {
        errno.ENODEV: f"make it: ip tuntap add dev {settings.tun} mode tun user $USER (see --setup-print)",
        errno.EPERM: f"make it this user's: ip tuntap add dev {settings.tun} mode tun user $USER",
        errno.EACCES: "may this user open /dev/net/tun?",
        errno.EBUSY: "another program has it",
        errno.EADDRINUSE: "another port for --metrics, or off",
    }
    if said.startswith("the log "):
        hints = {
            errno.ENOENT: "is the folder of --log there?",
            errno.EACCES: "may this user write there?",
            errno.EISDIR: "--log takes a file, not a folder",
            errno.EROFS: "in a systemd unit: ReadWritePaths= with the folder of --log (see --setup-print)",
        }
    return MissingError(said, hint=hints.get(error.errno or 0, ""))

"""The setup of a host before a gateway runs on it: commands and a unit, as text."""

from __future__ import annotations

import ipaddress
import re
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from anabranch.errors import Fault, InputError
from anabranch.live.gateway import split
from anabranch.plugins import tables

if TYPE_CHECKING:
    from anabranch.live.gateway import Settings

#: Seconds that the unit waits beyond the grace time before it kills.
_BEYOND_GRACE_S = 5
#: The unit's memory limit beyond twice the data that connections may hold, MiB. It covers the program itself,
#: packets in flight, and the kernel's buffers of sockets to the origin.
_BEYOND_DATA_MIB = 512
#: The unit's restrictions, the strongest first.
_SANDBOX = (
    "CapabilityBoundingSet=",
    "AmbientCapabilities=",
    "NoNewPrivileges=yes",
    "PrivateUsers=yes",
    "DevicePolicy=closed",
    "DeviceAllow=/dev/net/tun rw",
    "RestrictAddressFamilies=AF_INET AF_INET6 AF_UNIX",
    # systemd's sets of system calls differ between versions, so the calls of io_uring are named.
    "SystemCallFilter=@system-service io_uring_setup io_uring_enter io_uring_register",
    "SystemCallFilter=~@privileged @resources @keyring @memlock @setuid @chown",
    "SystemCallErrorNumber=EPERM",
    "SystemCallArchitectures=native",
    "MemoryDenyWriteExecute=yes",
    "ProtectSystem=strict",
    "ProtectHome=read-only",
    "ProtectProc=invisible",
    "ProcSubset=pid",
    "ProtectKernelTunables=yes",
    "ProtectKernelModules=yes",
    "ProtectKernelLogs=yes",
    "ProtectControlGroups=yes",
    "ProtectClock=yes",
    "ProtectHostname=yes",
    "PrivateTmp=yes",
    "PrivateMounts=yes",
    "PrivateIPC=yes",
    "RemoveIPC=yes",
    "RestrictNamespaces=yes",
    "RestrictRealtime=yes",
    "RestrictSUIDSGID=yes",
    "LockPersonality=yes",
    # The log is the only file that the gateway writes. Its group may read it, for example to ship it.
    "UMask=0027",
)
#: The length of the device's queue, packets. It must hold the clients' acknowledgements of all packets that
#: wait to be written.
_QUEUE = 2000
#: The version of IP with long addresses.
_V6 = 6
#: The options of the setup text, and those that name a plug-in.
_FOR_TEXT = frozenset({"--user", "--public", "--mtu", "--syn-limit"})
_PLUGGED = frozenset({"--scheduler", "--congestion"})
#: The options whose value is a file.
_FILES = frozenset({"--log", "--limits"})
#: Characters that systemd reads unchanged; any other text is quoted.
_PLAIN = re.compile(r"[\w@%$+=:,./~^-]+", re.ASCII)


def text(
    settings: Settings,
    *,
    user: str,
    public: tuple[str, ...],
    mtu: int,
    command: list[str],
    syn_limit: int | None = None,
) -> str:
    """Return the commands, each with its reason. Running the commands again changes nothing.

    Parameters
    ----------
    settings
        The gateway's settings.
    user
        The user that runs it.
    public
        Public addresses of the host, as `ADDRESS:PORT`, at which clients find the gateway; empty if the
        gateway's own addresses are routed to the host.
    mtu
        The device's MTU, bytes.
    command
        The command line that starts the gateway.
    syn_limit
        The number of SYNs per second and source that the host lets pass; None for no limit.

    Raises
    ------
    InputError
        If a public address is invalid, or the gateway has no address of the same family.
    """
    lines = _device(settings, user, mtu) + _translations(settings, public) + _limit(settings, syn_limit)
    lines += _unit(settings, user, command)
    return "\n".join(["# As root. Nothing of this has been done.", *lines])


def _own(settings: Settings) -> list[str]:
    """Return the gateway's own addresses."""
    return list(dict.fromkeys([*(address for address, _ in settings.places()), *settings.announce]))


def _device(settings: Settings, user: str, mtu: int) -> list[str]:
    """Return the commands for the device, the routes and forwarding."""
    tun, own = settings.tun, _own(settings)
    lines = [
        "",
        f"# A device that {user} may open without any capability.",
        f"[ -e /sys/class/net/{tun} ] || ip tuntap add dev {tun} mode tun user {shlex.quote(user)}",
        f"ip link set dev {tun} mtu {mtu} txqueuelen {_QUEUE} up",
        "",
        "# The gateway's addresses are behind it. They are not the host's: never `ip address add` them.",
    ]
    lines += [
        f"ip -6 route replace {address}/128 dev {tun}"
        if ipaddress.ip_address(address).version == _V6
        else f"ip route replace {address}/32 dev {tun}"
        for address in own
    ]
    versions = {ipaddress.ip_address(address).version for address in own}
    lines += ["", "# The host passes packets on between its uplinks and the device."]
    lines += ["sysctl -w net.ipv4.ip_forward=1"] if versions - {_V6} else []
    lines += ["sysctl -w net.ipv6.conf.all.forwarding=1"] if _V6 in versions else []
    return lines


def _translations(settings: Settings, public: tuple[str, ...]) -> list[str]:
    """Return the rules that bring clients of a public address to the gateway."""
    faults, rules = [], []
    listened = settings.places()
    for place in public:
        found = split(place, "--public")
        if isinstance(found, Fault):
            faults.append(found)
            continue
        version = ipaddress.ip_address(found[0]).version
        inner = next((it for it in listened if ipaddress.ip_address(it[0]).version == version), None)
        if inner is None:
            hint = f"--listen an address of IPv{version} too"
            faults.append(Fault(message=f"no gateway behind {place}", where="--public", hint=hint))
            continue
        family, bare = ("ip6", f"[{inner[0]}]") if version == _V6 else ("ip", inner[0])
        rules.append(f"    {family} daddr {found[0]} tcp dport {found[1]} dnat {family} to {bare}:{inner[1]}")
    if faults:
        raise InputError(faults)
    if not rules:
        return []
    table = _table(settings.tun)
    return [
        "",
        "# Clients that come to the public address are the gateway's: every subflow is translated alike.",
        "nft -f - <<'RULES'",
        f"table inet {table}",
        f"delete table inet {table}",
        f"table inet {table} {{",
        "  chain prerouting {",
        "    type nat hook prerouting priority dstnat; policy accept;",
        *rules,
        "  }",
        "}",
        "RULES",
    ]


def _limit(settings: Settings, a_second: int | None) -> list[str]:
    """Return the rules that keep floods of SYNs from the device."""
    if a_second is None:
        return []
    return [
        "",
        "# Who sends more SYNs than so many costs the host a look, and the gateway nothing.",
        "nft -f - <<'RULES'",
        *flood_rules(settings.tun, a_second),
        "RULES",
    ]


def flood_rules(device: str, a_second: int) -> list[str]:
    """Return nftables rules that drop SYNs for a device beyond a rate per source.

    A source is an IPv4 address, or an IPv6 /64. A source may send five seconds' worth of SYNs at once.
    """
    table = _table(device, "floods")
    limit = f"limit rate over {a_second}/second burst {5 * a_second} packets"
    syn = f'oifname "{device}" tcp flags & (fin|syn|rst|ack) == syn'
    kept = "flags dynamic,timeout; timeout 10s; size 65536;"
    return [
        f"table inet {table}",
        f"delete table inet {table}",
        f"table inet {table} {{",
        f"  set v4 {{ type ipv4_addr; {kept} }}",
        f"  set v6 {{ type ipv6_addr; {kept} }}",
        "  chain forward {",
        "    type filter hook forward priority filter - 10; policy accept;",
        f"    {syn} update @v4 {{ ip saddr {limit} }} drop",
        f"    {syn} update @v6 {{ ip6 saddr and ffff:ffff:ffff:ffff:: {limit} }} drop",
        "  }",
        "}",
    ]


def _table(device: str, *more: str) -> str:
    """Return the name of a device's table.

    Each gateway has its own, so replacing one leaves the others unchanged.
    """
    named = re.sub(r"[^A-Za-z0-9]", lambda found: f"_{ord(found[0]):x}_", device)
    return "_".join(("anabranch", named, *more))


def _unit(settings: Settings, user: str, command: list[str]) -> list[str]:
    """Return the systemd unit."""
    program, *words = command
    # systemd replaces variables in the arguments but not in the program's path.
    started = [_quoted(program.replace("%", "%%")), *(_word(word) for word in words)]
    return [
        "",
        "# Started by systemd, with nothing but the device and sockets.",
        "cat > /etc/systemd/system/anabranch-gateway.service <<'UNIT'",
        "[Unit]",
        "Description=anabranch gateway: MPTCP in front of an origin",
        "After=network-online.target",
        "Wants=network-online.target",
        "",
        "[Service]",
        f"User={user.replace('%', '%%')}",
        f"ExecStart={' '.join(started)}",
        # SIGHUP opens the log again and reads the limits again.
        "ExecReload=/bin/kill -HUP $MAINPID",
        "KillSignal=SIGTERM",
        f"TimeoutStopSec={settings.grace_s + _BEYOND_GRACE_S:g}",
        "Restart=on-failure",
        "RestartSec=1",
        f"LimitNOFILE={max(65_536, settings.connections + 1024)}",
        f"MemoryMax={2 * (settings.memory >> 20) + _BEYOND_DATA_MIB}M",
        *_SANDBOX,
        *_log_folder(settings),
        "",
        "[Install]",
        "WantedBy=multi-user.target",
        "UNIT",
        "systemctl daemon-reload",
        "systemctl enable --now anabranch-gateway",
    ]


def _log_folder(settings: Settings) -> list[str]:
    """Return the directive that allows the unit to write to the log's folder; none without `--log`."""
    if settings.log is None:
        return []
    return [f"ReadWritePaths={_quoted(str(Path(settings.log).absolute().parent).replace('%', '%%'))}"]


def _word(word: str) -> str:
    """Return a word of a command for systemd, where `%` begins a specifier and `$` a variable."""
    return _quoted(word.replace("%", "%%").replace("$", "$$"))


def _quoted(word: str) -> str:
    """Return a word with the quotes that systemd needs, if any."""
    if _PLAIN.fullmatch(word):
        return word
    escaped = word.replace("\\", "\\\\").replace('"', '\\"')
    # A newline would end the line of the unit. No other character must be escaped within quotes.
    return '"' + escaped.replace("\n", "\\n").replace("\r", "\\r") + '"'


def started_with(arguments: list[str]) -> list[str]:
    """Return the words of a command line without the options for this text.

    Files and the paths of plug-ins are made absolute, because systemd uses another working directory.
    """
    kept: list[str] = []
    words = iter(arguments)
    for word in words:
        option, equals, value = word.partition("=")
        if option in _FOR_TEXT:
            if not equals:
                next(words, None)
        elif option in _PLUGGED:
            given = value if equals else next(words, "")
            kept += [option, tables.absolute(given)]
        elif option in _FILES:
            kept += [option, str(Path(value if equals else next(words, "")).absolute())]
        elif word != "--setup-print":
            kept.append(word)
    return [sys.executable, "-m", "anabranch", *kept]

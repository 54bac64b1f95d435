"""`anabranch gateway`: the command and its options."""

from __future__ import annotations

import getpass
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from anabranch.cli import _console
from anabranch.cli._console import guarded
from anabranch.cli._live import Watched, WatchedAt, watched
from anabranch.errors import Fault, InputError

if TYPE_CHECKING:
    from anabranch.live.gateway import Settings


def _option(help_: str, metavar: str | None = None, **more: Any) -> Any:  # noqa: ANN401 - as the library has it
    """Return an option of the command."""
    return typer.Option(help=help_, metavar=metavar, **more)


_PLACE = "ADDRESS:PORT"
_MINE = "FILE.py:CLASS is a class of your own."

Listen = Annotated[
    list[str],
    _option(
        "Address and port where clients connect. The address must not be the host's own. Repeatable.", _PLACE
    ),
]
Origin = Annotated[
    str,
    _option(
        "The server to which the gateway forwards clients' bytes. The name is looked up once, at the start.",
        "HOST:PORT",
    ),
]
Tun = Annotated[str, _option("An existing TUN device.", "NAME")]
Preset = Annotated[str, _option("A named set of plug-ins and timeouts.", "kernel|video")]
Scheduler = Annotated[str | None, _option(f"Path scheduler, instead of the preset's; {_MINE}")]
Congestion = Annotated[str | None, _option(f"Congestion control, instead of the preset's; {_MINE}")]
Announce = Annotated[
    list[str] | None,
    _option("Another address of the gateway that is announced to clients; repeatable.", "ADDRESS"),
]
ProxyProtocol = Annotated[
    str | None, _option("Send the client's address to the origin with the PROXY protocol.", "v2")
]
NoMptcp = Annotated[bool, typer.Option("--no-mptcp", help="Use plain TCP only, without MPTCP.")]
NoOffload = Annotated[
    bool,
    typer.Option(
        "--no-offload", help="Read each packet from the device separately, without segmentation offload."
    ),
]
Metrics = Annotated[
    str, _option("Address and port at which Prometheus reads the metrics; `off` disables them.", _PLACE)
]
Connections = Annotated[int, _option("Largest number of connections.", min=1)]
PerSource = Annotated[int, _option("Largest number of connections from one IPv4 address or IPv6 /64.", min=1)]
PerSite = Annotated[
    int | None,
    _option("Largest number of connections from one IPv6 /48 (default: four times --per-source).", min=1),
]
WaitForClient = Annotated[
    bool,
    typer.Option("--wait-for-client", help="Connect to the origin only after the client has sent a byte."),
]
Limits = Annotated[
    Path | None, _option("TOML file with limits, which override the options; SIGHUP reads it again.", "FILE")
]
Log = Annotated[
    Path | None,
    _option(
        "File that gets a line for each finished connection (default: stdout); SIGHUP opens it again.", "FILE"
    ),
]
Backlog = Annotated[
    int, _option("Number of incomplete handshakes; beyond it, the gateway answers with SYN cookies.", min=0)
]
HalfOpen = Annotated[str, _option("Longest duration of a handshake, at most 262 s.", "TIME")]
ConnectTimeout = Annotated[
    str, _option("Longest duration of a connection attempt to one address of the origin.", "TIME")
]
Idle = Annotated[
    str, _option("End a connection after this time without any data in either direction.", "TIME")
]
Grace = Annotated[str, _option("Time that open connections have to finish after SIGTERM.", "TIME")]
Memory = Annotated[
    str,
    _option("Buffer memory of all connections together; divided among clients if it becomes short.", "SIZE"),
]
ReceiveBuffer = Annotated[str, _option("Receive buffer of a connection.", "SIZE")]
SendBuffer = Annotated[str, _option("Send buffer of a subflow.", "SIZE")]
SetupPrint = Annotated[
    bool,
    typer.Option("--setup-print", help="Print the commands that root must run before the start, and exit."),
]
User = Annotated[
    str | None, _option("With --setup-print: the user who will run the gateway (default: you).", "NAME")
]
Public = Annotated[
    list[str] | None,
    _option(
        "With --setup-print: the host's public address, translated to the gateway's (DNAT); repeatable.",
        _PLACE,
    ),
]
Mtu = Annotated[int, _option("With --setup-print: MTU of the device.", min=1280, max=9000)]
SynLimit = Annotated[
    int | None,
    _option("With --setup-print: largest number of SYNs a second from one address or IPv6 /64.", min=1),
]


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("gateway")(guarded(gateway))


def gateway(
    listen: Listen,
    origin: Origin,
    tun: Tun = "anabranch0",
    preset: Preset = "kernel",
    scheduler: Scheduler = None,
    congestion: Congestion = None,
    announce: Announce = None,
    proxy_protocol: ProxyProtocol = None,
    wait_for_client: WaitForClient = False,
    no_mptcp: NoMptcp = False,
    no_offload: NoOffload = False,
    metrics: Metrics = "127.0.0.1:9464",
    log: Log = None,
    limits: Limits = None,
    connections: Connections = 1024,
    per_source: PerSource = 64,
    per_site: PerSite = None,
    backlog: Backlog = 256,
    half_open: HalfOpen = "10 s",
    connect_timeout: ConnectTimeout = "5 s",
    idle: Idle = "300 s",
    grace: Grace = "30 s",
    memory: Memory = "512 MiB",
    receive_buffer: ReceiveBuffer = "4 MiB",
    send_buffer: SendBuffer = "4 MiB",
    setup_print: SetupPrint = False,
    user: User = None,
    public: Public = None,
    mtu: Mtu = 1500,
    syn_limit: SynLimit = None,
    watch: Watched = False,
    watch_at: WatchedAt = None,
) -> None:
    """Accept clients over MPTCP and TCP, and forward their bytes to an origin over plain TCP.

    The gateway needs no privilege, only a TUN device that belongs to the user. It changes nothing on the
    host: --setup-print prints the commands that root must run before. A line for each finished connection
    goes to stdout, or to --log. SIGTERM lets open connections finish, and a second SIGTERM ends them at once.
    SIGHUP opens the log again and reads --limits again. For example:

      anabranch gateway --listen 10.9.0.1:443 --origin 127.0.0.1:8443 --setup-print --public 203.0.113.7:443
      anabranch gateway --listen 10.9.0.1:443 --origin 127.0.0.1:8443 --proxy-protocol v2
    """
    _gateway(SimpleNamespace(**locals()))


def _gateway(given: SimpleNamespace) -> None:
    """Run the gateway, or print the commands for its setup."""
    from anabranch.live import gateway as gateways
    from anabranch.live import gateway_limits, gateway_page

    base = _settings(given)

    def reread() -> Settings:
        return base if given.limits is None else gateway_limits.applied(base, given.limits)

    settings = reread()
    if given.setup_print:
        from anabranch.live import host_setup

        _console.out(
            host_setup.text(
                settings,
                user=given.user or getpass.getuser(),
                public=tuple(given.public or ()),
                mtu=given.mtu,
                syn_limit=given.syn_limit,
                command=host_setup.started_with(sys.argv[1:]),
            )
        )
        return

    at = f"; metrics at http://{settings.metrics}/metrics" if settings.metrics else ""
    places, origins = ", ".join(settings.listen), ", ".join(settings.origin)
    ready = f"serving {places} on {settings.tun} for {origins}{at}"
    with watched(_page_place(given, settings)) as shown, gateway_page.following(settings, shown):
        gateways.serve(settings, ready=ready, reread=reread)


def _page_place(given: SimpleNamespace, settings: Settings) -> tuple[str, int] | None:
    """Return the place of the page that shows the gateway, if one is requested; faults are raised."""
    from anabranch.live import page

    place = page.chosen(given.watch_at, free=given.watch)
    if isinstance(place, Fault):
        raise InputError([place])
    if place is not None and settings.metrics is None:
        message = "the page reads the metrics, which are off"
        raise InputError([Fault(message=message, where="--watch, --metrics")])
    return place


#: The settings that a preset's keys change.
_OF_PRESET = {
    "scheduler": "scheduler",
    "congestion": "congestion",
    "rto_max": "rto_max_s",
    "stack.outage": "outage",
}


def _preset(given: SimpleNamespace, faults: list[Fault]) -> dict[str, Any]:
    """Return the settings of the preset, except those that an option replaces."""
    from anabranch.errors import did_you_mean
    from anabranch.scenario import presets, units

    if given.preset not in presets.PRESETS:
        hint = did_you_mean(given.preset, presets.PRESETS)
        faults.append(Fault(message=f"unknown preset: `{given.preset}`", where="--preset", hint=hint))
    found = {_OF_PRESET[key]: value for key, value in presets.preset_keys(given.preset).items()}
    if "rto_max_s" in found:
        found["rto_max_s"] = units.time_ns(found["rto_max_s"]) / 1e9
    options = {name: getattr(given, name) for name in ("scheduler", "congestion")}
    return found | {name: value for name, value in options.items() if value is not None}


def _settings(given: SimpleNamespace) -> Settings:
    """Return the settings; all faults are raised together."""
    from anabranch.live import gateway_limits
    from anabranch.live.gateway import Settings, resolve
    from anabranch.plugins.load import Finder

    faults: list[Fault] = []
    if given.proxy_protocol not in {None, "v2"}:
        message = f"no such version: `{given.proxy_protocol}`"
        faults.append(Fault(message=message, where="--proxy-protocol", hint="v2"))
    limits, unread = gateway_limits.given(vars(given))
    faults += unread
    found: tuple[str, ...] = ()
    try:
        found = resolve(given.origin)
    except InputError as error:
        faults += error.faults
    settings = Settings(
        listen=tuple(given.listen),
        origin=found,
        announce=tuple(given.announce or ()),
        multipath=not given.no_mptcp,
        offload=not given.no_offload,
        proxy_protocol=given.proxy_protocol == "v2",
        metrics=None if given.metrics == "off" else given.metrics,
        tun=given.tun,
        **_preset(given, faults),
        wait_for_client=given.wait_for_client,
        log=None if given.log is None else str(given.log),
        **limits,
    )
    faults += settings.faults(Finder(Path.cwd()))
    if faults:
        raise InputError(faults)
    return settings

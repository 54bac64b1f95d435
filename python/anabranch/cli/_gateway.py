"""`anabranch gateway`: the command and its options."""

from __future__ import annotations

import getpass
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from anabranch.cli import _console
from anabranch.cli._console import guarded
from anabranch.errors import Fault, InputError
from anabranch.scenario import units

if TYPE_CHECKING:
    from collections.abc import Callable

_LIMITS = "Limits"
_SETUP = "Setting the host up"


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("gateway")(guarded(gateway))


def gateway(
    listen: Annotated[
        list[str],
        typer.Option(
            metavar="ADDRESS:PORT", help="Where clients connect: an address of its own; repeatable."
        ),
    ],
    origin: Annotated[
        str, typer.Option(metavar="HOST:PORT", help="Who gets the bytes; looked up at the start.")
    ],
    tun: Annotated[str, typer.Option(metavar="NAME", help="The TUN device, made before.")] = "anabranch0",
    scheduler: Annotated[str, typer.Option(help="Path scheduler; FILE.py:CLASS is one of yours.")] = "linux",
    congestion: Annotated[
        str, typer.Option(help="Congestion control; FILE.py:CLASS is one of yours.")
    ] = "cubic",
    announce: Annotated[
        list[str] | None,
        typer.Option(
            metavar="ADDRESS", help="A further address of its own that clients may join; repeatable."
        ),
    ] = None,
    proxy_protocol: Annotated[
        str | None, typer.Option(metavar="v2", help="Tell the origin its client by the PROXY protocol.")
    ] = None,
    no_mptcp: Annotated[bool, typer.Option("--no-mptcp", help="Speak plain TCP only.")] = False,
    metrics: Annotated[
        str,
        typer.Option(metavar="ADDRESS:PORT", help="Where Prometheus asks for the metrics; off is nowhere."),
    ] = "127.0.0.1:9464",
    connections: Annotated[
        int, typer.Option(min=1, help="Connections at most.", rich_help_panel=_LIMITS)
    ] = 1024,
    per_source: Annotated[
        int,
        typer.Option(
            min=1, help="Connections at most of an IPv4 address or an IPv6 /64.", rich_help_panel=_LIMITS
        ),
    ] = 64,
    backlog: Annotated[
        int,
        typer.Option(
            min=0, help="Incomplete handshakes that are remembered; then cookies.", rich_help_panel=_LIMITS
        ),
    ] = 256,
    half_open: Annotated[
        str, typer.Option(metavar="TIME", help="How long a handshake may take.", rich_help_panel=_LIMITS)
    ] = "10 s",
    idle: Annotated[
        str, typer.Option(metavar="TIME", help="How long nothing may move.", rich_help_panel=_LIMITS)
    ] = "300 s",
    grace: Annotated[
        str,
        typer.Option(
            metavar="TIME", help="How long connections may go on after SIGTERM.", rich_help_panel=_LIMITS
        ),
    ] = "30 s",
    memory: Annotated[
        str,
        typer.Option(
            metavar="SIZE", help="Data in buffers, of all connections together.", rich_help_panel=_LIMITS
        ),
    ] = "512 MiB",
    receive_buffer: Annotated[
        str, typer.Option(metavar="SIZE", help="Receive buffer of a connection.", rich_help_panel=_LIMITS)
    ] = "4 MiB",
    send_buffer: Annotated[
        str, typer.Option(metavar="SIZE", help="Send buffer of a subflow.", rich_help_panel=_LIMITS)
    ] = "4 MiB",
    setup_print: Annotated[
        bool,
        typer.Option(
            "--setup-print", help="Print what root does before, and do nothing.", rich_help_panel=_SETUP
        ),
    ] = False,
    user: Annotated[
        str | None, typer.Option(help="Who is to run it (default: you).", rich_help_panel=_SETUP)
    ] = None,
    public: Annotated[
        list[str] | None,
        typer.Option(
            metavar="ADDRESS:PORT",
            help="The host's address that clients know, translated (DNAT); repeatable.",
            rich_help_panel=_SETUP,
        ),
    ] = None,
    mtu: Annotated[
        int, typer.Option(min=1280, max=9000, help="MTU of the device.", rich_help_panel=_SETUP)
    ] = 1500,
) -> None:
    """Serve clients over Multipath TCP and TCP, and pass their bytes to an origin over plain TCP.

    It needs no privilege, only a TUN device that is this user's, and it changes nothing on the host:
    --setup-print shows what root does before. A line for each connection that is over goes to stdout. SIGTERM
    lets connections end; a second one does not. For example:

      anabranch gateway --listen 10.9.0.1:443 --origin 127.0.0.1:8443 --setup-print --public 203.0.113.7:443
      anabranch gateway --listen 10.9.0.1:443 --origin 127.0.0.1:8443 --proxy-protocol v2
    """
    from pathlib import Path

    from anabranch.live import gateway as gateways
    from anabranch.plugins.load import Finder

    faults: list[Fault] = []
    if proxy_protocol not in {None, "v2"}:
        faults.append(
            Fault(message=f"no such version: `{proxy_protocol}`", where="--proxy-protocol", hint="v2")
        )
    half_open_ns, idle_ns, grace_ns = (
        _read(units.time_ns, text, option, faults)
        for text, option in ((half_open, "--half-open"), (idle, "--idle"), (grace, "--grace"))
    )
    sizes = ((memory, "--memory"), (receive_buffer, "--receive-buffer"), (send_buffer, "--send-buffer"))
    most, receives, sends = (_read(units.size_bytes, text, option, faults) for text, option in sizes)
    found: tuple[str, ...] = ()
    try:
        found = gateways.resolve(origin)
    except InputError as error:
        faults += error.faults
    settings = gateways.Settings(
        tun=tun,
        listen=tuple(listen),
        origin=found,
        announce=tuple(announce or ()),
        scheduler=scheduler,
        congestion=congestion,
        multipath=not no_mptcp,
        proxy_protocol=proxy_protocol == "v2",
        metrics=None if metrics == "off" else metrics,
        backlog=backlog,
        half_open_s=half_open_ns / 1e9,
        idle_s=idle_ns / 1e9,
        grace_s=grace_ns / 1e9,
        connections=connections,
        per_source=per_source,
        memory=most,
        receive_buffer=receives,
        send_buffer=sends,
    )
    faults += settings.faults(Finder(Path.cwd()))
    if faults:
        raise InputError(faults)
    if setup_print:
        from anabranch.live import host_setup

        command = host_setup.started_with(sys.argv[1:])
        _console.out(
            host_setup.text(
                settings, user=user or getpass.getuser(), public=tuple(public or ()), mtu=mtu, command=command
            )
        )
        return

    def ready() -> None:
        at = f"; metrics at http://{settings.metrics}/metrics" if settings.metrics else ""
        _console.note(f"serving {', '.join(settings.listen)} on {tun} for {', '.join(settings.origin)}{at}")

    def log(line: str) -> None:
        _console.out(line)
        sys.stdout.flush()

    gateways.serve(settings, ready=ready, log=log, note=_console.note)


def _read(read: Callable[[object], int], text: str, option: str, faults: list[Fault]) -> int:
    """Return a quantity, or 0 with what is wrong with it among the faults."""
    try:
        return read(text)
    except units.UnitError as error:
        faults.append(Fault(message=str(error), where=option, hint=error.hint))
        return 0

"""`anabranch doctor`: what this host has, and what each part is needed for."""

from __future__ import annotations

import os
import platform
import shutil
from dataclasses import asdict, dataclass, field
from pathlib import Path

import typer

from anabranch.cli import _console


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One piece of the host.

    Attributes
    ----------
    name
        What was looked for.
    found
        Whether it is there.
    detail
        Its version, or why it is missing.
    unlocks
        What it makes possible.
    needed
        Whether the program is of no use without it.
    install
        The commands that install it where it is missing, and that nobody has to think about.
    """

    name: str
    found: bool
    detail: str
    unlocks: str
    needed: bool = False
    install: tuple[str, ...] = field(default=())


def doctor(*, as_json: bool, fix: bool = False, agreed: bool = False) -> None:
    """Write every finding; exit with 4 when something needed is missing.

    With `fix` what is missing is installed then, each command once somebody agrees to it, or `agreed` before.
    """
    findings = [_python(), _module(), *_codecs(), _tshark(), _mptcp(), _tun(), _root(), _live(), *_viewers()]
    if as_json:
        import json

        _console.out(json.dumps([asdict(finding) for finding in findings], indent=2))
    else:
        rows = [
            ("yes" if finding.found else "no", finding.name, finding.detail, finding.unlocks)
            for finding in findings
        ]
        _console.table(("", "piece", "found", "unlocks"), rows, left=4)
    if fix:
        from anabranch.cli import _install

        lacking = [finding for finding in findings if not finding.found]
        _install.run([(one.name, one.detail, one.install) for one in lacking], agreed=agreed)
    missing = [finding for finding in findings if finding.needed and not finding.found]
    for finding in missing:
        _console.note(f"missing: {finding.name}: {finding.detail}")
    if missing:
        raise typer.Exit(_console.MISSING)


def _python() -> Finding:
    """Look at the interpreter."""
    return Finding(
        name="Python", found=True, detail=platform.python_version(), unlocks="the command line", needed=True
    )


def _module() -> Finding:
    """Look for the Rust module."""
    from anabranch.errors import MissingError
    from anabranch.plugins import catalogue

    unlocks = "simulated runs"
    try:
        known = catalogue()
    except MissingError:
        return Finding(
            name="simulator", found=False, detail="not built: run `make build`", unlocks=unlocks, needed=True
        )
    detail = f"{len(known.schedulers)} schedulers, {len(known.congestion)} congestion controls"
    return Finding(name="simulator", found=True, detail=detail, unlocks=unlocks, needed=True)


def _codecs() -> list[Finding]:
    """Look for the codecs in PyAV's FFmpeg."""
    import av
    from av.codec import codecs_available

    pieces = (
        ("libx264", "making films", True),
        ("aac", "making films", True),
        ("h264", "films of one's own", True),
        ("hevc", "films of one's own in H.265", False),
    )
    return [
        Finding(
            name=f"codec {codec}",
            found=codec in codecs_available,
            detail=f"PyAV {av.__version__}",
            unlocks=unlocks,
            needed=needed,
        )
        for codec, unlocks, needed in pieces
    ]


def _tshark() -> Finding:
    """Look for tshark."""
    path = shutil.which("tshark")
    return Finding(
        name="tshark",
        found=path is not None,
        detail=path or "not installed",
        unlocks="judging captures (--pcapng) by Wireshark's dissectors",
        install=("apt-get install tshark",),
    )


def _mptcp() -> Finding:
    """Look for Multipath TCP in the kernel."""
    setting = Path("/proc/sys/net/mptcp/enabled")
    enabled = setting.exists() and setting.read_text(encoding="ascii").strip() == "1"
    detail = f"Linux {platform.release()}" if enabled else "not in this kernel, or switched off"
    return Finding(name="kernel MPTCP", found=enabled, detail=detail, unlocks="comparing with the kernel")


def _tun() -> Finding:
    """Look for the TUN device."""
    there = Path("/dev/net/tun").exists()
    detail = "/dev/net/tun" if there else "no /dev/net/tun"
    return Finding(name="TUN device", found=there, detail=detail, unlocks="the real world, with root")


def _live() -> Finding:
    """Look at whether all is there that real packets take."""
    from anabranch.live import rootless
    from anabranch.live.testbed import missing

    lacks = None if os.geteuid() != 0 and rootless.possible() else missing()
    unlocks = "anabranch live, parity, emulate, shell"
    return Finding(name="real packets", found=lacks is None, detail=lacks or "all is there", unlocks=unlocks)


def _root() -> Finding:
    """Look at who is running this."""
    root = os.geteuid() == 0
    detail = "yes" if root else "no; simulated runs need none"
    return Finding(name="root", found=root, detail=detail, unlocks="network namespaces, the real world")


def _viewers() -> list[Finding]:
    """Look for the programs that play over real packets, and for what serves them."""
    from anabranch.live.viewers import VIEWERS, origin

    found = [
        Finding(
            name="nginx",
            found=origin.program() is not None,
            detail=origin.program() or "not installed",
            unlocks="live --application vlc|hlsjs",
            install=("apt-get install nginx-light",),
        ),
        Finding(
            name="mptcpize",
            found=origin.lacks_mptcp() is None,
            detail=shutil.which("mptcpize") or "not installed",
            unlocks="MPTCP of programs of others",
            install=("apt-get install mptcpize",),
        ),
    ]
    for name, viewer in VIEWERS.items():
        lacks = viewer.lacks()
        found.append(
            Finding(
                name=viewer.title,
                found=lacks is None,
                detail=lacks or "all is there",
                unlocks=f"live --application {name}",
                install=tuple(viewer.install()),
            )
        )
    return found

"""`anabranch doctor`: what this host has, and what each part is needed for."""

from __future__ import annotations

import os
import platform
import shutil
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from anabranch import _extras, _pieces
from anabranch.cli import _console

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One piece of the host.

    Attributes
    ----------
    name
        The name of the piece.
    found
        Whether it is there.
    detail
        Its version, or why it is missing.
    unlocks
        The features that need it.
    needed
        Whether the program cannot work without it.
    install
        The commands that install it if it is missing.
    """

    name: str
    found: bool
    detail: str
    unlocks: str
    needed: bool = False
    install: tuple[str, ...] = field(default=())


def doctor(*, as_json: bool, fix: bool = False, agreed: bool = False) -> None:
    """Print every finding, and exit with code 4 if a required one is missing.

    With `fix`, missing components are installed afterwards. The user confirms each one, unless
    `agreed`.
    """
    findings = [finding for look in _LOOKS for finding in _found(look)]
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


@dataclass(frozen=True, kw_only=True)
class _Look:
    """A function that checks some components, and the names to report as broken if the function fails."""

    names: tuple[str, ...]
    unlocks: str
    look: Callable[[], Iterable[Finding]]
    needed: bool = False
    install: tuple[str, ...] = ()


def _found(look: _Look) -> list[Finding]:
    """Return the findings of a check. If it fails in any way, report its components as broken."""
    try:
        return list(look.look())
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # noqa: BLE001 - a broken module may raise anything, SystemExit included
        return [
            Finding(
                name=name,
                found=False,
                detail=f"broken: {_pieces.reason(error)}",
                unlocks=look.unlocks,
                needed=look.needed,
                install=look.install,
            )
            for name in look.names
        ]


def _python() -> Iterator[Finding]:
    """Look at the interpreter."""
    yield Finding(
        name="Python", found=True, detail=platform.python_version(), unlocks="the command line", needed=True
    )


def _module() -> Iterator[Finding]:
    """Look for the Rust module."""
    from anabranch.errors import MissingError
    from anabranch.plugins import catalogue

    unlocks = "simulated runs"
    try:
        known = catalogue()
    except MissingError as error:
        detail = f"missing or broken: {error.fault.hint}"
        yield Finding(name="simulator", found=False, detail=detail, unlocks=unlocks, needed=True)
        return
    detail = f"{len(known.schedulers)} schedulers, {len(known.congestion)} congestion controls"
    yield Finding(name="simulator", found=True, detail=detail, unlocks=unlocks, needed=True)


#: The codecs to check, and what each is needed for.
_CODECS = (
    ("libx264", "making films"),
    ("aac", "making films"),
    ("h264", "films of one's own"),
    ("hevc", "films of one's own in H.265"),
)


def _codecs() -> Iterator[Finding]:
    """Look for the codecs in PyAV's FFmpeg."""
    try:
        import av
        from av.codec import codecs_available

        available, detail = frozenset(codecs_available), f"PyAV {av.__version__}"
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # noqa: BLE001 - a broken module may raise anything
        available, detail = frozenset(), f"PyAV is missing or broken: {_pieces.reason(error)}"
    return (
        Finding(
            name=f"codec {codec}",
            found=codec in available,
            detail=detail,
            unlocks=unlocks,
            install=() if available else (_PYAV,),
        )
        for codec, unlocks in _CODECS
    )


#: The extras that no other check covers.
_EXTRAS = ("figures", "sql", "dask", "notebook")


def _extra(name: str) -> Iterator[Finding]:
    """Look for the packages of an extra. They are not imported, which would take seconds."""
    extra = _extras.EXTRAS[name]
    looked = [
        (said, _pieces.installed(module, requirement))
        for (module, said), requirement in zip(extra.modules.items(), extra.requirements, strict=True)
    ]
    lacks = [said for said, version in looked if version is None]
    yield Finding(
        name=f"extra {name}",
        found=not lacks,
        detail=", ".join(f"no {said}" for said in lacks)
        or ", ".join(f"{said} {version}" for said, version in looked),
        unlocks=extra.unlocks,
        install=(_extras.command(name),),
    )


#: Programs that only need to exist: the name, what it unlocks, and the package.
_PROGRAMS = (
    ("tshark", "judging captures (--pcapng) by Wireshark's dissectors", "tshark"),
    ("nft", "the rules that `gateway --setup-print` prints", "nftables"),
)


def _programs() -> Iterator[Finding]:
    """Check for programs that only need to exist and to run."""
    for name, unlocks, package in _PROGRAMS:
        path = shutil.which(name)
        failure = None if path is None else _pieces.fails([path, "--version"])
        detail = "not installed" if path is None else path
        yield Finding(
            name=name,
            found=path is not None and failure is None,
            detail=detail if failure is None else f"{detail} does not run: {failure}",
            unlocks=unlocks,
            install=(f"apt-get install {package}",),
        )


def _mptcp() -> Iterator[Finding]:
    """Look for Multipath TCP in the kernel."""
    setting = Path("/proc/sys/net/mptcp/enabled")
    enabled = setting.exists() and setting.read_text(encoding="ascii").strip() == "1"
    detail = f"Linux {platform.release()}" if enabled else "not in this kernel, or switched off"
    yield Finding(name="kernel MPTCP", found=enabled, detail=detail, unlocks="comparing with the kernel")


def _tun() -> Iterator[Finding]:
    """Look for the TUN device."""
    there = Path("/dev/net/tun").exists()
    detail = "/dev/net/tun" if there else "no /dev/net/tun"
    yield Finding(name="TUN device", found=there, detail=detail, unlocks="the real world, with root")


def _pyroute2() -> Iterator[Finding]:
    """Check for the module that sets up namespaces."""
    lacks = _pieces.unimportable("pyroute2")
    yield Finding(
        name="pyroute2",
        found=lacks is None,
        detail="can be imported" if lacks is None else lacks,
        unlocks="network namespaces of real packets",
        install=(_extras.command("live"),),
    )


def _live() -> Iterator[Finding]:
    """Check everything that runs over real packets need."""
    from anabranch.live import rootless
    from anabranch.live.testbed import missing

    lacks = None if os.geteuid() != 0 and rootless.possible() else missing()
    unlocks = "anabranch live, parity, emulate, shell"
    yield Finding(name="real packets", found=lacks is None, detail=lacks or "all is there", unlocks=unlocks)


def _root() -> Iterator[Finding]:
    """Check whether the user is root."""
    root = os.geteuid() == 0
    detail = "yes" if root else "no; simulated runs need none"
    yield Finding(name="root", found=root, detail=detail, unlocks="network namespaces, the real world")


def _nginx() -> Iterator[Finding]:
    """Check for the servers that viewers need."""
    from anabranch.live.viewers import origin

    lacks = origin.lacks()
    yield Finding(
        name="nginx",
        found=lacks is None,
        detail=lacks or origin.program() or "",
        unlocks="live --application vlc|hlsjs",
        install=_NGINX,
    )


def _mptcpize() -> Iterator[Finding]:
    """Check for the program that makes other programs use MPTCP."""
    from anabranch.live.viewers import origin

    lacks = origin.lacks_mptcp()
    yield Finding(
        name="mptcpize",
        found=lacks is None,
        detail=lacks or shutil.which("mptcpize") or "",
        unlocks="MPTCP of programs of others",
        install=_MPTCPIZE,
    )


def _viewer(name: str) -> Iterator[Finding]:
    """Check for a player over real packets."""
    from anabranch.live.viewers import VIEWERS

    viewer = VIEWERS[name]
    lacks = viewer.lacks()
    yield Finding(
        name=viewer.title,
        found=lacks is None,
        detail=lacks or "all is there",
        unlocks=f"live --application {name}",
        install=tuple(viewer.install()),
    )


_PYAV = _extras.command("media")
_NGINX, _MPTCPIZE = ("apt-get install nginx-light",), ("apt-get install mptcpize",)

#: All checks, in the order of the table.
_LOOKS = (
    _Look(names=("Python",), unlocks="the command line", look=_python, needed=True),
    _Look(names=("simulator",), unlocks="simulated runs", look=_module, needed=True),
    _Look(
        names=tuple(f"codec {name}" for name, _ in _CODECS),
        unlocks="films",
        look=_codecs,
        install=(_PYAV,),
    ),
    *(
        _Look(
            names=(f"extra {name}",),
            unlocks=_extras.EXTRAS[name].unlocks,
            look=partial(_extra, name),
            install=(_extras.command(name),),
        )
        for name in _EXTRAS
    ),
    _Look(names=tuple(name for name, _, _ in _PROGRAMS), unlocks="captures and rules", look=_programs),
    _Look(names=("kernel MPTCP",), unlocks="comparing with the kernel", look=_mptcp),
    _Look(names=("TUN device",), unlocks="the real world, with root", look=_tun),
    _Look(names=("root",), unlocks="network namespaces, the real world", look=_root),
    _Look(names=("pyroute2",), unlocks="network namespaces of real packets", look=_pyroute2),
    _Look(names=("real packets",), unlocks="anabranch live, parity, emulate, shell", look=_live),
    _Look(names=("nginx",), unlocks="live --application vlc|hlsjs", look=_nginx, install=_NGINX),
    _Look(names=("mptcpize",), unlocks="MPTCP of programs of others", look=_mptcpize, install=_MPTCPIZE),
    _Look(names=("VLC",), unlocks="live --application vlc", look=lambda: _viewer("vlc")),
    _Look(names=("hls.js",), unlocks="live --application hlsjs", look=lambda: _viewer("hlsjs")),
)

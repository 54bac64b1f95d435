"""`anabranch doctor --fix`: the commands that install missing pieces, run after confirmation."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING

import typer

from anabranch.cli import _console

if TYPE_CHECKING:
    from collections.abc import Sequence

#: A missing piece: its name, its purpose, and the commands that install it.
Piece = tuple[str, str, tuple[str, ...]]
#: The package manager. Only Debian's is supported.
_SYSTEM = "apt-get"


def run(missing: Sequence[Piece], *, agreed: bool) -> None:
    """Install those missing pieces for which there is a command.

    Parameters
    ----------
    missing
        The missing pieces.
    agreed
        Whether to install without confirmation.

    Raises
    ------
    typer.Exit
        When a command fails, with the exit code of something missing.
    """
    for name, detail, install in missing:
        if not install:
            _console.note(f"{name}: {detail}; no command brings it")
    commands = _commands(missing)
    if not commands:
        _console.note("nothing to install")
        return
    for command in commands:
        text = shlex.join(command)
        if shutil.which(command[0]) is None:
            _console.note(f"{command[0]} is not on this host, which would: {text}")
            continue
        if not agreed and not _asked(text):
            continue
        _console.note(f"running: {text}")
        done = subprocess.run(command, stdin=subprocess.DEVNULL, check=False)
        if done.returncode:
            _console.note(f"failed with exit code {done.returncode}: {text}")
            raise typer.Exit(_console.MISSING)


def _asked(text: str) -> bool:
    """Ask whether a command may run. Without a terminal, only print the command."""
    if not sys.stdin.isatty():
        _console.note(f"not run: there is no terminal to ask (--yes agrees): {text}")
        return False
    return typer.confirm(f"run {text} ?", default=False, err=True)


def _commands(missing: Sequence[Piece]) -> list[list[str]]:
    """Return the commands without duplicates. System packages are installed by one command as root."""
    packages: dict[str, None] = {}
    others: dict[str, None] = {}
    for _, _, install in missing:
        for text in install:
            program, _, rest = text.partition(" install ")
            if program == _SYSTEM:
                packages.update(dict.fromkeys(rest.split()))
            else:
                others[text] = None
    first = [_SYSTEM, "install", "--yes", "--no-install-recommends", *packages] if packages else []
    if first and os.geteuid() != 0:
        first = ["sudo", *first]
    return [*([first] if first else []), *map(shlex.split, others)]

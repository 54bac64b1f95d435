"""Checks for modules and programs of the host, which may be missing or broken in any way."""

from __future__ import annotations

import importlib
import importlib.metadata
import importlib.util
import re
import subprocess
from typing import TYPE_CHECKING

from anabranch.errors import escaped

if TYPE_CHECKING:
    from collections.abc import Sequence

#: The time within which a program must finish its check, seconds.
_PATIENCE_S = 20.0


def reason(error: BaseException) -> str:
    """Return the type and the first line of an error."""
    lines = str(error).strip().splitlines()
    text = f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__
    return text if text.isprintable() else escaped(text)


def unimportable(name: str) -> str | None:
    """Return why a Python module cannot be imported; None if it can be.

    A broken module may raise anything on import, including `SystemExit`. Only an interrupt is passed on.
    """
    try:
        importlib.import_module(name)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # noqa: BLE001 - see above
        return reason(error)
    return None


def installed(module: str, requirement: str) -> str | None:
    """Return the version of the package that has a module, without importing it; None if it is not installed.

    Parameters
    ----------
    module
        The name of the module.
    requirement
        The requirement that installs it: the name of the package, and maybe its versions.
    """
    try:
        if importlib.util.find_spec(module) is None:
            return None
        return importlib.metadata.version(re.split(r"[^\w.-]", requirement, maxsplit=1)[0])
    except (ImportError, ValueError):
        return None


def fails(command: Sequence[str]) -> str | None:
    """Return why a program fails to end with exit code 0; None if it succeeds."""
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, check=False, timeout=_PATIENCE_S
        )
    except (OSError, ValueError) as error:
        return reason(error)
    except subprocess.TimeoutExpired:
        return f"no end after {_PATIENCE_S:g} s"
    if done.returncode == 0:
        return None
    lines = done.stderr.decode(errors="replace").strip().splitlines()
    text = lines[-1].strip() if lines else f"exit code {done.returncode}"
    return text if text.isprintable() else escaped(text)

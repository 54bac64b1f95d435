"""The process around a command: its arguments, its output streams, and the signals that end it."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from anabranch.cli import _console
from anabranch.errors import Fault

if TYPE_CHECKING:
    from types import FrameType

#: The signals that end the program as Ctrl-C does: from `kill`, a batch system, or a terminal that was
#: closed.
_ENDING = (signal.SIGTERM, signal.SIGHUP)


class Ended(KeyboardInterrupt):
    """A signal that ends the program as an interrupt from the keyboard does.

    Attributes
    ----------
    number
        The signal.
    """

    def __init__(self, number: int) -> None:
        self.number = signal.Signals(number)
        super().__init__(self.number.name)


def main() -> None:
    """Run the command line and leave the process."""
    code: str | int | None = _console.INTERRUPTED
    try:
        _heed_signals()
        _be_lenient()
        code = _console.BAD_INPUT if _told_unreadable() else _told_homeless() or _run()
    except KeyboardInterrupt as error:
        code = _console.interrupted(error)
    finally:
        # Otherwise the interpreter would print its own message about a stream that cannot be written.
        if not _console.settle():
            code = code or _console.MISSING
    sys.exit(code)


def _run() -> str | int | None:
    """Run the command, and return its exit code."""
    from anabranch.cli._app import app

    try:
        app(prog_name="anabranch")
    except SystemExit as done:
        return done.code
    except BrokenPipeError:
        return _console.UNREAD
    except Exception as error:  # noqa: BLE001 - whatever it is, it is told in a sentence
        # This handles options that end the program at once, such as --version. The library writes the help.
        return _console.failed(_console.unwritten(error) if isinstance(error, OSError) else error)
    return None


def _heed_signals() -> None:
    """Let ending signals act like an interrupt; ignored ones (`nohup`) stay ignored."""

    def end(number: int, _: FrameType | None) -> None:
        raise Ended(number)

    for number in _ENDING:
        if signal.getsignal(number) == signal.SIG_DFL:
            signal.signal(number, end)


def _be_lenient() -> None:
    """Write characters that the terminal does not have as escapes, instead of failing."""
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="backslashreplace")


def _told_unreadable() -> bool:
    """Report arguments that are not valid text: names in them could not be part of a plan or a report."""
    broken = [argument for argument in sys.argv[1:] if not _is_text(argument)]
    for argument in broken:
        shown = os.fsencode(argument).decode("utf-8", errors="backslashreplace")
        hint = "rename the file, or type the name in UTF-8"
        _console.note(str(Fault(message=f"an argument is not UTF-8 text: `{shown}`", hint=hint)))
    return bool(broken)


def _told_homeless() -> int | None:
    """Report a working folder that was deleted or cannot be read. Relative paths need it."""
    try:
        Path.cwd()
    except OSError as error:
        _console.note(
            str(Fault(message=f"cannot tell the working folder: {error.strerror}", hint="cd to another"))
        )
        return _console.MISSING
    return None


def _is_text(argument: str) -> bool:
    """Return whether an argument could be decoded."""
    try:
        argument.encode()
    except UnicodeEncodeError:
        return False
    return True

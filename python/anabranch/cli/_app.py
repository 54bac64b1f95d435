"""A table of the commands by name.

A command's module is imported only when the command is called. Printing the list imports no module.
"""

from __future__ import annotations

from collections import UserDict
from importlib import import_module
from typing import Annotated, Any

import typer

from anabranch.cli import _console, _groups, _values

#: For each module, its commands with the first sentence of their help.
COMMANDS: dict[str, dict[str, str]] = {
    "_one": {
        "run": "Simulate a scenario, and print the metrics of viewer and network.",
        "check": "Check a scenario, and report all its faults at once.",
        "init": "Write a commented scenario to start from.",
        "list": "List the names that a scenario may use: plug-ins, profiles, films and others.",
        "doctor": "Check which programs and kernel features this host has, and what each is needed for.",
        "demo": "Stream a film over two paths together and over each path alone, and write a report.",
        "calibrate": "Repeat measurements of a Linux kernel in the simulator, and compare value by value.",
    },
    "_play": {"play": "Open the page of the simulator, served on this host only."},
    "_many": {
        "compare": "Judge whether another path helps: run each path alone, every pair, and all together.",
        "sweep": "Run a scenario many times with every combination of the values of some keys.",
        "results": "Print the means of a folder's cells, differences, or a query's result; draw reports.",
        "report": "Write the HTML report of a run that was made by `sweep` or `study run`.",
        "why": "Explain why the picture froze or lost pictures or resolution, and why a run was not better.",
        "verify": "Repeat stored runs, and compare every byte with the stored one.",
    },
    "_advise": {
        "advise": "Recommend paths, a scheduler and a congestion control, with the commands to set them up.",
    },
    "_live": {
        "live": "Run a scenario over real packets, in real time: our endpoint against this host's kernel.",
        "parity": "Compare simulated runs of a scenario with runs over real packets.",
    },
    "_emulate": {
        "emulate": "Run a program over a scenario's emulated paths, with this host's kernel at both ends.",
        "shell": "Open a shell whose network is the emulated paths of a scenario.",
    },
    "_gateway": {
        "gateway": "Accept clients over MPTCP and TCP, and forward their bytes to an origin over plain TCP.",
    },
    "_capture": {
        "capture": "Read a capture of TCP or MPTCP, and print what each session and each path did.",
    },
    "_log": {"log": "Read a player's log, and print what the viewer saw."},
    "_measure": {
        "measure": "Play a stream over this host's own paths: all together by MPTCP, and each alone by TCP.",
    },
    "_media": {"media": "Inspect a film, make one, or cut one into a ladder."},
    "_study": {"study": "Repeat experiments from papers, with every assumption named."},
    "_traces": {"trace": "Inspect, convert or make recordings of links."},
}


class Commands(UserDict[str, Any]):
    """The commands by name. Each command object is built at its first use."""

    def __init__(self) -> None:
        super().__init__()
        self.data = {name: module for module, names in COMMANDS.items() for name in names}

    def __getitem__(self, name: str) -> Any:  # noqa: ANN401 - the library has its own copy of click's classes
        """Return a command."""
        found = self.data[name]
        if isinstance(found, str):
            found = self.data[name] = _made(found, name)
        return found


def _made(module: str, name: str) -> Any:  # noqa: ANN401 - as above
    """Return a command of a module."""
    alone = typer.Typer(add_completion=False, rich_markup_mode=None)
    import_module(f"anabranch.cli.{module}").register(alone)
    # Making a command takes milliseconds, so only the called one is made.
    alone.registered_commands = [one for one in alone.registered_commands if one.name == name]
    made = typer.main.get_command(alone)
    found = getattr(made, "commands", {name: made})[name]
    _values.lighten(found)
    return found


class Root(_groups.Group):
    """All commands. Errors in their options have the program's own messages."""

    def __init__(self, **given: Any) -> None:  # noqa: ANN401 - as the library has it
        super().__init__(**given)
        _values.lighten(self)
        self.commands = Commands()

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ANN401, ARG002 - as the library has it
        """Return the names, in the order of the table."""
        return list(self.commands)

    def summaries(self, ctx: Any) -> list[tuple[str, str]]:  # noqa: ANN401, ARG002 - as the library has it
        """Return each command's name and summary from the table, without importing the commands."""
        return [(name, line) for names in COMMANDS.values() for name, line in names.items()]

    def invoke(self, ctx: Any) -> Any:  # noqa: ANN401 - as the library has it
        """Run a command; the library reports an invalid value in the same words as pydantic."""
        try:
            return super().invoke(ctx)
        except Exception as error:
            found = getattr(error.__cause__, "errors", None)
            if callable(found) and hasattr(error, "message"):
                from anabranch.scenario import _words

                first = found(include_url=False)[0]
                error.message = _words.message(first["type"], first["input"], first.get("ctx", {}))
            raise


app = typer.Typer(
    name="anabranch",
    cls=Root,
    help="Design, run and measure video streaming over Multipath TCP.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog=_console.pastable(
        "Start with:\n\n  anabranch demo\n  anabranch init\n  anabranch run scenario.toml"
    ),
)


def _version(wanted: bool) -> None:
    """Print the version and stop."""
    if wanted:
        import anabranch

        _console.out(f"anabranch {anabranch.__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Design, run and measure video streaming over Multipath TCP."""

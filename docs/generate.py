"""Write the page of commands from the command line: `make docs` runs it, and a test compares the result."""

from __future__ import annotations

import inspect
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from collections.abc import Iterator

    import click

PAGE = Path(__file__).parent / "reference" / "commands.md"

_HEAD = """# Every command and option

`make docs` writes this page from the texts of `--help`. [Command line](cli.md) describes exit codes,
the output of `--json`, and details of each command.
"""
_EXAMPLES = re.compile(r"(?:^  \S.*\n?)+", re.MULTILINE)


def page() -> str:
    """Return the page."""
    from anabranch.cli import _app

    root = typer.main.get_command(_app.app)
    return "\n".join([_HEAD, *_commands(root, "anabranch")])


def _commands(group: click.Command, name: str) -> Iterator[str]:
    """Yield the lines about the commands of a group."""
    for word, command in getattr(group, "commands", {}).items():
        if hasattr(command, "commands"):
            yield from _commands(command, f"{name} {word}")
        else:
            yield from _command(command, f"{name} {word}")


def _command(command: click.Command, name: str) -> Iterator[str]:
    """Yield the lines about a command."""
    arguments = [one for one in command.params if one.param_type_name == "argument"]
    options = [one for one in command.params if one.param_type_name == "option"]
    words = [_metavar(one) if one.required else f"[{_metavar(one)}]" for one in arguments]
    yield f"## `{name}`\n"
    yield f"```text\n{' '.join([name, *words, '[OPTIONS]'])}\n```\n"
    yield _text(command.help or "")
    rows = [(f"`{_metavar(one)}`", one.help) for one in arguments if getattr(one, "help", None)]
    rows += [(f"`{_option(one)}`", _meaning(one)) for one in options]
    yield "| | does |\n|---|---|"
    yield from (f"| {left} | {_escaped(right or '')} |" for left, right in rows)
    yield "| `-h`, `--help` | Show the help. |\n"


def _text(text: str) -> str:
    """Return a help text with its examples as code blocks."""
    text = inspect.cleandoc(text).replace("\b\n", "")
    # The page shows the program's installed name, even if another script calls this function.
    return _EXAMPLES.sub(lambda found: f"```text\n{inspect.cleandoc(found[0])}\n```\n", f"{text}\n")


def _metavar(one: click.Parameter) -> str:
    """Return the placeholder for a value."""
    # Use only parts that are the same in every version of the library.
    name = one.name if one.param_type_name == "argument" else one.opts[0].lstrip("-")
    return str(one.metavar or name).upper()


def _option(one: click.Parameter) -> str:
    """Return an option with the placeholder of its value."""
    names = ", ".join((*one.opts, *one.secondary_opts))
    # A bar would end the table cell, even inside code.
    return names if getattr(one, "is_flag", False) else f"{names} {_metavar(one)}".replace("|", "\\|")


def _meaning(one: click.Parameter) -> str:
    """Return the effect of an option, and its default."""
    default = None if callable(one.default) else one.default
    told = getattr(one, "help", None) or ""
    is_plain = isinstance(default, str | int | float | Path) and not isinstance(default, bool)
    return f"{told} Default: {default}." if is_plain and "default" not in told else told


def _escaped(text: str) -> str:
    """Escape a text for a table cell."""
    return re.sub(r"\s+", " ", text).replace("|", "\\|").replace("<", "&lt;").replace("*", "\\*")


if __name__ == "__main__":
    sys.argv[0] = "anabranch"
    PAGE.write_text(page(), encoding="utf-8")

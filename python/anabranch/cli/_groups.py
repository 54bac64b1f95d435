"""A group of commands whose help prints the first sentence of each command in full."""

from __future__ import annotations

from typing import Any

from typer.core import TyperGroup

#: More characters than any first sentence has: the library shortens a longer one.
_UNLIMITED = 10**6


class Group(TyperGroup):
    """A group of commands. The library's own group shortens each summary to one line."""

    def summaries(self, ctx: Any) -> list[tuple[str, str]]:  # noqa: ANN401 - as the library has it
        """Return each command's name with the first sentence of its help."""
        found = ((name, self.get_command(ctx, name)) for name in self.list_commands(ctx))
        return [
            (name, command.get_short_help_str(_UNLIMITED))
            for name, command in found
            if command is not None and not command.hidden
        ]

    def format_commands(self, ctx: Any, formatter: Any) -> None:  # noqa: ANN401 - as the library has it
        """Write the list of commands, with summaries wrapped and not shortened."""
        with formatter.section("Commands"):
            formatter.write_dl(self.summaries(ctx))

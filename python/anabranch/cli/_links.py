"""Links of the page in commands that run a scenario."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from anabranch.cli import _console

if TYPE_CHECKING:
    from anabranch._run import Run
    from anabranch.play.links import Link
    from anabranch.scenario.load import Loaded


def asked(scenario: str, *, changed: bool) -> Link:
    """Return the link that a command names as its scenario, without a digest if keys of it were changed."""
    from anabranch.play import links

    if not links.is_link(scenario):
        return links.Link()
    found = links.read(scenario)
    if changed:
        return links.Link(setup=found.setup, run=found.run)
    return found


def tell_link(loaded: Loaded, result: Run) -> None:
    """Print the link of a run."""
    from anabranch.play import links

    fragment = links.of_run(loaded, run=result.run, digest=result.summary["digest"])
    _console.note(f"link: #{fragment}")
    _console.note(f"hint: {_console.program()} play '#{fragment}'")


def compare(link: Link, result: Run) -> None:
    """Report a run that is not the one that its link promises; the exit code is 1."""
    from anabranch.play import server

    digest = result.summary["digest"]
    if not link.digest or digest.startswith(link.digest):
        return
    made = f"build {link.build}" if link.build else "an unknown build"
    _console.note(
        f"error: the link promises the result {link.digest} of {made}, and this run has {digest[:16]}"
    )
    _console.note(f"hint: this is build {server.build()}; run the link with the build that made it")
    raise typer.Exit(_console.EXPECTATION_FAILED)

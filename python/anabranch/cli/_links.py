"""Links of the page in commands that run a scenario."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import typer

from anabranch.cli import _console

if TYPE_CHECKING:
    from collections.abc import Mapping

    from anabranch._run import Run
    from anabranch.media.films import Film
    from anabranch.scenario.load import Loaded


@dataclass(frozen=True, kw_only=True)
class Asked:
    """The requested run.

    Attributes
    ----------
    run
        Its number.
    digest, build
        The first digits of the result that a link promises, and the link's build; empty if none is promised.
    """

    run: int
    digest: str = ""
    build: str = ""


def asked(scenario: str, run: int | None, *, changed: bool) -> Asked:
    """Return the run with this number, or the run of a link if no number is given.

    If keys were `changed`, or if the run has another number, a link promises no digest.
    """
    from anabranch.play import is_link

    if not is_link(scenario):
        return Asked(run=run or 0)
    from anabranch.play import links

    found = links.read(scenario)
    if changed or run not in (None, found.run):
        return Asked(run=found.run if run is None else run)
    return Asked(run=found.run, digest=found.digest, build=found.build)


def setup_of(loaded: Loaded, film: Film | None, *, run: int = 0, watch: bool = False) -> dict[str, Any]:
    """Return the set-up of a scenario for `--link` or `--watch`."""
    from anabranch.play import links

    hint = (
        "`--report FILE` draws the run"
        if watch
        else "`scenario.toml` and the digest describe the run as well"
    )
    return links.setup_of(loaded, film, where="--watch" if watch else "--link", hint=hint, run=run)


def fragment_of(setup: Mapping[str, Any], result: Run) -> str:
    """Return the part of the page's address that stands for a run."""
    from anabranch.play import links, server

    digest = result.summary["digest"][:16]
    return links.write(setup, run=result.run, build=server.build(), digest=digest)


def tell_link(setup: Mapping[str, Any], result: Run) -> None:
    """Print the link of a run."""
    fragment = fragment_of(setup, result)
    _console.note(f"link: #{fragment}")
    _console.note(f"hint: {_console.program()} play '#{fragment}'")


def compare(link: Asked, result: Run) -> None:
    """Report a run whose digest differs from the link's, and exit with code 1."""
    digest = result.summary["digest"]
    if not link.digest or digest.startswith(link.digest):
        return
    from anabranch.play import server

    made = f"build {link.build}" if link.build else "an unknown build"
    _console.note(
        f"error: the link promises the result {link.digest} of {made}, and this run has {digest[:16]}"
    )
    _console.note(f"hint: this is build {server.build()}; run the link with the build that made it")
    raise typer.Exit(_console.EXPECTATION_FAILED)

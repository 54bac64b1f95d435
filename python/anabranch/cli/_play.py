"""`anabranch play`."""

from __future__ import annotations

import tempfile
import time
import webbrowser
from pathlib import Path
from typing import Annotated

import typer

from anabranch import _files
from anabranch.cli import _console
from anabranch.cli._console import guarded
from anabranch.errors import Fault, InputError, MissingError

#: The page's source files. In a checkout, this is a link to the folder `play`.
_SOURCE = Path(__file__).resolve().parent.parent / "_play"
#: The places where the WebAssembly engine may be: next to the page, or where `make wasm` writes it.
_ENGINES = (
    _SOURCE / "anabranch.wasm",
    Path(__file__).resolve().parents[3] / "build" / "play" / "anabranch.wasm",
)


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("play")(guarded(play))


def play(
    scenario: Annotated[
        str,
        typer.Argument(help="A scenario file, a name (`anabranch list scenarios`), or a link of the page."),
    ] = "two-paths",
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="Port of the local server; 0 selects a free one.")
    ] = 0,
    open_: Annotated[bool, typer.Option("--open", help="Open the page in this host's browser.")] = False,
    native: Annotated[
        bool,
        typer.Option("--native", help="Run plans in this program, even if a WebAssembly build exists."),
    ] = False,
) -> None:
    """Open the page of the simulator, served on this host only.

    The page runs the simulator as WebAssembly. If none was built (`make wasm`), this program runs the plans.
    For example:

      anabranch play
      anabranch play handover --open
    """
    serve(_fragment(scenario), port=port, open_=open_, native=native)


def serve(fragment: str, *, port: int = 0, open_: bool = False, native: bool = False) -> None:
    """Serve the page until an interrupt, and print its address with a run's link.

    Raises
    ------
    InputError
        If the port is taken.
    """
    from anabranch.play import server

    with tempfile.TemporaryDirectory(prefix="anabranch-play-") as folder:
        written(Path(folder), native=native)
        try:
            with server.serving(Path(folder), port=port) as address:
                _console.out(f"{address}#{fragment}")
                _console.note("hint: Ctrl-C ends it")
                if open_:
                    webbrowser.open(f"{address}#{fragment}")
                while True:
                    time.sleep(3600)
        except OSError as error:
            hint = "choose another one: `--port 0` takes a free one"
            raise InputError(
                [Fault(message=f"cannot serve at port {port}: {error.strerror}", where="--port", hint=hint)]
            ) from None


def written(folder: Path, *, native: bool = False) -> None:
    """Write the page into a folder, with the engine if one was built.

    Raises
    ------
    MissingError
        When the page's sources are not installed.
    """
    from anabranch.cli._films import making_film
    from anabranch.play import build

    if not (_SOURCE / "index.html").is_file():
        message = "the page is not part of this installation"
        raise MissingError(message, hint="run it from a checkout, or install anabranch again")
    found = None if native else engine()
    with making_film() as progress:
        build.write(_SOURCE, folder, progress, engine="native" if found is None else "wasm")
    if found is not None:
        _files.write_bytes(folder / "anabranch.wasm", found.read_bytes(), "the engine")


def engine() -> Path | None:
    """Return the file of the WebAssembly engine, if one was built."""
    return next((path for path in _ENGINES if path.is_file()), None)


def _fragment(scenario: str) -> str:
    """Return the part of the page's address that stands for a scenario.

    Raises
    ------
    InputError
        When the page does not offer all of its keys.
    """
    from anabranch.play import is_link, links
    from anabranch.scenario.load import load

    if is_link(scenario):
        return scenario.partition("#")[2]
    hint = f"`anabranch run {scenario} --report report.html` draws it"
    return links.write(links.setup_of(load(scenario), where=scenario, hint=hint))

"""`anabranch media`: inspect a film, make one, or make a ladder of one."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from anabranch.cli import _console, _groups
from anabranch.cli._console import guarded

if TYPE_CHECKING:
    from collections.abc import Sequence

    from anabranch.errors import Fault
    from anabranch.media.make_ladder import Rung
    from anabranch.media.probe import Probe

media = typer.Typer(
    cls=_groups.Group,
    help="Inspect a film, make one, or cut one into a ladder.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.add_typer(media, name="media")


#: The bounds of films that can be made, chosen for FFmpeg's limits and a reasonable duration.
_LEAST_RATE = 10_000
_LEAST_CHUNK_NS, _MOST_CHUNK_NS = 10**8, 3600 * 10**9
_MOST_FILM_NS = 24 * 3600 * 10**9


@media.command()
@guarded
def probe(
    file: Annotated[Path, typer.Argument(help="A video file.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    packets: Annotated[bool, typer.Option("--packets", help="Print every packet as CSV.")] = False,
) -> None:
    """Describe a video file: container, codec, pictures by type.

    For example:

      anabranch media make film.mp4 --duration 5s --rate 2Mbit/s
      anabranch media probe film.mp4 --packets
    """
    from anabranch.media.probe import probe as read

    found = read(file)
    if packets:
        _packets(found)
    elif as_json:
        _json(found)
    else:
        _table(found)


@media.command()
@guarded
def check(
    file: Annotated[Path, typer.Argument(help="A video file.")],
    rtt: Annotated[str, typer.Option(help="Round-trip time to the server.")] = "50 ms",
    rate: Annotated[str, typer.Option(help="Rate of the path.")] = "8 Mbit/s",
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Report what a film's layout costs before it plays, and how to lower it.

    For example:

      anabranch media make film.mp4 --duration 5s --rate 2Mbit/s
      anabranch media check film.mp4 --rtt 100ms
    """
    from anabranch.cli import _layout

    _layout.check(file, rtt=rtt, rate=rate, as_json=as_json)


@media.command()
@guarded
def make(
    file: Annotated[Path | None, typer.Argument(help="The file to write (default: in the cache).")] = None,
    duration: Annotated[str, typer.Option(help="Duration of the film.")] = "60 s",
    rate: Annotated[str, typer.Option(help="Bitrate of the whole file, sound included.")] = "5.24 Mbit/s",
    size: Annotated[str, typer.Option(help="Width x height in pixels.")] = "1280x720",
    fps: Annotated[int, typer.Option(min=1, max=120, help="Pictures per second.")] = 30,
    force: Annotated[bool, typer.Option("--force", help="Overwrite the file if it exists.")] = False,
) -> None:
    """Make a film of moving pictures: H.264 and AAC in MP4. Prints its path.

    For example:

      anabranch media make film.mp4 --duration 20s --rate 3Mbit/s
    """
    from anabranch.cli import _outputs
    from anabranch.cli._films import making_film
    from anabranch.errors import Fault, InputError
    from anabranch.media.make import make_film
    from anabranch.scenario import units

    faults: list[Fault | None] = []
    if file is not None:
        faults.append(_outputs.unwritable(file, "FILE") or _outputs.exists(file, force=force))
    numbers: dict[str, int] = {}
    for option, text, parse in (
        ("--duration", duration, units.positive_time_ns),
        ("--rate", rate, units.limited_rate_bps),
    ):
        try:
            numbers[option] = parse(text)
        except units.UnitError as error:
            faults.append(Fault(message=str(error), where=f"{option} {text}", hint=error.hint))
    if numbers.get("--duration", 0) > _MOST_FILM_NS:
        faults.append(Fault(message=f"longer than a day: `{duration}`", where=f"--duration {duration}"))
    width, _, height = size.partition("x")
    sound = width.isdecimal() and height.isdecimal() and min(int(width), int(height)) >= 16
    if not sound or int(width) % 2 or int(height) % 2 or max(int(width), int(height)) > 4096:
        hint = "two even numbers from 16 to 4096, for example 1280x720"
        faults.append(Fault(message=f"not a size: `{size}`", where=f"--size {size}", hint=hint))
    if any(faults):
        raise InputError(filter(None, faults))
    watched = making_film() if file is None else _console.progress("making the film", unit="s of film")
    with watched as progress:
        made = make_film(
            file,
            duration_s=numbers["--duration"] / 1e9,
            rate_bps=numbers["--rate"],
            size=(int(width), int(height)),
            frame_rate=fps,
            progress=progress,
        )
    _console.out(str(made.path))
    _console.note(f"{made.rate_bps / 1e6:.3f} Mb/s{', made earlier' if made.cached else ''}")


@media.command()
@guarded
def ladder(
    film: Annotated[Path, typer.Argument(help="A video file.")],
    out: Annotated[Path, typer.Argument(help="The folder to write.")],
    rung: Annotated[
        list[str] | None,
        typer.Option(metavar="HEIGHT=RATE", help="A rendition, repeatable (default: a common set)."),
    ] = None,
    chunk: Annotated[str, typer.Option(help="Duration of a chunk.")] = "10 s",
) -> None:
    """Make a ladder from a film: real HLS playlists and chunks. Prints the master playlist's path.

    For example:

      anabranch media make film.mp4 --duration 5s --rate 2Mbit/s
      anabranch media ladder film.mp4 ladder --rung 240=400kbit/s --rung 360=800kbit/s
    """
    from anabranch.errors import Fault, InputError
    from anabranch.media.make_ladder import make_ladder
    from anabranch.scenario import units

    faults: list[Fault] = []
    rungs: list[Rung] = []
    for text in rung or ():
        found = _rung(text, rungs)
        if isinstance(found, Fault):
            faults.append(found)
        else:
            rungs.append(found)
    chunk_ns = 0
    try:
        chunk_ns = units.positive_time_ns(chunk)
        if not _LEAST_CHUNK_NS <= chunk_ns <= _MOST_CHUNK_NS:
            faults.append(
                Fault(message=f"a chunk lasts from 0.1 s to 1 h: `{chunk}`", where=f"--chunk {chunk}")
            )
    except units.UnitError as error:
        faults.append(Fault(message=str(error), where=f"--chunk {chunk}", hint=error.hint))
    if out.exists() and not (out.is_dir() and not any(out.iterdir())):
        hint = "name a new folder, or an empty one"
        faults.append(Fault(message=f"not an empty folder: `{out}`", where="OUT", hint=hint))
    elif not out.resolve().parent.is_dir():
        faults.append(Fault(message=f"no such folder: `{out.parent}`", where="OUT", hint="make it first"))
    if faults:
        raise InputError(faults)
    with _console.progress("making the ladder", unit="s of film") as progress:
        made = make_ladder(film, out, rungs=rungs, chunk_s=chunk_ns / 1e9, progress=progress)
    _console.out(str(made.master))
    for one, mean in made.off():
        asked = f"{one.rate_bps / 1e6:g} Mb/s asked for"
        why = (
            "the film has too little detail for this rate at that size"
            if mean < one.rate_bps
            else "the rate is too low for the size"
        )
        _console.note(f"warning: {one.height}p has {mean / 1e6:.2f} Mb/s, not the {asked}: {why}")
    _console.note(f'hint: application.kind = "adaptive", application.ladder = "{out}"')


def _rung(text: str, before: Sequence[Rung]) -> Rung | Fault:
    """Return the requested rendition, or the fault of the text."""
    from anabranch.errors import Fault
    from anabranch.media.make_ladder import Rung
    from anabranch.scenario import units

    height, equals, rate = text.partition("=")
    where = f"--rung {text}"
    if not equals:
        return Fault(message=f"expected HEIGHT=RATE: `{text}`", where=where, hint="for example 720=3Mbit/s")
    try:
        bps = units.limited_rate_bps(rate.strip())
    except units.UnitError as error:
        return Fault(message=str(error), where=where, hint=error.hint)
    if not height.isdecimal() or not 16 <= int(height) <= 4096 or int(height) % 2:
        hint = "an even number of pixels and a rate, for example 240=400kbit/s"
        return Fault(message=f"not a height: `{height}`", where=where, hint=hint)
    if bps < _LEAST_RATE:
        return Fault(message=f"a rate below {_LEAST_RATE // 1000} kbit/s: `{rate.strip()}`", where=where)
    if any(int(height) == other.height for other in before):
        return Fault(message=f"a second rendition of that height: `{height}`", where=where)
    return Rung(height=int(height), rate_bps=bps)


def _table(found: Probe) -> None:
    """Write the summary for a person."""
    kinds = found.kinds()
    references = sum(found.packets.reference)
    _console.table(
        ("", ""),
        [
            ("name", found.name),
            ("container", found.container),
            ("video", f"{found.codec}, {found.width}x{found.height}, {found.frame_rate:g} fps"),
            ("duration", f"{found.duration_ns / 1e9:.3f} s"),
            ("size", f"{found.size_bytes:,} B"),
            ("rate", f"{found.rate_mbps:.3f} Mb/s"),
            ("pictures", ", ".join(f"{count:,} {kind}" for kind, count in kinds.items())),
            ("referred to", f"{references:,}"),
            ("packets of sound", f"{found.packets.kind.count('A'):,}"),
        ],
    )


def _json(found: Probe) -> None:
    """Write the summary as one JSON object."""
    import json

    names = ("name", "container", "size_bytes", "duration_ns", "frame_rate", "width", "height", "codec")
    summary = {name: getattr(found, name) for name in names}
    _console.out(json.dumps({**summary, "rate_mbps": found.rate_mbps, "pictures": found.kinds()}, indent=2))


def _packets(found: Probe) -> None:
    """Write every packet as CSV."""
    names = ("stream", "position", "size", "pts_ns", "dts_ns", "kind", "reference")
    _console.out(",".join(names))
    for row in zip(*(getattr(found.packets, name) for name in names), strict=True):
        _console.out(",".join("" if value is None else str(value) for value in row))

"""The application of a scenario that repeats a captured session.

Chunks and their renditions come from playlists in the capture, from the log of the player, or from a ladder
that the user names. Then the scenario plays the film with an adaptive player. Without them, the scenario
transfers the same bytes.
"""

from __future__ import annotations

import textwrap
from statistics import fmean, median
from typing import TYPE_CHECKING, Any

from anabranch import _files

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from anabranch._run import Run
    from anabranch.capture._rule import Rule

#: The least number of chunks that give the mean rate of their rendition.
_LEAST_CHUNKS = 5
#: BANDWIDTH over the mean rate, if no chunk shows it.
_PEAK = 1.2
#: A film that ended with the session lacks less than this at its end, in seconds.
_NEAR_END_S = 1.0
#: The largest size of a chunk over the mean that a ladder may have.
_LARGEST = 100.0
#: Film behind the end of a session that was cut off: a faster network would have requested it, in seconds.
_EXTRA_FILM_S = 120.0
#: The viewer stopped if the log ends more than this before the capture, in seconds.
_STOPPED_S = 10.0
#: A player that requests nothing for this many chunks has requested the whole film.
_SILENT_CHUNKS = 3
#: The most characters of a line of a comment.
_COMMENT = 100
#: A session without a film is taken for one with pauses if it was silent for this share of the time.
_PAUSED = 0.2
#: The rule of adaptation of a player, by the kind of its log.
_RULES = {"dash.js": "throughput", "VLC": "vlc-nearoptimal", "hls.js": "hlsjs"}


def application(
    run: Run, master: Path, ladder: str | None, rule: Rule | None = None
) -> tuple[list[str], list[Path]]:
    """Return the lines of the scenario's application, and the files that it needs.

    Parameters
    ----------
    run
        The session.
    master
        The file for the playlist of a film that is known from its chunks.
    ladder
        The ladder of the film as a scenario names it; None if the user gave none.
    rule
        The rule of adaptation that agrees best with the session. None takes that of the kind of player.

    Raises
    ------
    MissingError
        When the playlist cannot be written.
    """
    if ladder is not None:
        film = [f"ladder = {_quoted(ladder)}"]
        return [*_adaptive(run, rule), *_until(run, None), *film, "", *_player(run, rule)], []
    chunks = [row for row in _whole(run, "video") if row["rendition"] is not None]
    rungs = [row for row in run.rows("renditions") if row["track"] == "video"]
    if not chunks or not rungs:
        return _transfer(run), []
    sound = _sound(run)
    # Renditions with a length come from playlists, whose rates include the sound (RFC 8216, 4.3.4.2).
    if any(row["duration_s"] for row in rungs):
        rungs = [_without_sound(row, sound) for row in rungs]
    _files.write(master, _playlist(rungs, chunks, sound), "the playlist")
    whole = max((row["duration_s"] for row in rungs if row["duration_s"]), default=None)
    until = _until(run, whole)
    requested = _requested_s(run)
    goes_on = bool(until) and not _has_stopped(run, chunks)
    length = whole or (max(requested, _end_s(run)) + _EXTRA_FILM_S if goes_on else requested)
    film = [
        "[application.ladder]",
        f"master = {_quoted(master.name)}",
        f'chunk = "{median(row["duration_s"] for row in chunks):g} s"',
        f'length = "{length:.10g} s"',
        f'spread = "{_spread(chunks):.0f} %"',
        *([f'sound = "{sound} bit/s"'] if sound else []),
        *_sizes(rungs, chunks),
    ]
    notes = []
    if whole is None and _kind(run) == "CMCD":
        notes.append("# Renditions that the player did not request are missing, except the highest.")
    return [*notes, *_adaptive(run, rule), *until, "", *film, "", *_player(run, rule)], [master]


def _whole(run: Run, track: str) -> list[Mapping[str, Any]]:
    """Return the chunks of a track that were received completely.

    A log may lack the time at which a chunk was complete. A capture lacks it only if the chunk was cut off.
    """
    is_logged = "log" in run.summary
    return [
        row
        for row in run.rows("chunks")
        if row["track"] == track
        and row["bytes"]
        and row["duration_s"]
        and not row["abandoned"]
        and (is_logged or row["done_s"] is not None)
    ]


def _requested_s(run: Run) -> float:
    """Return the length of the film that was requested, in seconds."""
    chunks = [row for row in run.rows("chunks") if row["track"] == "video"]
    # Some logs do not number their chunks.
    lengths = {(row["index"], None if row["index"] is not None else at): row for at, row in enumerate(chunks)}
    return float(sum(row["duration_s"] or 0.0 for row in lengths.values()))


def _without_sound(rung: Mapping[str, Any], sound: int) -> dict[str, Any]:
    """Return a rendition whose declared rates are those of the pictures alone."""
    rates = {name: max(rung[name] - sound, 1) for name in ("bandwidth_bps", "average_bps") if rung[name]}
    return {**rung, **rates}


def _quoted(text: str) -> str:
    """Return a string of TOML."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _adaptive(run: Run, rule: Rule | None) -> list[str]:
    """Return the head of an adaptive application."""
    if rule is None:
        name = _RULES.get(_kind(run), "hlsjs")
        notes = ["The rule of adaptation (`abr`) is not known, and this one is assumed."]
    else:
        name, notes = rule.best.rule, list(rule.sentences())
    notes.append("Verdicts about the film depend on the rule: compare them with those of other rules.")
    return [
        *(f"# {line}" for note in notes for line in textwrap.wrap(note, _COMMENT)),
        "[application]",
        'kind = "adaptive"',
        f'abr = "{name}"',
    ]


def knows_player(run: Run) -> bool:
    """Return whether the kind of the log names the player."""
    return _kind(run) in _RULES


def _kind(run: Run) -> str:
    """Return the kind of the player's log; empty without one."""
    return str(run.summary.get("log", {}).get("kind", ""))


def _player(run: Run, rule: Rule | None) -> list[str]:
    """Return the table of the player."""
    known = "vlc" if _kind(run) == "VLC" else "hlsjs"
    return ["[application.player]", f'model = "{known if rule is None else rule.best.player}"']


def _until(run: Run, whole_s: float | None) -> list[str]:
    """Return the duration of a session that ended before its film, or perhaps did."""
    if any(row["event"] == "end" for row in run.rows("playback")):
        return []
    if whole_s is not None and _requested_s(run) > whole_s - _NEAR_END_S:
        return []
    return [f'duration = "{_end_s(run):.3f} s"  # the film goes on']


def _end_s(run: Run) -> float:
    """Return when the session ended: where the log ends, if that is long before the capture's end."""
    whole: float = run.summary["duration_s"]
    stopped: float = run.summary.get("log", {}).get("end_s", whole)
    return stopped if 0.0 < stopped < whole - _STOPPED_S else whole


def _has_stopped(run: Run, chunks: Sequence[Mapping[str, Any]]) -> bool:
    """Return whether the player requested nothing for some chunks before the end: the film had no more."""
    if "log" not in run.summary:
        return False
    last = max((row["t_s"] for row in chunks if row["t_s"] is not None), default=None)
    return last is not None and _end_s(run) - last > _SILENT_CHUNKS * max(row["duration_s"] for row in chunks)


def _transfer(run: Run) -> list[str]:
    """Return the application of a session without a known film."""
    (own,) = run.rows("connections")
    notes = []
    if len(run.rows("requests")) > 1:
        notes.append("# The single requests of the session are not repeated.")
    pauses = sum(row["gap_s"] for row in run.rows("gaps") if row["gap_s"] >= 1.0)
    if pauses > _PAUSED * run.summary["duration_s"]:
        notes.append(
            f"# The session had pauses of {pauses:.0f} s in all, which this transfer has not. "
            "If it played a film, give --log or --ladder."
        )
    # The last acknowledgements may not have reached a server before its capture ended.
    count = run.summary["sent_bytes"] if run.summary["captured_at"] == "server" else own["bytes_read"]
    return [*notes, "[application]", 'kind = "bulk"', f'bytes = "{count} B"']


def _sound(run: Run) -> int:
    """Return the mean rate of separate sound, in bit/s; 0 without any."""
    own = _whole(run, "audio")
    return int(8 * sum(row["bytes"] for row in own) / sum(row["duration_s"] for row in own)) if own else 0


def _sizes(rungs: Sequence[Mapping[str, Any]], chunks: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the line with the sizes of the requested chunks over the mean of their rendition.

    It is left out if the chunks have no numbers. The ratio is taken to be equal in every rendition.
    """
    if any(row["index"] is None for row in chunks):
        return []
    peak = _peak(rungs, chunks)
    means = {row["rendition"]: _mean_bps(row, chunks, peak) for row in rungs}
    found: dict[int, list[float]] = {}
    for row in chunks:
        if mean := means.get(row["rendition"]):
            found.setdefault(row["index"], []).append(8 * row["bytes"] / row["duration_s"] / mean)
    # A chunk that was not received completely has the mean size.
    sizes = [fmean(found.get(index, [1.0])) for index in range(min(found), max(found) + 1)] if found else []
    return [f"sizes = [{', '.join(f'{min(size, _LARGEST):.4g}' for size in sizes)}]"] if sizes else []


def _playlist(rungs: Sequence[Mapping[str, Any]], chunks: Sequence[Mapping[str, Any]], sound: int) -> str:
    """Return a master playlist with the declared and the mean rates of the renditions."""
    peak = _peak(rungs, chunks)
    lines = ["#EXTM3U"]
    for row in rungs:
        mean = _mean_bps(row, chunks, peak)
        if mean == 0:  # neither requested nor declared
            continue
        declared = row["bandwidth_bps"] or int(mean * peak)
        height = int(row["height"] or 0)
        width = int(row["width"] or 0) or 2 * round(height * 8 / 9)
        size = f",RESOLUTION={width}x{height}" if height else ""
        rates = f"BANDWIDTH={declared + sound},AVERAGE-BANDWIDTH={mean + sound}"
        lines += [f"#EXT-X-STREAM-INF:{rates}{size}", f"{row['rendition']}/index.m3u8"]
    return "\n".join([*lines, ""])


def _peak(rungs: Sequence[Mapping[str, Any]], chunks: Sequence[Mapping[str, Any]]) -> float:
    """Return the declared rate over the mean rate, of all requested chunks."""
    declared = {row["rendition"]: row["bandwidth_bps"] for row in rungs if row["bandwidth_bps"]}
    own = [row for row in chunks if row["rendition"] in declared]
    if not own:
        return _PEAK
    most: float = sum(declared[row["rendition"]] * row["duration_s"] for row in own)
    bits: int = sum(8 * row["bytes"] for row in own)
    return max(most / bits, 1.0)


def _mean_bps(rung: Mapping[str, Any], chunks: Sequence[Mapping[str, Any]], peak: float) -> int:
    """Return the mean rate of a rendition: measured if enough of it was requested, else declared."""
    own = [row for row in chunks if row["rendition"] == rung["rendition"]]
    if len(own) >= _LEAST_CHUNKS or (own and not rung["bandwidth_bps"]):
        return int(8 * sum(row["bytes"] for row in own) / sum(row["duration_s"] for row in own))
    return int(rung["average_bps"] or (rung["bandwidth_bps"] or 0) / peak)


def _spread(chunks: Sequence[Mapping[str, Any]]) -> float:
    """Return the largest difference of a chunk's rate from the mean of its rendition, in percent."""
    rates: dict[int, list[float]] = {}
    for row in chunks:
        rates.setdefault(row["rendition"], []).append(row["bytes"] / row["duration_s"])
    parts = [
        abs(one / fmean(own) - 1) for own in rates.values() if len(own) >= _LEAST_CHUNKS for one in own[:-1]
    ]
    return min(100 * max(parts, default=0.2), 90)

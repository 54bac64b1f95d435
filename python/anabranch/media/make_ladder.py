"""A ladder made from a film: H.264 at several rates and AAC, as HLS (.m3u8 and MPEG-TS chunks)."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from anabranch import _extras, _files
from anabranch.errors import Fault, MediaError, MissingError
from anabranch.media import _x264, playlists
from anabranch.media.make import writing

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

_AUDIO_BPS = 64_000
_SAMPLE_RATE = 48_000
_WHAT = "the ladder"
#: The largest error of a rendition's rate that causes no warning, as a share; the container takes some bytes.
_TOLERANCE = 0.15


@dataclass(frozen=True, kw_only=True)
class Rung:
    """A rendition to make.

    Attributes
    ----------
    height
        Of the picture in pixels; the width follows from the film's shape.
    rate_bps
        Mean rate of the pictures.
    """

    height: int
    rate_bps: int


@dataclass(frozen=True, kw_only=True)
class MadeLadder:
    """A ladder that was made.

    Attributes
    ----------
    master
        The master playlist.
    rungs
        Each requested rendition, with the mean rate of its chunks.
    """

    master: Path
    rungs: tuple[tuple[Rung, int], ...]

    def off(self) -> list[tuple[Rung, int]]:
        """Return the renditions whose rate is not near the requested one."""
        return [(rung, mean) for rung, mean in self.rungs if abs(mean / rung.rate_bps - 1) > _TOLERANCE]


#: The default renditions, up to the film's own height.
RUNGS = (
    Rung(height=240, rate_bps=400_000),
    Rung(height=360, rate_bps=800_000),
    Rung(height=480, rate_bps=1_400_000),
    Rung(height=720, rate_bps=2_800_000),
    Rung(height=1080, rate_bps=5_000_000),
)


def make_ladder(
    film: Path,
    folder: Path,
    *,
    rungs: Sequence[Rung] = (),
    chunk_s: float = 10.0,
    progress: Callable[[float, float], None] | None = None,
) -> MadeLadder:
    """Make a ladder from a film.

    Parameters
    ----------
    film
        A video file.
    folder
        Where to put it: `master.m3u8`, and a folder for each rendition.
    rungs
        Renditions, in any order; none are those of `RUNGS` up to the film's height.
    chunk_s
        Seconds in a chunk.
    progress
        Called with the seconds of film encoded so far over all renditions, and their total.

    Returns
    -------
    MadeLadder

    Raises
    ------
    MediaError
        When the film cannot be read.
    MissingError
        When the FFmpeg of this host's PyAV has no H.264 encoder, or the ladder cannot be written.
    """
    from anabranch.media.probe import probe

    found = probe(film)
    _refuse_without_encoder()
    fitting = [rung for rung in RUNGS if rung.height <= found.height] or [RUNGS[0]]
    wanted = sorted(rungs or fitting, key=lambda rung: rung.rate_bps)
    seconds = found.duration_ns / 1e9
    whole = seconds * len(wanted)
    parts = [*(folder / f"{rung.height}p" for rung in wanted), folder / "audio", folder / "master.m3u8"]
    made = []
    try:
        with writing(_WHAT, folder):
            folder.mkdir(parents=True, exist_ok=True)
        for number, rung in enumerate(wanted):

            def told(done_s: float, before_s: float = number * seconds) -> None:
                if progress is not None:
                    progress(before_s + done_s, whole)

            made.append((rung, *_encoded(film, folder, rung, chunk_s, told)))
        with writing(_WHAT, folder):
            has_sound = _sound(film, folder / "audio", chunk_s)
            master = _master(folder, made, has_sound=has_sound)
    except BaseException:
        # After a failure, the folder is as before, so that the same command can be repeated.
        for part in parts:
            if part.is_dir():
                shutil.rmtree(part, ignore_errors=True)
            else:
                part.unlink(missing_ok=True)
        raise
    means = [playlists.rates(folder / f"{rung.height}p" / "index.m3u8")[1] for rung, *_ in made]
    return MadeLadder(
        master=master, rungs=tuple((rung, mean) for (rung, *_), mean in zip(made, means, strict=True))
    )


def _refuse_without_encoder() -> None:
    """Raise an error if PyAV or its H.264 encoder is missing."""
    _extras.need("av", for_="making a ladder")
    import av
    import av.error

    try:
        av.Codec("libx264", "w")
    except (av.error.FFmpegError, ValueError):
        message = "the FFmpeg that PyAV brings has no H.264 encoder (libx264)"
        raise MissingError(message, hint=_extras.command("media", again=True)) from None


def _encoded(
    film: Path, folder: Path, rung: Rung, chunk_s: float, told: Callable[[float], None]
) -> tuple[str, str, float]:
    """Encode the pictures of a rendition; an error names the reason in a sentence."""
    import av.error

    try:
        return _pictures(film, folder / f"{rung.height}p", rung, chunk_s, told)
    except OSError as error:
        raise _files.unwritable(_WHAT, folder, error) from None
    except (av.error.FFmpegError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise MediaError([Fault(message=f"cannot encode the film: {reason}", where=str(film))]) from None


def _muxer(folder: Path, chunk_s: float) -> Any:  # noqa: ANN401 - av.container.OutputContainer
    """Return FFmpeg's HLS muxer, writing into a folder."""
    import av

    folder.mkdir(parents=True, exist_ok=True)
    options = {
        "hls_time": f"{chunk_s:g}",
        "hls_list_size": "0",
        "hls_playlist_type": "vod",
        "hls_segment_filename": str(folder / "%d.ts"),
    }
    return av.open(str(folder / "index.m3u8"), "w", format="hls", options=options)


def _pictures(
    film: Path, folder: Path, rung: Rung, chunk_s: float, told: Callable[[float], None]
) -> tuple[str, str, float]:
    """Encode the pictures of a rendition; return its size, codec and pictures a second."""
    import av
    from av.video.frame import PictureType

    with av.open(str(film)) as source, _muxer(folder, chunk_s) as target:
        given = source.streams.video[0]
        rate = given.average_rate or given.base_rate or 25
        height = rung.height // 2 * 2
        width = round(height * given.codec_context.width / given.codec_context.height / 2) * 2
        video = target.add_stream("libx264", rate=rate)
        video.width, video.height, video.pix_fmt = width, height, "yuv420p"
        # Chunks begin only at the forced key frames, which are the same in every rendition.
        _x264.set_up(video, rung.rate_bps, "keyint=infinite", "scenecut=0", **{"forced-idr": "1"})
        chunk = -1
        for frame in source.decode(given):
            at = float(frame.time or 0.0)
            scaled = frame.reformat(width=width, height=height, format="yuv420p")
            scaled.pts, scaled.time_base = frame.pts, frame.time_base
            # A whole chunk is complete when its duration has passed, with a tolerance of half a picture.
            due = int((at + 0.5 / float(rate)) / chunk_s)
            scaled.pict_type = PictureType.I if due > chunk else PictureType.NONE
            chunk = max(chunk, due)
            target.mux(video.encode(scaled))
            told(at)
        target.mux(video.encode())
        return f"{width}x{height}", _codec(bytes(video.codec_context.extradata or b"")), float(rate)


def _codec(extradata: bytes) -> str:
    """Return the codec's name (RFC 6381) from the parameters that x264 wrote."""
    at = extradata.find(b"\x00\x00\x01\x67")
    return f"avc1.{extradata[at + 4 : at + 7].hex()}" if at >= 0 else "avc1.64001f"


def _sound(film: Path, folder: Path, chunk_s: float) -> bool:
    """Encode the sound, if there is any."""
    import av

    with av.open(str(film)) as source:
        if not source.streams.audio:
            return False
        with _muxer(folder, chunk_s) as target:
            audio = target.add_stream("aac", rate=_SAMPLE_RATE, layout="stereo")
            audio.bit_rate = _AUDIO_BPS
            fitted = av.AudioResampler(format="fltp", layout="stereo", rate=_SAMPLE_RATE)
            for frame in source.decode(source.streams.audio[0]):
                for piece in fitted.resample(frame):
                    target.mux(audio.encode(piece))
            for piece in fitted.resample(None):
                target.mux(audio.encode(piece))
            target.mux(audio.encode())
    return True


def _master(folder: Path, made: Sequence[tuple[Rung, str, str, float]], *, has_sound: bool) -> Path:
    """Write the master playlist: rates as the chunks turned out (RFC 8216 section 4.3.4.2)."""
    import m3u8

    master = m3u8.M3U8()
    master.version = "4"
    peak, mean, codec = 0, 0, ""
    if has_sound:
        peak, mean = playlists.rates(folder / "audio" / "index.m3u8")
        codec = ",mp4a.40.2"
        master.add_media(
            m3u8.Media(
                type="AUDIO",
                group_id="sound",
                name="audio",
                default="YES",
                autoselect="YES",
                uri="audio/index.m3u8",
            )
        )
    for rung, size, video, rate in made:
        own_peak, own_mean = playlists.rates(folder / f"{rung.height}p" / "index.m3u8")
        stream = {
            "bandwidth": own_peak + peak,
            "average_bandwidth": own_mean + mean,
            "resolution": size,
            "codecs": video + codec,
            "frame_rate": rate,
            **({"audio": "sound"} if has_sound else {}),
        }
        master.add_playlist(m3u8.Playlist(f"{rung.height}p/index.m3u8", stream, master.media, base_uri=None))
    file = folder / "master.m3u8"
    file.write_text(master.dumps(), encoding="utf-8")
    return file

"""Makes a film file: H.264 and AAC in MP4, from moving generated pictures.

The pictures pan over a large texture with grain, and cut to another scene every few seconds. The encoder
therefore has as much work as with a filmed scene, and uses the requested rate.
"""

from __future__ import annotations

import os
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from anabranch import _cache, _extras, _files
from anabranch.errors import Fault, MediaError
from anabranch.media import _x264

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    import numpy as np
    from numpy.typing import NDArray

_VERSION = 3
_AUDIO_BPS = 128_000
_SAMPLE_RATE = 48_000
_TOLERANCE = 0.03
_TRIES = 3
_SCENE_S = 7.0


@dataclass(frozen=True, kw_only=True)
class Made:
    """A film that was made, or found in the cache.

    Attributes
    ----------
    path
        The file.
    rate_bps
        The file's size over its duration.
    cached
        Whether it was there already.
    """

    path: Path
    rate_bps: float
    cached: bool


@dataclass(frozen=True, kw_only=True)
class _Shape:
    """The encoder's input."""

    width: int
    height: int
    frame_rate: int
    frames: int
    duration_s: float


def make_film(
    path: Path | None = None,
    *,
    duration_s: float = 60.0,
    rate_bps: int = 5_240_000,
    size: tuple[int, int] = (1280, 720),
    frame_rate: int = 30,
    progress: Callable[[float, float], None] | None = None,
) -> Made:
    """Make a film, or return the one made earlier with the same parameters.

    Parameters
    ----------
    path
        The file to write; None for the cache.
    duration_s
        Seconds.
    rate_bps
        The rate of the whole file, including sound and container; it is met within 3 %.
    size
        Width and height, both even.
    frame_rate
        Pictures per second.
    progress
        Called with the seconds of film made so far, and of the whole film.

    Raises
    ------
    MediaError
        When the rate cannot be met.
    MissingError
        When the film or the cache cannot be written.
    """
    key = _cache.key(duration=duration_s, rate=rate_bps, size=size, frame_rate=frame_rate, version=_VERSION)
    target = path if path is not None else _cache.folder() / f"film-{key}.mp4"
    shape = _Shape(
        width=size[0],
        height=size[1],
        frame_rate=frame_rate,
        frames=max(1, round(duration_s * frame_rate)),
        duration_s=duration_s,
    )
    if path is None and target.exists():
        return Made(path=target, rate_bps=_rate(target, shape), cached=True)
    _extras.need("av", for_="making a film")
    part = target.with_name(f"{target.stem}.{os.getpid()}.part.mp4")
    with writing("the film", target):
        target.parent.mkdir(parents=True, exist_ok=True)
        made = _met(part, shape, rate_bps, progress)
        if made is not None:
            part.replace(target)
            return Made(path=target, rate_bps=made, cached=False)
    message = f"cannot make a film of {rate_bps / 1e6:g} Mb/s at {size[0]}x{size[1]}, {frame_rate} fps"
    raise MediaError([Fault(message=message, hint="try a rate between 0.3 and 50 Mbit/s, or another size")])


@contextmanager
def writing(what: str, target: Path) -> Iterator[None]:
    """Turn errors into a sentence with the reason why the result cannot be written.

    Raises
    ------
    MissingError
        For any error of the system or of FFmpeg.
    """
    import av

    try:
        yield
    except (OSError, av.FFmpegError) as error:
        raise _files.unwritable(what, target, error) from None


def _met(
    part: Path, shape: _Shape, rate_bps: int, progress: Callable[[float, float], None] | None
) -> float | None:
    """Encode until the rate is met, and return the result. On failure, return None and leave no file."""
    # The overhead of container and sound is an estimate. After the first attempt it is known exactly.
    video_bps = rate_bps - _AUDIO_BPS - 12_000.0
    try:
        for tried in range(_TRIES):
            if video_bps < 20_000:
                break
            _encode(part, shape, round(video_bps), progress and _halved(progress, tried))
            achieved = _rate(part, shape)
            if abs(achieved / rate_bps - 1) <= _TOLERANCE:
                return achieved
            video_bps *= (rate_bps - _AUDIO_BPS) / max(achieved - _AUDIO_BPS, 1.0)
    except BaseException:
        part.unlink(missing_ok=True)
        raise
    part.unlink(missing_ok=True)
    return None


def _halved(progress: Callable[[float, float], None], tried: int) -> Callable[[float, float], None]:
    """Return a progress function for one of two attempts; the second one usually succeeds."""
    return lambda done_s, whole_s: progress(min((done_s + tried * whole_s) / 2, whole_s), whole_s)


def _rate(path: Path, shape: _Shape) -> float:
    """Return a file's mean rate in bits per second."""
    return path.stat().st_size * 8 / shape.duration_s


def _encode(
    path: Path, shape: _Shape, video_bps: int, progress: Callable[[float, float], None] | None
) -> None:
    """Encode once."""
    import av

    with av.open(str(path), "w", options={"movflags": "+faststart"}) as container:
        video = container.add_stream("libx264", rate=shape.frame_rate)
        video.width, video.height, video.pix_fmt = shape.width, shape.height, "yuv420p"
        _x264.set_up(video, video_bps, g="250")
        audio = container.add_stream("aac", rate=_SAMPLE_RATE, layout="stereo")
        audio.bit_rate = _AUDIO_BPS
        sound = _sound(shape.duration_s)
        heard = 0
        for number, picture in enumerate(_pictures(shape)):
            frame = av.VideoFrame.from_ndarray(picture, format="yuv420p")
            frame.pts, frame.time_base = number, Fraction(1, shape.frame_rate)
            container.mux(video.encode(frame))
            due = round((number + 1) / shape.frame_rate * _SAMPLE_RATE)
            while heard + 1024 <= min(due, sound.shape[1]):
                container.mux(audio.encode(_audio_frame(sound, heard)))
                heard += 1024
            if progress is not None and number % 10 == 9:
                progress((number + 1) / shape.frame_rate, shape.duration_s)
        container.mux(video.encode())
        container.mux(audio.encode())


def _audio_frame(sound: NDArray[np.float32], start: int) -> Any:  # noqa: ANN401 - av.AudioFrame
    """Return 1024 samples as a frame."""
    import av
    import numpy as np

    block = np.ascontiguousarray(sound[:, start : start + 1024])
    frame = av.AudioFrame.from_ndarray(block, format="fltp", layout="stereo")
    frame.sample_rate, frame.pts, frame.time_base = _SAMPLE_RATE, start, Fraction(1, _SAMPLE_RATE)
    return frame


def _sound(duration_s: float) -> NDArray[np.float32]:
    """Return a quiet chord with a slow beat, and a little noise so that the encoder has work."""
    import numpy as np

    time = np.arange(int(duration_s * _SAMPLE_RATE)) / _SAMPLE_RATE
    noise = np.random.default_rng(3).normal(0.0, 0.02, (2, time.size))
    beat = 0.5 + 0.5 * np.sin(2 * np.pi * 0.5 * time)
    left = np.sin(2 * np.pi * 220.0 * time) + np.sin(2 * np.pi * 277.2 * time)
    right = np.sin(2 * np.pi * 220.0 * time) + np.sin(2 * np.pi * 329.6 * time)
    return (0.08 * np.stack([left, right]) * beat + noise).astype(np.float32)


def _pictures(shape: _Shape) -> Iterator[NDArray[np.uint8]]:
    """Yield each picture as planes of YUV 4:2:0, one above the other."""
    import numpy as np

    rng = np.random.default_rng(1)
    width, height = shape.width, shape.height
    margin = 256
    texture = _texture(rng, height + margin, width + margin)
    hue = _texture(rng, height + margin, width + margin)
    grain = rng.normal(0.0, 5.0, (height + 64, width + 64)).astype(np.int16)
    scene_frames = max(1, round(_SCENE_S * shape.frame_rate))
    for number in range(shape.frames):
        scene, step = divmod(number, scene_frames)
        turn = 2 * np.pi * step / scene_frames
        y = int(margin / 2 * (1 - np.cos(turn + scene)) / 2)
        x = int(margin / 2 * (1 + np.sin(turn * 2 + scene * 2)) / 2)
        flipped = texture[::-1] if scene % 2 else texture
        gy, gx = rng.integers(0, 64, 2)
        luma = flipped[y : y + height, x : x + width] + grain[gy : gy + height, gx : gx + width]
        _bright_disc(luma, step / scene_frames, scene)
        chroma = hue[y : y + height : 2, x : x + width : 2]
        blue = np.clip(chroma // 2 + 64, 0, 255)
        red = np.clip(192 - chroma // 2, 0, 255) if scene % 2 else np.clip(chroma // 2 + 50, 0, 255)
        planes = [np.clip(luma, 16, 235).ravel(), blue.ravel(), red.ravel()]
        yield np.concatenate(planes).astype(np.uint8).reshape(height * 3 // 2, width)


def _texture(rng: np.random.Generator, height: int, width: int) -> NDArray[np.int16]:
    """Return smooth clouds with finer and finer detail."""
    import numpy as np

    total = np.zeros((height, width), dtype=np.float32)
    for octave, weight in ((128, 60.0), (32, 30.0), (8, 14.0), (2, 6.0)):
        small = rng.normal(0.0, 1.0, (height // octave + 2, width // octave + 2)).astype(np.float32)
        rows = np.linspace(0, small.shape[0] - 1.001, height)
        columns = np.linspace(0, small.shape[1] - 1.001, width)
        r0, c0 = rows.astype(int), columns.astype(int)
        fr = (rows - r0)[:, None].astype(np.float32)
        fc = (columns - c0)[None, :].astype(np.float32)
        top = small[r0][:, c0] * (1 - fc) + small[r0][:, c0 + 1] * fc
        low = small[r0 + 1][:, c0] * (1 - fc) + small[r0 + 1][:, c0 + 1] * fc
        total += weight * (top * (1 - fr) + low * fr)
    return np.asarray(np.clip(total + 120, 0, 255), dtype=np.int16)


def _bright_disc(luma: NDArray[np.int16], phase: float, scene: int) -> None:
    """Draw a disc that crosses the picture."""
    import numpy as np

    height, width = luma.shape
    radius = height // 8
    row = int(height * (0.5 + 0.3 * np.sin(2 * np.pi * phase + scene)))
    column = int(radius + (width - 2 * radius) * phase)
    top, left = max(row - radius, 0), max(column - radius, 0)
    area = luma[top : row + radius, left : column + radius]
    rows, columns = np.ogrid[: area.shape[0], : area.shape[1]]
    inside = (rows + top - row) ** 2 + (columns + left - column) ** 2 < radius**2
    area[inside] += 60

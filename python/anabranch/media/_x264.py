"""Settings of x264 with which a film has the same bytes at every run and on every host."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

#: Threads of the encoder. x264 cuts its work by their number.
_THREADS = 3


def set_up(video: Any, rate_bps: int, *params: str, **options: str) -> None:  # noqa: ANN401 - av.VideoStream
    """Set a stream's encoder.

    Parameters
    ----------
    video
        A stream of `libx264`, not opened yet.
    rate_bps
        Mean rate of the pictures in bits per second. Over two seconds, at most half as much again is used.
    params
        Settings of x264 that FFmpeg has no names for, as `name=value`.
    options
        Settings that FFmpeg has names for.
    """
    video.bit_rate = rate_bps
    video.codec_context.thread_count = _THREADS
    video.options = {
        "preset": "veryfast",
        "maxrate": str(round(rate_bps * 1.5)),
        "bufsize": str(rate_bps * 2),
        **options,
    }
    every = [*params, *(["asm=avx2"] if _has_avx512() else [])]
    if every:
        video.options["x264-params"] = ":".join(every)


@functools.cache
def _has_avx512() -> bool:
    """Return whether x264 would use AVX-512, with which its output depends on what memory held before."""
    try:
        return "avx512f" in Path("/proc/cpuinfo").read_text(encoding="utf-8").split()
    except OSError:
        return False

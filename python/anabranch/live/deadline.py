"""Calls of plug-ins that take too long."""

from __future__ import annotations

import signal
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import CodeType, FrameType

#: The longest time for one call, in seconds. A longer call is noticed within twice this time.
MOST_S = 0.1


@contextmanager
def deadline(base: CodeType, exempt: CodeType) -> Iterator[None]:
    """Raise `TimeoutError` inside a call that takes too long.

    Parameters
    ----------
    base
        The function that runs the Rust module, which makes the calls.
    exempt
        A function that it also calls and that may take longer.
    """
    seen: FrameType | None = None

    def tick(_: int, frame: FrameType | None) -> None:
        nonlocal seen
        call = _call(frame, base)
        if call is None or call.f_code is exempt:
            seen = None
        elif call is seen:
            message = f"{call.f_code.co_qualname} took more than {MOST_S:g} s"
            raise TimeoutError(message)
        else:
            seen = call

    before = signal.signal(signal.SIGALRM, tick)
    signal.setitimer(signal.ITIMER_REAL, MOST_S, MOST_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def _call(frame: FrameType | None, base: CodeType) -> FrameType | None:
    """Return the frame that `base` has called, starting from a deeper one; None if there is no such frame."""
    while frame is not None and frame.f_back is not None:
        if frame.f_back.f_code is base:
            return frame
        frame = frame.f_back
    return None

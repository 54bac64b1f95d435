"""Plug-ins: their names, the checks of them, and the classes that a plug-in in Python uses.

A scheduler, a congestion control or an ABR rule is a plain class. It is given by its file
(`mine.py:LowestRtt`) or by an entry point. The arguments and answers of such a class are here:

>>> from anabranch.plugins import Send, Wait, candidates  # doctest: +SKIP

docs/add-a-scheduler.md shows how; docs/reference/plugins.md has every attribute with its unit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from anabranch.plugins.tables import (
    Catalogue,
    Kind,
    Parameter,
    PluginFault,
    catalogue,
    encode,
    label,
    listed,
    module,
    parameters,
    short,
)

if TYPE_CHECKING:
    from anabranch._anabranch import (
        AckSample,
        ChunkSample,
        CongestionEvent,
        Loading,
        LostSegment,
        Pause,
        Penalise,
        PlayerView,
        Rendition,
        Send,
        SendRequest,
        SiblingView,
        SubflowEvent,
        SubflowView,
        TransmitStart,
        Wait,
        Window,
        candidates,
    )

__all__ = [
    "AckSample",
    "Catalogue",
    "ChunkSample",
    "CongestionEvent",
    "Kind",
    "Loading",
    "LostSegment",
    "Parameter",
    "Pause",
    "Penalise",
    "PlayerView",
    "PluginFault",
    "Rendition",
    "Send",
    "SendRequest",
    "SiblingView",
    "SubflowEvent",
    "SubflowView",
    "TransmitStart",
    "Wait",
    "Window",
    "candidates",
    "catalogue",
    "encode",
    "label",
    "listed",
    "module",
    "parameters",
    "short",
]

#: The classes of the Rust module that plug-ins use.
_RUST = {
    "AckSample",
    "ChunkSample",
    "CongestionEvent",
    "Loading",
    "LostSegment",
    "Pause",
    "Penalise",
    "PlayerView",
    "Rendition",
    "Send",
    "SendRequest",
    "SiblingView",
    "SubflowEvent",
    "SubflowView",
    "TransmitStart",
    "Wait",
    "Window",
    "candidates",
}


def __getattr__(name: str) -> Any:  # noqa: ANN401 - whatever the name stands for
    """Import the parts written in Rust at their first use."""
    if name in _RUST:
        return getattr(module(), name)
    message = f"module {__name__!r} has no attribute {name!r}"
    raise AttributeError(message)

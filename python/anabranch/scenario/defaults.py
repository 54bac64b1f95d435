"""What a transport has where a scenario says nothing: sizes and plug-ins of the Rust module's."""

from __future__ import annotations

from typing import Literal

from anabranch.errors import MissingError
from anabranch.plugins import module

#: The keys of `[transport]` that name a plug-in.
PluginKey = Literal["scheduler", "congestion", "path_manager"]


def _found() -> tuple[dict[str, int], dict[str, str]]:
    try:
        return dict(module().transport_defaults()), dict(module().plugin_defaults())
    except MissingError:  # without the module nothing runs, and whoever asks for it is told so
        return {}, {}


_SIZES, _PLUGINS = _found()


def size(key: str) -> int:
    """Return the default of a key of `[transport]`, bytes."""
    return _SIZES[key] if _SIZES else 0


def plugin(key: PluginKey) -> str:
    """Return the name of the plug-in that a key of `[transport]` names by default."""
    return _PLUGINS[key] if _PLUGINS else ""

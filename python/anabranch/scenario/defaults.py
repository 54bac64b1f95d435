"""A transport's defaults: sizes and plug-ins from the Rust module."""

from __future__ import annotations

from typing import Literal

from anabranch.plugins import listed

#: The keys of `[transport]` that name a plug-in.
PluginKey = Literal["scheduler", "congestion", "path_manager"]

_SIZES: dict[str, int] = dict(listed("transport_defaults"))
_PLUGINS: dict[PluginKey, str] = dict(listed("plugin_defaults"))


def size(key: str) -> int:
    """Return the default of a key of `[transport]`, bytes."""
    return _SIZES[key] if _SIZES else 0


def plugin(key: PluginKey) -> str:
    """Return the name of the plug-in that a key of `[transport]` names by default."""
    return _PLUGINS[key] if _PLUGINS else ""

"""What a transport has where a scenario says nothing: sizes and plug-ins of the Rust module's."""

from __future__ import annotations

from anabranch.errors import MissingError
from anabranch.plugins import Kind, module


def _found() -> tuple[dict[str, int], dict[str, str]]:
    try:
        return dict(module().transport_defaults()), dict(module().plugin_defaults())
    except MissingError:  # without the module nothing runs, and whoever asks for it is told so
        return {}, {}


_SIZES, _PLUGINS = _found()


def size(key: str) -> int:
    """Return the default of a key of `[transport]`, bytes."""
    return _SIZES.get(key, 0)


def plugin(kind: Kind) -> str:
    """Return the name of the plug-in of a kind."""
    return _PLUGINS.get(kind, "")

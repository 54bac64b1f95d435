"""The page `play/`: its set-up, the tables that it makes plans from, its links, and its local server."""


def is_link(text: str) -> bool:
    """Return whether a text is a link of the page and no file or name."""
    return "#v=" in text or text.startswith(("http://", "https://"))

"""The content security policies of the page, for its files and for its local server."""

from __future__ import annotations

#: The mark in the page's sources that the build replaces.
MARK = "<!-- policy -->"
#: A page that runs the simulator.
PAGE = (
    "default-src 'none'; script-src 'self' 'wasm-unsafe-eval'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; worker-src 'self'; base-uri 'none'; form-action 'none'"
)
#: A page without a program.
LESSON = "default-src 'none'; style-src 'self'; img-src data:; base-uri 'none'; form-action 'none'"
#: The worker. A scheduler that is written in the page is compiled there.
WORKER = (
    "default-src 'none'; script-src 'self' 'wasm-unsafe-eval' blob:; worker-src blob:; connect-src 'self'"
)


def written(text: str, *, is_lesson: bool) -> str:
    """Return the text of a file with its policy in place of the mark."""
    policy = LESSON if is_lesson else PAGE
    return text.replace(MARK, f'<meta http-equiv="Content-Security-Policy" content="{policy}">')

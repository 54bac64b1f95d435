"""Counts mannered constructions in comments, docstrings and documentation.

`python tests/house/prose.py [PATH ...]` prints the hits of files or folders. `--write` lowers the numbers in
`prose_allowlist.toml` to what the files have now. The patterns do not judge a text: a text without hits can
be bad, and a hit can be fine.
"""

from __future__ import annotations

import re
import sys
import tomllib
from typing import TYPE_CHECKING

from repository import ROOT, matching, text

if TYPE_CHECKING:
    from collections.abc import Iterator

#: Hits per 1,000 lines that a file may have, and the lines of prose from which a file is judged.
FILE_LIMIT, JUDGED_LINES = 15, 40
#: Hits per 1,000 lines that all files together may have.
TOTAL_LIMIT = 5
ALLOWLIST = "tests/house/prose_allowlist.toml"
GENERATED = (
    "docs/claims.md",
    "docs/worlds.md",
    "docs/calibration.md",
    "docs/reference/commands.md",
    "CHANGELOG.md",
)
SKIPPED = ("fuzz/corpus", "groundtruth/", "tests/house/prose.py")
PATTERNS = {
    "a statement that starts with What, Who or Whatever": re.compile(
        r"(?:^|[.;:] )(?:What|Whatever|Who|Whoever|Whatsoever)\b(?![^.?!]*\?)[^.?!]{3,}"
    ),
    "what or who as the thing itself": re.compile(
        r"\b(?:of|to|by|from|for|with|on|in|and|is|are|than|but) (?:what|who|whoever|whatever) "
        r"(?:is|are|was|were|has|have|had|came|comes|goes|it|they|that|a|an|the|we|its|one|nobody|others?|sends?|"
        r"asks?|waits?|arrives?|lies|stands|follows|remains|happens|belongs|counts|makes|reads|writes|knows)\b"
    ),
    "'where there is none'": re.compile(
        r"\bwhere (?:there (?:is|are|was) (?:none|no|one|some)|it (?:has|is) none|none)\b"
        r"|\bif there is none\b"
    ),
    "code as nobody, anybody, somebody or everybody": re.compile(
        r"\b(?:nobody|anybody|somebody|everybody)\b", re.IGNORECASE
    ),
    "code that tells, says or hears": re.compile(
        r"\b(?:is|are|was|were|be|been|gets?) (?:told|said|heard|asked)\b"
        r"|\b(?:tells|says|hears|told|said) "
        r"(?:of|so|by|aloud|nothing|how|what|that|whether|which|where|it|all|in)\b"
    ),
    "archaic or private idiom": re.compile(
        r"\b(?:anew|thereof|whereof|hence|thereby|counts? no more|but for|all the same|at will|as yet|"
        r"of its own|by itself\b|to its end|in its turn|beside it|apart from|put together|goes again|"
        r"comes? again|once more)\b"
    ),
    "an inverted sentence": re.compile(
        r"(?:^|[.;] )(?:Behind|Beside|Of|With|Without|Under|Above|Below|Before|After|Among|Between|On|In|At|"
        r"By|From|To|For|Here|There|So|Then|Thus|Only|Nor|Neither) [^,.?!]{2,60} (?:stands?|lies|lie|comes?|"
        r"goes|go|is|are|was|were|has|have|does|do) (?:the|a|an|what|one|no|not|all|only|its|their)\b"
    ),
    "'As [`x`], of ...'": re.compile(r"\bAs \[?`"),
}


def _rust(source: str) -> Iterator[tuple[int, str]]:
    """Yield the numbered lines of comments."""
    for number, line in enumerate(source.split("\n"), 1):
        if found := re.match(r"\s*//[/!]? ?(.*)", line):
            yield number, found[1]


def _python(source: str) -> Iterator[tuple[int, str]]:
    """Yield the numbered lines of docstrings and comments."""
    inside = False
    for number, line in enumerate(source.split("\n"), 1):
        quotes = line.count('"""')
        if inside or quotes:
            yield number, line.strip().strip('"')
        if quotes % 2:
            inside = not inside
        found = re.match(r"\s*#:? (.*)", line)
        if found and not inside:
            yield number, found[1]


def _markdown(source: str) -> Iterator[tuple[int, str]]:
    """Yield the numbered lines of text, without code and tables."""
    code = False
    for number, line in enumerate(source.split("\n"), 1):
        if line.startswith("```"):
            code = not code
        elif not code and line.strip() and not line.startswith("|"):
            yield number, line.strip()


_READERS = {"rs": _rust, "py": _python, "md": _markdown}


def hits(name: str, source: str) -> tuple[list[tuple[int, str, str]], int]:
    """Return a file's hits as line number, pattern and line, and its number of lines of prose."""
    lines = list(_READERS[name.rpartition(".")[2]](source))
    found = [
        (number, label, line)
        for number, line in lines
        for label, pattern in PATTERNS.items()
        for _ in pattern.finditer(line)
    ]
    return found, len(lines)


def judged(names: list[str] | None = None) -> Iterator[tuple[str, list[tuple[int, str, str]], int]]:
    """Yield every file of prose with its hits and its number of lines."""
    for name in matching(".rs", ".py", ".md") if names is None else names:
        if name not in GENERATED and not name.startswith(SKIPPED):
            yield (name, *hits(name, text(name)))


def above_limit(found: int, lines: int) -> bool:
    """Return whether a file has more hits than it may have without an entry in the allowlist."""
    return lines > JUDGED_LINES and 1000 * found > FILE_LIMIT * lines


def allowed() -> dict[str, int]:
    """Return the hits that listed files may have."""
    return tomllib.loads(text(ALLOWLIST))["files"]


def _write() -> None:
    """Lower the allowlist to the hits that listed files still have; no number rises."""
    now = {name: len(found) for name, found, lines in judged() if above_limit(len(found), lines)}
    old = allowed() if (ROOT / ALLOWLIST).exists() else now
    kept = {name: min(count, old[name]) for name, count in sorted(now.items()) if name in old}
    head = "# Hits of files above the limit of prose.py. `prose.py --write` lowers them; none may rise.\n"
    lines = [f'"{name}" = {count}' for name, count in kept.items()]
    (ROOT / ALLOWLIST).write_text("\n".join([head + "[files]", *lines]) + "\n", encoding="utf-8")


def main(arguments: list[str]) -> None:
    """Print the hits below some paths, or write the allowlist."""
    if arguments == ["--write"]:
        _write()
        return
    below = tuple(arguments or [""])
    total = count = 0
    for name, found, lines in judged(
        [name for name in matching(".rs", ".py", ".md") if name.startswith(below)]
    ):
        total, count = total + lines, count + len(found)
        for number, label, line in found:
            sys.stdout.write(f"{name}:{number}: [{label}] {line}\n")
    sys.stdout.write(f"{1000 * count / max(total, 1):.1f} per 1,000 lines of prose ({count} in {total})\n")


if __name__ == "__main__":
    main(sys.argv[1:])

"""Count the methods of the structs of crates `tcp` and `mptcp`, and the fields that other modules can write.

`python tests/house/structs.py` prints both counts, largest first, and the first words of methods that change
their struct.
"""

from __future__ import annotations

import re
import sys
from collections import Counter, defaultdict

from repository import bare, before_tests, closed, is_test, matching, text

#: The folders whose structs are counted, and the plug-ins, which are not.
FOLDERS = ("crates/tcp/src/", "crates/mptcp/src/")
_PLUGINS = "crates/mptcp/src/path_manager"

_STRUCT = re.compile(r"^(?:pub(?:\([^)]*\))? )?struct (\w+)[^;{(]*\{", re.MULTILINE)
_IMPL = re.compile(r"^impl(?:<[^{]*?>)? (\w+)(?:<[^{]*?>)? (?:where[^{]*)?\{", re.MULTILINE)
_METHOD = re.compile(r"^    (?:pub(?:\([^)]*\))? )?(?:const |unsafe )*fn \w+", re.MULTILINE)
_CHANGING = re.compile(
    r"^    (?:pub(?:\([^)]*\))? )?(?:const |unsafe )*fn ([a-z0-9]+)\w*(?:<[^(]*>)?\(\s*&(?:'\w+ )?mut self\b",
    re.MULTILINE,
)
_CHANGES = re.compile(r"&(?:'\w+ )?mut self\b")
_VISIBLE = re.compile(r"^    pub(?:\([^)]*\))? \w+:", re.MULTILINE)


def _sources() -> dict[str, str]:
    """Return the code of the counted files without unit tests, comments and strings."""
    return {
        name: bare(before_tests(text(name)))
        for folder in FOLDERS
        for name in matching(".rs", under=folder)
        if not name.startswith(_PLUGINS) and not is_test(name) and not name.endswith("/fixture.rs")
    }


def _home(name: str, struct: str, defined: set[tuple[str, str]]) -> str:
    """Return the file in which the struct of a block in the file `name` is defined; "" if it is elsewhere."""
    while name:
        if (name, struct) in defined:
            return name
        folder = name.rpartition("/")[0]
        name = f"{folder}.rs" if folder.startswith(FOLDERS) else ""
    return ""


def count(sources: dict[str, str]) -> tuple[Counter[str], Counter[str]]:
    """Return the methods of each struct, and the visible fields of each struct with a `&mut self` method.

    A method is a function in an inherent `impl` block. A struct without a `&mut self` method is a plain
    value, whose fields may be visible. The key is the name of the struct.
    """
    methods: Counter[str] = Counter()
    visible: Counter[str] = Counter()
    # Two files may have structs of the same name. A block then belongs to the struct of its own file or of
    # the nearest parent module.
    defined = {(name, found.group(1)) for name, code in sources.items() for found in _STRUCT.finditer(code)}
    blocks: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
    for name, code in sources.items():
        for found in _IMPL.finditer(code):
            home = _home(name, found.group(1), defined)
            blocks[home, found.group(1)].append(code[found.end() : closed(code, found.end())])
    for name, code in sources.items():
        for found in _STRUCT.finditer(code):
            bodies = blocks[name, found.group(1)] + blocks["", found.group(1)]
            number = sum(len(_METHOD.findall(body)) for body in bodies)
            methods[found.group(1)] = max(methods[found.group(1)], number)
            if any(_CHANGES.search(body) for body in bodies):
                fields = code[found.end() : closed(code, found.end())]
                visible[found.group(1)] += len(_VISIBLE.findall(fields))
    return methods, +visible


def verbs(sources: dict[str, str]) -> Counter[str]:
    """Return how many methods with `&mut self` begin with each word."""
    bodies = (
        code[found.end() : closed(code, found.end())]
        for code in sources.values()
        for found in _IMPL.finditer(code)
    )
    return Counter(word for body in bodies for word in _CHANGING.findall(body))


def counts() -> tuple[Counter[str], Counter[str]]:
    """Return [`count`] of the repository."""
    return count(_sources())


def first_words() -> Counter[str]:
    """Return [`verbs`] of the repository."""
    return verbs(_sources())


if __name__ == "__main__":
    for title, numbers in zip(("methods", "visible fields"), counts(), strict=True):
        sys.stdout.write(f"{title}: {sum(numbers.values())}\n")
        sys.stdout.writelines(f"  {number:4} {name}\n" for name, number in numbers.most_common(16))
    words = first_words()
    sys.stdout.write(f"first words of methods: {len(words)}\n  {' '.join(sorted(words))}\n")

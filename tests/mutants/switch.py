"""Faults in Rust that are switched on when a program starts. All faults of a sample are built at once.

The body of a function becomes a choice between the original body and one copy for each fault (Untch, Offutt
and Harrold, "Mutation analysis using mutant schemata", 1993). Each copy is a whole body with one fault, so
that precedence, types and laziness are the same as if the fault were built alone.
"""

from __future__ import annotations

import re
from collections import defaultdict
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from faults import Fault

#: The variable that selects a fault by its number, from 1; or `RECORD` to select none.
CHOICE = "ANABRANCH_FAULT"
RECORD = "reached"
#: The variable with the file to which each function is written when it is called first.
REACHED = "ANABRANCH_FAULT_REACHED"

# Appended to the root of the judged crate.
_MODULE = """
pub(crate) mod fault {{
    use std::io::Write;
    use std::sync::OnceLock;
    use std::sync::atomic::{{AtomicBool, Ordering}};

    const RECORD: u32 = u32::MAX;
    static ON: OnceLock<u32> = OnceLock::new();
    static REACHED: [AtomicBool; {places}] = [const {{ AtomicBool::new(false) }}; {places}];

    fn chosen() -> u32 {{
        match std::env::var("{choice}") {{
            Ok(choice) if choice == "{record}" => RECORD,
            Ok(choice) => choice.parse().expect("the number of a fault"),
            Err(_) => 0,
        }}
    }}

    #[inline]
    pub(crate) fn on(place: usize) -> u32 {{
        let on = *ON.get_or_init(chosen);
        if on == RECORD {{ note(place) }} else {{ on }}
    }}

    fn note(place: usize) -> u32 {{
        if !REACHED[place].swap(true, Ordering::Relaxed) {{
            let path = std::env::var("{reached}").expect("a file");
            let file = std::fs::OpenOptions::new().append(true).create(true).open(path);
            writeln!(file.expect("a file that can be written"), "{{place}}").expect("written");
        }}
        0
    }}
}}
"""


class Arm(NamedTuple):
    """The range of a faulty body in the written source in bytes, and the number of its fault."""

    start: int
    end: int
    number: int


class Source(NamedTuple):
    """A source with faults that can be switched on.

    Attributes
    ----------
    text
        The source.
    arms
        The faulty bodies.
    places
        For each fault's number, the number of its function, which is recorded when it is called.
    """

    text: bytes
    arms: list[Arm]
    places: dict[int, int]


def place(source: bytes, faults: Mapping[int, Fault], first: int) -> Source:
    """Put the numbered faults of one file into it. Functions are numbered from `first` on."""
    text, arms, places = b"", [], {}
    done = 0
    for number, ((start, end), inside) in enumerate(_by_body(faults), first):
        text += source[done:start] + b"{ match crate::fault::on(%d) {\n" % number
        for one in inside:
            faulty = faults[one].apply(source)
            body = faulty[start : end + len(faulty) - len(source)]
            text += b"%d => " % one
            arms.append(Arm(len(text), len(text) + len(body), one))
            text += body + b"\n"
            places[one] = number
        text += b"_ => " + source[start:end] + b"\n} }"
        done = end
    return Source(text + source[done:], arms, places)


def module(places: int) -> bytes:
    """Return the text that is appended to the root of the crate."""
    return _MODULE.format(places=max(places, 1), choice=CHOICE, record=RECORD, reached=REACHED).encode()


def _by_body(faults: Mapping[int, Fault]) -> list[tuple[tuple[int, int], list[int]]]:
    """Return the bodies in order with the numbers of their faults; nested ones belong to the outer one."""
    bodies: list[tuple[tuple[int, int], list[int]]] = []
    for number, fault in sorted(faults.items(), key=lambda one: (one[1].body or (0, 0), one[0])):
        if fault.body is None:
            message = f"{fault.key} is in no function"
            raise ValueError(message)
        if bodies and fault.body[1] <= bodies[-1][0][1]:
            bodies[-1][1].append(number)
        else:
            bodies.append((fault.body, [number]))
    return bodies


# Text that is not code: comments (but not nested ones), raw strings, strings and characters.
_ASIDE = re.compile(
    rb'//[^\n]*|/\*.*?\*/|b?r(#*)".*?"\1|b?"(?:\\.|[^"\\])*"|b?\'(?:\\.[^\']*|[^\'\\])\'', re.DOTALL
)
_CODE = re.compile(rb"\bconst\b|->\s*impl\b|[{}()\[\];]")


def body(source: bytes, start: int, end: int) -> tuple[int, int] | None:
    """Return the range of the body, with its braces, of the function from `start` to `end`.

    Returns None if the fault cannot be switched: the compiler evaluates the function (`const fn`), or the
    two bodies would have different types (`-> impl`).
    """
    blank = _ASIDE.sub(lambda found: b" " * len(found[0]), source[start:end])
    depth = 0
    for found in _CODE.finditer(blank):
        if depth == 0 and found[0] == b"{":
            return start + found.start(), end
        if depth == 0 and found[0][:1] in (b"c", b"-"):
            return None
        depth += {b"(": 1, b"[": 1, b")": -1, b"]": -1}.get(found[0], 0)
    return None


def blamed(messages: Iterable[Mapping[str, Any]], sources: Mapping[str, Source]) -> tuple[set[int], set[int]]:
    """Return the faults in which the compiler reports errors, and those that may cause other errors.

    Parameters
    ----------
    messages
        The compiler's messages in JSON.
    sources
        The sources, by the end of their path.

    An error outside all faulty bodies may come from any fault of its function, or else of its file.
    """
    within: set[int] = set()
    around: set[int] = set()
    for message in messages:
        if message.get("level") != "error":
            continue
        for span in message["spans"]:
            source = next((one for name, one in sources.items() if span["file_name"].endswith(name)), None)
            if span["is_primary"] and source is not None:
                start, end = span["byte_start"], span["byte_end"]
                at = {arm.number for arm in source.arms if arm.start <= start and end <= arm.end}
                within |= at
                around |= at or _around(source, start, end)
    return within, around - within


def _around(source: Source, start: int, end: int) -> set[int]:
    # In the written source, the original body follows the last faulty body of a function.
    by_place: dict[int, list[Arm]] = defaultdict(list)
    for arm in source.arms:
        by_place[source.places[arm.number]].append(arm)
    for arms in by_place.values():
        first = source.text.rindex(b"{ match crate::fault::on", 0, arms[0].start)
        sound = len(source.text[arms[-1].end :].split(b"\n} }", 1)[0])
        if first <= start and end <= arms[-1].end + sound:
            return {arm.number for arm in arms}
    return set(source.places)


def numbers(faults: Sequence[Fault]) -> dict[str, dict[int, Fault]]:
    """Return the faults by file and by number, from 1."""
    result: dict[str, dict[int, Fault]] = defaultdict(dict)
    for number, fault in enumerate(faults, 1):
        result[fault.file][number] = fault
    return result

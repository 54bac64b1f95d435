"""Lists of CMCD keys (CTA-5004, versions 1 and 2), as queries and header fields have them."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from anabranch.logs._parsed import MOST

#: The keys of versions 1 and 2. A list with none of them is no CMCD.
KEYS = frozenset(
    (
        *("ab", "bg", "bl", "br", "bs", "bsa", "bsd", "bsda", "cdn", "cen", "cid", "cmsdd", "cmsds", "cs"),
        *("d", "df", "dfa", "dl", "e", "ec", "h", "lab", "lb", "ltc", "msd", "mtp", "nor", "nr"),
        *("nrr", "ot", "pb", "pr", "pt", "rc", "rtp", "sf", "sid", "sn", "st", "sta", "su", "tab"),
        *("tb", "tbl", "tpb", "ts", "ttfb", "ttfbb", "ttlb", "url", "v"),
    )
)
#: A key, and its value: a text in quotation marks, a list in parentheses, or the rest up to a comma.
_ITEM = re.compile(r'\s*([A-Za-z0-9._-]+)(?:=("(?:[^"\\]|\\.)*"|\([^)]*\)|[^,"]*))?\s*(?:,|$)')
#: Longer texts are no lists.
_LONGEST = 16_384
_NUMBER = re.compile(r"-?\d{1,18}(?:\.\d{1,18})?")
#: The object's type behind a member of an inner list: `4000;v`.
_PARAMETER = re.compile(r";.*", re.DOTALL)


def parsed(text: str) -> dict[str, Any] | None:
    """Return the keys of a list; None if it is no list of CMCD keys.

    Keys without a value are True. Values that players write although they do not have one (`undefined`,
    `NaN`, `null`) are left out. An inner list of version 2 is a list.
    """
    if len(text) > _LONGEST:
        return None
    found: dict[str, Any] = {}
    at = 0
    text = text.strip()
    while at < len(text):
        item = _ITEM.match(text, at)
        if item is None or item.end() == at:
            return None
        at = item.end()
        key, value = item[1], _value(item[2])
        if value is not None:
            found[key] = value
    return found if KEYS & found.keys() else None


def _value(text: str | None) -> Any:  # noqa: ANN401 - as CMCD has it
    """Return a value; None for an empty one."""
    if text is None:
        return True
    if text.startswith('"'):
        return re.sub(r"\\(.)", r"\1", text[1:-1])
    if text.startswith("("):
        members = (_value(_PARAMETER.sub("", one)) for one in _members(text[1:-1]))
        return [one for one in members if one is not None]
    if text in {"undefined", "NaN", "null", ""}:
        return None
    if text in {"?0", "false"}:
        return None
    if text in {"?1", "true"}:
        return True
    if _NUMBER.fullmatch(text):
        return float(text) if "." in text else int(text)
    return text


def _members(text: str) -> list[str]:
    """Return the members of an inner list."""
    return re.findall(r'"(?:[^"\\]|\\.)*"(?:;[^\s"]*)?|[^\s"]+', text)


def of_address(address: str) -> dict[str, Any] | None:
    """Return the keys in the argument `CMCD` of an address; None without one.

    Some players and servers encode the argument twice.
    """
    if "cmcd=" not in address.lower():
        return None
    try:
        query = urlsplit(address).query
    except ValueError:
        return None
    if "cmcd=" not in query.lower():
        return None
    given = {name.upper(): values for name, values in parse_qs(query, keep_blank_values=True).items()}
    (text, *_) = given.get("CMCD", [""])
    for _ in range(2):
        if (found := parsed(text)) is not None:
            return found
        text = unquote(text)
    return parsed(text)


def number(values: dict[str, Any], key: str) -> float | None:
    """Return the number of a key; the first one of a list, and None without one."""
    return next(iter(numbers(values, key)), None)


def numbers(values: dict[str, Any], key: str) -> list[float]:
    """Return the numbers of a key."""
    value = values.get(key, [])
    given = value if isinstance(value, list) else [value]
    return [float(one) for one in given if _is_number(one)]


def _is_number(value: Any) -> bool:  # noqa: ANN401 - as CMCD has it
    """Return whether a value is a number that a report may have."""
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= MOST

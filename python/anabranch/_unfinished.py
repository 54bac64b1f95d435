"""Sessions that ended without data, and players that did not reach the end of the film."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from anabranch.metrics._rows import of_each, rows

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from anabranch.metrics import Clients
    from anabranch.metrics._rows import Tables

#: Events of the trace after which a link or an interface carries nothing, or carries packets again.
DOWN = ("down", "link-down", "silent", "removed")
UP = ("up", "link-up", "restored", "added")
#: The shortest silence at the end of a session that is reported, in seconds.
_LEAST_S = 1.0


def silent(tables: Tables, *, clients: int) -> Iterator[str]:
    """Yield a sentence for each session that ended in silence.

    A player cannot detect that no more data will come.

    Parameters
    ----------
    tables
        The trace.
    clients
        The number of clients. A single client is not numbered.
    """
    cut = _cut(tables)
    why = f" ({cut} did not come back)" if cut else ""
    for client, own in of_each(tables):
        connection = next(rows(own["connections"]))
        last = _last_byte_s(own)
        if connection["finished"] or connection["duration_s"] - last < _LEAST_S:
            continue
        who = f"client {client}: " if clients > 1 else ""
        text = f"{who}no byte came after {last:,.1f} s{why}"
        shown = [row["shown_s"] for row in rows(own.get("frames", {})) if row["shown_s"] is not None]
        if shown:
            waited = connection["duration_s"] - max(shown)
            text += f", and the picture stood still from {max(shown):,.1f} s on: these {waited:,.1f} s "
            text += "are in `still_s`, and in no underflow"
        yield f"{text[0].upper()}{text[1:]}."


def unconnected(tables: Tables, *, clients: int) -> str | None:
    """Return a sentence about the clients that no path ever connected; None if all were connected.

    Parameters
    ----------
    tables
        The trace.
    clients
        How many clients there are.
    """
    if "subflows" not in tables:
        return None
    connected = {row["client"] for row in rows(tables["subflows"]) if row["established"]}
    missing = clients - len(connected)
    if missing <= 0:
        return None
    who = "no connection was" if clients == 1 else f"{missing} of {clients} clients were not"
    works = "no path works" if missing == clients else "some clients have no path that works"
    return f"{works}: {who} established"


def unreached(clients: Clients) -> str | None:
    """Return a sentence about the players that did not reach the end; None if all did.

    Parameters
    ----------
    clients
        Each client's `qoe`, as `metrics.by_client` returns them.
    """
    players = [one["qoe"] for one in clients if one["qoe"] is not None]
    short = [one for one in players if not one["reached_end"]]
    if not short:
        return None
    who = "the player" if len(players) == 1 else f"{len(short)} of {len(players)} players"
    unplayed_s = sum(one["unplayed_s"] for one in short)
    never = sum(one["startup_delay_s"] is None for one in short)
    started = "" if not never else "; it never started" if len(players) == 1 else f"; {never} never started"
    return f"{who} did not reach the end: {unplayed_s:,.1f} s of film were not shown{started}"


def _last_byte_s(own: Mapping[str, Any]) -> float:
    """Return the time of a client's last read, rounded to 0.1 s."""
    last, before = 0.0, 0
    for row in rows(own.get("player", {})):
        if row["bytes_read"] > before:
            last, before = row["t_s"], row["bytes_read"]
    return last


def _cut(tables: Tables) -> str:
    """Return the links that were down at the end, as `a, cut at 25.0 s`; empty if none was."""
    state: dict[str, tuple[float, bool]] = {}
    for row in sorted(rows(tables.get("events", {})), key=lambda row: row["t_s"]):
        if row["what"] in (*DOWN, *UP):
            state[row["link"].removesuffix(".down").removesuffix(".up")] = (row["t_s"], row["what"] in DOWN)
    return ", ".join(f"{name}, cut at {at:,.1f} s," for name, (at, is_down) in state.items() if is_down)

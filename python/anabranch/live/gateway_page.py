"""The page of a gateway: its metrics, read twice a second, as the states of a run."""

from __future__ import annotations

import re
import threading
import time
import urllib.request
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from anabranch.errors import Fault
from anabranch.live.gateway import split

if TYPE_CHECKING:
    from collections.abc import Iterator

    from anabranch.live.gateway import Settings
    from anabranch.live.page import Page

#: The time between two states, in seconds, and the longest wait for an answer.
_PERIOD_S, _PATIENCE_S = 0.5, 2.0
_ROW = re.compile(r"^anabranch_gateway_(\w+)(?:\{(.*)\})? (\S+)$", re.MULTILINE)
_LABEL = re.compile(r'(\w+)="([^"]*)"')
#: The roles of subflows, with their words on the page.
_ROLES = {"first": "first subflows", "joined": "joined subflows"}

#: An address of the gateway and a role.
Group = tuple[str, str]


def groups(settings: Settings) -> list[Group]:
    """Return the groups of subflows that a gateway may have. At announced addresses, all are joined."""
    found = (split(place) for place in settings.listen)
    listens = dict.fromkeys(place[0] for place in found if not isinstance(place, Fault))
    both = [(address, role) for address in listens for role in _ROLES]
    return [*both, *((address, "joined") for address in settings.announce if address not in listens)]


def moment(text: str, shown: list[Group], t_s: float) -> dict[str, Any]:
    """Return the state of a gateway from the text of its metrics.

    Parameters
    ----------
    text
        The answer of `/metrics`.
    shown
        The groups of subflows, in the page's order.
    t_s
        Seconds since the gateway started.
    """
    values: dict[tuple[str, Group | None], float] = {}
    connections = 0.0
    for name, labels, value in _ROW.findall(text):
        found = dict(_LABEL.findall(labels))
        if name == "connections":
            connections += float(value)
        if "role" in found:
            values[name, (found["address"], found["role"])] = float(value)
    paths = []
    for group in shown:
        srtt_s = values.get(("srtt_seconds", group))
        bps = values.get(("delivery_rate_bits_per_second", group))
        paths.append(
            {
                "bytes": values.get(("delivered_bytes_total", group), 0.0),
                "queue_packets": None,
                "queue_bytes": None,
                "cwnd_segments": values.get(("cwnd_segments", group)),
                "in_flight_segments": values.get(("in_flight_segments", group)),
                "srtt_ms": None if srtt_s is None else 1e3 * srtt_s,
                "delivery_rate_mbps": None if bps is None else bps / 1e6,
            }
        )
    return {"t_s": t_s, "bytes_read": None, "connections": connections, "paths": paths, "player": None}


@contextmanager
def following(settings: Settings, page: Page | None) -> Iterator[None]:
    """Show a gateway on a page inside the block. Without a page, do nothing."""
    if page is None:
        yield
        return
    shown = groups(settings)
    page.begin(
        {
            "scenario": f"Gateway at {', '.join(settings.listen)}",
            "paths": [f"{address}, {_ROLES[role]}" for address, role in shown],
            "server": "gateway",
            "client": "others",
            "application": "gateway",
            "lead": f"scheduler {settings.scheduler}, congestion control {settings.congestion}, "
            f"origin {', '.join(settings.origin)}",
            "key": "Throughput and shares are of the payload that clients acknowledged in the last second. "
            "Windows are sums over the established subflows, and RTTs are means.",
        }
    )
    ended = threading.Event()
    reader = threading.Thread(target=_read, args=(settings.metrics, shown, page, ended), daemon=True)
    reader.start()
    try:
        yield
    except BaseException:
        page.over("failed")
        raise
    finally:
        ended.set()
    page.over("done")


def _read(metrics: str, shown: list[Group], page: Page, ended: threading.Event) -> None:
    """Read the metrics and show them until the gateway ends."""
    began_s = time.monotonic()
    while not ended.wait(_PERIOD_S):
        try:
            with urllib.request.urlopen(f"http://{metrics}/metrics", timeout=_PATIENCE_S) as answer:
                text = answer.read().decode()
        except OSError:
            # The gateway is starting, or too busy to answer: the next state is soon.
            continue
        page.show(moment(text, shown, time.monotonic() - began_s))

"""`anabranch capture CLIENT SERVER`: what two captures of one session show together."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from anabranch import _numbers
from anabranch.cli import _console

if TYPE_CHECKING:
    from pathlib import Path

    from anabranch.capture import Pair


def tell(first: Path, second: Path, *, as_json: bool, samples: Path | None) -> None:
    """Match two captures, and print and write the results."""
    from anabranch import _files, capture
    from anabranch.errors import Fault

    pair = capture.match(first, second)
    for damage in pair.damage:
        _console.warn([Fault(message=damage, where=f"{first} or {second}")])
    if samples is not None:
        _files.write(samples, pair.delays().write_csv(), "the one-way delays")
        _console.note(f"wrote {samples}")
    if as_json:
        _console.out(json.dumps(pair.to_json(), indent=2))
    else:
        _text(pair, first, second)


def _text(pair: Pair, first: Path, second: Path) -> None:
    """Write the connections for a person."""
    server = first if pair.first_is_server else second
    _console.out(f"{len(pair.connections):,} TCP connections are in both captures.")
    _console.out(f"Taken at the server: {server}.")
    if pair.server_ahead_ms is None or pair.right_to_ms is None:
        _console.out(
            "No segments could be matched in both directions: the offset of the clocks is not known."
        )
    else:
        _console.out(
            f"The clock of the server is ahead by {pair.server_ahead_ms:,.3f} ms, right to "
            f"{pair.right_to_ms:,.3f} ms: the fastest segments are taken to need equally long both ways."
        )
    dash = _numbers.or_dash
    rows = [
        (
            one.client,
            one.server,
            words,
            f"{way.sent_bytes:,}",
            f"{way.lost_bytes:,}",
            dash(way.lost_segments, "{:,d}"),
            dash(way.min_delay_ms, "{:.1f}"),
            dash(way.median_delay_ms, "{:.1f}"),
            dash(way.p95_delay_ms, "{:.1f}"),
        )
        for one in pair.connections[:_MOST_SHOWN]
        for words, way in (("to the client", one.to_client), ("to the server", one.to_server))
    ]
    headers = (
        *("client", "server", "direction", "sent B", "lost B", "lost segments"),
        *("least delay ms", "median ms", "95 % below ms"),
    )
    _console.table(headers, rows, left=3)
    if pair.only_at_client or pair.only_at_server:
        _console.out(
            f"Only in one capture: {pair.only_at_client:,} connections at the client, "
            f"{pair.only_at_server:,} at the server."
        )


#: The most connections that are printed.
_MOST_SHOWN = 20

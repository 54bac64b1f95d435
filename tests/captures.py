"""Compare `anabranch capture` with captures whose figures are known: `python tests/captures.py FOLDER`.

The folder has capture files and `truth.json`: by file, under `own`, the figures that another program
computed. The captures are not part of the repository.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from anabranch import capture

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

#: A figure: its name, the true value, and ours.
Figure = tuple[str, Any, Any]

#: Counts of a file by their names in `truth.json` and here.
_COUNTS = {
    **{name: name for name in ("records", "tcp_segments", "mptcp_segments", "truncated_records")},
    "frames_over_1600": "frames_over_1600",
    "linktypes": "link_types",
    "mptcp_options": "mptcp_options",
    "duration_s": "duration_s",
}
_STREAM = {
    **{name: name for name in ("client", "server", "syn_seen", "syns")},
    "synacks": "syn_acks",
    "syn_to_synack_ms": "syn_to_syn_ack_ms",
    "synack_to_ack_ms": "syn_ack_to_ack_ms",
}
_CONNECTION = ("version", "client_token", "server_token", "both_keys_seen")
_DATA = {
    **{name: name for name in ("mapped_bytes", "unique_bytes", "again_same_subflow_bytes", "unmapped_bytes")},
    **{name: name for name in ("out_of_order_frames", "data_fin")},
    "again_other_subflow_bytes": "reinjected_bytes",
    "again_other_subflow_frames": "reinjected_frames",
}
_AFTER_SUBFLOW = {
    "out_of_order": "out_of_order_after_subflow",
    "duplicate": "duplicates_after_subflow",
    "hol_waits": "head_of_line_waits",
    "hol_total_s": "head_of_line_s",
    "hol_longest_s": "longest_head_of_line_s",
    "in_order_bytes": "in_order_bytes",
}
_DIRECTIONS = ("to_server", "to_client")


def figures(true: dict[str, Any], ours: capture.Capture) -> Iterator[Figure]:
    """Yield every figure of a file."""
    for name, to in _COUNTS.items():
        yield name, true[name], ours.counts[to]
    known = [connection for connection in ours.connections if not connection["guessed"]]
    yield "tcp_streams", true["tcp_streams"], ours.found["tcp_streams"]
    yield "mptcp_connections", true["mptcp_connections"], len(known)
    yield "orphan_tokens", true["orphan_tokens"], len(ours.found["orphan_tokens"])
    for stream, own_stream in zip(true["streams"], ours.streams, strict=False):
        yield from _of_stream(stream, own_stream)
    for number, (one, own) in enumerate(zip(true["connections"], known, strict=False)):
        place = f"connection {number}"
        yield from ((f"{place} {name}", one[name], own[name]) for name in _CONNECTION)
        for joined, ours_joined in zip(one["subflows"], own["subflows"], strict=False):
            yield f"{place} subflow", joined["stream"], ours_joined["stream"]
            valid = [ours_joined["syn_ack_hmac_valid"], ours_joined["ack_hmac_valid"]]
            yield f"{place} HMACs", [joined["hmac_synack_ok"], joined["hmac_ack_ok"]], valid
        for direction in _DIRECTIONS:
            data, own_data = one[direction], own[direction]
            yield from (
                (f"{place} {direction} {name}", data[name], own_data[to]) for name, to in _DATA.items()
            )
            after = data["after_subflow"]
            for name, to in _AFTER_SUBFLOW.items():
                yield f"{place} {direction} after_subflow {name}", after[name], own_data[to]


def _of_stream(one: dict[str, Any], own: Mapping[str, Any]) -> Iterator[Figure]:
    """Yield the figures of a TCP connection. Without a SYN, which host is the client is a guess."""
    turned = not one["syn_seen"] and one["client"] != own["client"]
    place = f"stream {one['stream']}"
    for name, to in _STREAM.items():
        if not (turned and name in ("client", "server")):
            yield f"{place} {name}", one[name], own[to]
    for direction, other in zip(_DIRECTIONS, reversed(_DIRECTIONS), strict=True):
        half = one.get(direction) or {}
        for name, value in half.items():
            yield f"{place} {direction} {name}", value, own[other if turned else direction][name]


def _is_equal(name: str, true: Any, ours: Any) -> bool:  # noqa: ANN401 - values of JSON
    """Return whether two values agree; times to the digits that the truth has."""
    if isinstance(true, float) and isinstance(ours, int | float):
        return abs(true - ours) <= (6e-4 if name.endswith("_ms") else 2e-6)
    return bool(true == ours)


def main() -> None:
    """Print every figure that differs, and the counts."""
    folder = Path(sys.argv[1])
    truth = json.loads((folder / "truth.json").read_text(encoding="utf-8"))
    agree = differ = 0
    for file, one in truth.items():
        if file.startswith("_"):
            continue
        for name, true, ours in figures(one["own"], capture.read(folder / file, progress=False)):
            if _is_equal(name, true, ours):
                agree += 1
            else:
                differ += 1
                sys.stdout.write(f"{file}: {name}: {true} expected, {ours} found\n")
    sys.stdout.write(f"{agree:,} of {agree + differ:,} figures agree\n")


if __name__ == "__main__":
    main()

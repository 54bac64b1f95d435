"""A run's own capture gives the run's own tables, in every column that a capture at that host can show.

docs/guide/capture.md lists these columns. The scenarios are drawn at random.
"""

from __future__ import annotations

import random

import pytest

import anabranch
from anabranch import capture

pytestmark = pytest.mark.module

SEEDS = range(8)


def drawn(seed):
    """Return a random scenario: its shipped base, and its keys."""
    draw = random.Random(seed)
    base = draw.choice(["bulk-two-paths", "two-paths", "adaptive-two-paths"])
    names = {"bulk-two-paths": ["wifi", "lte"]}.get(base)
    keys = {
        "transport.scheduler": draw.choice(["linux", "min-rtt", "round-robin", "blest"]),
        "transport.congestion": draw.choice(["cubic", "reno", "olia", "bbr"]),
    }
    if base == "bulk-two-paths":
        keys["application.bytes"] = f"{draw.randint(200, 2000)} kB"
    else:
        keys["application.duration"] = f"{draw.randint(8, 14)} s"
    paths = names or sorted(anabranch_paths(base))
    for name in paths:
        keys[f"paths.{name}.rate"] = f"{draw.uniform(1.5, 12):.2f} Mbit/s"
        keys[f"paths.{name}.rtt"] = f"{draw.randint(8, 200)} ms"
        keys[f"paths.{name}.loss"] = f"{draw.choice([0, 0, 0.2, 1, 3])} %"
    return base, keys


def anabranch_paths(base):
    """Return the names of a shipped scenario's paths."""
    from anabranch.scenario.load import load

    return [path.name for path in load(base, {}).scenario.paths]


def captured(tmp_path, seed, at):
    """Return a run and the same run as read from its capture."""
    base, keys = drawn(seed)
    file = tmp_path / f"{at}.pcapng"
    run = anabranch.run(base, set=keys, seed=seed, pcapng=file, pcapng_at=at)
    read = anabranch.read_capture(file, progress=False)
    assert read.summary["captured_at"] == at
    return run, read


def path_names(run, read):
    """Return the run's path of each path of the capture. The address of path n, counted from 1, is 10.n.x.y."""
    names = [path["name"] for path in run.plan["paths"]]
    return {path["name"]: names[int(path["name"].split(".")[1]) - 1] for path in read.plan["paths"]}


def subflows(run, names=None):
    """Return the subflows with data by path, in order."""
    found = {}
    for row in run.rows("subflows"):
        if row["bytes"]:
            found.setdefault(names[row["path"]] if names else row["path"], []).append(row)
    return found


def equal(seen, own):
    """Return whether two values are equal, times to a nanosecond."""
    return seen == (pytest.approx(own, abs=1.5e-9) if isinstance(own, float) else own)


@pytest.mark.parametrize("seed", SEEDS)
def test_at_the_client(tmp_path, seed):
    run, read = captured(tmp_path, seed, "client")
    (own,), (seen,) = run.rows("connections"), read.rows("connections")
    until = own["planned_s"]
    # A viewer who leaves stops counting, although more bytes arrive.
    columns = (
        "connect_s",
        "fallback",
        *(("bytes_read", "max_read_gap_s", "duration_s") if until is None else ()),
    )
    for column in columns:
        assert equal(seen[column], own[column]), column
    # A player of MP4 leaves connections while data is under way, and does not read it.
    several = len(read.summary["sessions"]) > 1
    mine = [(row["t_s"], row["gap_s"]) for row in run.rows("gaps")]
    theirs = [(row["t_s"], row["gap_s"]) for row in read.rows("gaps")]
    theirs = [gap for gap in theirs if until is None or sum(gap) <= until]
    if not several:
        assert len(mine) == len(theirs)
        assert all(map(equal, sum(theirs, ()), sum(mine, ())))
        counts = {row["t_s"]: row["bytes_read"] for row in run.rows("player")}
        compared = [row for row in read.rows("player") if row["t_s"] in counts]
        assert compared
        assert all(row["bytes_read"] == counts[row["t_s"]] for row in compared)
    requests = read.rows("requests")
    for one in run.rows("requests"):
        # Requests of two connections may leave in another order than the player asks.
        other = next((row for row in requests if row["resource"] == one["resource"]), None)
        if other is None:
            assert until is not None, one
            continue
        requests.remove(other)
        # The player may ask before there is a connection for the request.
        assert other["t_s"] >= one["t_s"] - 1e-9
        if one["done_s"] is not None:
            assert equal(other["first_byte_s"], one["first_byte_s"]), one
            assert equal(other["done_s"], one["done_s"]), one
            assert other["bytes"] == one["bytes"]
    assert {row["path"] for row in read.rows("subflows")} <= set(path_names(run, read))
    assert all(row["retransmissions"] is None for row in read.rows("subflows"))


@pytest.mark.parametrize("seed", SEEDS)
def test_at_the_server(tmp_path, seed):
    run, read = captured(tmp_path, seed, "server")
    own, seen = subflows(run), subflows(read, path_names(run, read))
    assert own.keys() == seen.keys()
    connections = capture.read(tmp_path / "server.pcapng", progress=False).connections
    # The server ignores acknowledgements that come after the client has aborted the connection.
    aborted = any(one["signal"] == "MP_FASTCLOSE" for each in connections for one in each["signals"])
    columns = ("bytes_sent", "retransmissions", "bytes_retransmitted", "data_segments")
    for path, rows in own.items():
        for mine, theirs in zip(rows, seen[path], strict=True):
            assert {name: theirs[name] for name in columns} == {name: mine[name] for name in columns}
            assert theirs["bytes"] == mine["bytes"] or (aborted and theirs["bytes"] > mine["bytes"])


@pytest.mark.parametrize("at", ["client", "server"])
def test_every_null_column_is_listed(tmp_path, at):
    from anabranch.capture._columns import unseen

    file = tmp_path / "one.pcapng"
    anabranch.run("bulk-two-paths", set={"application.bytes": "300 kB"}, pcapng=file, pcapng_at=at)
    read = anabranch.read_capture(file, progress=False)
    hidden = unseen(at)
    for name in ("connections", "subflows", "samples", "player"):
        rows = read.rows(name)
        null = {column for column in rows[0] if all(row[column] in (None, "") for row in rows)}
        assert null == set(hidden.get(name, ())), name


def test_equal_runs_give_equal_files_and_a_start_moves_the_clock(tmp_path):
    from datetime import UTC, datetime

    keys = {"application.bytes": "300 kB"}
    files = [tmp_path / name for name in ("one", "two", "three")]
    for file in files[:2]:
        anabranch.run("bulk-two-paths", set=keys, pcapng=file)
    assert files[0].read_bytes() == files[1].read_bytes()
    start = datetime(2026, 11, 27, 12, tzinfo=UTC)
    anabranch.run("bulk-two-paths", set=keys, pcapng=files[2], pcapng_start=start)
    moved = capture.read(files[2], progress=False).counts["first_unix_s"]
    # 20,784 days since 1970 and 12 hours.
    assert moved == pytest.approx(20_784 * 86_400 + 43_200, abs=1e-6)


def test_two_captures_of_one_run(tmp_path):
    keys = {"application.bytes": "1 MB", "paths.wifi.loss": "1 %"}
    files = {at: tmp_path / f"{at}.pcapng" for at in ("server", "client")}
    for at, file in files.items():
        run = anabranch.run("bulk-two-paths", set=keys, pcapng=file, pcapng_at=at)
    pair = capture.match(*files.values())
    assert pair.first_is_server
    # There is one clock. The paths take equally long both ways, except for the size of the fastest packets.
    assert abs(pair.server_ahead_ms) <= pair.right_to_ms
    links = {row["link"]: row for row in run.rows("links")}
    names = [path["name"] for path in run.plan["paths"]]
    for one in pair.connections:
        name = names[int(one.client.split(".")[1]) - 1]
        lost = sum(links[f"{name}.down"][key] for key in ("dropped_queue", "dropped_loss"))
        assert one.to_client.lost_segments == lost
        assert one.to_client.min_delay_ms > 0
    assert run.rows("connections")[0]["finished"]

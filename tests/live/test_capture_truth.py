"""`anabranch capture` of a session between two kernels, against the kernel's own counters."""

from __future__ import annotations

import pytest

import anabranch
import live_whatif


@pytest.mark.slow
@pytest.mark.parametrize("name", ["clean", "lossy", "short queues"])
def test_bytes_of_each_subflow_are_those_of_the_kernel(tmp_path, name):
    files, kernel = live_whatif.session(live_whatif.WORLDS[name], 2_000_000, tmp_path)
    read = anabranch.read_capture(files["server"])
    assert read.summary["captured_at"] == "server"
    rows = read.rows("subflows")
    assert [row["path"] for row in rows] == ["10.1.1.1", "10.2.1.1"]
    assert len(kernel) == 2
    for row in rows:
        (own,) = [one for one in kernel.values() if one["address"] == row["path"]]
        assert row["bytes_sent"] == own["sent"]
        assert row["bytes_retransmitted"] == own["retransmitted"]
    assert name == "clean" or sum(row["bytes_retransmitted"] for row in rows) > 10_000
    assert read.summary["uq18"]["DB_total"] == sum(one["acknowledged"] for one in kernel.values())

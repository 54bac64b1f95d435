"""Our endpoint against this host's kernel, both ways round, over both families, under every impairment."""

from __future__ import annotations

import pytest

from anabranch.live import run_live
from anabranch.scenario.load import load
from cells import IMPAIRMENTS, ROLES, both_carry, carried, cells, counted, scenario

#: Cells of the quick suite.
QUICK = {
    ("our server, MPTCP", "ipv4", "clean"),
    ("our server, MPTCP", "ipv4", "loss"),
    ("our server, MPTCP", "ipv6", "reorder"),
    ("our server, MPTCP", "ipv4", "options stripped"),
    ("our server, MPTCP", "ipv4", "checksums"),
    ("our server, TCP", "ipv6", "clean"),
    ("our client, MPTCP", "ipv4", "clean"),
    ("our client, MPTCP", "ipv6", "loss"),
    ("our client, MPTCP", "ipv4", "options stripped on the join"),
    ("our client, TCP", "ipv4", "loss"),
}


def marked(cell):
    return pytest.param(*cell, id=" - ".join(cell), marks=[] if cell in QUICK else [pytest.mark.slow])


@pytest.mark.parametrize(("role", "family", "name"), [marked(cell) for cell in cells()])
def test_every_byte_arrives(role, family, name):
    server, client, multipath = ROLES[role]
    impairment = IMPAIRMENTS[name]
    given = scenario(impairment, multipath=multipath, family=family)
    if client == "anabranch" and any(event.get("state") == "removed" for event in impairment.events):
        pytest.skip("our client over real packets has no interfaces that go")
    run = run_live(load(given), server=server, client=client)
    connection = run.rows("connections")[0]
    # The client compares every byte with the one that was sent at its position: another is an error.
    assert connection["finished"]
    assert connection["bytes_read"] == run.plan["application"]["bytes"]
    assert impairment.took_effect(run)
    if multipath and impairment.mptcp:
        assert counted(run, "MPCapableSYNTX") + counted(run, "MPCapableSYNRX") > 0
        assert counted(run, "MPCapableFallbackACK") == counted(run, "MPCapableFallbackSYNACK") == 0
        assert both_carry(run) == impairment.both, carried(run)
    if not multipath:
        assert counted(run, "MPCapableSYNTX") + counted(run, "MPCapableSYNRX") == 0
        assert min(carried(run).values()) == 0


def test_the_quick_cells_are_cells():
    assert set(cells()) >= QUICK
    assert len(QUICK) == 10

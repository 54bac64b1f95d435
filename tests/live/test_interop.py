"""Our endpoint against this host's kernel, both ways round, over both families, under every impairment."""

from __future__ import annotations

import shutil

import pytest

from anabranch.errors import DefectError
from anabranch.live import run_live
from anabranch.scenario.load import load
from capture import faults, packets
from cells import FAMILIES, IMPAIRMENTS, KERNEL_FAULTS, ROLES, cells, means_nothing, scenario
from impairments import Seen

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
    marks = [] if cell in QUICK else [pytest.mark.slow]
    if reason := means_nothing(cell[0], cell[2]):
        marks.append(pytest.mark.skip(reason=f"means nothing: {cell[2]}: {reason}"))
    if reason := KERNEL_FAULTS.get((cell[0], cell[2])):
        marks.append(pytest.mark.xfail(raises=DefectError, reason=reason))
    return pytest.param(*cell, id=" - ".join(cell), marks=marks)


@pytest.mark.parametrize(("role", "family", "name"), [marked(cell) for cell in cells()])
def test_every_byte_arrives(role, family, name, tmp_path):
    server, client, multipath = ROLES[role]
    impairment = IMPAIRMENTS[name]
    given = scenario(impairment, multipath=multipath, family=family)
    announced = ("lte",) if impairment.announced else ()
    file = tmp_path / "cell.pcapng"
    run = run_live(load(given), server=server, client=client, announced=announced, pcapng=file)
    seen = Seen(run=run, packets=packets(file))
    connection = run.rows("connections")[0]
    # The client compares every byte with the one that was sent at this position. A difference is an error.
    assert connection["finished"]
    assert connection["bytes_read"] == run.plan["application"]["bytes"]
    told = {"carried": seen.carried(), "kernels": run.summary["kernels"]}
    assert impairment.took_effect(seen), told
    if multipath and impairment.mptcp:
        assert seen.counted("MPCapableSYNACKRX", "MPCapableACKRX") > 0, told
        assert seen.counted("MPCapableFallbackACK", "MPCapableFallbackSYNACK") == 0, told
        assert impairment.both in (None, seen.both_carry()), told
    elif multipath:
        assert seen.payload(path=1) == 0, told
        if client == "anabranch":
            assert connection["fallback"]
    else:
        assert seen.counted("MPCapableSYNTX", "MPCapableSYNRX") == 0, told
        assert min(seen.carried().values()) == 0
    if (role, family, name) not in QUICK:
        judge(file, impairment)


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("name", [name for _, name in KERNEL_FAULTS])
def test_two_kernels_have_the_same_fault(name, family):
    given = scenario(IMPAIRMENTS[name], multipath=True, family=family)
    with pytest.raises(DefectError, match="read wrong bytes"):
        run_live(load(given), server="kernel", client="kernel")


def judge(file, impairment):
    if shutil.which("tshark") is None:
        pytest.skip("all but the judgement of tshark, which is not installed: apt-get install tshark")
    assert faults(file, mptcp=impairment.tshark) == []


def test_the_quick_cells_are_cells():
    assert set(cells()) >= QUICK
    assert not any(means_nothing(role, name) for role, _, name in QUICK)
    assert len(QUICK) == 10

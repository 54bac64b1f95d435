"""Unusual segments: the gateway answers them as this host's kernel and the RFCs do.

Each segment is sent to the kernel first. `docs/adversity.md` lists the remaining differences.
"""

from __future__ import annotations

import struct
from functools import partial

from segments import ACK, KERNEL_V4, MPTCP_OPTION, SYN, ByHand, KernelOrigin, Talker, brief
from uplinks import V4, Origin, echo, pattern

#: The subtype of MP_FAIL.
FAIL = 6
SIZE = b"\2\4\5\xb4"
CAPABLE = bytes([MPTCP_OPTION, 4, 1, 1])
PLAIN = ("SA", 0, None)


def both(lab, talk, script, counted=None):
    """Run a script against the kernel and the gateway, with equal origins. Return both results.

    `counted` receives the gateway's metrics at the end.
    """
    device = ByHand(lab)
    try:
        with KernelOrigin(lab.host, talk), Origin(lab.host, talk), lab.gateway() as gateway:
            found = [script(partial(Talker, device, address)) for address in (KERNEL_V4, V4)]
            if counted is not None:
                counted.update(gateway.metrics())
            return found
    finally:
        device.close()


#: Options of a SYN that open plain TCP.
ODD = [
    # RFC 9293 section 3.1, MUST-7; tcp_parse_options: lengths below two, and beyond the header.
    *([kind, length, 1, 1] for kind in (MPTCP_OPTION, 8, 253) for length in (0, 1, 255)),
    # MP_CAPABLE in the form of another segment ("strict size checking"), and with MP_JOIN
    # (subflow_check_req).
    [MPTCP_OPTION, 12, 1, 1, *range(8)],
    [MPTCP_OPTION, 20, 1, 1, *range(16)],
    [*CAPABLE, MPTCP_OPTION, 12, 0x10, 1, *range(8)],
]


def test_a_syn_with_odd_options_opens_plain_tcp(lab):
    def script(talker):
        found = []
        for options in ODD:
            made = talker()
            made.say(SYN, SIZE + bytes(options))
            found.append(brief(made.hear()))
        return found

    assert both(lab, echo, script) == [[PLAIN] * len(ODD)] * 2


def test_an_acknowledgement_of_unsent_data_is_answered(lab):
    """RFC 9293 section 3.10.7.4, RFC 5961 section 5.2; tcp_ack: tcp_send_challenge_ack."""

    def script(talker):
        found = []
        for multipath in (False, True):
            made = talker().open(multipath=multipath)
            made.data(b"x")
            made.heard_up_to(next(said for said in iter(made.hear, None) if said["payload"]))
            made.say(ACK, ack=made.ack)
            made.all()
            made.say(ACK, ack=made.ack + 100_000)
            answer = made.hear()
            found.append((brief(answer)[:2], answer["ack"] == made.seq))
        return found

    assert both(lab, echo, script) == [[(("A", 0), True)] * 2] * 2


def test_a_report_of_a_failed_checksum_is_answered(lab):
    """RFC 8684 section 3.7; mptcp_pm_mp_fail_received."""

    def script(talker):
        made = talker().open(multipath=True)
        made.data(b"x")
        made.heard_up_to(next(said for said in iter(made.hear, None) if said["payload"]))
        made.acknowledge(1)
        made.all()
        made.say(ACK, bytes([MPTCP_OPTION, 12, 0x60, 0]) + struct.pack("!Q", made.position(1, 1)))
        # The kernel puts a DSS option before MP_FAIL.
        return any(FAIL << 4 in said["signals"] for said in made.all())

    counted = {}
    assert both(lab, echo, script, counted) == [True, True]
    # The connection has one subflow, so it falls back (section 3.7).
    assert counted["fallbacks_total"] == 1


def test_a_newer_segment_closes_the_window_though_it_acknowledges_nothing_new(lab):
    """RFC 9293 section 3.10.7.4; tcp_may_update_window."""

    def script(talker):
        made = talker().open()
        made.data(b"hello world", window=0)
        closed = sum(len(said["payload"]) for said in made.all(0.5))
        made.say(ACK, window=8)
        # After the override timeout of 200 ms, the data that fits is sent.
        opened = [said for said in made.all(1.0) if said["payload"]]
        edges = {said["seq"] + len(said["payload"]) - made.ack & 0xFFFFFFFF for said in opened}
        return closed, edges

    assert both(lab, echo, script) == [(0, {8})] * 2


def test_a_window_below_two_segments_is_used_in_halves(lab):
    """RFC 9293 section 3.8.6.2.1, condition 3; tcp_bound_to_half_wnd: of 1152 bytes, 576 are used."""
    data = pattern(12_000)

    def says(connected):
        connected.sendall(data)
        return len(connected.recv(1))

    def script(talker):
        made = talker(window=1152).open()
        lengths, got = [], b""
        while len(got) < len(data):
            said = made.hear()
            assert said is not None, lengths
            if said["payload"]:
                lengths.append(len(said["payload"]))
                got += said["payload"]
                made.heard_up_to(said)
                made.say(ACK)
        return got == data, max(lengths), lengths.count(576)

    assert both(lab, says, script) == [(True, 576, 20)] * 2

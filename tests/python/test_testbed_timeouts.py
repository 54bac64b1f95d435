"""The sysctl values that a testbed sets for a scenario's timeouts."""

from __future__ import annotations

from anabranch.live.testbed import timeouts


def test_a_kernel_gets_the_longest_timeout_and_the_retries():
    assert timeouts({}) == {}
    assert timeouts({"rto_max_ns": 10**9, "retries": 60}) == {
        "ipv4/tcp_rto_max_ms": 1000,
        "ipv4/tcp_retries2": 60,
        # The first SYN and the four linear timeouts take 5 s. Then 126 timeouts of a second each last until
        # 131 s.
        "ipv4/tcp_syn_retries": 126,
    }
    # Without a number as many as Linux takes, and never more (proc_dou8vec_minmax).
    assert timeouts({"rto_max_ns": 2 * 10**9})["ipv4/tcp_retries2"] == 255
    assert timeouts({"rto_max_ns": 10**9, "retries": 926})["ipv4/tcp_retries2"] == 255
    assert timeouts({"retries": 8}) == {"ipv4/tcp_retries2": 8}
    # Five times 1 s, then 2 s, 4 s and 24 times 5 s are 131 s: 30 retries, of which four are linear.
    assert timeouts({"rto_max_ns": 5 * 10**9})["ipv4/tcp_syn_retries"] == 26
    assert timeouts({"rto_max_ns": 120 * 10**9})["ipv4/tcp_syn_retries"] == 6

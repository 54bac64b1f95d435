//! Windows: the sender stays within the peer's, and the receiver never shrinks its own.
//!
//! `win=8` means 8 * 128 bytes in both directions. In the SYN, the unit is bytes.

use anabranch_mptcp::{Config, Event, HostModel};
use anabranch_plugin::PluginChoice;

use crate::dialect::{Script, at, config, film, thousands};

/// A plain TCP server whose peer advertises `window` * 128 bytes, starting with the SYN.
fn offered(window: u64) -> Script {
    let mut s = Script::server(thousands());
    s.peer(0, &format!("S win={}", window * 128));
    s.us(0, "S.");
    s.peer(50, &format!(". win={window}"));
    s
}

#[test]
fn without_a_subflow_the_connections_own_room_is_left() {
    // `__mptcp_sync_sndbuf`: the send buffer is `tcp_wmem[0]` plus those of the subflows. A new subflow may
    // join for one minute.
    let mut s = Script::multipath(config(), 50);
    assert!(s.connection().writable() > 4096);
    s.peer(100, "R 1:1");
    assert!(!s.connection().is_closed());
    assert_eq!(s.connection().writable(), 4096);
}

#[test]
fn the_window_of_a_buffer_follows_the_size_of_segments() {
    // `tcp_measure_rcv_mss`, `tcp_win_from_space`: until the segment size is known, the window is half of the
    // buffer's 128 KiB of memory. A segment of 1448 bytes needs 2304, a ratio of 160/256, which gives 80 KiB.
    // The application reads nothing, so the whole window is visible. MPTCP's connection adapts to the segment
    // size only when data is read (`mptcp_rcv_space_adjust`): each of 40 segments uses half of 2304 bytes of
    // window and carries 1448.
    for (multipath, expected) in [(false, 81_920), (true, 65_536 + 40 * (1448 - 1152))] {
        let config = Config { multipath, ..config() };
        let mut s = Script::server(config);
        s.peer(0, if multipath { "S mpc" } else { "S" });
        s.us(0, "S.");
        s.peer(50, if multipath { ". mpc-keys" } else { "." });
        s.reading = false;
        let mut edge = 0;
        for n in 0..40 {
            let (from, to) = (1448 * n, 1448 * (n + 1));
            let dss = if multipath {
                format!(" dack4=0 map={from}+1448@{}", from + 1)
            } else {
                String::new()
            };
            s.peer(100 + 50 * n, &format!(". {}:{} ack=1{dss}", from + 1, to + 1));
            for (_, _, said) in s.rest() {
                let number = |key: &str| {
                    let found = said.split(' ').find_map(|word| word.strip_prefix(key));
                    found.and_then(|value| value.parse::<u64>().ok()).expect("a number")
                };
                edge = edge.max(number("ack=") - 1 + 128 * number("win="));
            }
        }
        let slack = 1448 + 128;
        assert!((expected - slack..=expected + slack).contains(&edge), "{multipath}: {edge}");
    }
}

#[test]
fn read_that_doubles_the_window_sends_an_update_immediately() {
    // tcp_cleanup_rbuf: `new_window >= 2 * rcv_window_now`. Of 80 KiB, 57,920 bytes are unread.
    let mut s = Script::plain(50);
    s.reading = false;
    for n in 0..40 {
        s.peer(100 + 10 * n, &format!(". {}:{} ack=1", 1 + 1448 * n, 1 + 1448 * (n + 1)));
    }
    let said = s.rest_until(1000);
    let mut left = said.iter().filter_map(|(_, _, line)| line.split("win=").nth(1));
    let left: u64 =
        128 * left.next_back().and_then(|win| win.parse::<u64>().ok()).expect("a window");
    assert!((23_000..26_000).contains(&left), "{left}");
    s.read(1000, left as usize - 1500);
    s.silence(1100);
    s.read(1100, 3000);
    s.us(1100, ". ack=57921");
}

#[test]
fn sender_stays_within_the_peer_window() {
    // 24 * 128 = 3072: three segments, but not a fourth of 72 bytes (RFC 9293 section 3.8.6.2.1).
    let mut s = offered(24);
    s.write(100, 10_000);
    for n in 0..3 {
        s.us(100, &format!(". {}:{}", 1 + 1000 * n, 1001 + 1000 * n));
    }
    s.silence(149);
    // The right edge is 1001 + 3072 = 4073.
    s.peer(150, ". ack=1001 win=24");
    s.us(150, ". 3001:4001");
    // An acknowledgement with the same right edge permits nothing new.
    s.peer(151, ". ack=2001 win=16");
    s.silence(160);
    s.peer(161, ". ack=2001 win=24");
    s.us(161, ". 4001:5001");
}

#[test]
fn an_old_acknowledgement_does_not_move_the_window() {
    // RFC 9293 section 3.10.7.4: only acknowledgements in order update the window.
    let mut s = offered(16);
    s.write(100, 10_000);
    s.rest();
    s.peer(150, ". ack=2001 win=16");
    s.us(150, ". 2001:3001");
    s.us(150, ". 3001:4001");
    s.peer(155, ". ack=1001 win=60");
    s.silence(160);
}

#[test]
fn a_closed_window_is_probed_at_the_timeout_and_then_ever_more_rarely() {
    // RFC 9293 section 3.8.6.1: "the first zero-window probe when a zero window has existed for the
    // retransmission timeout period", then at doubling intervals. Linux's probe has the last acknowledged
    // sequence number and no data (`tcp_xmit_probe_skb`). SRTT 50: the timeout is 250 ms.
    let mut s = offered(16);
    s.write(100, 10_000);
    s.rest();
    s.peer(150, ". ack=2001 win=0");
    for ms in [400, 900, 1900, 3900] {
        s.us(ms, ". 2000:2000 ack=1");
    }
    // When the window opens, data is sent at once, and the timeout has no backoff.
    s.peer(4000, ". ack=2001 win=8");
    s.us(4000, ". 2001:3001");
    s.peer(4050, ". ack=3001 win=0");
    s.us(4300, ". 3000:3000");
}

#[test]
fn a_window_that_opens_before_the_probe_ends_the_wait() {
    let mut s = offered(16);
    s.write(100, 3000);
    s.rest();
    s.peer(150, ". ack=2001 win=0");
    s.peer(200, ". ack=2001 win=8");
    s.us(200, ". 2001:3001");
    s.peer(250, ". ack=3001 win=8");
    s.silence(5000);
}

/// A host on which a segment of 1000 bytes uses 2000 bytes of memory. Half of the buffer is window, before
/// and after the first segment.
fn half() -> HostModel {
    HostModel { receive_memory_per_segment: 2000, ..config().host }
}

/// A server with a window of 8 KiB whose application does not read.
fn unread() -> Script {
    let config = Config { receive_buffer_initial: 16_384, host: half(), ..thousands() };
    let mut s = Script::server(config);
    s.reading = false;
    s.peer(0, "S");
    // 8192 bytes are rounded down to whole segments of 1012.
    s.us(0, "S. win=8096");
    s.peer(50, ".");
    s
}

#[test]
fn a_reader_that_stops_closes_its_window_and_never_takes_any_back() {
    let mut s = unread();
    // `__tcp_select_window`: the free window is 8192 minus the unread bytes, rounded up to units of 128, but
    // never less than the old right edge. After 1000 bytes: 7192 -> 57 * 128 = 7296. After 2000: 6192 -> 49,
    // but 7296 - 1000 = 6296 was advertised -> 50. The right edge never moves back.
    let windows = [57, 50, 43, 36, 29, 22, 15, 8, 1];
    let mut edge = 0;
    for (n, window) in windows.into_iter().enumerate() {
        let (from, to) = (1 + 1000 * n as u64, 1001 + 1000 * n as u64);
        let ms = 100 + 300 * n as u64;
        s.peer(ms, &format!(". {from}:{to} ack=1"));
        s.us_within(0, ms, ms + 220, &format!(". ack={to} win={window}"));
        assert!(to + window * 128 >= edge, "the right edge went back");
        edge = to + window * 128;
    }
    // The window is filled to the last byte.
    s.peer(3000, ". 9001:9129 ack=1");
    s.us_within(0, 3000, 3220, ". ack=9129 win=0");
    // Six thousand bytes are read, which are six whole packets. The other four use memory: three with 2000
    // bytes each, and the last one with 1280 (128 bytes of data, 456 of overhead, in buffers of 1024 + 256).
    // Half of the sum 7280 is window: 8192 - 3640 -> 36 * 128. This is more than twice the old window of 0,
    // so it is advertised at once (`tcp_cleanup_rbuf`).
    s.read(4000, 6000);
    s.us(4000, ". ack=9129 win=36");
    assert_eq!(s.received, film(0, 6000));
}

/// Like [`unread`], filled to the last byte.
fn full() -> Script {
    let mut s = unread();
    for n in 0..9 {
        s.peer(100 + 250 * n, &format!(". {}:{} ack=1", 1 + 1000 * n, 1001 + 1000 * n));
    }
    s.peer(3000, ". 9001:9129 ack=1");
    s.run_to(at(4000));
    s.rest();
    s
}

#[test]
fn a_probe_of_our_closed_window_is_answered() {
    let mut s = unread();
    for n in 0..9 {
        s.peer(100 + n, &format!(". {}:{} ack=1", 1 + 1000 * n, 1001 + 1000 * n));
    }
    s.run_to(at(500));
    s.rest();
    s.peer(600, ". 9000:9000 ack=1");
    s.us(600, ". ack=9001");
}

/// An MPTCP server with segments of 1000 bytes. Its peer advertises 125 * 128 = 16,000 bytes. The scheduler
/// fills the congestion windows of the subflows in turn, ten segments each.
fn sixteen_thousand() -> Script {
    let scheduler = PluginChoice::named("min-rtt");
    let mut s = Script::server(Config { mss: 1036, scheduler, ..config() });
    s.peer(0, "S mpc win=16000");
    s.us(0, "S. mpc-key");
    s.peer(50, ". mpc-keys win=125");
    s
}

/// Like [`sixteen_thousand`], with a join. 40,000 bytes are written at 200 ms. The resulting segments are not
/// checked.
fn sixteen_thousand_over_two() -> Script {
    let mut s = sixteen_thousand();
    s.peer_on(1, 100, "S join win=16000");
    s.us_on(1, 100, "S. join-hmac");
    s.peer_on(1, 150, ". join-ack win=125");
    s.us_on(1, 150, ".");
    s.write(200, 40_000);
    s.rest();
    s
}

#[test]
fn one_window_holds_for_all_subflows() {
    // RFC 8684 section 3.3.1: the window is relative to the DATA_ACK and shared.
    let mut s = sixteen_thousand_over_two();
    let sent = s.sent_on(0) + s.sent_on(1);
    assert_eq!(sent, 16_000, "the congestion windows have room for 20,000");
    assert!(s.sent_on(0) > 0 && s.sent_on(1) > 0);
    // The subflows acknowledge data, but the DATA_ACK does not advance. The right edge stays.
    let acks = [s.sent_on(0) + 1, s.sent_on(1) + 1];
    s.peer_on(0, 250, &format!(". ack={} dack4=0 win=125", acks[0]));
    s.peer_on(1, 250, &format!(". ack={} dack4=0 win=125", acks[1]));
    s.silence(250);
    // A DATA_ACK on either subflow moves the edge.
    s.peer_on(1, 260, &format!(". ack={} dack4=16000 win=125", acks[1]));
    s.rest();
    assert_eq!(s.sent_on(0) + s.sent_on(1), 32_000);
}

#[test]
fn a_duplicate_that_brings_a_data_ack_is_believed_to_leave_the_window_as_it_was() {
    // ack_update_msk: `wnd_end` is the DATA_ACK plus the subflow's `snd_wnd`. A duplicate cannot shrink that
    // window (tcp_may_update_window).
    let mut s = sixteen_thousand_over_two();
    assert_eq!((s.sent_on(0), s.sent_on(1)), (10_000, 6000));
    s.peer_on(0, 250, ". ack=10001 dack4=10000 win=125");
    s.rest();
    assert_eq!(s.sent_on(0) + s.sent_on(1), 26_000);
    // The peer means 12,000 + 109 * 128 = 25,952. Linux computes 12,000 + 16,000.
    s.peer_on(1, 260, ". ack=1 dack4=12000 win=109");
    s.rest();
    assert_eq!(s.sent_on(0) + s.sent_on(1), 28_000);
}

#[test]
fn a_late_data_ack_takes_nothing_back() {
    let mut s = sixteen_thousand();
    s.write(100, 8000);
    s.rest();
    s.peer(150, ". ack=8001 dack4=8000 win=125");
    // An older acknowledgement arrives late, with a smaller window.
    s.peer(151, ". ack=8001 dack4=4000 win=8");
    s.write(160, 10_000);
    s.rest();
    // 4000 + 8 * 128 would permit nothing.
    assert_eq!(s.sent_on(0), 18_000);
}

#[test]
fn the_edge_we_promise_is_the_same_on_every_subflow() {
    // `mptcp_set_rwin`: the right edge that one subflow advertised applies to all, and never moves back.
    let config = Config { receive_buffer_initial: 16_384, host: half(), ..config() };
    let mut s = Script::multipath(config, 50);
    s.reading = false;
    s.join(1, 200, 100);
    let mut edge = 0;
    for n in 0..6u64 {
        let (path, ms) = ((n % 2) as usize, 300 + 300 * n);
        let from = 1 + 1000 * (n / 2);
        let map = format!("map={}+1000@{from}", 1000 * n);
        s.peer_on(path, ms, &format!(". {from}:{} ack=1 dack4=0 {map}", from + 1000));
        let answer = s.us_within(path, ms, ms + 220, &format!(". dack8={}", 1000 * (n + 1)));
        let now = 1000 * (n + 1) + u64::from(answer.window) * 128;
        // The field counts units of 128 bytes and is rounded down. The advertised window may be up to 127
        // bytes less.
        assert!(now + 128 > edge, "{now} after {edge}");
        edge = now.max(edge);
    }
}

#[test]
fn a_connection_window_whose_opening_was_lost_is_probed() {
    // mptcp_sendmsg_frag, zero_window_probe: if nothing is outstanding and the window is closed, the last
    // acknowledged byte is sent again. Otherwise a lost window update would stop the connection forever.
    let mut s = Script::server(Config { mss: 1036, ..config() });
    s.peer(0, "S mpc win=2048");
    s.us(0, "S. mpc-key");
    s.peer(50, ". mpc-keys win=16");
    s.write(100, 10_000);
    s.rest();
    assert_eq!(s.sent_on(0), 2048);
    s.peer(150, ". ack=2049 dack4=2048 win=0");
    s.rest();
    // The subflow's own window is closed too. Its probes are sent first, at doubling intervals.
    let probes = s.rest_until(8000);
    assert!((3..=6).contains(&probes.len()), "{probes:?}");
    assert!(probes.iter().all(|(_, _, line)| line.starts_with(". 2048:2048 ")), "{probes:?}");
    // The answer opens the window, and the connection's probe byte is sent.
    s.peer(8010, ". ack=2049 dack4=2048 win=16");
    // The largest advertised window was 2048 bytes, so segments have half of that (`tcp_bound_to_half_wnd`).
    s.us(8010, ". 2049:3049 map=2047+1000@2049");
    s.rest();
    // 2048 bytes of window permit 2000; the last 49 wait.
    assert_eq!(s.sent_on(0), 4048);
}

#[test]
fn a_third_packet_may_offer_less_than_the_syn_did() {
    // tcp_rcv_state_process, SYN_RECV: snd_wnd comes from the third packet; RFC 9293 section 3.8.6 (MUST-34):
    // "a sending TCP peer MUST be robust against window shrinking".
    let mut s = Script::server(thousands());
    s.peer(0, "S");
    s.us(0, "S.");
    s.peer(50, ". win=24");
    s.write(100, 10_000);
    s.rest();
    assert_eq!(s.sent_on(0), 3000);
}

#[test]
fn the_answer_to_a_probe_restarts_the_wait() {
    // tcp_ack_probe: the timer is restarted, and the backoff is kept.
    let mut s = offered(16);
    s.write(100, 10_000);
    s.rest();
    s.peer(150, ". ack=2001 win=0");
    s.us(400, ". 2000:2000");
    s.peer(450, ". ack=2001 win=0");
    s.us(950, ". 2000:2000");
}

#[test]
fn a_window_smaller_than_a_segment_is_used_when_the_probe_is_due() {
    // RFC 9293 section 3.8.6.2.1 (the override timeout); tcp_write_wakeup sends as much as fits.
    let mut s = offered(16);
    s.write(100, 10_000);
    s.rest();
    s.peer(150, ". ack=2001 win=4");
    s.us(400, ". 2001:2513");
}

#[test]
fn window_opening_below_one_segment_is_not_advertised() {
    // tcp_cleanup_rbuf calls __tcp_select_window, which returns 0 below one segment (RFC 9293 section
    // 3.8.6.2.2).
    let mut s = full();
    s.read(4000, 1000);
    s.silence(4500);
}

#[test]
fn unanswered_window_probes_close_the_connection() {
    let mut s = offered(16);
    s.write(100, 10_000);
    s.rest();
    s.peer(150, ". ack=2001 win=0");
    s.run_to(at(900_000));
    assert!(!s.has(Event::Closed));
    // 15 probes, starting at 250 ms and doubling up to 2 minutes, and one more interval.
    s.run_to(at(1_200_000));
    assert!(s.has(Event::Closed));
    assert_eq!(s.rest().len(), 15);
}

#[test]
fn data_beyond_our_window_is_not_taken() {
    // RFC 9293 section 3.10.7.4, tcp_sequence(): the data is dropped, and an acknowledgement is sent.
    let mut s = full();
    s.peer(4100, ". 20001:21001 ack=1");
    let answer = s.us(4100, ". ack=9129");
    assert!(answer.sack.is_empty(), "{answer:?}");
}

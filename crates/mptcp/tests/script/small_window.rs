//! Tests of windows smaller than two segments, and of windows that the peer shrinks.
//!
//! A window of `win=8` is 8 * 128 bytes, as in `window.rs`.

use anabranch_mptcp::{Config, HostModel};

use crate::dialect::{Script, at, config, thousands};

/// A server whose peer advertises at most `units` * 128 bytes.
fn narrow(multipath: bool, units: u64) -> Script {
    let base = if multipath { Config { mss: 1036, ..config() } } else { thousands() };
    let mut s = Script::server(base);
    let (syn, third) = if multipath { (" mpc", " mpc-keys") } else { ("", "") };
    s.peer(0, &format!("S{syn} win={}", units * 128));
    s.us(0, "S.");
    s.peer(50, &format!(".{third} win={units}"));
    s
}

/// Returns the position after the last byte that was sent.
fn sent(s: &Script) -> u64 {
    s.sent_on(0) + 1
}

#[test]
fn a_peer_with_any_window_is_served_as_fast_as_it_acknowledges() {
    // RFC 9293 section 3.8.6.2.1, condition 3: send if at least half of the largest window ever offered can be sent.
    // tcp_bound_to_half_wnd halves the segment for this. Nothing waits for the override timeout of 250 ms.
    for multipath in [false, true] {
        for units in 1..30 {
            let mut s = narrow(multipath, units);
            s.write(100, 4000);
            let mut ms = 100;
            loop {
                s.rest_until(ms);
                let edge = sent(&s);
                ms += 1;
                let dack = if multipath { format!(" dack8={}", edge - 1) } else { String::new() };
                s.peer(ms, &format!(". ack={edge} win={units}{dack}"));
                if edge == 4001 {
                    break;
                }
                s.rest_until(ms);
                assert!(sent(&s) > edge, "{multipath} {units}: stuck at {edge}");
                assert!(sent(&s) <= edge + units * 128, "{multipath} {units}: beyond the window");
            }
        }
    }
}

#[test]
fn a_segment_has_half_of_the_largest_window_and_grows_with_it() {
    // tcp_bound_to_half_wnd: 9 * 128 = 1152, half of which is 576; 4 * 128 = 512 is used whole. tcp_ack_update_window:
    // a new largest window allows larger segments (`tcp_sync_mss`).
    let mut s = narrow(false, 9);
    s.write(100, 10_000);
    s.us(100, ". 1:577");
    s.us(100, ". 577:1153");
    // The window has space for less than a segment, so the data waits (condition 2).
    s.peer(150, ". ack=577 win=8");
    s.silence(160);
    s.peer(161, ". ack=1153 win=50");
    for n in 0..3 {
        s.us(161, &format!(". {}:{}", 1153 + 1000 * n, 2153 + 1000 * n));
    }
    let mut s = narrow(false, 4);
    s.write(100, 1000);
    s.us(100, ". 1:513");
    s.silence(140);
}

#[test]
fn a_newer_segment_takes_window_back_though_it_acknowledges_nothing_new() {
    // RFC 9293 section 3.10.7.4: "SND.WL1 < SEG.SEQ or (SND.WL1 = SEG.SEQ and SND.WL2 =< SEG.ACK), set SND.WND <- SEG.WND";
    // tcp_may_update_window. 3.8.6 (MUST-34): "a sending TCP peer MUST be robust against window shrinking".
    let mut s = narrow(false, 100);
    s.peer(100, ". 1:101 ack=1 win=0");
    s.us(100, ". ack=101");
    s.write(110, 3000);
    // The window is closed. A probe is sent at the timeout, 250 ms after the data was written.
    s.us(360, ". 0:0 ack=101");
    s.peer(400, ". 101:201 ack=1 win=16");
    s.us(400, ". 1:1001 ack=201");
    s.us(400, ". 1001:2001");
    s.silence(440);
    // A segment with the same numbers may open the window to 24 * 128 = 3072, but may not shrink it.
    s.peer(450, ". ack=1 win=24");
    s.us(450, ". 2001:3001");
    s.write(460, 2000);
    s.peer(470, ". ack=1 win=20");
    s.silence(480);
}

#[test]
fn an_older_segment_changes_no_window() {
    // tcp_may_update_window: `after(ack_seq, tp->snd_wl1)`.
    let mut s = narrow(false, 16);
    s.peer(100, ". 1:101 ack=1 win=16");
    s.rest_until(200);
    for window in [0, 60] {
        s.peer(210, &format!(". 1:1 ack=1 win={window}"));
        s.rest();
    }
    s.write(220, 3000);
    s.us(220, ". 1:1001");
    s.us(220, ". 1001:2001");
    s.silence(250);
}

#[test]
fn only_the_oldest_segment_is_sent_again_into_a_closed_window() {
    // __tcp_retransmit_skb: "If receiver has shrunk his window, and skb is out of new window, do not retransmit it. The
    // exception is the case, when window is shrunk to zero." RFC 9293 section 3.8.6: SHLD-16, MUST-35.
    let mut s = narrow(false, 100);
    s.write(100, 4000);
    s.rest_until(120);
    s.peer(130, ". 1:101 ack=1 win=0");
    s.rest_until(300);
    let again = |s: &mut Script, ms| -> Vec<String> {
        let lines = s.rest_until(ms);
        let words = lines.iter().filter_map(|(_, _, line)| line.split(' ').nth(1));
        words.filter(|range| !range.starts_with("4001")).map(str::to_owned).collect()
    };
    let closed = again(&mut s, 2000);
    assert!(closed.len() >= 2 && closed.iter().all(|range| range == "1:1001"), "{closed:?}");
    // Two of the segments fit the window again and are sent.
    s.peer(2100, ". ack=1001 win=16");
    assert_eq!(again(&mut s, 2110).first().map(String::as_str), Some("1001:2001"));
    s.peer(2150, ". ack=4001 win=100");
    s.silence(2160);
}

#[test]
fn a_peer_that_answers_from_behind_a_closed_window_is_not_given_up() {
    // RFC 9293 section 3.8.6, SHLD-17: "SHOULD NOT time out the connection if data beyond the right window edge is not
    // acknowledged"; tcp_rtx_probe0_timed_out. Without answers the connection ends after 4 minutes of silence, or after
    // 15 minutes in all.
    for answers in [true, false] {
        let mut s = narrow(false, 100);
        s.write(100, 2000);
        s.rest_until(120);
        s.peer(130, ". 1:101 ack=1 win=0");
        for minute in 1..=20 {
            let ms = 60_000 * minute;
            s.run_to(at(ms));
            s.rest();
            if answers {
                s.peer(ms, ". ack=1 win=0");
            }
        }
        assert_eq!(s.has(anabranch_mptcp::Event::Closed), !answers);
    }
}

#[test]
fn small_receive_buffer_advertises_the_same_window_as_linux() {
    // tcp_select_initial_window: "Quantize space offering to a multiple of mss if possible". The smallest buffer has
    // 2304 bytes of memory (SOCK_MIN_RCVBUF), half of which is window. With SO_RCVBUF 1 this host's kernel offers 1152.
    let host = HostModel { timer_tick: anabranch_units::Duration::ZERO, ..HostModel::default() };
    for stack in [anabranch_mptcp::profile::Stack::default(), anabranch_mptcp::profile::MPTCP_0_94]
    {
        for (memory, window) in
            [(1, 1152), (2304, 1152), (2600, 1300), (2924, 1460), (5000, 1460), (6000, 2920)]
        {
            let buffers =
                Config { receive_buffer_initial: memory, receive_buffer_max: memory, ..config() };
            let mut s = Script::server(Config { multipath: false, host, stack, ..buffers });
            s.peer(0, "S");
            s.us(0, &format!("S. win={window}"));
        }
    }
}

#[test]
fn a_reader_with_the_smallest_buffer_gets_everything() {
    // The peer fills the offered window with 576 bytes at a time, as Linux would. No segment waits for a probe.
    let buffers = Config { receive_buffer_initial: 1, receive_buffer_max: 1, ..config() };
    let mut s = Script::server(Config { multipath: false, ..buffers });
    s.peer(0, "S");
    s.us(0, "S. win=1152");
    s.peer(50, ".");
    let (mut from, mut ms) = (1, 100);
    for _ in 0..20 {
        s.peer(ms, &format!(". {from}:{} ack=1", from + 576));
        from += 576;
        let answer = s.us_within(0, ms, ms + 45, &format!(". ack={from}"));
        assert!(answer.window >= 576, "{}", answer.window);
        ms += 50;
    }
    assert_eq!(s.received.len(), 20 * 576);
}

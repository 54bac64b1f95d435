//! Pacing: the size of paced bursts, and the interval between them (`tcp_tso_segs`,
//! `tcp_update_skb_after_send`).

use anabranch_mptcp::Config;

use anabranch_wire::Flags;

use crate::dialect::{Script, thousands};

/// Pacing applies to socket buffers, which have at least two segments (`sysctl_tcp_min_tso_segs`). SRTT is 50
/// ms, and the window is 20 in slow start. The rate is 200 % of 20,000 bytes per 50 ms, or 800 bytes per
/// millisecond. A pair therefore takes 2.5 ms. The first pair is late by more than half of that, and catches
/// up.
#[test]
fn segments_leave_in_pairs_a_pairs_time_apart() {
    let mut s = Script::plain_with(Config { pacing: true, ..thousands() }, 50);
    s.write(100, 60_000);
    let first: Vec<u64> = s.rest().into_iter().map(|(ms, _, _)| ms).collect();
    assert_eq!(first, [100; 10], "the first ten are not paced");
    s.peer(150, ". ack=10001");
    let times: Vec<u64> = s.rest_until(199).into_iter().map(|(ms, _, _)| ms).collect();
    let pairs = [150, 151, 153, 156, 158, 161, 163, 166, 168, 171];
    assert_eq!(times, pairs.map(|ms| [ms, ms]).concat());
}

/// `__tcp_transmit_skb` sets PSH on every socket buffer with several segments, and the last segment gets the
/// flag (`tcp_gso_segment`). A single segment has it only if nothing more is queued. With a window of ten and
/// 21 segments, five pairs are sent. An acknowledgement of three opens the window to 13 and permits six
/// segments, three pairs. An acknowledgement of one permits two segments, of which the second is the last
/// one.
#[test]
fn the_last_segment_of_a_socket_buffer_is_pushed() {
    let mut s = Script::plain_with(thousands(), 50);
    s.write(100, 21_000);
    let mut position = 1;
    let mut pushed = |s: &mut Script, ms: u64, count: u64| -> Vec<bool> {
        let flags =
            |n: u64| s.us(ms, &format!(". {}:{}", position + 1000 * n, position + 1000 * (n + 1)));
        let found =
            (0..count).map(flags).map(|segment| segment.flags.contains(Flags::PSH)).collect();
        position += 1000 * count;
        found
    };
    assert_eq!(pushed(&mut s, 100, 10), [false, true].repeat(5));
    s.peer(150, ". ack=3001");
    assert_eq!(pushed(&mut s, 150, 6), [false, true].repeat(3));
    // Five segments may be sent. The last one is alone in its buffer, and no data follows it.
    s.peer(160, ". ack=13001");
    assert_eq!(pushed(&mut s, 160, 5), [false, true, false, true, true]);
}

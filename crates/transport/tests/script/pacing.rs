//! Pacing: what leaves together, and when the next may follow (`tcp_tso_segs`, `tcp_update_skb_after_send`).

use anabranch_transport::Config;

use crate::dialect::{Script, thousands};

/// Socket buffers are paced and not segments, and a buffer takes two segments at least
/// (`sysctl_tcp_min_tso_segs`). SRTT 50 ms and a window of 20 in slow start: 200 % of 20,000 bytes in
/// 50 ms are 800 bytes a millisecond, so that a pair takes 2.5 ms; the first one is late by more than
/// half of that, which it catches up.
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

//! Acknowledgements of out-of-order data: three are sent at once, later ones are delayed and combined
//! (`__tcp_ack_snd_check`, `tcp_sack_new_ofo_skb`).
//!
//! Small segments do not open the window. A flow starts with sixteen quick acknowledgements, and one more for
//! the window that the first segment opens. They are used up before the tests.

use anabranch_mptcp::profile::MPTCP_0_94;
use anabranch_mptcp::{Config, Stack};

use crate::dialect::{Script, thousands};

/// A flow whose bytes 1 to 2000 have arrived and are acknowledged.
fn begun(stack: Stack) -> Script {
    let mut s = Script::plain_with(Config { stack, ..thousands() }, 50);
    // The second segment gives the receiver an RTT.
    s.peer(300, ". 1:601");
    s.peer(350, ". 601:1201");
    for n in 0..32 {
        s.peer(400 + 50 * n, &format!(". {}:{}", 1201 + 25 * n, 1226 + 25 * n));
    }
    s.run_to(crate::dialect::at(1999));
    s.rest();
    s
}

/// Segments of 100 bytes with these numbers arrive at `ms`. Segment 0 is the next expected one.
fn arrive(s: &mut Script, ms: u64, numbers: &[u64]) {
    for n in numbers {
        s.peer(ms, &format!(". {}:{}", 2001 + 100 * n, 2101 + 100 * n));
    }
}

/// Returns the times of acknowledgements until `ms`, and their SACK blocks as ranges of segment numbers.
fn told(s: &mut Script, ms: u64) -> Vec<(u64, Vec<(u64, u64)>)> {
    let block = |block: &str| {
        let (from, to) = block.split_once(':').expect("a block");
        let number = |at: &str| (at.parse::<u64>().expect("a position") - 2001) / 100;
        (number(from), number(to))
    };
    let lines = s.rest_until(ms);
    let sack = |line: &str| {
        let words = line.split(' ').find_map(|word| word.strip_prefix("sack=").map(str::to_owned));
        words.map_or(vec![], |sack| sack.split(',').map(block).collect())
    };
    lines.iter().map(|(at, _, line)| (*at, sack(line))).collect()
}

#[test]
fn three_duplicates_are_acknowledged_at_once_and_those_behind_them_together() {
    let mut s = begun(Stack::default());
    arrive(&mut s, 2000, &[1, 2, 3, 4, 5, 6]);
    let at_once = [(2000, vec![(1, 2)]), (2000, vec![(1, 3)]), (2000, vec![(1, 4)])];
    assert_eq!(told(&mut s, 2000), at_once);
    // The delay is a millisecond and a tenth, because a twentieth of the RTT is longer.
    assert_eq!(told(&mut s, 2010), [(2001, vec![(1, 7)])]);
    // From here on, acknowledgements are delayed until `rcv_nxt` changes.
    arrive(&mut s, 2020, &[7]);
    assert_eq!(told(&mut s, 2020), []);
    assert_eq!(told(&mut s, 2030), [(2021, vec![(1, 8)])]);
    arrive(&mut s, 2040, &[9, 0, 10, 11, 12, 13]);
    // `rcv_nxt` has changed. The delayed acknowledgement is sent with the first of three.
    let at_once = [10, 11, 12].map(|to| (2040, vec![(9, to)]));
    assert_eq!(told(&mut s, 2040), at_once);
    assert_eq!(told(&mut s, 2050), [(2041, vec![(9, 14)])]);
    // All gaps are filled, so the acknowledgement is sent at once.
    arrive(&mut s, 2060, &[8]);
    assert_eq!(told(&mut s, 2060), [(2060, vec![])]);
    assert_eq!(told(&mut s, 2100), []);
}

#[test]
fn a_third_block_is_not_waited_for() {
    // Each acknowledgement with two blocks may be the only one that arrives. Such an acknowledgement is sent
    // before a third block appears.
    let mut s = begun(Stack::default());
    arrive(&mut s, 2000, &[1, 2, 3]);
    told(&mut s, 2000);
    arrive(&mut s, 2000, &[5]);
    assert_eq!(told(&mut s, 2000), [], "the second");
    arrive(&mut s, 2000, &[7]);
    assert_eq!(told(&mut s, 2000), [(2000, vec![(5, 6), (1, 4)])], "before the third");
    // The third segment caused only that acknowledgement. No acknowledgement is pending when the next segment
    // arrives.
    arrive(&mut s, 2000, &[9]);
    assert_eq!(told(&mut s, 2000), []);
    assert_eq!(told(&mut s, 2010), [(2001, vec![(9, 10), (7, 8), (5, 6)])]);
    // Four ranges are remembered (`TCP_NUM_SACKS`). Of the fifth, only the next segment is reported.
    arrive(&mut s, 2020, &[11]);
    told(&mut s, 2030);
    arrive(&mut s, 2040, &[4]);
    assert_eq!(told(&mut s, 2050), [(2041, vec![(4, 6), (11, 12), (9, 10)])]);
}

#[test]
fn older_kernels_acknowledge_each() {
    // Before Linux 4.18, every segment was acknowledged at once while data was out of order.
    let mut s = begun(MPTCP_0_94);
    arrive(&mut s, 2000, &[1, 2, 3, 4, 5, 6]);
    let ends: Vec<_> = told(&mut s, 2100).iter().map(|(at, blocks)| (*at, blocks[0].1)).collect();
    assert_eq!(ends, [(2000, 2), (2000, 3), (2000, 4), (2000, 5), (2000, 6), (2000, 7)]);
}

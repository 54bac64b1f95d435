//! Subflows without progress: connection-level retransmission, when a subflow is found stale, when a
//! backup is used (`__mptcp_retrans`, `mptcp_subflow_get_retrans`, `mptcp_pm_subflow_chk_stale`).

use anabranch_transport::Event;
use anabranch_units::SubflowId;
use anabranch_wire::MptcpOption;

use crate::dialect::{Script, at, config};

/// Two subflows; a thousand bytes went on the first at 500 ms, and nothing comes back on it.
fn silent() -> Script {
    let mut s = Script::multipath(config(), 50);
    s.join(1, 200, 100);
    s.write(500, 1000);
    s.us(500, ". 1:1001 map=0+1000@1");
    s
}

/// When something was put on a path until `end` ms; what is put on the other subflow the peer
/// acknowledges there, but its data stays incomplete.
fn repetitions(s: &mut Script, path: usize, end: u64) -> Vec<u64> {
    let mut times = Vec::new();
    for ms in (500..end).step_by(10) {
        s.run_to(at(ms));
        let said = s.rest();
        let data = |line: &str| {
            line.split(' ').nth(1).is_some_and(|range| {
                let (from, to) = range.split_once(':').expect("a range");
                from != to
            })
        };
        let heard = said.iter().filter(|(_, on, line)| *on == path && data(line));
        let heard: Vec<u64> = heard.map(|(ms, _, _)| *ms).collect();
        if !heard.is_empty() {
            s.peer_on(path, ms, ". dack4=0");
        }
        times.extend(heard);
        s.rest();
    }
    times
}

#[test]
fn the_fifth_timer_in_a_row_finds_a_subflow_stale() {
    // `net.mptcp.stale_loss_cnt` is 4: the first expiry notes when the subflow was last heard, three more
    // count it up to 4, and the one that counts it to 5 finds it stale.
    let mut s = silent();
    let times = repetitions(&mut s, 1, 10_000);
    let stale = s.events.iter().find(|(_, e)| *e == Event::SubflowStale(SubflowId(0)));
    let stale = stale.expect("stale at some time").0.as_nanos() / 1_000_000;
    let before = times.iter().filter(|ms| **ms < stale).count();
    assert_eq!(before, 4, "repeated at {times:?}, stale at {stale}");
}

#[test]
fn a_backup_helps_only_when_nothing_makes_progress_elsewhere() {
    // mptcp_subflow_get_retrans: `min_stale_count > 1 ? backup : NULL`: not at the first expiry.
    let mut s = Script::multipath(config(), 50);
    s.join(1, 200, 100);
    let mut prio = s.composed(". 1:1 ack=1");
    prio.mptcp.push(MptcpOption::Prio { backup: true });
    s.deliver(300, &prio);
    s.rest();
    s.write(500, 1000);
    s.us_on(1, 500, ". 1:1001 map=0+1000@1");
    // The connection's timer runs 200 ms where no healthy subflow's timer is known (mptcp_set_timeout,
    // `TCP_RTO_MIN`): the first expiry, at 700 ms, notes that nothing moves; at 900 ms it is the second.
    s.run_to(at(2000));
    let first = s.rest().into_iter().find(|(_, path, _)| *path == 0).expect("the backup helps");
    assert_eq!(first.0, 900, "{first:?}");
}

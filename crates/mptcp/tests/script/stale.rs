//! Subflows without progress: connection-level retransmission, the detection of stale subflows, and the use
//! of backups (`__mptcp_retrans`, `mptcp_subflow_get_retrans`, `mptcp_pm_subflow_chk_stale`).

use anabranch_mptcp::Event;
use anabranch_units::SubflowId;
use anabranch_wire::MptcpOption;

use crate::dialect::{Script, at, config};

/// Two subflows. 1000 bytes are sent on the first at 500 ms, and nothing is received on it.
fn silent() -> Script {
    let mut s = Script::multipath(config(), 50);
    s.join(1, 200, 100);
    s.write(500, 1000);
    s.us(500, ". 1:1001 map=0+1000@1");
    s
}

/// Returns the times of data segments on a path until `end` ms. The peer acknowledges them on that subflow,
/// but the data stream stays incomplete.
fn repetitions(s: &mut Script, path: usize, end: u64) -> Vec<u64> {
    first_repetitions(s, path, end, usize::MAX)
}

/// Like [`repetitions`], but the peer acknowledges only the first `answered` times.
fn first_repetitions(s: &mut Script, path: usize, end: u64, answered: usize) -> Vec<u64> {
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
        if !heard.is_empty() && times.len() < answered {
            s.peer_on(path, ms, ". dack4=0");
        }
        times.extend(heard);
        s.rest();
    }
    times
}

#[test]
fn the_fifth_timer_in_a_row_finds_a_subflow_stale() {
    // `net.mptcp.stale_loss_cnt` is 4. The first expiry stores the time of the last acknowledgement. The next
    // three count up to 4. The fifth one marks the subflow as stale.
    let mut s = silent();
    let times = repetitions(&mut s, 1, 10_000);
    let stale = s.events.iter().find(|(_, e)| *e == Event::SubflowStale(SubflowId(0)));
    let stale = stale.expect("stale at some time").0.as_nanos() / 1_000_000;
    let before = times.iter().filter(|ms| **ms < stale).count();
    assert_eq!(before, 4, "repeated at {times:?}, stale at {stale}");
}

#[test]
fn a_backup_helps_only_when_nothing_makes_progress_elsewhere() {
    // mptcp_subflow_get_retrans: `min_stale_count > 1 ? backup : NULL`. The backup is not used at the first
    // expiry.
    let mut s = Script::multipath(config(), 50);
    s.join(1, 200, 100);
    let mut prio = s.composed(". 1:1 ack=1");
    prio.mptcp.push(MptcpOption::Prio { backup: true });
    s.deliver(300, &prio);
    s.rest();
    s.write(500, 1000);
    s.us_on(1, 500, ". 1:1001 map=0+1000@1");
    // The connection's timer runs for 200 ms if no healthy subflow has a timer (mptcp_set_timeout,
    // `TCP_RTO_MIN`). The first expiry is at 700 ms, and the second at 900 ms.
    s.run_to(at(2000));
    let first = s.rest().into_iter().find(|(_, path, _)| *path == 0).expect("the backup helps");
    assert_eq!(first.0, 900, "{first:?}");
}

#[test]
fn an_only_subflow_is_never_stale() {
    // mptcp_pm_subflow_chk_stale: another subflow must be active, and the join is closed.
    let mut s = silent();
    s.peer_on(1, 510, "R 1:1");
    s.rest_until(60_000);
    assert!(!s.connection().is_closed());
    assert!(!s.has(Event::SubflowStale(SubflowId(0))));
}

#[test]
fn a_subflow_that_is_silent_itself_is_no_help() {
    // The other subflow must have a count below `stale_loss_cnt` - 1 = 3. The first expiry sends data on it.
    // Without an answer, its count starts at the second expiry and is 3 at the fifth. With one answer, it is
    // 2.
    for (answered, stale) in [(0, false), (1, true)] {
        let mut s = silent();
        first_repetitions(&mut s, 1, 20_000, answered);
        assert_eq!(s.has(Event::SubflowStale(SubflowId(0))), stale, "{answered} answered");
    }
}

#[test]
fn an_acknowledgement_brings_a_stale_subflow_back() {
    // mptcp_subflow_active: a stale subflow gets no data, even if it is the only idle one.
    let mut s = silent();
    repetitions(&mut s, 1, 10_000);
    assert!(s.has(Event::SubflowStale(SubflowId(0))));
    s.peer_on(1, 10_000, ". dack4=1000 prio=B");
    s.rest();
    let next = 1 + s.sent_on(1);
    s.write(10_010, 100);
    s.us_on(1, 10_010, &format!(". map=1000+100@{next}"));
    s.peer_on(1, 10_020, ". dack4=1100");
    s.rest();
    // The peer acknowledges on the subflow again, and the other one is now a backup.
    s.peer(10_030, ". ack=1001 dack4=1100");
    s.write(10_040, 100);
    s.us(10_040, ". map=1100+100@1001");
}

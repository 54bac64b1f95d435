//! Subflows without SACK whose losses are repaired. TCP stays in Recovery or Loss until newer data is
//! acknowledged (`tcp_try_undo_recovery`). A scheduler that never uses such a subflow would wait forever.

use anabranch_mptcp::{Config, profile};
use anabranch_plugin::PluginChoice;
use anabranch_scheduler as scheduler;

use crate::dialect::{Script, config};

/// The out-of-tree kernel, but with 64-bit data sequence numbers, which the dialect requires.
const OUT_OF_TREE: profile::Stack = profile::Stack {
    mptcp: profile::MptcpStack { short_data_numbers: false, ..profile::MPTCP_0_94.mptcp },
    ..profile::MPTCP_0_94
};

/// A server on one subflow without SACK, with segments of 1000 bytes.
fn without_sack(name: &str, stack: profile::Stack) -> Script {
    let scheduler = PluginChoice::named(name);
    let mut s = Script::server(Config { mss: 1036, scheduler, stack, ..config() });
    s.peer(0, "S mpc nosack");
    s.us(0, "S. mpc-key");
    s.peer(50, ". mpc-keys");
    s
}

/// Calls `look` for every scheduler in both kernel generations.
fn every_scheduler(mut look: impl FnMut(&str, Script)) {
    for stack in [profile::Stack::default(), OUT_OF_TREE] {
        let name = scheduler::names().map(|known| known.name);
        name.for_each(|name| look(name, without_sack(name, stack)));
    }
}

/// Returns the number of new bytes that are sent at once when 1000 more are written at `ms`.
fn sent_of_more(s: &mut Script, ms: u64) -> u64 {
    s.run_to(crate::dialect::at(ms));
    s.rest();
    let before = s.sent_on(0);
    s.write(ms, 1000);
    s.rest_until(ms + 1);
    s.sent_on(0) - before
}

#[test]
fn every_scheduler_sends_on_a_subflow_in_loss_whose_data_is_all_acknowledged() {
    // mptcp_is_temp_unavailable (v0.94): in Loss, a subflow with SACK is unavailable; without SACK it is unavailable
    // if `snd_una != high_seq`. mptcp_subflow_get_send (upstream) ignores the state. SRTT 50: the timeout is 250 ms.
    every_scheduler(|name, mut s| {
        s.write(100, 3000);
        s.run_to(crate::dialect::at(400));
        let timeouts = s.connection().view().samples().next().map(|sample| sample.totals.timeouts);
        assert_eq!(timeouts, Some(1), "{name}");
        s.peer(420, ". ack=3001 dack8=3000");
        assert_eq!(sent_of_more(&mut s, 500), 1000, "{name}");
    });
}

#[test]
fn every_scheduler_sends_on_a_subflow_in_recovery_whose_data_is_all_acknowledged() {
    every_scheduler(|name, mut s| {
        s.write(100, 10_000);
        s.rest_until(140);
        for ms in 150..154 {
            s.peer(ms, ". ack=1001 dack8=1000");
        }
        s.rest();
        s.peer(200, ". ack=10001 dack8=10000");
        assert_eq!(sent_of_more(&mut s, 300), 1000, "{name}");
    });
}

#[test]
fn the_out_of_tree_rule_refuses_a_subflow_in_loss_that_is_not_repaired() {
    let mut s = without_sack("min-rtt", OUT_OF_TREE);
    s.write(100, 3000);
    s.run_to(crate::dialect::at(400));
    s.peer(420, ". ack=2001 dack8=2000");
    assert_eq!(sent_of_more(&mut s, 430), 0);
}

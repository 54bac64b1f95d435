//! Explicit congestion notification (RFC 3168 section 6.1; Linux's `tcp_ecn_*` in `tcp_input.c` and
//! `tcp_output.c`).

use anabranch_congestion::CongestionState;
use anabranch_mptcp::{Config, EcnMode};
use anabranch_plugin::PluginChoice;
use anabranch_wire::{Ecn, Flags};

use crate::dialect::{Script, config, thousands};

fn with(ecn: EcnMode) -> Config {
    Config { ecn, ..thousands() }
}

/// A server that negotiated ECN with the peer, 50 ms after its SYN.
fn agreed() -> Script {
    agreed_with(with(EcnMode::Accept))
}

/// Like [`agreed`], with this configuration.
fn agreed_with(config: Config) -> Script {
    let mut s = Script::server(config);
    s.peer(0, "SEW");
    s.us(0, "S.E ack=1");
    s.peer(50, ".");
    s
}

/// Like [`agreed`], with ten segments of 1000 bytes sent at 100 ms and `more` bytes to send.
fn ten_sent(more: usize) -> Script {
    let mut s = agreed();
    s.write(100, 10_000 + more);
    for n in 0..10 {
        s.us(100, &format!(". {}:{} ect0", 1 + 1000 * n, 1001 + 1000 * n));
    }
    s.silence(149);
    s
}

/// Like [`agreed`], after a request was answered, so that acknowledgements are delayed by 40 ms.
fn interactive() -> Script {
    answered(agreed())
}

/// Receives and answers a request.
fn answered(mut s: Script) -> Script {
    s.peer(100, ". 1:101");
    s.us(100, ". 1:1 ack=101");
    s.write(110, 1000);
    s.us(110, ". 1:1001 ack=101 ect0");
    s.peer(160, ".");
    s
}

/// A configuration with a controller that counts each mark.
fn counts_marks() -> Config {
    let congestion = PluginChoice::parse("bbr3(ecn = true)").expect("a choice");
    Config { congestion, ..with(EcnMode::Accept) }
}

/// Returns the ECN flags of our answer to a SYN.
fn answer(mode: EcnMode, syn: &str) -> Flags {
    let mut s = Script::server(with(mode));
    s.peer(0, syn);
    s.us(0, "").flags.without(Flags::SYN).without(Flags::ACK)
}

#[test]
fn ecn_syn_carries_ece_and_cwr_and_its_answer_only_ece() {
    // RFC 3168 section 6.1.1: an ECN-setup SYN has ECE and CWR. An ECN-setup SYN/ACK has only ECE.
    assert_eq!(answer(EcnMode::Accept, "SEW"), Flags::ECE);
    assert_eq!(answer(EcnMode::Request, "SEW"), Flags::ECE);
    assert_eq!(answer(EcnMode::Off, "SEW"), Flags::default());
    for syn in ["S", "SE", "SW"] {
        assert_eq!(answer(EcnMode::Accept, syn), Flags::default(), "{syn}");
    }
}

#[test]
fn a_syn_that_is_itself_ecn_capable_is_not_believed() {
    // tcp_ecn_create_request: "SYN MUST NOT have ECT". A node on the path has changed the field.
    for codepoint in ["ect0", "ect1", "ce"] {
        assert_eq!(answer(EcnMode::Accept, &format!("SEW {codepoint}")), Flags::default());
    }
}

/// Returns whether a client that requests ECN sends ECN-capable data after this SYN/ACK.
fn agrees(answer: &str) -> bool {
    let mut s = Script::client(with(EcnMode::Request), 1);
    let syn = s.us(0, "SEW");
    assert_eq!(syn.ecn, Ecn::NotEct, "RFC 3168 section 6.1.1: a SYN is not ECN-capable");
    s.peer(50, answer);
    s.us(50, ".");
    s.write(60, 1000);
    s.us(60, ". 1:1001").ecn == Ecn::Ect0
}

#[test]
fn the_initiator_takes_ece_alone_for_an_agreement() {
    // tcp_ecn_rcv_synack: a SYN/ACK with both flags comes from a host that copies the flags of the SYN.
    assert!(agrees("S.E"));
    assert!(!agrees("S.") && !agrees("S.EW") && !agrees("S.W"));
}

#[test]
fn accepting_client_does_not_request_ecn() {
    for mode in [EcnMode::Accept, EcnMode::Off] {
        let mut s = Script::client(with(mode), 1);
        s.us(0, "S");
        // A SYN/ACK with ECE does not enable ECN either.
        s.peer(50, "S.E");
        s.us(50, ".");
        s.write(60, 1000);
        assert_eq!(s.us(60, ". 1:1001").ecn, Ecn::NotEct);
    }
}

#[test]
fn retransmitted_syn_does_not_request_ecn() {
    // RFC 3168 section 6.1.1.1, tcp_ecn_clear_syn: the first SYN may have been dropped because of its flags.
    let mut s = Script::client(with(EcnMode::Request), 1);
    s.us(0, "SEW");
    s.us(1000, "S");
    s.us(2000, "S");
    s.peer(2050, "S.");
    s.us(2050, ".");
    s.write(2100, 1000);
    assert_eq!(s.us(2100, ". 1:1001").ecn, Ecn::NotEct);
    // A late answer to the first SYN still negotiates ECN (tcp_ecn_rcv_synack).
    let mut s = Script::client(with(EcnMode::Request), 1);
    s.us(0, "SEW");
    s.us(1000, "S");
    s.peer(1050, "S.E");
    s.us(1050, ".");
    s.write(1100, 1000);
    s.us(1100, ". 1:1001 ect0");
}

#[test]
fn joins_agree_each_for_itself() {
    let mut s = Script::multipath(config(), 50);
    s.peer(100, ". 1:19 dack4=0 map=0+18@1");
    s.rest_until(200);
    s.peer_on(1, 200, "SEW join");
    s.us_on(1, 200, "S.E join-hmac");
    s.peer_on(1, 250, ". join-ack");
    s.us_on(1, 250, ". ack=1");
    s.peer_on(2, 260, "S join");
    s.us_on(2, 260, "S. join-hmac");
    // The join's data is marked on the path, and only the join echoes the mark.
    s.peer_on(1, 300, ". 1:1001 dack4=0 map=18+1000@1 ce");
    s.us_on(1, 300, ".E ack=1001");
    s.peer_on(0, 310, ". 19:1019 dack4=0 map=1018+1000@19 ce");
    s.us_on(0, 310, ". ack=1019");
}

#[test]
fn client_requests_ecn_on_every_join() {
    let mut s = Script::client(Config { ecn: EcnMode::Request, ..config() }, 2);
    s.us(0, "SEW mpc");
    s.peer(50, "S.E mpc-key");
    s.us(50, ". mpc-keys");
    s.peer(100, ". dack4=0");
    let (_, path, line) = s.rest_until(100).remove(0);
    assert!(path == 1 && line.starts_with("SEW "), "{line}");
}

#[test]
fn only_new_data_is_ecn_capable() {
    // RFC 3168 sections 6.1.4 and 6.1.5: acknowledgements and retransmissions are not ECN-capable.
    let mut s = ten_sent(0);
    s.peer(150, ". 1:101 ack=1");
    assert_eq!(s.us(150, ". ack=101").ecn, Ecn::NotEct);
    s.peer(151, ". ack=1 sack=1001:4001");
    let again = s.us(151, ". 1:1001");
    assert_eq!(again.ecn, Ecn::NotEct);
    let mut s = agreed();
    s.shutdown(100);
    assert_eq!(s.us(100, "F. 1:1").ecn, Ecn::NotEct, "a FIN without data");
}

#[test]
fn a_probe_of_a_closed_window_is_not_ecn_capable() {
    // RFC 3168 section 6.1.6.
    let mut s = agreed();
    s.write(100, 1000);
    s.us(100, ". 1:1001 ect0");
    s.peer(150, ". win=0");
    s.write(200, 1000);
    let probe = s.us_within(0, 201, 2000, ". 1000:1000");
    assert_eq!(probe.ecn, Ecn::NotEct);
}

#[test]
fn a_mark_is_echoed_at_once_and_until_the_sender_has_reduced() {
    // RFC 3168 section 6.1.3; tcp_data_ecn_check: TCP_ECN_DEMAND_CWR is set until CWR arrives, with two quick
    // acknowledgements.
    let mut s = interactive();
    s.peer(300, ". 101:201 ect0");
    s.us(340, ". ack=201");
    s.peer(400, ". 201:301 ce");
    s.us(400, ".E ack=301");
    s.peer(410, ". 301:401 ect0");
    s.us(410, ".E ack=401");
    s.peer(420, ". 401:501 ect0");
    s.us(420, ".E ack=501");
    // Our data segments echo the mark too, because an acknowledgement may be lost.
    s.write(470, 500);
    s.us(470, ".E 1001:1501 ect0");
    // The peer's window may be very small, so CWR is acknowledged at once.
    s.peer(520, ".W 501:601 ect0");
    s.us(520, ". ack=601");
    s.peer(600, ". 601:701 ect0");
    s.us(600, ". ack=701");
    assert_eq!(s.sample(0).totals.ce_received, 1);
}

/// Like [`interactive`], with a controller that counts marks.
fn counting() -> Script {
    answered(agreed_with(counts_marks()))
}

#[test]
fn ce_change_sends_the_delayed_ack_before_the_new_echo() {
    // RFC 8257 section 3.2, dctcp_ece_ack_update: the delayed acknowledgement is sent first, with the
    // previous echo.
    let mut s = counting();
    s.peer(300, ". 101:201 ect0");
    s.peer(310, ". 201:301 ce");
    s.us(310, ". ack=201");
    s.us(310, ".E ack=301");
    // Acknowledgements of further marks are delayed like those of any data.
    s.peer(320, ". 301:401 ce");
    s.silence(330);
    s.peer(330, ". 401:501 ect0");
    s.us(330, ".E ack=401");
    s.us(330, ". ack=501");
    // No acknowledgement was delayed, so none is sent first.
    s.peer(400, ". 501:601 ce");
    s.us(400, ".E ack=601");
    s.peer(410, ". 601:701 ect0");
    s.us(410, ". ack=701");
    assert_eq!(s.sample(0).totals.ce_received, 3);
}

#[test]
fn counted_ce_echo_does_not_depend_on_cwr() {
    // The peer's window is reduced once per round trip while marks continue. `ce_state` is independent of
    // DEMAND_CWR.
    for (next, echo) in [("ce", ".E"), ("ect0", ".")] {
        let mut s = counting();
        s.peer(300, ". 101:201 ce");
        s.us(300, ".E ack=201");
        s.peer(310, ". 201:301 ce");
        s.silence(319);
        s.peer(320, &format!(".W 301:401 {next}"));
        if next == "ect0" {
            s.us(320, ".E ack=301");
        }
        s.us(320, &format!("{echo} ack=401"));
    }
}

#[test]
fn mark_counting_sender_makes_all_segments_ecn_capable() {
    // TCP_ECN_ECT_PERMANENT: acknowledgements and retransmissions are ECN-capable too.
    let mut s = counting();
    s.peer(300, ". 101:1101 ect0");
    s.peer(301, ". 1101:2101 ect0");
    assert_eq!(s.us(301, ". ack=2101").ecn, Ecn::Ect0);
    s.write(400, 1000);
    s.us(400, ". 1001:2001 ect0");
    assert_eq!(s.us_within(0, 401, 2000, ". 1001:2001").ecn, Ecn::Ect0);
}

#[test]
fn mark_counting_requires_negotiated_ecn() {
    let mut s = Script::plain_with(counts_marks(), 50);
    s.peer(300, ". 1:101 ce");
    let said = s.us(300, ". ack=101");
    assert_eq!((said.ecn, s.sample(0).totals.ce_received), (Ecn::NotEct, 0));
}

#[test]
fn ce_mark_on_a_cwr_segment_is_echoed() {
    // tcp_ecn_accept_cwr runs with the acknowledgement, before tcp_data_ecn_check handles the data.
    let mut s = agreed();
    s.peer(100, ". 1:1001 ce");
    s.us(100, ".E ack=1001");
    s.peer(110, ".W 1001:2001 ce");
    s.us(110, ".E ack=2001");
    s.peer(120, ".W 2001:3001 ect0");
    s.us(120, ". ack=3001");
}

#[test]
fn a_mark_out_of_order_counts_and_one_on_a_repetition_does_not() {
    // tcp_data_queue_ofo checks the mark of out-of-order data. Data that was received before is only
    // acknowledged.
    let mut s = agreed();
    s.peer(100, ". 1001:2001 ce");
    s.us(100, ".E ack=1");
    let mut s = agreed();
    s.peer(100, ". 1:1001 ect0");
    s.us(100, ". ack=1001");
    s.peer(110, ". 1:1001 ce");
    s.us(110, ". ack=1001");
}

#[test]
fn data_that_stops_being_ecn_capable_is_acknowledged_at_once() {
    // tcp_data_ecn_check: "if ECT is not set on a segment, and we already seen ECT on a previous segment,
    // it is probably a retransmit".
    let quick = |first: &str| {
        let mut s = interactive();
        s.peer(300, &format!(". 101:201 {first}"));
        s.write(310, 1000);
        s.us(310, ". 1001:2001 ack=201");
        s.peer(360, ".");
        s.silence(399);
        s.peer(400, ". 201:301");
        !s.rest().is_empty()
    };
    assert!(quick("ect0") && quick("ect1") && !quick(""));
}

#[test]
fn an_echo_halves_the_window_once_a_round_trip_without_a_retransmission() {
    // RFC 3168 section 6.1.2: the reaction is that to a single loss, at most once per window; tcp_enter_cwr.
    let mut s = ten_sent(30_000);
    s.peer(150, ".E ack=1001");
    assert_eq!(s.sample(0).state, CongestionState::Cwr);
    assert_eq!(s.sample(0).ssthresh_segments, 5);
    // PRR permits one segment at once, and then one per two acknowledgements until five are in flight. Only
    // the first new segment has CWR.
    s.us(150, ".W 10001:11001 ect0");
    for n in 2..10 {
        s.peer(150 + n, &format!(".E ack={}", 1001 + 1000 * (n - 1)));
    }
    let flags: Vec<_> = s.rest().into_iter().map(|(_, _, line)| line).collect();
    assert!(flags.iter().all(|line| line.starts_with(". ") && line.contains("ect0")), "{flags:?}");
    let (sample, totals) = (s.sample(0), s.sample(0).totals);
    assert_eq!((flags.len(), sample.in_flight_segments, sample.ssthresh_segments), (3, 5, 5));
    assert_eq!((totals.ecn_reductions, totals.retransmissions), (1, 0));
    assert_eq!(totals.delivered_ce, 9, "so many were delivered by acknowledgements with ECE");
}

#[test]
fn second_ecn_reduction_needs_an_ack_of_later_data() {
    // tcp_fastretrans_alert: the state stays CWR until data after high_seq is acknowledged.
    let mut s = ten_sent(40_000);
    s.peer(150, ".E ack=1001");
    s.us(150, ".W 10001:11001");
    s.peer(160, ".E ack=10001");
    assert_eq!(s.sample(0).state, CongestionState::Cwr, "up to high_seq, and not beyond");
    assert_eq!(s.sample(0).totals.ecn_reductions, 1);
    s.rest_until(200);
    s.peer(200, ". ack=11001");
    let after = s.sample(0);
    assert_eq!((after.state, after.ssthresh_segments), (CongestionState::Open, 5));
    s.rest();
    s.peer(210, ".E ack=12001");
    let (state, totals) = (s.sample(0).state, s.sample(0).totals);
    assert_eq!((state, totals.ecn_reductions), (CongestionState::Cwr, 2));
}

#[test]
fn an_echo_without_an_agreement_means_nothing() {
    let mut s = Script::plain_with(thousands(), 50);
    s.write(100, 20_000);
    s.rest();
    s.peer(150, ".E ack=1001");
    assert_eq!(s.sample(0).state, CongestionState::Open);
    assert_eq!(s.sample(0).totals.ecn_reductions, 0);
    // A received mark is not echoed either.
    s.peer(160, ". 1:1001 ce ack=1001");
    assert!(s.rest().iter().all(|(_, _, line)| line.starts_with(". ")));
    assert_eq!(s.sample(0).totals.ce_received, 0);
}

#[test]
fn an_echo_with_nothing_in_flight_means_nothing() {
    // tcp_ack: without prior_packets, there is no window in use to reduce.
    let mut s = agreed();
    s.peer(100, ".E");
    assert_eq!((s.sample(0).state, s.cwnd()), (CongestionState::Open, 10));
}

#[test]
fn reduction_after_a_loss_sends_cwr() {
    // RFC 3168 section 6.1.2: CWR is sent after any reduction. tcp_init_cwnd_reduction queues it, and new
    // data carries it.
    let mut s = ten_sent(30_000);
    s.peer(150, ". ack=1 sack=1001:4001");
    let first = s.us(150, ". 1:1001");
    assert!(!first.flags.contains(Flags::CWR), "not what is sent again");
    s.us(150, ".W 10001:11001 ect0");
    // The same applies to a timeout (tcp_enter_loss).
    let mut s = ten_sent(30_000);
    s.us(202, ". 10001:11001 ect0");
    s.us(452, ". 1:1001");
    s.peer(502, ". ack=1001");
    s.us(502, ".W 11001:12001 ect0");
    // If the reduction is undone, no CWR is sent (tcp_ecn_withdraw_cwr).
    let mut s = ten_sent(30_000);
    s.us(202, ". 10001:11001 ect0");
    s.us(452, ". 1:1001");
    s.peer(502, ". ack=10001 ecr=100");
    assert_eq!(s.sample(0).totals.undos, 1);
    let said = s.rest();
    assert!(said.len() > 1 && said.iter().all(|(_, _, line)| line.starts_with(". ")), "{said:?}");
}

#[test]
fn a_loss_within_a_window_that_was_reduced_reduces_no_further() {
    // RFC 3168 section 6.1.2; tcp_enter_recovery: !tcp_in_cwnd_reduction.
    let mut s = ten_sent(30_000);
    s.peer(150, ".E ack=1001");
    s.rest();
    s.peer(160, ".E ack=1001 sack=2001:5001");
    let sample = s.sample(0);
    assert_eq!((sample.state, sample.ssthresh_segments), (CongestionState::Recovery, 5));
    s.us(160, ". 1001:2001");
}

#[test]
fn reduction_after_an_ece_is_never_undone() {
    // tcp_fastretrans_alert: "ECE, hence prohibit cwnd undoing, the reduction is required".
    let undone = |echo: &str| {
        let mut s = ten_sent(0);
        s.peer(150, &format!(".{echo} ack=1 sack=1001:4001"));
        s.us(150, ". 1:1001");
        // The acknowledgement is that of the original, so nothing was lost.
        s.peer(170, ". ack=10001 ecr=100");
        s.sample(0).ssthresh_segments
    };
    assert_eq!(undone("E"), 5);
    assert!(undone("") > 5);
}

//! The segments between two endpoints of an older kernel generation. Expected values come from calculations
//! and from that kernel's functions.

mod pair;

use anabranch_mptcp::profile::{MPTCP_0_94, Stack};
use anabranch_mptcp::{Config, Event};
use anabranch_plugin::PluginChoice;
use anabranch_units::Instant;
use anabranch_wire::{DataAck, Flags, MappingDsn, Segment};
use pair::{Pair, Way, address, at, candidate, config, film};

/// A host with the kernel of the papers (`tcp_rmem[1]` 87,380; buffers of 45 segments of 1428 bytes).
fn papers() -> Config {
    let scheduler = PluginChoice::named("dft");
    let (receive_buffer_initial, send_fragment) = (87_380, 45 * 1428);
    Config { stack: MPTCP_0_94, scheduler, receive_buffer_initial, send_fragment, ..config() }
}

/// Returns the data segments that were sent to the client over a path.
fn data(pair: &Pair, path: usize) -> Vec<(Instant, &Segment)> {
    let to_client = pair.log.iter().filter(|(_, way, p, _)| *way == Way::ToClient && *p == path);
    to_client.filter(|(.., s)| !s.payload.is_empty()).map(|(time, _, _, s)| (*time, s)).collect()
}

#[test]
fn full_segments_have_1428_bytes_under_32_bit_numbers() {
    // 1460 - 12 (timestamps) - 20 (DSS). The DSS has 4 bytes, a 4-byte acknowledgement, a 4-byte DSN, 4 and 2
    // bytes, and 2 bytes of padding (MPTCP_SUB_LEN_DSS_ALIGN, MPTCP_SUB_LEN_ACK_ALIGN,
    // MPTCP_SUB_LEN_SEQ_ALIGN).
    let mut pair = Pair::new(&[50, 80], papers(), papers());
    pair.run_until(at(100));
    pair.serve(&film(400_000));
    pair.run_until(at(5000));
    assert!(pair.got(&film(400_000)), "read {} bytes", pair.received.len());
    let (first, second) = (data(&pair, 0), data(&pair, 1));
    assert!(!first.is_empty() && !second.is_empty());
    for (_, segment) in first.iter().chain(&second) {
        assert!(segment.payload.len() <= 1428);
        let dss = segment.dss.as_ref().expect("every segment has one");
        assert!(matches!(dss.data_ack, Some(DataAck::Short(_))));
        let mapping = dss.mapping.as_ref().expect("with its mapping");
        assert!(matches!(mapping.dsn, MappingDsn::Short(_)));
        assert!(mapping.length <= 45 * 1428, "of one buffer");
    }
    assert_eq!(first.iter().map(|(_, s)| s.payload.len()).max(), Some(1428));
    let acks = pair.log.iter().filter_map(|(.., s)| s.dss.as_ref()?.data_ack);
    assert!(acks.into_iter().all(|ack| matches!(ack, DataAck::Short(_))));
}

#[test]
fn the_first_burst_goes_in_mappings_of_half_the_window() {
    // mptcp_next_segment, tcp_cwnd_test: of ten segments five are sent, then the other five.
    let mut pair = Pair::new(&[50], papers(), papers());
    pair.run_until(at(60));
    pair.serve(&film(100_000));
    pair.run_until(at(100));
    let sent = data(&pair, 0);
    let lengths: Vec<_> = sent
        .iter()
        .filter_map(|(_, s)| Some(s.dss.as_ref()?.mapping.as_ref()?.length))
        .take(10)
        .collect();
    assert_eq!(lengths, [5 * 1428; 10]);
}

#[test]
fn the_first_window_is_twenty_segments_and_opens_by_two_for_each_that_comes() {
    // tcp_select_initial_window: 20 segments of 1460. tcp_grow_window: 2 advmss of 1448.
    let mut pair = Pair::new(&[50], papers(), papers());
    pair.run_until(at(60));
    let syn = pair.log.iter().find(|(.., s)| s.flags.contains(Flags::SYN)).expect("a SYN");
    assert_eq!(syn.3.window, 29_200);
    let scale = syn.3.window_scale.expect("offered");
    pair.serve(&film(100_000));
    pair.run_until(at(112));
    let told = |(_, way, _, s): &&(Instant, Way, usize, Segment)| {
        *way == Way::ToServer && !s.flags.contains(Flags::SYN)
    };
    let last = pair.log.iter().rfind(told).expect("acknowledgements");
    let window = u64::from(last.3.window) << scale;
    // Ten segments: 29,200 + 10 * 2896, rounded up to a multiple of the window scale.
    assert_eq!(window, 58_160_u64.next_multiple_of(1 << scale));
}

#[test]
fn an_address_that_comes_up_is_joined_half_a_second_later() {
    // mptcp_fullmesh.c: `queue_delayed_work(..., msecs_to_jiffies(500))`. An address that was removed in the
    // meantime is not joined.
    let joins = |stack: Stack, gone: bool| {
        let one = Config { candidates: vec![candidate(0)], stack, ..papers() };
        let mut pair = Pair::new(&[50, 80], one, papers());
        pair.run_until(at(100));
        pair.serve(&film(3_000_000));
        pair.run_until(at(1000));
        let now = pair.now;
        pair.client().handle_address_added(now, candidate(1));
        pair.run_until(at(1100));
        if gone {
            pair.client().handle_address_removed(at(1100), address(2, 1, 0).ip());
        }
        pair.run_until(at(3000));
        let syn = |(_, way, path, s): &&(Instant, Way, usize, Segment)| {
            *way == Way::ToServer && *path == 1 && s.flags.contains(Flags::SYN)
        };
        pair.log.iter().find(syn).map(|(time, ..)| *time)
    };
    assert_eq!(joins(MPTCP_0_94, false), Some(at(1500)));
    assert_eq!(joins(MPTCP_0_94, true), None);
    let mut at_once = MPTCP_0_94;
    at_once.mptcp.joins_late = false;
    assert_eq!(joins(at_once, false), Some(at(1000)));
}

#[test]
fn without_sack_it_is_not_agreed_to_by_either_way_in() {
    let mut stack = Stack::default();
    stack.tcp.sack = false;
    let silent = Config { stack, ..config() };
    let mut pair = Pair::new(&[50, 80], config(), silent);
    pair.run_until(at(100));
    pair.serve(&film(50_000));
    pair.run_until(at(1000));
    assert!(
        pair.client_events.iter().any(|(_, event)| matches!(event, Event::SubflowEstablished(_)))
    );
    let answers = pair.log.iter().filter(|(.., s)| s.flags.contains(Flags::SYN.with(Flags::ACK)));
    assert_eq!(answers.map(|(.., s)| s.sack_permitted).collect::<Vec<_>>(), [false, false]);
}

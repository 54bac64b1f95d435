//! Tests of links in a row.

use anabranch_link::{
    Chain, Change,
    DropReason::{Down, QueueFull},
    FixedLink, Link, LinkConfig, QueueLimit,
};
use anabranch_units::{ByteCount, Instant, Rate};
use proptest::prelude::*;

use crate::driver::{RATE, SEED, SIZE, Told, assert_conserved, ms, poll, run, span};
use crate::property::{Attention, cases, configs, live, steps};

/// Returns a chain of 10 Mb/s and 10 ms, then 5 Mb/s and 20 ms with room for two packets.
fn two_hops() -> Chain<u32> {
    let slow = Rate::from_bps(5_000_000);
    let access = LinkConfig::new("access", RATE, QueueLimit::Unlimited, span(10));
    let core = LinkConfig::new("core", slow, QueueLimit::Packets(2), span(20));
    let hops: Vec<_> = [access, core].map(|hop| Box::new(FixedLink::new(hop, SEED)) as _).into();
    Chain::new("path", hops)
}

#[test]
fn delays_and_bottlenecks_add_up() {
    let mut chain = two_hops();
    for packet in 0..6 {
        chain.enqueue(ms(0), packet, SIZE);
    }
    // The packets enter the second hop at 11 to 16 ms. It has room for two of them, and one leaves every 2 ms.
    let mut told = run(&mut chain, ms(100));
    told.sort_unstable();
    let expected = [
        (0, ms(33), None),
        (1, ms(35), None),
        (2, ms(37), None),
        (3, ms(14), Some(QueueFull)),
        (4, ms(39), None),
        (5, ms(16), Some(QueueFull)),
    ];
    assert_eq!(told, expected);
    assert_eq!((chain.stats().delivered, chain.stats().dropped_queue), (4, 2));
    assert_eq!((chain.stats().bytes_delivered, chain.stats().queue_max_packets), (4 * 1250, 6));
    assert_eq!(chain.hops().map(|hop| hop.stats().enqueued).collect::<Vec<_>>(), [6, 6]);
}

#[test]
fn the_longest_queue_may_be_at_any_hop() {
    let mut chain = two_hops();
    for packet in 0..3 {
        chain.enqueue(ms(u64::from(packet)), packet, SIZE);
    }
    assert_eq!(run(&mut chain, ms(100)).len(), 3);
    assert_eq!(chain.stats().queue_max_packets, 2, "one at a time passes the first hop");
}

#[test]
fn a_busy_chain_wakes_once_a_packet() {
    let mut chain = two_hops();
    let mut wakes = 0;
    for packet in 0..1_000 {
        // Packets enter as fast as the slower hop serves them.
        let now = ms(2 * u64::from(packet));
        while let Some(at) = chain.poll_timeout().filter(|&at| at <= now) {
            let _ = poll(&mut chain, at);
            wakes += 1;
        }
        chain.enqueue(now, packet, SIZE);
    }
    assert!((950..=1_010).contains(&wakes), "{wakes} wake-ups");
}

#[test]
fn a_chain_goes_down_as_a_whole_and_reports_at_once() {
    let mut chain = two_hops();
    chain.enqueue(ms(0), 0, SIZE);
    chain.enqueue(ms(15), 1, SIZE);
    chain.set(ms(20), Change::Down);
    assert!(chain.poll_timeout().is_some_and(|at| at <= ms(20)));
    let mut told = poll(&mut chain, ms(20));
    told.sort_unstable();
    assert_eq!(told, [(0, ms(20), Some(Down)), (1, ms(20), Some(Down))]);
    chain.set(ms(30), Change::Up);
    chain.enqueue(ms(30), 2, SIZE);
    assert_eq!(run(&mut chain, ms(100)), [(2, ms(63), None)]);
    assert_conserved(&chain);
}

#[test]
fn one_hop_can_change_alone() {
    let mut chain = two_hops();
    chain.enqueue(ms(0), 0, SIZE);
    chain.enqueue(ms(0), 1, ByteCount(625));
    chain.set_hop(ms(12), 1, Change::Rate(RATE));
    // The first packet has been served for 1 ms of 2, so half of the other one's service is left.
    assert_eq!(
        run(&mut chain, ms(100)),
        [(0, Instant::from_nanos(32_500_000), None), (1, ms(33), None)]
    );
}

proptest! {
    #![proptest_config(cases(500))]

    /// Delivery and loss of packets do not depend on how often a chain of links is polled.
    #[test]
    fn attention_changes_nothing(first in configs(), second in configs(), steps in steps()) {
        let fates = |attention| -> Vec<Told> {
            let second = LinkConfig { name: "second".to_owned(), ..second.clone() };
            let hops: Vec<_> =
                [first.clone(), second].map(|hop| Box::new(FixedLink::new(hop, SEED)) as _).into();
            let mut chain = Chain::new("chain", hops);
            // No step changes the second hop. With a rate of zero, its packets would stay for ever.
            chain.set_hop(Instant::ZERO, 1, Change::Rate(RATE));
            let mut told = live(&mut chain, &steps, attention);
            told.sort_unstable();
            told
        };
        prop_assert_eq!(fates(Attention::Lazy), fates(Attention::Woken));
    }
}

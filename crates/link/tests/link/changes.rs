//! Tests of changes while a link runs: rate, delay, loss, down and up.

use anabranch_link::{
    Change,
    DropReason::{Down, Loss},
    FixedLink, Link, LossModel, QueueLimit, Queued,
};
use anabranch_units::{Duration, Instant, Rate};

use crate::driver::{SEED, SIZE, assert_conserved, config, link, ms, poll, run, span, us};

fn two_waiting() -> FixedLink<u32> {
    let mut link = link(QueueLimit::Packets(100));
    link.enqueue(ms(0), 0, SIZE);
    link.enqueue(ms(0), 1, SIZE);
    link
}

#[test]
fn rate_change_applies_to_the_remaining_bits() {
    let mut link = two_waiting();
    // After 0.25 ms at 10 Mb/s, 7,500 of 10,000 bits are left: 7.5 ms at 1 Mb/s.
    link.set(us(250), Change::Rate(Rate::from_bps(1_000_000)));
    link.enqueue(us(300), 2, SIZE);
    let at: Vec<_> = run(&mut link, ms(100)).iter().map(|told| told.1).collect();
    assert_eq!(at, [us(27_750), us(37_750), us(47_750)]);
}

#[test]
fn rate_changes_within_one_packet_add_up() {
    let mut link = two_waiting();
    link.set(us(250), Change::Rate(Rate::from_bps(1_000_000))); // 7,500 bits left
    link.set(us(2_750), Change::Rate(Rate::from_bps(20_000_000))); // 5,000 bits left
    let at: Vec<_> = run(&mut link, ms(100)).iter().map(|told| told.1).collect();
    assert_eq!(at, [us(23_000), us(23_500)]);
}

#[test]
fn rate_zero_stalls_the_queue_but_not_the_wire() {
    let mut link = two_waiting();
    link.enqueue(ms(0), 2, SIZE);
    link.set(us(1_500), Change::Rate(Rate::ZERO));
    link.enqueue(us(1_600), 3, SIZE);
    assert_eq!(run(&mut link, ms(500)), [(0, ms(21), None)]);
    assert_eq!(link.poll_timeout(), None, "nothing to wait for");
    assert_eq!(link.queued(ms(500)).packets, 3);
    link.set(ms(500), Change::Rate(Rate::from_bps(10_000_000)));
    let rest = run(&mut link, ms(1_000));
    assert_eq!(rest, [(1, us(520_500), None), (2, us(521_500), None), (3, us(522_500), None)]);
}

#[test]
fn an_unlimited_rate_empties_the_queue_at_once() {
    let mut link = two_waiting();
    link.set(us(250), Change::Rate(Rate::UNLIMITED));
    assert_eq!(run(&mut link, ms(100)), [(0, us(20_250), None), (1, us(20_250), None)]);
}

#[test]
fn a_new_delay_is_for_packets_still_in_the_queue() {
    let mut link = two_waiting();
    link.set(us(1_500), Change::Delay(span(100)));
    assert_eq!(run(&mut link, ms(500)), [(0, ms(21), None), (1, ms(102), None)]);
}

#[test]
fn a_shorter_delay_does_not_let_a_packet_overtake() {
    let mut link = two_waiting();
    link.set(us(1_500), Change::Delay(span(1)));
    link.enqueue(ms(30), 2, SIZE);
    assert_eq!(run(&mut link, ms(500)), [(0, ms(21), None), (1, ms(21), None), (2, ms(32), None)]);
}

#[test]
fn down_discards_queue_and_wire() {
    let mut link = two_waiting();
    link.enqueue(ms(0), 2, SIZE);
    link.set(us(1_500), Change::Down);
    assert_eq!(link.poll_timeout(), Some(us(1_500)), "the drops are due at once");
    let told = poll(&mut link, us(1_500));
    assert_eq!(told, (0..3).map(|n| (n, us(1_500), Some(Down))).collect::<Vec<_>>());
    assert_eq!((link.in_transit(), link.queued(us(1_500))), (0, Queued::default()));
    link.enqueue(ms(2), 3, SIZE);
    assert_eq!(run(&mut link, ms(2)), [(3, ms(2), Some(Down))]);
    assert_conserved(&link);
}

#[test]
fn down_keeps_deliveries_that_were_not_polled_yet() {
    let mut link = two_waiting();
    link.set(us(21_500), Change::Down);
    link.set(us(21_500), Change::Up);
    link.enqueue(us(21_500), 2, SIZE);
    assert_eq!(link.poll_timeout(), Some(ms(21)), "reported before later events");
    let told = run(&mut link, ms(100));
    assert_eq!(told, [(0, ms(21), None), (1, us(21_500), Some(Down)), (2, us(42_500), None)]);
}

#[test]
fn up_resumes_with_an_idle_transmitter() {
    let mut link = link(QueueLimit::Packets(100));
    for packet in 0..50 {
        link.enqueue(ms(0), packet, SIZE);
    }
    link.set(ms(10), Change::Down);
    link.set(ms(10), Change::Down);
    link.set(ms(11), Change::Rate(Rate::from_bps(1_000_000)));
    link.set(ms(12), Change::Up);
    // The discarded packets in the queue and on the wire do not delay the new packet.
    link.enqueue(ms(12), 50, SIZE);
    let told = run(&mut link, ms(100));
    assert_eq!(told.iter().filter(|t| t.2 == Some(Down)).count(), 50);
    assert_eq!(told.last(), Some(&(50, ms(42), None)));
    assert_conserved(&link);
}

#[test]
fn a_stalled_link_can_be_cut_and_come_back() {
    let mut link = two_waiting();
    link.set(us(500), Change::Rate(Rate::ZERO));
    link.set(ms(5), Change::Down);
    link.set(ms(6), Change::Up);
    link.set(ms(6), Change::Rate(Rate::from_bps(10_000_000)));
    link.enqueue(ms(7), 2, SIZE);
    assert_eq!(run(&mut link, ms(100)).last(), Some(&(2, ms(28), None)));
}

#[test]
fn a_new_loss_model_applies_to_packets_that_leave_the_queue_later() {
    let mut link = two_waiting();
    link.set(us(1_500), Change::Loss(Some(LossModel::Bernoulli(1.0))));
    link.enqueue(us(1_600), 2, SIZE);
    link.set(us(2_500), Change::Loss(None));
    let told = run(&mut link, ms(100));
    assert_eq!(told, [(0, ms(21), None), (1, ms(2), Some(Loss)), (2, ms(23), None)]);
}

#[test]
fn loss_at_the_exit_has_used_the_bottleneck() {
    let mut settings = config(QueueLimit::Unlimited);
    // Every second packet is lost, beginning with the second.
    settings.loss = Some(LossModel::GilbertElliott { p: 1.0, r: 1.0, h: 0.0, k: 1.0 });
    let mut link = FixedLink::new(settings.clone(), SEED);
    for packet in 0..3 {
        link.enqueue(ms(0), packet, SIZE);
    }
    let told = run(&mut link, ms(100));
    assert_eq!(told, [(0, ms(21), None), (1, ms(2), Some(Loss)), (2, ms(23), None)]);

    settings.loss_at = anabranch_link::LossAt::Entry;
    let mut link = FixedLink::new(settings, SEED);
    for packet in 0..3 {
        link.enqueue(ms(0), packet, SIZE);
    }
    let told = run(&mut link, ms(100));
    assert_eq!(told, [(1, ms(0), Some(Loss)), (0, ms(21), None), (2, ms(22), None)]);
}

#[test]
fn changes_on_an_idle_link_apply_to_later_packets() {
    let mut link = link(QueueLimit::Packets(2));
    link.set(ms(1), Change::Rate(Rate::from_bps(1_000_000)));
    link.set(ms(1), Change::Delay(Duration::ZERO));
    link.enqueue(ms(2), 0, SIZE);
    assert_eq!(run(&mut link, Instant::FAR_FUTURE), [(0, ms(12), None)]);
}

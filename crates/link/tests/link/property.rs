//! Compares links with the slow model in random runs.

use anabranch_link::{
    Change, FixedLink, Link, LinkConfig, LossAt, LossModel, QueueLimit, VaryingLink,
};
use anabranch_plugin::PluginChoice;
use anabranch_units::{ByteCount, Duration, Instant, Rate};
use proptest::prelude::*;
use proptest::sample::select;

use crate::driver::{SEED, Told, assert_conserved, poll, run, span};
use crate::model::SlowLink;

#[derive(Clone, Debug)]
pub(crate) enum Step {
    Wait(Duration),
    Send(ByteCount),
    Set(Change),
    Poll,
}

/// Draws a rate: three that do not divide evenly, zero and unlimited.
fn rates() -> impl Strategy<Value = Rate> {
    let odd = [1_000_003, 5_000_000, 7_777_777].map(Rate::from_bps);
    select([&odd[..], &[Rate::ZERO, Rate::UNLIMITED]].concat())
}

fn delays() -> impl Strategy<Value = Duration> {
    select(vec![Duration::ZERO, span(1), Duration::from_micros(7_123)])
}

fn models() -> impl Strategy<Value = Option<LossModel>> {
    select(vec![
        None,
        Some(LossModel::Bernoulli(0.2)),
        Some(LossModel::GilbertElliott { p: 0.3, r: 0.4, h: 0.2, k: 0.95 }),
    ])
}

pub(crate) fn steps() -> impl Strategy<Value = Vec<Step>> {
    let change = prop_oneof![
        rates().prop_map(Change::Rate),
        delays().prop_map(Change::Delay),
        models().prop_map(Change::Loss),
        Just(Change::Down),
        Just(Change::Up),
        Just(Change::Up),
    ];
    let step = prop_oneof![
        8 => (40u64..1_500).prop_map(|size| Step::Send(ByteCount(size))),
        4 => (0u64..3_000_000).prop_map(|nanos| Step::Wait(Duration::from_nanos(nanos))),
        1 => change.prop_map(Step::Set),
        2 => Just(Step::Poll),
    ];
    prop::collection::vec(step, 1..200)
}

pub(crate) fn configs() -> impl Strategy<Value = LinkConfig> {
    let limits = vec![
        QueueLimit::Packets(1),
        QueueLimit::Packets(5),
        QueueLimit::Bytes(4_000),
        QueueLimit::Unlimited,
    ];
    let places = select(vec![LossAt::Entry, LossAt::Exit]);
    (rates(), select(limits), delays(), delays(), models(), places).prop_map(
        |(rate, queue, delay, jitter, loss, loss_at)| {
            let name = "random".to_owned();
            LinkConfig { jitter, loss, loss_at, ..LinkConfig::new(name, rate, queue, delay) }
        },
    )
}

/// When a link is polled: only at the steps that poll, or also at its timeouts.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Attention {
    Lazy,
    Woken,
}

/// Performs the steps, and then runs until no packet is left. Returns the fates in the order of the reports.
pub(crate) fn live(link: &mut dyn Link<u32>, steps: &[Step], attention: Attention) -> Vec<Told> {
    let mut now = Instant::ZERO;
    let mut told = Vec::new();
    for (packet, step) in (0..).zip(steps) {
        match *step {
            Step::Wait(gap) => now += gap,
            Step::Send(size) => link.enqueue(now, packet, size),
            Step::Set(change) => link.set(now, change),
            Step::Poll => told.extend(poll(link, now)),
        }
        if attention == Attention::Woken {
            told.extend(run(link, now));
        }
        assert_conserved(link);
    }
    link.set(now, Change::Rate(Rate::from_bps(1_000_000)));
    told.extend(run_out(link, now));
    assert_eq!(link.in_transit(), 0);
    assert_conserved(link);
    told
}

fn run_out(link: &mut dyn Link<u32>, now: Instant) -> Vec<Told> {
    poll(link, now).into_iter().chain(run(link, Instant::FAR_FUTURE)).collect()
}

fn sorted(told: &[Told]) -> Vec<Told> {
    let mut told = told.to_vec();
    told.sort_unstable();
    told
}

/// Returns a configuration that stores no failing cases. They are added as named tests instead.
pub(crate) fn cases(cases: u32) -> ProptestConfig {
    ProptestConfig { cases, failure_persistence: None, ..Default::default() }
}

proptest! {
    #![proptest_config(cases(2_000))]

    #[test]
    fn a_link_matches_the_slow_model(config in configs(), steps in steps()) {
        let mut slow = SlowLink::new(config.clone(), SEED);
        let mut watched = FixedLink::new(config.clone(), SEED);
        let mut now = Instant::ZERO;
        let mut longest = 0;
        for (packet, step) in (0..).zip(&steps) {
            match *step {
                Step::Wait(gap) => now += gap,
                Step::Send(size) => {
                    slow.enqueue(now, packet, size);
                    watched.enqueue(now, packet, size);
                    // An unlimited rate serves without delay, but only after the packet has entered.
                    longest = longest.max(slow.queued().0);
                }
                Step::Set(change) => {
                    slow.set(now, change);
                    watched.set(now, change);
                }
                Step::Poll => {}
            }
            slow.run(now);
            let queued = watched.queued(now);
            prop_assert_eq!((queued.packets, queued.bytes), slow.queued());
        }
        prop_assert_eq!(watched.stats().queue_max_packets, longest);
        slow.set(now, Change::Rate(Rate::from_bps(1_000_000)));
        slow.run(Instant::FAR_FUTURE);
        // In closed form, and packet by packet from a queue.
        let by_arithmetic = || Box::new(FixedLink::new(config.clone(), SEED)) as Box<dyn Link<u32>>;
        let by_queue = |discipline| {
            let config = LinkConfig { discipline, ..config.clone() };
            Box::new(VaryingLink::of_set_rate(config, SEED)) as Box<_>
        };
        let named = || Some(PluginChoice::named("drop-tail"));
        for attention in [Attention::Lazy, Attention::Woken] {
            for mut link in [by_arithmetic(), by_queue(None), by_queue(named())] {
                let told = live(&mut *link, &steps, attention);
                prop_assert_eq!(sorted(&told), sorted(&slow.told));
                let delivered: Vec<_> = told.iter().filter(|t| t.2.is_none()).collect();
                prop_assert!(delivered.windows(2).all(|d| d[0].0 < d[1].0 && d[0].1 <= d[1].1));
                prop_assert_eq!(link.stats().queue_max_packets, longest);
            }
        }
    }
}

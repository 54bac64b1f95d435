//! Tests of a modelled link's queue, cap, delay, loss and changes, and of rules for every model.

use std::sync::Arc;

use anabranch_link::{
    Chain, Change, Direction, DropReason, Fate, FixedLink, Hop, Impairments, Label, Link,
    LinkConfig, LossModel, LteModel, LteProfile, Medium, Model, QueueLimit, Reorder, Single,
    StarlinkModel, StarlinkProfile, Trace, TraceStep, VaryingLink, WifiMedium, WifiModel,
    WifiStandard, queue,
};
use anabranch_plugin::{ParameterInfo, PluginChoice};
use anabranch_units::{ByteCount, Duration, Instant, Rate};
use proptest::prelude::*;
use proptest::sample::select;

use crate::driver::{RATE, SEED, SIZE, assert_conserved, config, ms, poll, run, span, us};
use crate::property::{Attention, Step, cases, configs, live, steps};

/// Returns a trace of rows with ms, kb/s, ms of delay, and loss.
pub(crate) fn steps_of(rows: &[(u64, u64, u64, f64)], repeat: Option<u64>) -> Model {
    let steps: Arc<[TraceStep]> = rows
        .iter()
        .map(|&(at, kbps, delay, loss)| TraceStep {
            at: span(at),
            rate: Rate::from_bps(kbps * 1000),
            delay: span(delay),
            loss,
        })
        .collect();
    Model::Trace(Trace::Steps { steps, repeat: repeat.map(span) })
}

/// Returns an uncapped link of 20 ms that follows a model.
pub(crate) fn link(model: &Model, queue: QueueLimit) -> VaryingLink<u32> {
    VaryingLink::new(LinkConfig { rate: Rate::UNLIMITED, ..config(queue) }, model, SEED)
}

fn steady() -> Model {
    steps_of(&[(0, 10_000, 0, 0.0)], None)
}

#[test]
fn a_steady_trace_is_a_fixed_link() {
    let (mut fixed, mut varying) = (
        FixedLink::new(config(QueueLimit::Packets(5)), SEED),
        link(&steady(), QueueLimit::Packets(5)),
    );
    let mut told = [Vec::new(), Vec::new()];
    for packet in 0..2000 {
        // Some packets arrive faster than they are served.
        let now = us(700 * u64::from(packet) + u64::from(packet % 7) * 90);
        for (link, told) in
            [&mut fixed as &mut dyn Link<u32>, &mut varying].into_iter().zip(&mut told)
        {
            told.extend(run(link, now));
            link.enqueue(now, packet, SIZE);
        }
    }
    told[0].extend(run(&mut fixed, Instant::FAR_FUTURE));
    told[1].extend(run(&mut varying, Instant::FAR_FUTURE));
    assert_eq!(told[0], told[1]);
    assert_eq!(fixed.stats(), varying.stats());
    assert!(fixed.stats().dropped_queue > 100);
}

#[test]
fn the_cap_limits_a_faster_model() {
    // 10 Mb/s for 10 ms, then 2 Mb/s, with a cap of 5 Mb/s: 2 ms per packet, then 5 ms.
    let model = steps_of(&[(0, 10_000, 0, 0.0), (10, 2_000, 0, 0.0)], None);
    let capped = LinkConfig { rate: Rate::from_bps(5_000_000), ..config(QueueLimit::Unlimited) };
    let mut link = VaryingLink::new(capped, &model, SEED);
    for packet in 0..7 {
        link.enqueue(ms(0), packet, SIZE);
    }
    let arrivals: Vec<_> = run(&mut link, Instant::FAR_FUTURE).iter().map(|told| told.1).collect();
    assert_eq!(arrivals, [2, 4, 6, 8, 10, 15, 20].map(|at| ms(20 + at)));
}

#[test]
fn a_new_cap_applies_from_the_next_packet_on_and_zero_stalls() {
    let mut link = link(&steady(), QueueLimit::Unlimited);
    for packet in 0..3 {
        link.enqueue(ms(0), packet, SIZE);
    }
    link.set(us(500), Change::Rate(Rate::ZERO));
    assert_eq!(run(&mut link, ms(500)).len(), 1, "the one in service leaves");
    assert_eq!(link.poll_timeout(), None);
    link.set(ms(1000), Change::Rate(Rate::from_bps(1_000_000)));
    let told = run(&mut link, Instant::FAR_FUTURE);
    assert_eq!(told.iter().map(|told| told.1).collect::<Vec<_>>(), [ms(1030), ms(1040)]);
}

#[test]
fn down_discards_and_the_model_continues() {
    let model = steps_of(&[(0, 10_000, 0, 0.0), (100, 1_000, 0, 0.0)], None);
    let mut link = link(&model, QueueLimit::Unlimited);
    for packet in 0..30 {
        link.enqueue(ms(0), packet, SIZE);
    }
    link.set(us(21_500), Change::Down);
    let told = poll(&mut link, us(21_500));
    let fates = |why| told.iter().filter(|told| told.2 == why).count();
    assert_eq!((fates(None), fates(Some(DropReason::Down))), (1, 29));
    link.enqueue(ms(50), 30, SIZE);
    assert_eq!(poll(&mut link, ms(50))[0].2, Some(DropReason::Down));
    link.set(ms(200), Change::Up);
    link.enqueue(ms(200), 31, SIZE);
    assert_eq!(run(&mut link, Instant::FAR_FUTURE), [(31, ms(230), None)], "at 1 Mb/s by now");
    assert_conserved(&link);
}

#[test]
fn loss_and_delay_come_on_top_of_the_models() {
    let mut link = link(&steps_of(&[(0, 10_000, 30, 0.1)], None), QueueLimit::Unlimited);
    link.set(ms(0), Change::Loss(Some(LossModel::Bernoulli(0.2))));
    link.set(ms(0), Change::Delay(span(5)));
    for packet in 0..20_000 {
        link.enqueue(ms(0), packet, SIZE);
    }
    let told = run(&mut link, Instant::FAR_FUTURE);
    let first = told.iter().find(|told| told.2.is_none()).unwrap();
    assert_eq!(first.1, ms(u64::from(first.0) + 1 + 5 + 30));
    // 1 - 0.9 * 0.8 = 28 %, with a standard error of 0.32 %.
    let lost = link.stats().dropped_loss as f64 / 20_000.0;
    assert!((lost - 0.28).abs() < 0.013, "{lost}");
}

fn models() -> Vec<Model> {
    let opportunities = [3, 3, 17, 40].map(span);
    let mut starlink = StarlinkModel::new(Direction::Down, "dish");
    starlink.profile = StarlinkProfile::Moving;
    vec![
        steps_of(&[(0, 2_000, 7, 0.1), (40, 0, 0, 0.0), (60, 9_000, 1, 0.0)], Some(90)),
        Model::Trace(Trace::Opportunities { at: Arc::new(opportunities), bytes: 1500 }),
        Model::Lte(LteModel::new(Direction::Down, LteProfile::TmobileDriving)),
        Model::Lte(LteModel::new(Direction::Up, LteProfile::AttDriving)),
        Model::Starlink(starlink),
        Model::Starlink(StarlinkModel::new(Direction::Up, "dish")),
    ]
}

/// A channel with one lane, as a link.
struct Lane(WifiMedium<u32>);

impl Link<u32> for Lane {
    fn enqueue(&mut self, now: Instant, packet: u32, size: ByteCount) {
        self.0.enqueue(now, 0, packet, size);
    }
    fn enter(&mut self, now: Instant, packet: u32, label: Label) {
        self.0.enter(now, 0, packet, label);
    }
    fn set(&mut self, now: Instant, change: Change) {
        self.0.set(now, 0, change);
    }
    fn poll_fate(&mut self, now: Instant) -> Option<Fate<u32>> {
        self.0.poll_fate(now).map(|(_, fate)| fate)
    }
    fn poll_timeout(&self) -> Option<Instant> {
        self.0.poll_timeout()
    }
    fn stats(&self) -> &anabranch_link::LinkStats {
        self.0.stats(0)
    }
    fn queued(&self, now: Instant) -> anabranch_link::Queued {
        self.0.queued(now, 0)
    }
    fn in_transit(&self) -> u64 {
        self.0.in_transit(0)
    }
    fn name(&self) -> &str {
        self.0.name(0)
    }
}

fn wifis() -> Vec<WifiModel> {
    let mut poor = WifiModel::new(WifiStandard::Ac, "desk");
    (poor.snr_db, poor.fading_db) = (12.0, 6.0);
    vec![WifiModel::new(WifiStandard::G, "desk"), poor]
}

/// Returns every kind of queue with short times; drop-tail both by name and as the default.
fn queues() -> Vec<Option<PluginChoice>> {
    let quick = |choice: PluginChoice, info: ParameterInfo| match info.key {
        "target" => choice.with("target", 500_000),
        "interval" => choice.with("interval", 2_000_000),
        _ => choice,
    };
    let all = queue::disciplines().map(|(kind, _)| {
        let parameters = queue::parameters(kind.name).expect("a name of the table");
        Some(parameters.into_iter().fold(PluginChoice::named(kind.name), quick))
    });
    [None].into_iter().chain(all).collect()
}

fn lives(link: impl Fn() -> Box<dyn Link<u32>>, steps: &[Step]) -> Result<(), TestCaseError> {
    let told = [Attention::Lazy, Attention::Woken].map(|how| live(&mut *link(), steps, how));
    let [mut lazy, mut woken] = told.clone();
    lazy.sort_unstable();
    woken.sort_unstable();
    prop_assert_eq!(lazy, woken, "fates do not depend on polling");
    for told in told {
        let delivered: Vec<_> = told.iter().filter(|told| told.2.is_none()).collect();
        prop_assert!(delivered.windows(2).all(|d| d[0].0 < d[1].0 && d[0].1 <= d[1].1));
    }
    Ok(())
}

proptest! {
    #![proptest_config(cases(300))]

    #[test]
    fn every_model_keeps_the_order_and_accounts_for_all(
        config in configs(), discipline in select(queues()), steps in steps()
    ) {
        let config = LinkConfig { discipline, ..config };
        lives(|| Box::new(VaryingLink::of_set_rate(config.clone(), SEED)), &steps)?;
        for model in models() {
            lives(|| Box::new(VaryingLink::new(config.clone(), &model, SEED)), &steps)?;
        }
        for model in wifis() {
            let lanes = || vec![(config.clone(), model.clone())];
            lives(|| Box::new(Lane(WifiMedium::new("6", lanes(), SEED))), &steps)?;
        }
    }

    #[test]
    fn impairments_do_not_depend_on_the_polling(
        config in configs(), steps in steps(), by in 1u64..9_000, gap in 1u64..4
    ) {
        let reorder = Some(Reorder { share: 0.4, delay: Duration::from_micros(by), gap });
        let impairments = Impairments { reorder, duplicate: 0.2, corrupt: 0.2, corrupt_passes: 0.5 };
        let config = LinkConfig { impairments, ..config };
        let hop = |name: &str| -> Hop<u32> {
            // A change of a chain's rate applies to its first hop. The second hop must not stay at rate zero.
            let rate = config.rate.max(Rate::from_bps(1_000_000));
            let config = LinkConfig { name: name.to_owned(), rate, ..config.clone() };
            Box::new(VaryingLink::of_set_rate(config, SEED))
        };
        let lanes = || vec![(config.clone(), wifis().remove(0))];
        let alone = || Box::new(VaryingLink::of_set_rate(config.clone(), SEED));
        let kinds: [&dyn Fn() -> Box<dyn Link<u32>>; 3] = [
            &|| alone(),
            &|| Box::new(Lane(WifiMedium::new("6", lanes(), SEED))),
            &|| Box::new(Chain::new("both", vec![hop("near"), hop("far")])),
        ];
        for link in kinds {
            let told = [Attention::Lazy, Attention::Woken].map(|how| {
                let mut told = live(&mut *link(), &steps, how);
                told.sort_unstable();
                told
            });
            prop_assert_eq!(&told[0], &told[1]);
        }
    }
}

#[test]
fn invalid_models_are_refused() {
    let with = |rows: &[(u64, u64, u64, f64)], repeat| steps_of(rows, repeat).check();
    assert!(with(&[(0, 1, 0, 0.0)], None).is_ok());
    assert!(with(&[], None).is_err());
    assert!(with(&[(1, 1, 0, 0.0)], None).is_err(), "it begins late");
    assert!(with(&[(0, 1, 0, 0.0), (0, 2, 0, 0.0)], None).is_err(), "it stands still");
    assert!(with(&[(0, 0, 0, 0.0)], Some(5)).is_err(), "it never serves");
    assert!(with(&[(0, 1, 0, 0.0)], Some(0)).is_err(), "it takes no time");
    assert!(with(&[(0, 1, 0, 1.5)], None).is_err(), "it loses more than all");
    let mut lte = LteModel::new(Direction::Down, LteProfile::Ghent);
    lte.bler = 1.0;
    assert!(Model::Lte(lte).check().is_err());
    let mut starlink = StarlinkModel::new(Direction::Down, "dish");
    starlink.phase = Some(Duration::from_secs(15));
    assert!(Model::Starlink(starlink).check().is_err());
}

#[test]
fn a_link_is_a_medium_of_one_lane() {
    let mut medium =
        Single(FixedLink::new(LinkConfig::new("a", RATE, QueueLimit::Packets(1), span(1)), SEED));
    assert_eq!((Medium::<u32>::lanes(&medium), Medium::<u32>::name(&medium, 0)), (1, "a"));
    medium.enqueue(ms(0), 0, 7, SIZE);
    assert_eq!(medium.queued(ms(0), 0).packets, 1);
    assert_eq!(Medium::<u32>::poll_timeout(&medium), Some(ms(2)));
    let there = Fate::Delivered { at: ms(2), packet: 7, marked: false, copy: false, damage: None };
    assert_eq!(medium.poll_fate(ms(2)), Some((0, there)));
}

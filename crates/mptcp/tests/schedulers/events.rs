//! The notifications of a scheduler that requests subflow events, and the timer values in its views.

use std::sync::{Arc, Mutex};

use anabranch_congestion::CongestionState;
use anabranch_mptcp::Config;
use anabranch_plugin::{Foreign, PluginChoice, PluginError, Registry};
use anabranch_scheduler::{
    Decision, PathScheduler, Schedulers, SendRequest, SubflowEvent, SubflowView,
};
use anabranch_units::{Duration, Instant, SubflowId};

use super::build;
use super::pair::{Pair, at, config, film};

/// The events, and the latest view of the first subflow at each of them.
#[derive(Debug, Default)]
struct Noted {
    events: Vec<(Instant, u8, SubflowEvent, SubflowView)>,
    first: SubflowView,
}

/// A `min-rtt` scheduler that records its notifications.
#[derive(Clone, Debug)]
struct Notes {
    watches: bool,
    noted: Arc<Mutex<Noted>>,
}

impl PathScheduler for Notes {
    fn name(&self) -> &'static str {
        "notes"
    }

    fn schedule(&mut self, request: &SendRequest, views: &[SubflowView]) -> Decision {
        if let Some(first) = views.iter().find(|view| view.id == SubflowId(0)) {
            self.noted.lock().expect("one thread").first = *first;
        }
        build("min-rtt").schedule(request, views)
    }

    fn on_event(&mut self, now: Instant, id: SubflowId, event: SubflowEvent) {
        let mut noted = self.noted.lock().expect("one thread");
        let first = noted.first;
        noted.events.push((now, id.0, event, first));
    }

    fn watches(&self) -> bool {
        self.watches
    }
}

impl Foreign<Schedulers> for Notes {
    fn build(
        &self,
        _choice: &PluginChoice,
        (): (),
    ) -> Option<Result<Box<dyn PathScheduler>, PluginError>> {
        Some(Ok(Box::new(self.clone())))
    }

    fn failed(&self) -> bool {
        false
    }
}

/// Twelve seconds of a server that writes 30 kB every 100 ms over paths with RTTs of 40 and 100 ms. Path 0
/// carries no packet from 1310 ms until `back`.
fn watched(watches: bool, back: Instant) -> (Pair, Arc<Mutex<Noted>>) {
    let noted = Arc::<Mutex<Noted>>::default();
    let plugin = Notes { watches, noted: Arc::clone(&noted) };
    let server = Config {
        scheduler: PluginChoice::named("notes"),
        registry: Registry::TABLES.with::<Schedulers>(Arc::new(plugin)),
        ..config()
    };
    let mut pair = Pair::new(&[40, 100], config(), server);
    pair.run_until(at(200));
    pair.serve(&film(100));
    pair.run_until(at(1000));
    pair.filter = Box::new(move |now, _, path, _| path != 0 || now < at(1310) || now >= back);
    for ms in (1000..12_000).step_by(100) {
        pair.serve(&film(30_000));
        pair.run_until(at(ms + 100));
    }
    (pair, noted)
}

#[test]
fn an_outage_is_reported_step_by_step() {
    let back = at(5000);
    let (_, noted) = watched(true, back);
    let noted = noted.lock().expect("one thread");
    let of = |id: u8| noted.events.iter().filter(move |event| event.1 == id);
    for id in [0, 1] {
        assert_eq!(of(id).next().expect("an event").2, SubflowEvent::Opened);
    }
    // RFC 6298 section 5.5: each timeout is twice the one before. The host's timer wheel fires up to an
    // eighth late.
    let timeouts: Vec<_> = of(0)
        .filter_map(|(at, _, event, view)| match event {
            SubflowEvent::Timeout { consecutive } => Some((*at, *consecutive, *view)),
            _ => None,
        })
        .collect();
    assert!(timeouts.len() >= 3, "{timeouts:?}");
    let tick = Duration::from_millis(8);
    for (index, (at, consecutive, view)) in timeouts.iter().enumerate() {
        assert_eq!(*consecutive, index as u32 + 1);
        let told = view.timeout_at.expect("data is outstanding");
        assert!(told.since(*at).max(at.since(told)) <= tick, "{told:?} {at:?}");
    }
    for three in timeouts.windows(3) {
        let (one, two) = (three[1].0.since(three[0].0), three[2].0.since(three[1].0));
        assert!(two * 9 >= one * 16 && two * 8 <= one * 18, "{one:?} {two:?}");
    }
    // Data sent before 1290 ms was acknowledged before 1310 ms. A retransmission keeps the send time of its
    // original.
    for (_, _, view) in &timeouts {
        let oldest = view.oldest_sent.expect("data is outstanding");
        assert!((at(1290)..=at(1330)).contains(&oldest), "{oldest:?}");
        assert_eq!(view.oldest_age(at(2000)), Some(at(2000).since(oldest)));
    }
    // tcp_enter_loss: at the timeout the head is lost, and the state is Loss.
    let at_first = |event: SubflowEvent| of(0).any(|e| e.0 == timeouts[0].0 && e.2 == event);
    assert!(at_first(SubflowEvent::Congestion(CongestionState::Loss)));
    assert!(of(0).any(|e| e.0 == timeouts[0].0 && matches!(e.2, SubflowEvent::Lost { .. })));
    let delivered = |e: &&(Instant, u8, SubflowEvent, SubflowView)| {
        matches!(e.2, SubflowEvent::Delivered { .. })
    };
    assert!(of(0).filter(delivered).all(|e| e.0 < at(1331) || e.0 > back));
    assert!(of(0).filter(delivered).any(|e| e.0 > back), "it has come back");
}

#[test]
fn every_delivered_byte_and_every_end_is_reported_once() {
    let (mut pair, noted) = watched(true, at(2000));
    pair.end();
    pair.client().shutdown(at(12_000));
    pair.run_until(at(13_000));
    let noted = noted.lock().expect("one thread");
    for summary in pair.server().view().summaries() {
        let of = || noted.events.iter().filter(|event| event.1 == summary.id.0);
        let bytes: u64 = of()
            .map(|event| match event.2 {
                SubflowEvent::Delivered { bytes, .. } => bytes,
                _ => 0,
            })
            .sum();
        assert_eq!(bytes, summary.totals.bytes_acked);
        let timeouts = of().filter(|e| matches!(e.2, SubflowEvent::Timeout { .. })).count();
        assert_eq!(timeouts as u64, summary.totals.timeouts);
        assert_eq!(of().filter(|e| e.2 == SubflowEvent::Opened).count(), 1);
        assert_eq!(of().filter(|e| e.2 == SubflowEvent::Closed).count(), 1);
    }
}

#[test]
fn a_scheduler_that_does_not_watch_is_not_notified() {
    let (_, noted) = watched(false, at(2000));
    let noted = noted.lock().expect("one thread");
    assert!(noted.events.is_empty());
    assert_eq!((noted.first.oldest_sent, noted.first.timeout_at), (None, None));
    assert!(noted.first.in_flight > 0 || noted.first.last_ack > Instant::ZERO);
}

//! Tests that the connection executes the decisions of its scheduler. A scripted scheduler runs at the
//! server.

use std::ops::Range;
use std::sync::{Arc, Mutex};

use anabranch_mptcp::Config;
use anabranch_plugin::{Foreign, PluginChoice, PluginError, Registry};
use anabranch_scheduler::{
    Ask, Decision, Hint, PathScheduler, Schedulers, SendRequest, SubflowSet, SubflowView,
};
use anabranch_units::{Duration, Instant, SubflowId};
use anabranch_wire::MappingDsn;

use super::pair::{Pair, Way, at, config, film};

type Decide = fn(&SendRequest, &[SubflowView], usize) -> Decision;

/// The requests and notifications that the scheduler received.
#[derive(Debug, Default)]
struct Heard {
    /// Whether all paths are established, so that the script has begun.
    live: bool,
    asked: Vec<SendRequest>,
    penalised: Vec<SubflowId>,
}

#[derive(Clone, Debug)]
struct Script {
    decide: Decide,
    heard: Arc<Mutex<Heard>>,
}

impl PathScheduler for Script {
    fn name(&self) -> &'static str {
        "script"
    }

    fn schedule(&mut self, request: &SendRequest, views: &[SubflowView]) -> Decision {
        let mut heard = self.heard.lock().expect("one thread");
        if !heard.live {
            return first(views);
        }
        heard.asked.push(*request);
        (self.decide)(request, views, heard.asked.len())
    }

    fn on_penalised(&mut self, id: SubflowId) {
        self.heard.lock().expect("one thread").penalised.push(id);
    }

    fn wants_idle(&self) -> bool {
        true
    }
}

impl Foreign<Schedulers> for Script {
    fn build(
        &self,
        choice: &PluginChoice,
        (): (),
    ) -> Option<Result<Box<dyn PathScheduler>, PluginError>> {
        (choice.name == "script").then(|| Ok(Box::new(self.clone()) as Box<dyn PathScheduler>))
    }

    fn failed(&self) -> bool {
        false
    }
}

/// The number of bytes sent before the script begins. The client joins after it has received data.
const GREETING: usize = 100;

/// A server whose scheduler follows `decide` from 1 s on, when all paths are established.
fn scripted(rtts_ms: &[u64], client: Config, decide: Decide) -> (Pair, Arc<Mutex<Heard>>) {
    let script = Script { decide, heard: Arc::default() };
    let heard = Arc::clone(&script.heard);
    let server = Config {
        scheduler: PluginChoice::named("script"),
        registry: Registry::TABLES.with::<Schedulers>(Arc::new(script)),
        ..config()
    };
    let mut pair = Pair::new(rtts_ms, client, server);
    greet(&mut pair, rtts_ms.len());
    heard.lock().expect("one thread").live = true;
    (pair, heard)
}

fn greet(pair: &mut Pair, paths: usize) {
    pair.run_until(at(200));
    pair.serve(&film(GREETING));
    pair.run_until(at(1000));
    assert_eq!(pair.received.len(), GREETING);
    assert_eq!(pair.server().view().samples().count(), paths, "all have joined");
    pair.received.clear();
}

fn first(views: &[SubflowView]) -> Decision {
    let free = views.iter().find(|view| view.can_send());
    free.map_or(Decision::WAIT, SubflowView::one_segment)
}

/// Returns the send time and the DSN range of each data segment on a path, in the order of sending.
fn dsns(pair: &Pair, path: usize) -> Vec<(Instant, Range<u64>)> {
    let first = pair.sent(Way::ToClient, path).next().expect("a SYN").3.seq;
    let data = pair.sent(Way::ToClient, path).filter(|(_, _, _, s)| !s.payload.is_empty());
    data.filter_map(|(at, _, _, segment)| {
        let mapping = segment.dss?.mapping?;
        let MappingDsn::Long(dsn) = mapping.dsn else { return None };
        // One mapping may cover several segments.
        let into = segment.seq.distance(first).wrapping_sub(mapping.ssn);
        let start = dsn.0.wrapping_add(u64::from(into));
        Some((*at, start..start + segment.payload.len() as u64))
    })
    .collect()
}

#[test]
fn a_wait_ends_at_its_time_and_none_spins() {
    let decide: Decide = |request, views, count| match (request.ask, count) {
        (Ask::NewData, 1..=3) => {
            Decision::Wait { until: Some(request.now + Duration::from_millis(30)) }
        }
        // A time that is not in the future counts as a short wait.
        (Ask::NewData, 4) => Decision::Wait { until: Some(request.now) },
        (Ask::NewData, _) => first(views),
        // The scheduler waits until all data was sent.
        _ => Decision::Wait { until: Some(request.now + Duration::from_secs(5)) },
    };
    let (mut pair, heard) = scripted(&[50], config(), decide);
    pair.serve(&film(3000));
    pair.run_until(at(1190));
    let asked: Vec<_> = heard.lock().expect("one thread").asked.iter().map(|r| r.now).collect();
    assert_eq!(asked, [at(1000), at(1030), at(1060), at(1090)]);
    pair.serve(&film(3000)[..1]);
    pair.run_until(at(20_000));
    assert_eq!(pair.received.len(), 3001);
    let last = heard.lock().expect("one thread").asked.last().map(|r| r.now);
    assert!(last < Some(at(2000)), "nothing is left to be asked about: {last:?}");
}

#[test]
fn every_copy_beyond_the_first_counts_as_reinjected() {
    let decide: Decide = |request, views, count| {
        let both = views.iter().map(|view| view.id).collect();
        let burst = 1000;
        match count {
            // The first kilobyte is sent on both paths. Then the third one, ahead of the second one, is sent
            // on each path.
            1 => Decision::Send { on: both, from: None, burst },
            2 | 3 => Decision::Send {
                on: SubflowSet::one(SubflowId(count as u8 - 2)),
                from: Some(request.data_next + 1000),
                burst,
            },
            // The second kilobyte, then both paths over the data that was sent ahead.
            4 => Decision::Send { on: both, from: Some(request.data_next + 1500), burst },
            _ => first(views),
        }
    };
    let (mut pair, _heard) = scripted(&[50, 60], config(), decide);
    let film = film(20_000);
    pair.serve(&film);
    pair.run_until(at(3000));
    assert!(pair.got(&film));
    // Reinjected: a copy of the first kilobyte, one of the third, and 2000 bytes of which 500 are new.
    assert_eq!(pair.server().view().reinjected_bytes(), 1000 + 1000 + 2000 - 500);
}

#[test]
fn data_sent_ahead_is_sent_once() {
    let decide: Decide = |request, views, count| {
        let burst = u64::from(views[0].mss);
        match count {
            // The third segment first, then the sixth and seventh together on the other path.
            1 => Decision::Send {
                on: SubflowSet::one(SubflowId(0)),
                from: Some(request.data_next + 2 * burst),
                burst,
            },
            2 => Decision::Send {
                on: SubflowSet::one(SubflowId(1)),
                from: Some(request.data_next + 5 * burst),
                burst: 2 * burst,
            },
            // A burst larger than the gap stops at the data that was sent ahead.
            _ => match first(views) {
                Decision::Send { on, from, .. } => Decision::Send { on, from, burst: 9 * burst },
                wait => wait,
            },
        }
    };
    let (mut pair, heard) = scripted(&[50, 60], config(), decide);
    let film = film(20_000);
    pair.serve(&film);
    pair.run_until(at(3000));
    assert!(pair.got(&film));
    assert_eq!(pair.server().view().reinjected_bytes(), 0);
    let sent: u64 = pair.server().view().summaries().map(|s| s.totals.bytes_sent).sum();
    assert_eq!(sent, (GREETING + film.len()) as u64, "every byte once");
    let heard = heard.lock().expect("one thread");
    let mut next: Vec<u64> = heard.asked.iter().map(|request| request.data_next).collect();
    next.dedup();
    let start = GREETING as u64;
    let segment = (next[1] - start) / 3;
    let skipped = [start, start + 3 * segment, start + 7 * segment];
    assert_eq!(next[..3], skipped, "what was sent ahead is skipped");
}

#[test]
fn window_blocked_request_names_the_subflows_of_its_head() {
    let decide: Decide = |request, views, count| match request.ask {
        Ask::NewData if count < 3 => {
            Decision::Send { on: SubflowSet::one(SubflowId(1)), from: None, burst: 2000 }
        }
        Ask::NewData => first(views),
        _ => Decision::WAIT,
    };
    let client = Config { receive_buffer_initial: 16_384, receive_buffer_max: 16_384, ..config() };
    let (mut pair, heard) = scripted(&[20, 400], client, decide);
    pair.serve(&film(200_000));
    pair.run_until(at(1150));
    let heard = heard.lock().expect("one thread");
    let blocked: Vec<_> = heard
        .asked
        .iter()
        .filter_map(|request| match request.ask {
            Ask::WindowBlocked { head } => Some((*request, head)),
            _ => None,
        })
        .collect();
    assert!(!blocked.is_empty(), "the window was full");
    for (request, head) in blocked {
        assert_eq!(request.data_next, request.window_end);
        assert_eq!((head.from, head.to), (100, 4100));
        assert_eq!(request.data_una, head.from);
        assert_eq!(head.by, SubflowSet::one(SubflowId(1)));
    }
}

#[test]
fn full_send_buffer_is_reported_only_with_all_data_scheduled() {
    let decide: Decide = |request, views, _| match request.ask {
        Ask::NewData => first(views),
        _ => Decision::WAIT,
    };
    let (mut pair, heard) = scripted(&[100], config(), decide);
    // By then, the window is as large as the send buffer.
    pair.serve(&film(20_000_000));
    pair.run_until(at(4000));
    let heard = heard.lock().expect("one thread");
    let full = heard.asked.iter().filter(|r| matches!(r.ask, Ask::BufferFull { .. })).count();
    assert!(full > 0, "the buffer was full");
    let scheduled =
        |r: &SendRequest| !matches!(r.ask, Ask::BufferFull { .. }) || r.unscheduled() == 0;
    assert!(heard.asked.iter().all(scheduled), "and everything scheduled");
}

#[test]
fn a_penalty_halves_a_window_that_is_open() {
    // The first two calls return a penalty for both subflows. The second one ends the scheduling.
    let decide: Decide = |_, views, count| match count {
        1 | 2 => Decision::Penalise(views.iter().map(|view| view.id).collect()),
        _ => first(views),
    };
    let (mut pair, heard) = scripted(&[50, 60], config(), decide);
    let windows =
        |pair: &mut Pair| -> Vec<_> { pair.server().view().windows().map(|w| w.2).collect() };
    let before = windows(&mut pair);
    pair.serve(&film(1000));
    assert_eq!(before, [10, 10]);
    assert_eq!(windows(&mut pair), [5, 5]);
    assert_eq!(heard.lock().expect("one thread").penalised, [SubflowId(0), SubflowId(1)]);
    assert_eq!(heard.lock().expect("one thread").asked.len(), 2);
    let ssthresh = pair.server().view().samples().map(|s| s.ssthresh_segments).min();
    assert_eq!(ssthresh, Some(u32::MAX), "slow start goes on");
    pair.run_until(at(1500));
    let penalties: Vec<_> = pair.server().view().summaries().map(|s| s.totals.penalties).collect();
    assert_eq!(penalties, [1, 1]);
    assert_eq!(pair.received.len(), 1000, "asked again by the retransmission timer at the latest");
}

#[test]
fn hints_reach_the_scheduler() {
    let decide: Decide = |_, views, _| first(views);
    let (mut pair, heard) = scripted(&[50], config(), decide);
    let hint = Hint::new(at(1000), Some(Duration::from_secs(2)), Some(Duration::from_secs(3)));
    assert_eq!((hint.received(), hint.deadline()), (Some(at(1000)), Some(at(4000))));
    assert_eq!(hint.buffered(), Some(Duration::from_secs(2)));
    let none = Hint::default();
    assert_eq!((none.received(), none.deadline(), none.buffered()), (None, None, None));
    pair.server().set_hint(hint);
    pair.serve(&film(1000));
    assert_eq!(heard.lock().expect("one thread").asked[0].hint, hint);
}

/// A server with `scheduler` whose first path loses all packets from 1310 ms on, during a transfer. Also
/// returns the DSNs that were lost on it before its timeout.
fn silenced(scheduler: &str) -> (Pair, Vec<u64>) {
    let server = Config { scheduler: super::named(scheduler), ..config() };
    let mut pair = Pair::new(&[40, 100], config(), server);
    greet(&mut pair, 2);
    pair.filter = Box::new(|now, _, path, _| path != 0 || now < at(1310));
    pair.serve(&film(4_000_000));
    pair.run_until(at(4000));
    let cut = at(1310)..at(1500);
    let lost = dsns(&pair, 0).into_iter().filter(|(when, _)| cut.contains(when));
    let lost = lost.map(|(_, dsns)| dsns.start).collect();
    (pair, lost)
}

#[test]
fn data_of_a_silent_subflow_is_resent_at_its_timeout() {
    let count = |scheduler: &str, until: Instant| {
        let (pair, lost) = silenced(scheduler);
        let sent = dsns(&pair, 1);
        let again = |dsn: &&u64| sent.iter().any(|(at, dsns)| *at <= until && dsns.contains(*dsn));
        (lost.iter().filter(again).count(), lost.len())
    };
    let (again, lost) = count("min-rtt-0.9x", at(1900));
    assert!(lost > 5, "the cut took effect: {lost}");
    assert_eq!(again, lost, "all of it");
    // Upstream Linux sends one fragment per timer until the subflow is stale.
    let (fewer, lost) = count("min-rtt", at(1900));
    assert!(fewer < lost, "{fewer} of {lost}");
    assert_eq!(count("min-rtt", at(4000)).0, lost);
    let (mut pair, _) = silenced("dft");
    let timeouts: Vec<_> = pair.server().view().summaries().map(|s| s.totals.timeouts).collect();
    assert!(timeouts[0] > 1, "{timeouts:?}");
    let (before, after): (Vec<_>, Vec<_>) =
        dsns(&pair, 0).into_iter().partition(|(when, _)| *when < at(1700));
    assert!(!after.is_empty(), "the timer goes on");
    let known = |dsns: &Range<u64>| before.iter().any(|(_, other)| other == dsns);
    assert!(after.iter().all(|(_, dsns)| known(dsns)), "nothing new goes to the silent one");
}

#[test]
fn a_send_buffer_is_looked_at_between_pieces_of_32_kib_only() {
    // __subflow_push_pending: the scheduler is called, and memory checked, before each data fragment. The
    // part of a fragment within the burst is queued completely (`mptcp_data_frag`, 32,768 - 40 bytes).
    let decide: Decide = |request, _, _| match request.data_end - request.data_next {
        60_000 => Decision::next_on(SubflowId(0), 1 << 20),
        _ => Decision::WAIT,
    };
    let (mut pair, heard) = scripted(&[50, 60], config(), decide);
    for _ in 0..60 {
        pair.serve(&film(1000));
    }
    // The buffer is 2 * 10 segments of 2304 bytes: 46,080. One fragment with its overhead is smaller than the
    // buffer. The second one has begun and is therefore completed, here up to the end of the data at 60,000
    // bytes.
    let asked = heard.lock().expect("one thread").asked.clone();
    let next = asked.iter().map(|request| request.data_next).max();
    assert_eq!(next, Some(GREETING as u64 + 60_000));
}

//! The notifications of a congestion controller, and the reduction of an unused window.

use std::sync::{Arc, Mutex};

use anabranch_congestion::{
    AckSample, CongestionController, CongestionEvent, CongestionState, Controllers, TransmitStart,
    Window, WindowChange, slow_start,
};
use anabranch_mptcp::Config;
use anabranch_plugin::{Foreign, PluginChoice, PluginError, Registry};
use anabranch_units::{Instant, RandomStream};

use crate::dialect::{Script, thousands};

/// A controller that records its notifications; its window grows by slow start alone.
#[derive(Clone, Debug, Default)]
struct Diary {
    lines: Arc<Mutex<Vec<String>>>,
    /// For each rate sample, whether it was application-limited.
    limited: Arc<Mutex<Vec<bool>>>,
}

impl Diary {
    fn note(&self, line: String) {
        self.lines.lock().expect("one thread").push(line);
    }

    /// The entries recorded since the last call.
    fn read(&self) -> Vec<String> {
        std::mem::take(&mut *self.lines.lock().expect("one thread"))
    }

    fn config(&self) -> Config {
        Config {
            registry: Registry::TABLES.with::<Controllers>(Arc::new(self.clone())),
            congestion: PluginChoice::named("diary"),
            nodelay: true,
            ..thousands()
        }
    }
}

impl CongestionController for Diary {
    fn name(&self) -> &'static str {
        "diary"
    }

    fn on_ack(&mut self, ack: &AckSample<'_>, window: &mut Window) {
        let held = if ack.maybe_delayed { " perhaps delayed" } else { "" };
        self.note(format!("{} acknowledged{held}", ack.acked));
        self.limited.lock().expect("one thread").push(ack.rate.app_limited);
        if ack.may_grow && ack.cwnd_limited {
            slow_start(window, ack.acked);
        }
    }

    fn on_congestion(&mut self, event: &CongestionEvent, window: &mut Window) {
        self.note(format!("{:?}", event.kind));
        window.ssthresh = window.cwnd / 2;
    }

    fn on_state(&mut self, _now: Instant, state: CongestionState, _window: &mut Window) {
        self.note(state.name().to_owned());
    }

    fn on_transmit_start(&mut self, _start: &TransmitStart, window: &mut Window) {
        self.note(format!("start at {}", window.cwnd));
    }

    fn on_idle_restart(&mut self, now: Instant) {
        self.note(format!("idle until {}", now.as_nanos() / 1_000_000));
    }

    fn on_window_changed(&mut self, cause: WindowChange, window: &mut Window) {
        self.note(format!("{cause:?} {}", window.cwnd));
    }
}

impl Foreign<Controllers> for Diary {
    fn build(
        &self,
        choice: &PluginChoice,
        _random: RandomStream,
    ) -> Option<Result<Box<dyn CongestionController>, PluginError>> {
        (choice.name == "diary").then(|| Ok(Box::new(self.clone()) as _))
    }

    fn failed(&self) -> bool {
        false
    }
}

/// A plain TCP server that writes `bytes` at 100 ms, after a handshake of 50 ms.
fn written(diary: &Diary, bytes: usize) -> Script {
    let mut s = Script::plain_with(diary.config(), 50);
    s.write(100, bytes);
    diary.read();
    s
}

/// A window of 80 at 250 ms. Flights of ten, twenty and forty segments, the last one sent at 200 ms, were
/// each acknowledged as a whole.
fn eighty(diary: &Diary) -> Script {
    let mut s = Script::plain_with(diary.config(), 50);
    s.write(100, 30_000);
    s.peer(150, ". ack=10001");
    s.peer(200, ". ack=30001");
    s.write(200, 40_000);
    s.peer(250, ". ack=70001");
    assert_eq!(s.cwnd(), 80);
    diary.read();
    s
}

/// `FLAG_ACK_MAYBE_DELAYED` (`tcp_clean_rtx_queue`): exactly one whole segment smaller than `mss_cache` is
/// acknowledged, nothing else was delivered since it was sent, and no duplicate is reported.
#[test]
fn an_acknowledgement_of_a_lone_small_segment_may_have_been_delayed() {
    let cases: &[(&str, usize, &[&str], &str)] = &[
        ("a small one", 999, &["ack=1000"], "1 acknowledged perhaps delayed"),
        ("a full one", 1000, &["ack=1001"], "1 acknowledged"),
        ("a full one and a small one at once", 1500, &["ack=1501"], "2 acknowledged"),
        ("the small one after the full one", 1500, &["ack=1001", "ack=1501"], "1 acknowledged"),
        (
            "it, and a duplicate of what was sent once",
            500,
            &["ack=501 sack=1:501"],
            "1 acknowledged perhaps delayed",
        ),
    ];
    for (name, bytes, acknowledgements, expected) in cases {
        let diary = Diary::default();
        let mut s = written(&diary, *bytes);
        for (n, words) in (0..).zip(*acknowledgements) {
            s.peer(180 + n, &format!(". {words}"));
        }
        let told = diary.read();
        assert_eq!(told.last().map(String::as_str), Some(*expected), "{name}: {told:?}");
    }
    // The acknowledgement also reports the duplicate of an earlier segment that was retransmitted after 250
    // ms. Both segments count as delivered.
    let diary = Diary::default();
    let mut s = written(&diary, 1000);
    s.peer(400, ". ack=1001");
    s.write(410, 500);
    diary.read();
    s.peer(480, ". ack=1501 sack=1:1001");
    assert_eq!(diary.read().last().map(String::as_str), Some("2 acknowledged"));
    // Two small segments: the first is acknowledged alone, then with a part of the second.
    for (ack, expected) in [(501, "1 acknowledged perhaps delayed"), (601, "1 acknowledged")] {
        let diary = Diary::default();
        let mut s = written(&diary, 500);
        s.write(110, 500);
        diary.read();
        s.peer(180, &format!(". ack={ack}"));
        assert_eq!(diary.read(), [expected], "up to {ack}");
    }
}

/// RFC 2861 section 3.1 as in Linux: an unfilled window is reduced after an RTO of 250 ms
/// (`tcp_cwnd_application_limited`). Each acknowledgement that may grow the window restarts that time
/// (`snd_cwnd_stamp` in `tcp_cong_avoid`).
#[test]
fn a_window_that_the_application_does_not_fill_stays_while_acknowledgements_come() {
    let diary = Diary::default();
    let mut s = eighty(&diary);
    let mut end = 70_001;
    for flight in 0..13 {
        let ms = 300 + 100 * flight;
        s.write(ms, 3000);
        end += 3000;
        assert_eq!(diary.read(), ["start at 80"], "{ms} ms");
        s.peer(ms + 50, &format!(". ack={end}"));
        diary.read();
    }
}

/// RFC 2861 section 3.1, `tcp_cwnd_restart`: the window is halved for each idle RTO, down to ten segments.
/// The controller is notified before it sends again.
#[test]
fn controller_is_notified_of_idle_before_the_next_send() {
    for (silence, expected) in [
        // The sender is not idle yet, because the last acknowledgement arrived later.
        (250, &["start at 80"][..]),
        (500, &["idle until 700", "Idle 40", "start at 40"]),
        (251, &["idle until 451", "Idle 40", "start at 40"]),
        (501, &["idle until 701", "Idle 20", "start at 20"]),
        (2000, &["idle until 2200", "Idle 10", "start at 10"]),
    ] {
        let diary = Diary::default();
        let mut s = eighty(&diary);
        s.write(200 + silence, 1000);
        assert_eq!(diary.read(), expected, "{silence} ms after the last segment was sent");
    }
}

/// `tcp_rate_check_app_limited`, called before each write: less than a segment is queued, and the window has
/// space. Samples are then application-limited until all data in flight is delivered. At the first write,
/// nothing is in flight.
#[test]
fn rates_are_the_applications_while_it_leaves_the_window_unused() {
    let cases: [(&str, &str, [usize; 2], bool); 5] = [
        ("three of ten, and more later", ".", [3000, 9000], true),
        ("the window is full", ".", [10_000, 1000], false),
        ("a small one waits", ". win=24", [3999, 1000], true),
        ("a full one waits", ". win=24", [4000, 1000], false),
        ("two wait", ". win=24", [5000, 1000], false),
    ];
    for (name, third, writes, limited) in cases {
        let diary = Diary::default();
        let mut s = Script::server(diary.config());
        s.peer(0, "S");
        s.us(0, "S.");
        s.peer(50, third);
        s.write(100, writes[0]);
        s.write(110, writes[1]);
        let sent = s.sent_on(0) + 1;
        s.peer(150, &format!(". ack={} win=500", sent.min(3001)));
        // All segments sent since then.
        let end = s.sent_on(0) + 1;
        s.peer(200, &format!(". ack={end} win=500"));
        let seen = diary.limited.lock().expect("one thread").clone();
        assert_eq!(seen, [true, limited], "{name}");
    }
}

/// `tcp_is_cwnd_limited`: in slow start, a window of ten is in use if more than half of it was in flight, in
/// one write or in several.
#[test]
fn slow_start_goes_on_with_more_than_half_of_the_window_in_use() {
    for (writes, cwnd) in [([5, 0], 10), ([6, 0], 16), ([3, 3], 16), ([3, 2], 10)] {
        let diary = Diary::default();
        let mut s = Script::plain_with(diary.config(), 50);
        let mut sent = 0;
        for (n, segments) in (0..).zip(writes) {
            if segments > 0 {
                s.write(100 + 10 * n, 1000 * segments);
            }
            sent += 1000 * segments;
        }
        s.peer(180, &format!(". ack={}", sent + 1));
        assert_eq!(s.cwnd(), cwnd, "{writes:?}");
    }
}

/// Neither rule applies to a controller with its own model (`cong_control`).
#[test]
fn bbr_keeps_its_window_over_idleness() {
    let config = Config { congestion: PluginChoice::named("bbr"), ..thousands() };
    let mut s = Script::plain_with(config, 50);
    s.write(100, 10_000);
    s.peer(150, ". ack=10001");
    let window = s.cwnd();
    assert!(window > 10);
    s.write(5000, 1000);
    s.peer(5050, ". ack=11001");
    assert!(s.cwnd() >= window);
}

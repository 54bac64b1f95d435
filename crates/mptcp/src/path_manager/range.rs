//! Joins paths only within a range of delay and rate around the paths in use. UQ18 proposes this as future
//! work: a subflow is to be established only "within a target range of bandwidth and delays variance".
//!
//! The paper gives no formula. This implementation joins a path if
//!
//! ```text
//! srtt_new <= delay_factor * srtt_min + delay_margin    and    rate_new >= rate_share * rate_max
//! ```
//!
//! The rates are the configured rates of the interfaces. A path without a configured rate is not refused
//! because of it. The delay of an unused path is unknown, so the join measures it. A subflow that is too slow
//! is reset before it carries data, with the reason "unacceptable performance" (RFC 8684 section 3.6). The
//! address is then not tried during a pause, which doubles after each refusal. Only handshake delays are
//! measured, so later queueing delay has no effect.

use std::net::IpAddr;

use anabranch_plugin::Parameters;
use anabranch_units::{Duration, Instant, Rate};

use super::{Candidate, OpenPath, PathManager};

/// The upper limit of the doubled pauses. A longer `retry_s` replaces it.
const MOST_PATIENCE: Duration = Duration::from_secs(900);

/// A local address whose path was too slow.
#[derive(Clone, Copy, Debug)]
struct Refused {
    local: IpAddr,
    /// The end of the pause.
    until: Instant,
    /// The length of the current pause.
    patience: Duration,
}

/// Joins only paths within the range of delay and rate.
#[derive(Debug)]
pub struct Range {
    delay_factor: f64,
    delay_margin_s: f64,
    rate_share: f64,
    retry: Duration,
    /// The refused addresses. An address is removed when a join from it is admitted.
    refused: Vec<Refused>,
}

impl Range {
    pub(super) fn build(parameters: &mut Parameters<'_>) -> Box<dyn PathManager> {
        Box::new(Self {
            delay_factor: parameters.number("delay_factor", 3.0, 1.0..=1000.0),
            delay_margin_s: parameters.number("delay_margin_ms", 50.0, 0.0..=60_000.0) / 1e3,
            rate_share: parameters.number("rate_share", 0.25, 0.0..=1.0),
            retry: Duration::from_secs_f64(parameters.number("retry_s", 10.0, 1.0..=86_400.0)),
            refused: Vec::new(),
        })
    }

    fn joins(&self, now: Instant, pairs: &[Candidate], open: &[OpenPath]) -> Vec<Candidate> {
        let most = open.iter().filter_map(|path| path.rate).max();
        let enough = |rate: Rate| {
            most.is_none_or(|most| rate.bps() as f64 >= self.rate_share * most.bps() as f64)
        };
        let wanted = |pair: &&Candidate| {
            let refused = |entry: &Refused| entry.local == pair.local.ip() && entry.until > now;
            !self.refused.iter().any(refused) && pair.rate.is_none_or(enough)
        };
        pairs.iter().filter(wanted).copied().collect()
    }
}

impl PathManager for Range {
    fn name(&self) -> &'static str {
        "range"
    }

    fn on_established(
        &mut self,
        now: Instant,
        unused: &[Candidate],
        open: &[OpenPath],
    ) -> Vec<Candidate> {
        self.joins(now, unused, open)
    }

    fn on_announced(
        &mut self,
        now: Instant,
        pairs: &[Candidate],
        open: &[OpenPath],
    ) -> Vec<Candidate> {
        self.joins(now, pairs, open)
    }

    fn admits(&mut self, now: Instant, joining: &OpenPath, open: &[OpenPath]) -> bool {
        let least = open.iter().filter_map(|path| path.srtt).min();
        let (Some(srtt), Some(least)) = (joining.srtt, least) else { return true };
        let limit = self.delay_factor * least.as_secs_f64() + self.delay_margin_s;
        let admitted = srtt.as_secs_f64() <= limit;
        let local = joining.local.ip();
        let before = self.refused.iter().position(|entry| entry.local == local);
        let before = before.map(|index| self.refused.swap_remove(index).patience);
        if !admitted {
            let longest = MOST_PATIENCE.max(self.retry);
            let patience = before.map_or(self.retry, |before| (before * 2).min(longest));
            self.refused.push(Refused { local, until: now + patience, patience });
        }
        admitted
    }
}

//! Delay-aware packet scheduling (Kuhn et al., ICC 2014). A plan covers one period, the round trip of the
//! slowest subflow. In the plan, every subflow sends one window per round trip. Segments are assigned in the
//! order of their arrival, so slow subflows carry later parts of the stream.
//!
//! The paper's period is the least common multiple of the round trips. This one is the longest round trip, in
//! which each subflow has as many whole rounds as fit, at most 32. A new plan is made only when all data of
//! the old one is sent, for which DAPS is criticised. If a subflow is added or removed, or if data is sent
//! again, the plan is invalid. The data that it covered is then sent in order on the subflow with the smallest
//! srtt, before a new plan is made.

use std::collections::VecDeque;

use anabranch_plugin::Parameters;
use anabranch_units::SubflowId;

use super::{Ask, Decision, PathScheduler, SendRequest, SubflowSet, SubflowView, candidates};

/// The most rounds of one subflow in a plan.
const MOST_ROUNDS: u64 = 32;

/// The ranges of the data stream that one subflow is to send: one per round, in order.
#[derive(Debug)]
struct Share {
    id: SubflowId,
    ranges: VecDeque<(u64, u64)>,
}

/// A scheduler that plans the order of arrival.
#[derive(Debug, Default)]
pub struct Daps {
    plan: Vec<Share>,
    /// The start of the plan in the data stream, and the length of its segments, bytes.
    begin: u64,
    segment: u64,
    /// One past the last byte that any plan has assigned.
    planned: u64,
    /// While the next unscheduled byte is below this position, data is sent in order.
    catch_up: u64,
    /// The next unscheduled byte at the last call.
    next: u64,
}

impl Daps {
    pub(super) fn build(_parameters: &mut Parameters<'_>) -> Box<dyn PathScheduler> {
        Box::new(Self::default())
    }

    /// Makes a plan: sorts the rounds of all subflows by arrival time, and assigns the stream to them in that
    /// order.
    fn make_plan(&mut self, from: u64, members: &[&SubflowView]) {
        let span = members.iter().map(|view| view.srtt.as_nanos()).max().unwrap_or(0);
        self.segment = members.iter().map(|view| u64::from(view.mss)).min().unwrap_or(1);
        let mut rounds: Vec<(u64, usize, u64)> = Vec::new();
        for (member, view) in members.iter().enumerate() {
            let srtt = view.srtt.as_nanos().max(1);
            let window = u64::from(view.cwnd.max(1)) * self.segment;
            let arrival = |round| round * srtt + srtt / 2;
            let count = (span / srtt).clamp(1, MOST_ROUNDS);
            rounds.extend((0..count).map(|round| (arrival(round), member, window)));
        }
        rounds.sort_unstable();
        self.plan =
            members.iter().map(|view| Share { id: view.id, ranges: VecDeque::new() }).collect();
        (self.begin, self.planned) = (from, from);
        for (_, member, window) in rounds {
            let range = (self.planned, self.planned + window);
            self.plan[member].ranges.push_back(range);
            self.planned = range.1;
        }
    }

    /// Removes data before `next` from the plan. The connection's retransmission timer may have sent it.
    fn forget_before(&mut self, next: u64) {
        for share in &mut self.plan {
            while share.ranges.front().is_some_and(|range| range.1 <= next) {
                share.ranges.pop_front();
            }
            if let Some(front) = share.ranges.front_mut() {
                front.0 = front.0.max(next);
            }
        }
    }

    /// Returns the earliest planned range of a subflow that can send now.
    fn next_of_plan(&self, end: u64, members: &[&SubflowView]) -> Option<(SubflowId, (u64, u64))> {
        let open = self.plan.iter().filter_map(|share| {
            let range = share.ranges.front().filter(|range| range.0 < end)?;
            let view = members.iter().find(|view| view.id == share.id)?;
            view.can_send().then_some((share.id, *range))
        });
        open.min_by_key(|(_, range)| range.0)
    }
}

impl PathScheduler for Daps {
    fn name(&self) -> &'static str {
        "daps"
    }

    fn schedule(&mut self, request: &SendRequest, subflows: &[SubflowView]) -> Decision {
        if request.ask != Ask::NewData {
            return Decision::WAIT;
        }
        let members: Vec<&SubflowView> = candidates(subflows).filter(|view| view.alive()).collect();
        self.forget_before(request.data_next);
        let used_up = self.plan.iter().all(|share| share.ranges.is_empty());
        let changed = !self.plan.iter().map(|share| share.id).eq(members.iter().map(|v| v.id));
        if request.data_next < self.next || (changed && !used_up) {
            self.plan.clear();
            self.catch_up = self.planned;
        }
        self.next = request.data_next;
        if request.data_next < self.catch_up {
            let best = members.iter().filter(|view| view.can_send()).min_by_key(|view| view.srtt);
            return best.map_or(Decision::WAIT, |view| view.one_segment());
        }
        if used_up || self.plan.is_empty() {
            self.make_plan(request.data_next, &members);
        }
        let end = request.data_end.min(request.window_end);
        let Some((id, (from, to))) = self.next_of_plan(end, &members) else {
            return Decision::WAIT;
        };
        let segment_end = from + self.segment - (from - self.begin) % self.segment;
        let burst = segment_end.min(to).min(end) - from;
        Decision::Send { on: SubflowSet::one(id), from: Some(from), burst }
    }

    fn on_sent(&mut self, id: SubflowId, from: u64, bytes: u64) {
        let share = self.plan.iter_mut().find(|share| share.id == id);
        if let Some(share) = share
            && let Some(front) = share.ranges.front_mut()
            && front.0 == from
        {
            front.0 += bytes;
            if front.0 >= front.1 {
                share.ranges.pop_front();
            }
        }
    }
}

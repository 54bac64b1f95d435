//! Segment selection of the out-of-tree kernel around any base scheduler (v0.9x, `mptcp_sched.c`:
//! `mptcp_next_segment`, `get_available_subflow`, `mptcp_rcv_buf_optimization`; Raiciu et al., NSDI 2012).
//! With the base min-rtt it is that kernel's default, `min-rtt-0.9x`.
//!
//! - When a subflow's retransmission timer fires, its data is reinjected before new data. A subflow that has
//!   not carried the data is preferred. The silent subflow gets no data until its peer answers.
//! - Head-of-line blocking occurs if the connection's window is full, or if the send buffer is full and the
//!   application waits. The slower subflows that carried the head of line are then penalised, at most once
//!   per srtt of the subflow that would send. The head is reinjected on that subflow if it is more than four
//!   times as fast, or if the slow subflow's window is at most four segments.
//!
//! The base chooses the subflow that would send, as in the kernel. For round robin, this call counts as a
//! turn.

use anabranch_plugin::Parameters;
use anabranch_units::{CongestionState, Instant};

use super::{Ask, Carried, Decision, MinRtt, PathScheduler, SendRequest};
use super::{SubflowSet, SubflowView, ask, base};

/// The window of the slow subflow up to which the head is reinjected, segments.
const SMALL_WINDOW: u32 = 4;
/// The ratio of the slow subflow's srtt to the fast one's above which the head is reinjected.
const MUCH_SLOWER: u64 = 4;

/// Reinjection, opportunistic retransmission and penalisation around a base.
#[derive(Debug)]
pub struct Penalising {
    name: &'static str,
    base: Box<dyn PathScheduler>,
    /// Whether a burst is as long as the free window, but at most half the window. Otherwise the base
    /// scheduler decides its length.
    by_window: bool,
    /// Whether the head of line is reinjected on a faster subflow.
    retransmits: bool,
    /// Whether the subflows that block the head of line are penalised.
    penalises: bool,
    /// The views that the base receives. The vector is kept to reuse its memory.
    offered: Vec<SubflowView>,
    /// The time of the last penalty in favour of each subflow (`last_rbuf_opti`).
    penalised_at: Vec<Option<Instant>>,
}

impl Penalising {
    pub(super) fn build(parameters: &mut Parameters<'_>) -> Box<dyn PathScheduler> {
        let base = base(parameters, "min-rtt");
        Self::over("penalising", base, parameters)
    }

    pub(super) fn build_default(parameters: &mut Parameters<'_>) -> Box<dyn PathScheduler> {
        Self::over("min-rtt-0.9x", Box::new(MinRtt), parameters)
    }

    fn over(
        name: &'static str,
        base: Box<dyn PathScheduler>,
        parameters: &mut Parameters<'_>,
    ) -> Box<dyn PathScheduler> {
        Box::new(Self {
            name,
            base,
            by_window: parameters.word("turn", &["segment", "window"]) == "window",
            retransmits: parameters.flag("retransmission", true),
            penalises: parameters.flag("penalisation", true),
            offered: Vec::new(),
            penalised_at: Vec::new(),
        })
    }

    /// Returns the base's choice among the subflows whose peer answers. Subflows in `used` are offered only
    /// if there are no others (`get_available_subflow`).
    fn choose(
        &mut self,
        request: &SendRequest,
        subflows: &[SubflowView],
        used: SubflowSet,
    ) -> Decision {
        let request = &SendRequest { ask: Ask::NewData, ..*request };
        if used.is_empty() && !subflows.iter().any(|view| view.potentially_failed) {
            let decision = self.base.schedule(request, subflows);
            return self.turn(decision, subflows);
        }
        let answers = |view: &&SubflowView| view.established && !view.potentially_failed;
        let unused = |view: &&SubflowView| answers(view) && !used.contains(view.id);
        self.offered.clear();
        self.offered.extend(subflows.iter().filter(unused));
        if self.offered.is_empty() {
            self.offered.extend(subflows.iter().filter(answers));
        }
        let decision = self.base.schedule(request, &self.offered);
        self.turn(decision, subflows)
    }

    /// Extends the burst of a decision to the free window, if so configured (`tcp_cwnd_test` in
    /// `mptcp_next_segment`).
    fn turn(&self, decision: Decision, subflows: &[SubflowView]) -> Decision {
        let Decision::Send { on, from: None, burst } = decision else { return decision };
        let chosen = subflows.iter().find(|view| self.by_window && Some(view.id) == on.first());
        let segments = chosen.map_or(0, |view| view.window_space().min((view.cwnd / 2).max(1)));
        let window = chosen.map_or(0, |view| u64::from(segments) * u64::from(view.mss));
        Decision::Send { on, from: None, burst: burst.max(window) }
    }

    fn reinject(
        &mut self,
        request: &SendRequest,
        subflows: &[SubflowView],
        piece: Carried,
    ) -> Decision {
        let as_new = SendRequest { data_next: piece.from, data_end: piece.to, ..*request };
        match self.choose(&as_new, subflows, piece.by) {
            Decision::Send { on, from: None, burst } => {
                let burst = burst.min(piece.to - piece.from);
                Decision::Send { on, from: Some(piece.from), burst }
            }
            other => other,
        }
    }

    /// Handles head-of-line blocking: penalises slower subflows, or reinjects the head
    /// (`mptcp_rcv_buf_optimization`).
    fn relieve(
        &mut self,
        request: &SendRequest,
        subflows: &[SubflowView],
        head: Carried,
        penalise: bool,
    ) -> Decision {
        // The base scheduler is called with an enlarged receive window. Otherwise, a base scheduler that checks
        // the window would choose no subflow.
        let window_end = request.window_end.max(request.data_next + 1);
        let opened = SendRequest { window_end, ..*request };
        let Decision::Send { on, from: None, .. } =
            self.choose(&opened, subflows, SubflowSet::EMPTY)
        else {
            return Decision::WAIT;
        };
        // The head is reinjected only if it is sent at once: it would not help in a queue
        // (`mptcp_is_available`).
        let chosen = subflows.iter().find(|view| Some(view.id) == on.first());
        let Some(fast) = chosen.filter(|view| view.can_send()) else {
            return Decision::WAIT;
        };
        let carriers =
            || subflows.iter().filter(|view| view.id != fast.id && head.by.contains(view.id));
        if penalise && self.penalises && self.due(request.now, fast) {
            let slower =
                |view: &&SubflowView| fast.srtt < view.srtt && view.state == CongestionState::Open;
            let slow: SubflowSet = carriers().filter(slower).map(|view| view.id).collect();
            if !slow.is_empty() {
                self.penalised_at[fast.id.index()] = Some(request.now);
                return Decision::Penalise(slow);
            }
        }
        let near = |view: &&SubflowView| fast.srtt * MUCH_SLOWER >= view.srtt;
        let decisive = carriers().find(|view| view.cwnd <= SMALL_WINDOW || near(view));
        let worth = decisive.map_or(carriers().next().is_some(), |view| view.cwnd <= SMALL_WINDOW);
        if !self.retransmits || !worth || head.by.contains(fast.id) {
            return Decision::WAIT;
        }
        let burst = u64::from(fast.mss).min(head.to - head.from);
        Decision::Send { on, from: Some(head.from), burst }
    }

    /// Returns whether an srtt of `fast` has passed since the last penalty in its favour.
    fn due(&mut self, now: Instant, fast: &SubflowView) -> bool {
        if self.penalised_at.len() <= fast.id.index() {
            self.penalised_at.resize(fast.id.index() + 1, None);
        }
        let last = self.penalised_at[fast.id.index()];
        last.is_none_or(|last| now.since(last) >= fast.srtt)
    }
}

impl PathScheduler for Penalising {
    fn name(&self) -> &'static str {
        self.name
    }

    fn schedule(&mut self, request: &SendRequest, subflows: &[SubflowView]) -> Decision {
        match request.ask {
            Ask::NewData => self.choose(request, subflows, SubflowSet::EMPTY),
            Ask::Reinject(piece) => self.reinject(request, subflows, piece),
            Ask::WindowBlocked { head } => self.relieve(request, subflows, head, true),
            // Penalise only if no room is left in the buffer.
            Ask::BufferFull { head, left } => self.relieve(request, subflows, head, left == 0),
            Ask::Idle => ask(self.base.as_mut(), request, subflows),
        }
    }

    fn base(&self) -> Option<&dyn PathScheduler> {
        Some(self.base.as_ref())
    }

    fn base_mut(&mut self) -> Option<&mut dyn PathScheduler> {
        Some(self.base.as_mut())
    }

    fn wants_idle(&self) -> bool {
        true
    }

    fn reinjects(&self) -> bool {
        true
    }
}

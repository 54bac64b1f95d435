//! Redundant scheduling (out-of-tree `mptcp_redundant.c`): every subflow carries all data.
//!
//! Each subflow has its own position in the data stream. A position behind the data-level acknowledgement
//! moves up to it, so a slow path skips acknowledged data. The kernel gives a subflow a whole written
//! fragment (`redundant_next_segment` sets no limit), and the subflow's window then limits what is sent.

use anabranch_plugin::Parameters;
use anabranch_units::SubflowId;

use super::{Decision, PathScheduler, SendRequest, SubflowSet, SubflowView, candidates};

/// The redundant scheduler.
#[derive(Debug, Default)]
pub struct Redundant {
    /// Whether a burst is the rest of a fragment of written data, instead of a segment.
    pieces: bool,
    /// The next byte to send on each subflow.
    position: Vec<u64>,
    /// The subflow that sent last.
    last: Option<u8>,
}

impl Redundant {
    pub(super) fn build(parameters: &mut Parameters<'_>) -> Box<dyn PathScheduler> {
        let pieces = parameters.word("turn", &["segment", "piece"]) == "piece";
        Box::new(Self { pieces, ..Self::default() })
    }

    fn position(&self, id: SubflowId, request: &SendRequest) -> u64 {
        self.position.get(id.index()).copied().unwrap_or(0).max(request.data_una)
    }
}

impl PathScheduler for Redundant {
    fn name(&self) -> &'static str {
        "redundant"
    }

    fn schedule(&mut self, request: &SendRequest, subflows: &[SubflowView]) -> Decision {
        let end = request.data_end.min(request.window_end);
        let after = self.last.map_or(0, |last| u16::from(last) + 1);
        let next = candidates(subflows)
            .filter(|subflow| subflow.can_send() && self.position(subflow.id, request) < end)
            .min_by_key(|subflow| (u16::from(subflow.id.0) < after, subflow.id));
        let Some(next) = next else {
            return Decision::WAIT;
        };
        self.last = Some(next.id.0);
        let from = self.position(next.id, request);
        let turn = if self.pieces { request.fragment } else { u64::from(next.mss) };
        Decision::Send {
            on: SubflowSet::one(next.id),
            from: Some(from),
            burst: turn.min(end - from),
        }
    }

    fn on_sent(&mut self, id: SubflowId, from: u64, bytes: u64) {
        if self.position.len() <= id.index() {
            self.position.resize(id.index() + 1, 0);
        }
        self.position[id.index()] = from + bytes;
    }

    fn on_replaced(&mut self, id: SubflowId) {
        if let Some(position) = self.position.get_mut(id.index()) {
            *position = 0;
        }
    }

    fn wants_idle(&self) -> bool {
        true
    }
}

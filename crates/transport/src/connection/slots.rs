//! Places of subflows: the identifier of one is its place, and a connection has 128 of them. When all
//! have been used, the place of a subflow that is over goes to a new one, so that addresses may come and
//! go for as long as a connection lives.

use std::collections::VecDeque;

use anabranch_plugin::PluginError;
use anabranch_units::{Instant, RandomStream, SeqNumber, SubflowId};

use super::{Connection, SubflowSummary};
use crate::config::{Config, FourTuple};
use crate::subflow::{State, Subflow};
use anabranch_congestion as congestion;

/// Subflows that a connection can tell apart at one time.
const MOST_SUBFLOWS: usize = 128;
/// Subflows whose totals are kept after their place was given away; of more the oldest two are one.
const MOST_REMEMBERED: usize = 1024;

/// What is known of places.
#[derive(Debug, Default)]
pub(super) struct Slots {
    /// Subflows there have been.
    opened: u32,
    /// Where to look for a place to give away.
    next: usize,
    /// Those whose place another one has.
    retired: VecDeque<SubflowSummary>,
}

impl Slots {
    /// Those whose place another one has.
    pub(super) fn retired(&self) -> impl Iterator<Item = &SubflowSummary> {
        self.retired.iter()
    }
}

impl Connection {
    /// Adds a subflow; `None` when every place is taken by one that is not over.
    ///
    /// # Errors
    /// The name or parameters of the congestion control are unknown.
    pub(super) fn add_subflow(
        &mut self,
        now: Instant,
        tuple: FourTuple,
        active: bool,
    ) -> Result<Option<usize>, PluginError> {
        let stream = self.random.draw(RandomStream::fork);
        let iss = self.initial_sequence(now, &tuple);
        self.install_subflow(tuple, active, stream, iss)
    }

    /// The initial sequence number of a subflow between these addresses.
    pub(super) fn initial_sequence(&mut self, now: Instant, tuple: &FourTuple) -> SeqNumber {
        // Sequence numbers were once drawn here: what is drawn after them stays what it was.
        self.random.draw(RandomStream::next_u64);
        self.secrets.sequence(now, tuple)
    }

    /// As [`Self::add_subflow`], with chance and sequence number drawn before.
    pub(super) fn install_subflow(
        &mut self,
        tuple: FourTuple,
        active: bool,
        stream: RandomStream,
        iss: SeqNumber,
    ) -> Result<Option<usize>, PluginError> {
        let Some(index) = self.free_place(tuple) else { return Ok(None) };
        let Config { congestion, registry, .. } = &*self.config;
        let controller = congestion::build(congestion, registry, stream)?;
        let id = SubflowId(index as u8);
        let mut subflow = Subflow::new(id, tuple, active, iss, controller, &self.config);
        subflow.ordinal = self.slots.opened;
        subflow.send.blocked_on_buffer = self.out.blocked;
        subflow.sequence.set_timestamp_offset(self.secrets.stamp_offset(&tuple));
        if self.watch.is_some() {
            subflow.keep_first_transmissions();
        }
        self.moved.push(tuple.into());
        self.slots.opened += 1;
        if index == self.subflows.len() {
            self.subflows.push(subflow);
        } else {
            self.replace(index, subflow);
        }
        Ok(Some(index))
    }

    /// The place of an earlier subflow between the same addresses, a new one, or that of one that is over.
    fn free_place(&self, tuple: FourTuple) -> Option<usize> {
        // The first is what the connection began with, and stays what it was.
        let over = |index: &usize| {
            let subflow = &self.subflows[*index];
            *index > 0 && subflow.state == State::Closed && subflow.reset.is_none()
        };
        let count = self.subflows.len();
        let same = (0..count).filter(over).find(|index| self.subflows[*index].tuple == tuple);
        if same.is_some() || count < MOST_SUBFLOWS {
            return same.or(Some(count));
        }
        (0..count).map(|step| (self.slots.next + step) % count).find(over)
    }

    #[cold]
    fn replace(&mut self, index: usize, subflow: Subflow) {
        let id = subflow.id;
        let gone = std::mem::replace(&mut self.subflows[index], subflow);
        self.moved.push(gone.tuple.into());
        self.slots.retired.push_back(gone.summary());
        if self.slots.retired.len() > MOST_REMEMBERED
            && let Some(oldest) = self.slots.retired.pop_front()
            && let Some(next) = self.slots.retired.front_mut()
        {
            next.totals += oldest.totals;
        }
        self.slots.next = index + 1;
        self.forget_decided(Some(id));
        self.carried.forget(id);
        self.scheduler.on_replaced(id);
        self.views.clear();
    }
}

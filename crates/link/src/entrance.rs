//! What a packet meets before a modelled link takes it: a link that is down, loss, a full queue.

use anabranch_units::{ByteCount, RandomStream, Seed};

use crate::loss::LossProcess;
use crate::{DropReason, LinkConfig, LossAt, LossModel, QueueLimit};

/// The configured part of a modelled link: its queue's limit, its own random loss, up or down.
#[derive(Clone, Debug)]
pub(crate) struct Entrance {
    limit: QueueLimit,
    loss: Option<LossProcess>,
    loss_at: LossAt,
    luck: RandomStream,
    pub(crate) up: bool,
}

impl Entrance {
    /// An open entrance. Its random stream is `link.<name>.loss`, as a fixed link's.
    pub(crate) fn new(config: &LinkConfig, seed: Seed) -> Self {
        Self {
            limit: config.queue,
            loss: config.loss.map(LossProcess::new),
            loss_at: config.loss_at,
            luck: seed.stream(&format!("link.{}.loss", config.name)),
            up: true,
        }
    }

    /// A packet's luck, drawn when it enters; drawn only while there is a loss model to need it.
    pub(crate) fn draw(&mut self) -> u64 {
        if self.loss.is_some() { self.luck.next_u64() } else { 0 }
    }

    /// Why a packet may not enter a queue of so much, if so.
    pub(crate) fn refusal(
        &mut self,
        packets: u64,
        bytes: u64,
        size: ByteCount,
        luck: u64,
    ) -> Option<DropReason> {
        if !self.up {
            return Some(DropReason::Down);
        }
        if self.loss_at == LossAt::Entry && self.strikes(luck) {
            return Some(DropReason::Loss);
        }
        let full = match self.limit {
            QueueLimit::Bytes(limit) => bytes + size.0 > limit,
            QueueLimit::Packets(limit) => packets >= limit,
            QueueLimit::Unlimited => false,
        };
        full.then_some(DropReason::QueueFull)
    }

    /// Whether a packet that leaves the queue is lost.
    pub(crate) fn strikes_at_exit(&mut self, luck: u64) -> bool {
        self.loss_at == LossAt::Exit && self.strikes(luck)
    }

    fn strikes(&mut self, luck: u64) -> bool {
        self.loss.as_mut().is_some_and(|loss| loss.strikes(luck))
    }

    /// Sets the loss model. A packet that entered while there was none has the worst luck of all
    /// (0) and needs a new one: `draw` gives it.
    pub(crate) fn set_loss(&mut self, model: Option<LossModel>) -> bool {
        let needs_luck = self.loss.is_none() && model.is_some() && self.loss_at == LossAt::Exit;
        self.loss = model.map(LossProcess::new);
        needs_luck
    }
}

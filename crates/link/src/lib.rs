//! One-way links: a rate behind a queue, then propagation delay, jitter, loss and what else befalls
//! packets; and the media that carry several of them.
//!
//! A link carries packets of any type `P` and never looks inside. It reads no clock, draws from
//! named random streams only, and is driven by three verbs: [`Link::enqueue`] and [`Link::set`]
//! are input from the world, [`Link::poll_fate`] is output to it. Every packet that enters gets
//! exactly one [`Fate`].
//!
//! # One wake-up a packet
//!
//! The end of a packet's serialisation is arithmetic, not an event: it is known when the packet
//! enters, and moves only when the rate changes. So a link asks to be woken for deliveries alone:
//! [`Link::poll_timeout`] names the next one. Drops ride along: a dropped packet's fate is reported
//! by the first poll that finds it, with the time at which it really happened.
//!
//! # Kinds
//!
//! A [`FixedLink`] keeps the rate, delay and loss that it was given, behind a drop-tail queue: all of it
//! arithmetic. A [`VaryingLink`] follows a [`Model`] (a cellular radio, a satellite, a recording) or keeps
//! a set rate, behind any [`Queue`](queue::Queue). A [`WifiMedium`] is an 802.11 channel: a [`Medium`],
//! both directions of which share the air. A [`Chain`] is links in a row.
//!
//! # Impairments
//!
//! Behind the service packets may be lost, held back so that others overtake them, copied and spoilt:
//! [`Impairments`]. Without them every link is a FIFO that adds nothing.

mod chain;
mod config;
mod damage;
mod draws;
mod entrance;
mod fixed;
mod impairment;
mod label;
mod loss;
mod medium;
pub mod model;
pub mod probe;
mod quantiles;
pub mod queue;
mod service;
mod stats;
mod trace;
mod varying;
mod wifi;
mod wire;

pub use chain::{Chain, Hop, Parcel};
pub use config::{ConfigError, Direction, LinkConfig, LossAt, QueueLimit};
pub use damage::Damage;
pub use draws::Draws;
pub use fixed::FixedLink;
pub use impairment::{Impairments, Reorder};
pub use label::Label;
pub use loss::LossModel;
pub use medium::{Medium, Single};
pub use model::lte::{LteModel, LteProfile};
pub use model::starlink::{EPOCH, StarlinkModel, StarlinkProfile};
pub use model::{MODELS, Model};
pub use quantiles::Quantiles;
pub use stats::{LinkStats, Queued};
pub use trace::{Trace, TraceStep};
pub use varying::VaryingLink;
pub use wifi::{TRIES, WifiMedium, WifiModel, WifiStandard};

use anabranch_units::{ByteCount, Duration, Instant, Rate};

/// A one-way element that carries packets, or loses them.
///
/// `now` never goes back from one call to the next. Fates come in the order of the packets, drops
/// at the entry or by the queue excepted; deliveries are in the order of service, and reordered only
/// where [`Self::keeps_order`] is false: [`Chain`] relies on it.
pub trait Link<P> {
    /// A packet of `size` bytes (headers included) arrives at the entry.
    ///
    /// Nothing is returned, not even for a drop: its fate waits for [`Self::poll_fate`].
    fn enqueue(&mut self, now: Instant, packet: P, size: ByteCount);

    /// The same of a packet of which more is told than its size, for queues that ask for it.
    fn enter(&mut self, now: Instant, packet: P, label: Label) {
        self.enqueue(now, packet, label.size);
    }

    /// The link changes. [`Self::poll_timeout`] may have moved either way afterwards.
    fn set(&mut self, now: Instant, change: Change);

    /// The next packet whose fate is sealed at `now`; poll until `None`.
    fn poll_fate(&mut self, now: Instant) -> Option<Fate<P>>;

    /// As [`Self::poll_timeout`], where it is known without asking that `poll_fate` would say `None`;
    /// `FAR_FUTURE` of a link that will have nothing to tell. `None` says nothing: poll it.
    #[inline]
    fn quiet_until(&self, _now: Instant) -> Option<Instant> {
        None
    }

    /// When to poll next: the next delivery (or, in the rare case that it turns out lost, when it
    /// would have been). Dropped packets ask for no wake-up of their own while a delivery is to
    /// come, since that one reports them; when none is to come (the link is idle, stalled or went
    /// down) they are due at once, at an instant already past.
    ///
    /// Stable until the next call of `enqueue`, `set` or `poll_fate`; `enqueue` never makes it earlier
    /// while a delivery is pending, where the link keeps the order.
    fn poll_timeout(&self) -> Option<Instant>;

    /// Totals since the beginning.
    fn stats(&self) -> &LinkStats;

    /// What waits in the queue at `now`, the packet in service included.
    fn queued(&self, now: Instant) -> Queued;

    /// Packets inside, in the queue or on the wire: entered, and neither delivered nor dropped
    /// according to [`Self::stats`], so `entered() = delivered + dropped() + in_transit` always.
    fn in_transit(&self) -> u64;

    /// No packet overtakes another.
    fn keeps_order(&self) -> bool {
        true
    }

    /// The link's name, unique within a scenario.
    fn name(&self) -> &str;
}

/// What became of one packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate<P> {
    /// It came out at the far end.
    Delivered {
        /// When it did; never later than the poll.
        at: Instant,
        /// The packet.
        packet: P,
        /// The queue marked it as having met congestion (CE, RFC 3168).
        marked: bool,
        /// It is a copy that the link made of a packet.
        copy: bool,
        /// Its payload was changed on the way, and no checksum tells.
        damage: Option<Damage>,
    },
    /// It was lost on the way.
    Dropped {
        /// When it was lost; never later than the poll, perhaps earlier than fates already told.
        at: Instant,
        /// The packet.
        packet: P,
        /// Why it was lost.
        why: DropReason,
        /// It is a copy that the link made of a packet.
        copy: bool,
    },
}

impl<P> Fate<P> {
    /// When the fate was sealed.
    pub const fn at(&self) -> Instant {
        match self {
            Self::Delivered { at, .. } | Self::Dropped { at, .. } => *at,
        }
    }
}

/// Why a packet was dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DropReason {
    /// The queue dropped it to keep the queue short (active queue management).
    Aqm,
    /// It was spoilt, and the checksum at the far end found out.
    Corrupt,
    /// The link was down, or went down while the packet was inside.
    Down,
    /// The loss model took it.
    Loss,
    /// No room in the queue.
    QueueFull,
}

/// A change of a link while it runs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Change {
    /// Propagation delay of every packet that has not left the queue yet.
    Delay(Duration),
    /// A black hole: what is inside is discarded and nothing enters until [`Change::Up`].
    Down,
    /// The loss model from here on, in its good state; `None` for no loss.
    Loss(Option<LossModel>),
    /// A new rate. The packet in service keeps what it was served; zero stalls the queue.
    Rate(Rate),
    /// Packets enter again. The other settings are as they were, or as set while down.
    Up,
}

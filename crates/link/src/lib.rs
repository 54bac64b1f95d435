//! One-way links: a queue with a rate, then propagation delay, jitter, loss and other impairments. Links that share a
//! radio channel form a medium.
//!
//! A link carries packets of any type `P` and never looks inside. It reads no clock, and draws only from named random
//! streams. [`Link::enqueue`] and [`Link::set`] are its inputs, and [`Link::poll_fate`] is its output. Every packet
//! that enters gets exactly one [`Fate`].
//!
//! # One wake-up for each packet
//!
//! The end of a packet's transmission is computed when the packet enters, and changes only with the rate. A link
//! therefore needs wake-ups only for deliveries: [`Link::poll_timeout`] returns the time of the next one. A drop is
//! reported by the first poll after it, with the time at which it happened.
//!
//! # Kinds
//!
//! A [`FixedLink`] has a set rate, delay and loss, and a drop-tail queue. It is computed in closed form. A
//! [`VaryingLink`] follows a [`Model`] (a cellular radio, a satellite or a recording) or has a set rate. It can have
//! any [`Queue`](queue::Queue). A [`WifiMedium`] is an 802.11 channel: a [`Medium`] whose lanes share the air. A
//! [`Chain`] consists of links in a row.
//!
//! # Impairments
//!
//! After the service, packets may be lost, reordered, duplicated and corrupted ([`Impairments`]). Without impairments
//! every link is a FIFO and adds no packets.

mod chain;
mod config;
mod damage;
mod draws;
mod entrance;
mod fixed;
mod impairment;
mod label;
mod load;
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
pub use load::LoadDependentTrace;
pub use loss::LossModel;
pub use medium::{Medium, Single};
pub use model::lte::{LteModel, LteProfile};
pub use model::nr::{NrModel, NrProfile};
pub use model::starlink::{EPOCH, StarlinkModel, StarlinkProfile};
pub use model::{MODELS, Model};
pub use quantiles::Quantiles;
pub use stats::{LinkStats, Queued};
pub use trace::{Trace, TraceStep};
pub use varying::VaryingLink;
pub use wifi::{TRIES, WifiMedium, WifiModel, WifiStandard};

use anabranch_units::{ByteCount, Duration, Instant, Rate};

/// A one-way element that delivers packets or drops them.
///
/// `now` never goes back from one call to the next. Deliveries are reported in the order of service, unless
/// [`Self::keeps_order`] returns false. A drop at the entry or by the queue may be reported before packets that
/// entered earlier. [`Chain`] relies on this order.
pub trait Link<P> {
    /// Takes a packet of `size` bytes (headers included) at the entry.
    ///
    /// A drop is reported by [`Self::poll_fate`], too.
    fn enqueue(&mut self, now: Instant, packet: P, size: ByteCount);

    /// Takes a packet like [`Self::enqueue`], with its flow and its ECN capability, which some queues use.
    fn enter(&mut self, now: Instant, packet: P, label: Label) {
        self.enqueue(now, packet, label.size);
    }

    /// Changes a setting of the link, or its state. This may move [`Self::poll_timeout`] in either direction.
    fn set(&mut self, now: Instant, change: Change);

    /// Returns the next packet whose fate is known at `now`. Call it until it returns `None`.
    fn poll_fate(&mut self, now: Instant) -> Option<Fate<P>>;

    /// Returns the next wake-up if `poll_fate` has nothing to report at `now`: [`Self::poll_timeout`], or
    /// `FAR_FUTURE` without a wake-up. Returns `None` if a fate may be due, so the caller must poll the link.
    #[inline]
    fn quiet_until(&self, _now: Instant) -> Option<Instant> {
        None
    }

    /// Returns the time at which the link must be polled next.
    ///
    /// While a delivery is pending, this is its time, even if that packet turns out to be lost. Earlier drops need no
    /// wake-up of their own: the same poll reports them. If no delivery is pending (the link is idle, stalled or
    /// down), unreported drops are due at once. The returned time then lies in the past.
    ///
    /// The time does not change until the next call of `enqueue`, `set` or `poll_fate`. If the link keeps the order,
    /// `enqueue` never makes it earlier while a delivery is pending.
    fn poll_timeout(&self) -> Option<Instant>;

    /// Returns the totals since the beginning.
    fn stats(&self) -> &LinkStats;

    /// Returns the packets and bytes in the queue at `now`, including the packet in service.
    fn queued(&self, now: Instant) -> Queued;

    /// Returns the number of packets in the queue or on the wire, whose fate [`Self::stats`] does not count yet:
    /// `entered() = delivered + dropped() + in_transit`.
    fn in_transit(&self) -> u64;

    /// Returns whether no packet overtakes another.
    fn keeps_order(&self) -> bool {
        true
    }

    /// Returns the link's name, unique within a scenario.
    fn name(&self) -> &str;
}

/// The fate of one packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate<P> {
    /// The packet arrived at the far end.
    Delivered {
        /// The time of arrival, not later than the poll.
        at: Instant,
        /// The packet.
        packet: P,
        /// The queue marked the packet as CE (RFC 3168).
        marked: bool,
        /// The packet is a copy that the link made.
        copy: bool,
        /// The change of the payload that no checksum detects, if there is one.
        damage: Option<Damage>,
    },
    /// The packet was dropped.
    Dropped {
        /// The time of the drop. It is not later than the poll, but may be earlier than fates that were reported
        /// before.
        at: Instant,
        /// The packet.
        packet: P,
        /// The reason.
        why: DropReason,
        /// The packet is a copy that the link made.
        copy: bool,
    },
}

impl<P> Fate<P> {
    /// Returns the time of the delivery or drop.
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
    /// The packet was corrupted, and the checksum at the far end detected it.
    Corrupt,
    /// The link was down, or went down while the packet was inside.
    Down,
    /// The loss model selected the packet.
    Loss,
    /// The queue had no room.
    QueueFull,
}

/// A change of a link while it runs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Change {
    /// The propagation delay. It applies to every packet that has not left the queue yet.
    Delay(Duration),
    /// An outage: all packets inside are discarded, and none enters until [`Change::Up`].
    Down,
    /// A new loss model, which starts in its good state; `None` for no loss.
    Loss(Option<LossModel>),
    /// A new rate. The packet in service keeps its served bits. A rate of zero stalls the queue.
    Rate(Rate),
    /// The end of an outage. The other settings are unchanged, including changes during the outage.
    Up,
}

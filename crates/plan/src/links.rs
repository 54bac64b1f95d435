//! All links of a plan, addressed by number, and the media that carry them.

use std::collections::BTreeMap;

use anabranch_link::{
    Change, ConfigError, Fate, FixedLink, Label, Link, LinkConfig, LinkStats, Medium, Queued,
    Single, VaryingLink, WifiMedium, WifiModel,
};
use anabranch_trace::LinkRow;
use anabranch_units::{ByteCount, Instant, Seed};

use crate::fault::PlanError;
use crate::plan::{LinkPlan, ModelPlan};

/// The links in the plan's order, and their media. A link without a shared medium has a medium with one lane.
pub struct Links<P> {
    media: Vec<Carrier<P>>,
    places: Vec<Place>,
    /// The link numbers by medium and lane.
    numbers: Vec<Vec<usize>>,
}

/// A medium. The fixed link, the most frequent medium, has its own variant, so that its calls per packet can
/// be inlined.
enum Carrier<P> {
    Fixed(Box<Single<FixedLink<P>>>),
    Other(Box<dyn Medium<P>>),
}

impl<P> Carrier<P> {
    fn medium(&self) -> &dyn Medium<P> {
        match self {
            Self::Fixed(link) => &**link,
            Self::Other(medium) => &**medium,
        }
    }

    fn medium_mut(&mut self) -> &mut dyn Medium<P> {
        match self {
            Self::Fixed(link) => &mut **link,
            Self::Other(medium) => &mut **medium,
        }
    }
}

/// The medium and the lane of a link.
#[derive(Clone, Copy, Debug)]
struct Place {
    medium: usize,
    lane: usize,
    /// Whether a packet that enters here may move the medium's next timeout to an earlier time. This is
    /// possible if other links share the medium, or if packets can overtake each other.
    eager: bool,
    /// Whether the queue uses the other properties of a packet besides its size.
    asks: bool,
}

/// The lanes of one 802.11 channel.
type Lanes = Vec<(LinkConfig, WifiModel)>;

impl<P: Clone + 'static> Links<P> {
    /// Builds the links of a plan, idle and up.
    ///
    /// # Errors
    /// Returns an error for settings that a link cannot have, with the link's index.
    pub fn build(plans: &[LinkPlan], seed: Seed) -> Result<Self, PlanError> {
        Self::assemble(plans, seed).map_err(|error| {
            let fails = |plan: &LinkPlan| Self::assemble(std::slice::from_ref(plan), seed).is_err();
            let error = PlanError::from(error);
            match plans.iter().position(fails) {
                Some(index) => error.at_element("links", index),
                None => error.at("links"),
            }
        })
    }

    fn assemble(plans: &[LinkPlan], seed: Seed) -> Result<Self, ConfigError> {
        if plans.iter().any(|plan| plan.emulator.is_some() && plan.model.is_some()) {
            return Err(ConfigError::Draws);
        }
        let mut channels: BTreeMap<&str, Lanes> = BTreeMap::new();
        for plan in plans {
            if let Some(ModelPlan::Wifi(wifi)) = &plan.model {
                wifi.check()?;
                plan.config().check()?;
                let lane = (plan.config(), wifi.clone());
                channels.entry(&wifi.channel).or_default().push(lane);
            }
        }
        let mut built = Self { media: Vec::new(), places: Vec::new(), numbers: Vec::new() };
        let mut known: BTreeMap<&str, usize> = BTreeMap::new();
        for (link, plan) in plans.iter().enumerate() {
            let (medium, shared) = match &plan.model {
                Some(ModelPlan::Wifi(wifi)) => {
                    let medium = known.get(&*wifi.channel).copied().unwrap_or_else(|| {
                        let lanes = channels[&*wifi.channel].clone();
                        let medium = WifiMedium::new(&wifi.channel, lanes, seed);
                        built.add(Carrier::Other(Box::new(medium)))
                    });
                    known.insert(&wifi.channel, medium);
                    (medium, channels[&*wifi.channel].len() > 1)
                }
                _ => (built.add(alone(plan, seed)?), false),
            };
            let lane = built.numbers[medium].len();
            let eager = shared || plan.reorder.is_some();
            built.places.push(Place { medium, lane, eager, asks: plan.discipline.is_some() });
            built.numbers[medium].push(link);
        }
        Ok(built)
    }

    fn add(&mut self, carrier: Carrier<P>) -> usize {
        self.media.push(carrier);
        self.numbers.push(Vec::new());
        self.media.len() - 1
    }
}

/// Returns the totals of a link with `inside` packets in it. The caller fills in the columns `dropped_mtu`
/// and `changed`, which are 0 here.
pub fn link_row<'a>(name: &'a str, stats: &LinkStats, inside: u64) -> LinkRow<'a> {
    LinkRow {
        link: name,
        enqueued: stats.enqueued as i64,
        delivered: stats.delivered as i64,
        dropped_queue: stats.dropped_queue as i64,
        dropped_loss: stats.dropped_loss as i64,
        dropped_down: stats.dropped_down as i64,
        bytes_delivered: stats.bytes_delivered as i64,
        queued_at_end: inside as i64,
        dropped_aqm: stats.dropped_aqm as i64,
        marked: stats.marked as i64,
        reordered: stats.reordered as i64,
        duplicated: stats.duplicated as i64,
        dropped_corrupt: stats.dropped_corrupt as i64,
        dropped_mtu: 0,
        changed: 0,
    }
}

/// Builds a link without a shared medium.
fn alone<P: Clone + 'static>(plan: &LinkPlan, seed: Seed) -> Result<Carrier<P>, ConfigError> {
    let config = plan.config();
    config.check()?;
    let model = plan.model.as_ref().map_or(Ok(None), ModelPlan::model)?;
    Ok(match model {
        None if config.is_plain() => Carrier::Fixed(Box::new(Single(FixedLink::new(config, seed)))),
        None => Carrier::Other(Box::new(Single(VaryingLink::of_set_rate(config, seed)))),
        Some(model) => {
            model.check()?;
            Carrier::Other(Box::new(Single(VaryingLink::new(config, &model, seed))))
        }
    })
}

impl<P> Links<P> {
    /// Returns the number of media.
    pub fn media(&self) -> usize {
        self.media.len()
    }

    /// Puts a packet into a link. Returns the link's medium, and whether the medium's timeout may now be
    /// earlier.
    // A run of 20 MB calls it 28,314 times.
    #[inline(always)]
    pub fn enter(
        &mut self,
        now: Instant,
        link: usize,
        packet: P,
        size: ByteCount,
        label: impl FnOnce(&P) -> Label,
    ) -> (usize, bool) {
        let Place { medium, lane, eager, asks } = self.places[link];
        if asks {
            let label = label(&packet);
            self.media[medium].medium_mut().enter(now, lane, packet, label);
        } else {
            self.media[medium].medium_mut().enqueue(now, lane, packet, size);
        }
        (medium, eager)
    }

    /// Changes a link and returns its medium.
    pub fn set(&mut self, now: Instant, link: usize, change: Change) -> usize {
        let Place { medium, lane, .. } = self.places[link];
        self.media[medium].medium_mut().set(now, lane, change);
        medium
    }

    /// Returns a link's medium and its lane in it.
    pub fn place(&mut self, link: usize) -> (&mut dyn Medium<P>, usize) {
        let Place { medium, lane, .. } = self.places[link];
        (self.media[medium].medium_mut(), lane)
    }

    /// Returns the next packet on a medium whose fate is known at `now`, and its link.
    #[inline]
    pub fn poll_fate(&mut self, now: Instant, medium: usize) -> Option<(usize, Fate<P>)> {
        let (lane, fate) = match &mut self.media[medium] {
            Carrier::Fixed(link) => (0, link.0.poll_fate(now)?),
            Carrier::Other(other) => other.poll_fate(now)?,
        };
        Some((self.numbers[medium][lane], fate))
    }

    /// Returns [`Medium::quiet_until`] of a medium.
    #[inline]
    pub fn quiet_until(&self, now: Instant, medium: usize) -> Option<Instant> {
        match &self.media[medium] {
            Carrier::Fixed(link) => link.0.quiet_until(now),
            Carrier::Other(other) => other.quiet_until(now),
        }
    }

    /// Returns the time of a medium's next poll.
    #[inline]
    pub fn poll_timeout(&self, medium: usize) -> Option<Instant> {
        self.media[medium].medium().poll_timeout()
    }

    /// Returns the packets that wait in a link's queue.
    pub fn queued(&self, now: Instant, link: usize) -> Queued {
        let Place { medium, lane, .. } = self.places[link];
        self.media[medium].medium().queued(now, lane)
    }

    /// Returns every link's name, totals and number of packets inside.
    pub fn totals(&self) -> impl Iterator<Item = (&str, &LinkStats, u64)> {
        self.places.iter().map(|&Place { medium, lane, .. }| {
            let medium = self.media[medium].medium();
            (medium.name(lane), medium.stats(lane), medium.in_transit(lane))
        })
    }
}

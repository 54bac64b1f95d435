//! Rules of adaptation (ABR): which rendition the next chunk is fetched in. The trait, what a rule
//! sees, and the table of names.
//!
//! A player asks before each chunk of pictures. Rates are bits per second, times and buffers
//! seconds, as `f64`: they are estimates, and published rules are written in them.

mod bola;
mod estimate;
mod fixed;
mod hlsjs;
mod mpc;
mod throughput;
mod vlc_nearoptimal;
mod vlc_rate;

use std::fmt;

use anabranch_plugin::{
    Kind, ParameterInfo, Parameters, PluginChoice, PluginError, PluginName, Registry,
};

use crate::ladder::Ladder;
use bola::Bola;
use fixed::Fixed;
use hlsjs::HlsJs;
use mpc::Mpc;
use throughput::Throughput;
use vlc_nearoptimal::VlcNearOptimal;
use vlc_rate::VlcRate;

/// What a rule may know before a chunk.
#[derive(Clone, Copy, Debug)]
pub struct AbrView<'a> {
    /// What there is to choose from.
    pub ladder: &'a Ladder,
    /// The chunk that is asked about, from 0.
    pub next: usize,
    /// The rendition of the chunk before.
    pub last: Option<usize>,
    /// Film received and not yet shown, in seconds.
    pub buffer_s: f64,
    /// How much of it the player keeps at most, in seconds.
    pub max_buffer_s: f64,
}

impl AbrView<'_> {
    /// How many renditions there are.
    pub fn renditions(&self) -> usize {
        self.ladder.renditions.len()
    }

    /// The declared peak rate of a rendition, bits per second.
    pub fn peak_bps(&self, rendition: usize) -> f64 {
        self.ladder.renditions[rendition].bandwidth_bps as f64
    }

    /// The declared mean rate of a rendition, bits per second.
    pub fn mean_bps(&self, rendition: usize) -> f64 {
        self.ladder.renditions[rendition].mean_bps()
    }

    /// How long the next chunk plays in a rendition, in seconds.
    pub fn chunk_s(&self, rendition: usize) -> f64 {
        self.ladder.renditions[rendition].chunks[self.next].duration().as_secs_f64()
    }

    /// The highest rendition whose declared peak does not pass `bps`; the lowest if all do.
    pub fn highest_within(&self, bps: f64) -> usize {
        (0..self.renditions()).rev().find(|&at| self.peak_bps(at) <= bps).unwrap_or(0)
    }
}

/// How a chunk was fetched.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ChunkSample {
    /// Its rendition.
    pub rendition: usize,
    /// Its bytes, or those received of one that was given up.
    pub bytes: u64,
    /// From the request to the first byte of the answer, in seconds.
    pub first_byte_s: f64,
    /// From the request to the last byte, in seconds.
    pub fetch_s: f64,
    /// How long it plays, in seconds.
    pub duration_s: f64,
}

impl ChunkSample {
    /// Its throughput from the request on, bits per second; nothing when it took no time.
    pub fn throughput_bps(&self) -> Option<f64> {
        (self.fetch_s > 0.0).then(|| self.bytes as f64 * 8.0 / self.fetch_s)
    }
}

/// A chunk on its way.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Loading {
    /// Its rendition.
    pub rendition: usize,
    /// How long it plays, in seconds.
    pub duration_s: f64,
    /// Its bytes.
    pub bytes: u64,
    /// How many of them are in.
    pub received: u64,
    /// From the request until now, in seconds.
    pub since_s: f64,
    /// From the request to the first byte of the answer, in seconds, once it is in.
    pub first_byte_s: Option<f64>,
}

/// A rule's answer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum AbrDecision {
    /// The next chunk in this rendition.
    Fetch(usize),
    /// Fetch nothing now; ask again after this many seconds.
    Wait(f64),
}

/// A rule of adaptation: one for each session.
pub trait AbrRule: fmt::Debug + Send {
    /// Chooses the rendition of the next chunk.
    fn choose(&mut self, view: &AbrView<'_>) -> AbrDecision;

    /// A chunk is in.
    fn on_chunk(&mut self, _sample: &ChunkSample) {}

    /// Whether the rule wants to be asked, ten times a second, if a chunk on its way is given up.
    fn watches(&self) -> bool {
        false
    }

    /// Whether to give up the chunk on its way, and its connection with it. The next
    /// [`choose`](Self::choose) is about the same chunk again.
    fn abandons(&mut self, _view: &AbrView<'_>, _loading: &Loading) -> bool {
        false
    }
}

/// Rules of adaptation, as a kind of plug-in.
#[derive(Debug)]
pub struct AbrRules;

type Build = fn(&mut Parameters<'_>) -> Box<dyn AbrRule>;

impl Kind for AbrRules {
    const KEY: &'static str = "abr";
    const NOUN: &'static str = "ABR rule";
    // Rules do not build on one another.
    const SHORT_FORM: bool = false;
    const TABLE: &'static [(PluginName, Build)] = TABLE;
    type Plugin = Box<dyn AbrRule>;
    type Input = ();
    type Maker = Build;

    fn make(build: Build, parameters: &mut Parameters<'_>, (): ()) -> Self::Plugin {
        build(parameters)
    }

    fn trial() {}
}

/// The table of names: a rule is one file and one entry here.
const TABLE: &[(PluginName, Build)] = &[
    (
        PluginName::new(
            "vlc-rate",
            "VLC's `adaptive-logic=rate`: the highest within three quarters of its moving average.",
        ),
        VlcRate::build,
    ),
    (
        PluginName::new(
            "vlc-nearoptimal",
            "VLC 3's default, after BOLA: utility against buffer, never down faster than throughput asks.",
        ),
        VlcNearOptimal::build,
    ),
    (
        PluginName::new(
            "hlsjs",
            "hls.js: the highest that throughput allows and that arrives before the buffer is empty.",
        ),
        HlsJs::build,
    ),
    (
        PluginName::new(
            "bola",
            "BOLA-BASIC (INFOCOM 2016): utility against buffer, no throughput at all.",
        ),
        Bola::build,
    ),
    (
        PluginName::new(
            "mpc",
            "RobustMPC (SIGCOMM 2015): the best sequence of five chunks at a cautious throughput.",
        ),
        Mpc::build,
    ),
    (
        PluginName::new(
            "throughput",
            "The highest within nine tenths of the throughput (dash.js's ThroughputRule).",
        ),
        Throughput::build,
    ),
    (PluginName::new("fixed", "One rendition throughout."), Fixed::build),
];

/// Every rule's name with what it is in one sentence.
pub fn abr_names() -> impl Iterator<Item = PluginName> {
    anabranch_plugin::names::<AbrRules>()
}

/// Builds a rule from its name and its own parameters.
///
/// # Errors
///
/// An unknown name, and every parameter that is unknown or out of range.
pub fn build_abr(
    choice: &PluginChoice,
    registry: &Registry,
) -> Result<Box<dyn AbrRule>, PluginError> {
    anabranch_plugin::build::<AbrRules>(choice, registry, ())
}

/// The parameters of the rule called `name`.
///
/// # Errors
///
/// An unknown name.
pub fn abr_parameters(name: &str) -> Result<Vec<ParameterInfo>, PluginError> {
    anabranch_plugin::parameters::<AbrRules>(name)
}

#[cfg(test)]
mod testing {
    //! A ladder of round numbers, and a rule that is asked about it.

    use super::*;
    use crate::ladder::{Chunk, Rendition, Resource};

    /// Renditions of these rates, chunks of four seconds, no sound.
    pub(super) fn ladder(rates_bps: &[u64]) -> Ladder {
        let rendition = |(at, &bandwidth_bps): (usize, &u64)| Rendition {
            name: format!("r{at}"),
            bandwidth_bps,
            average_bps: None,
            width: 0,
            height: 0,
            frame_rate: None,
            codecs: String::new(),
            playlist: Resource { path: format!("r{at}.m3u8"), bytes: 1 },
            init: None,
            later_inits: Vec::new(),
            sound: 0,
            chunks: (0..20)
                .map(|index| Chunk {
                    path: format!("r{at}/{index}.ts"),
                    offset: None,
                    bytes: bandwidth_bps / 2,
                    duration_ns: 4_000_000_000,
                    gap: false,
                })
                .collect(),
        };
        let master = Resource { path: "master.m3u8".into(), bytes: 1 };
        let renditions = rates_bps.iter().enumerate().map(rendition).collect();
        Ladder { name: "round".into(), master, renditions, audio: None, more_audio: Vec::new() }
    }

    pub(super) fn rule(text: &str) -> Box<dyn AbrRule> {
        build_abr(&serde_json::from_str(text).unwrap(), &Registry::TABLES).unwrap()
    }

    /// What the rule says of chunk `next` after one in rendition `last`, with `buffer_s` buffered.
    pub(super) fn ask(
        rule: &mut dyn AbrRule,
        ladder: &Ladder,
        (next, last): (usize, Option<usize>),
        buffer_s: f64,
    ) -> AbrDecision {
        rule.choose(&AbrView { ladder, next, last, buffer_s, max_buffer_s: 30.0 })
    }

    /// A chunk of four seconds fetched at `bps`, with no wait for its first byte.
    pub(super) fn fetched(rule: &mut dyn AbrRule, rendition: usize, bits: u64, bps: f64) {
        rule.on_chunk(&ChunkSample {
            rendition,
            bytes: bits / 8,
            first_byte_s: 0.0,
            fetch_s: bits as f64 / bps,
            duration_s: 4.0,
        });
    }
}

#[cfg(test)]
mod tests {
    use anabranch_plugin::PluginFault;

    use super::*;
    use testing::{ask, ladder};

    #[test]
    fn every_rule_begins_within_the_ladder() {
        let ladder = ladder(&[1_000_000, 2_000_000, 4_000_000]);
        for PluginName { name, summary, .. } in abr_names() {
            assert!(summary.ends_with('.'));
            abr_parameters(name).unwrap();
            let mut rule = build_abr(&PluginChoice::named(name), &Registry::TABLES).unwrap();
            let first = ask(&mut *rule, &ladder, (0, None), 0.0);
            assert!(matches!(first, AbrDecision::Fetch(0..3)), "{name} begins with {first:?}");
        }
    }

    #[test]
    fn what_is_unknown_is_named_with_what_there_is() {
        let error = build_abr(&PluginChoice::named("bolla"), &Registry::TABLES).unwrap_err();
        assert_eq!(error.faults[0].message, "unknown ABR rule: `bolla`");
        assert!(error.faults[0].known.contains(&"bola"));
        let choice = serde_json::from_str(r#"{"name":"bola","gamma_q":1,"gamma_p":-1}"#).unwrap();
        let error = build_abr(&choice, &Registry::TABLES).unwrap_err();
        let of = |fault: &PluginFault| (fault.path.clone(), fault.message.clone());
        assert_eq!(
            error.faults.iter().map(of).collect::<Vec<_>>(),
            [
                (
                    vec!["gamma_p".to_owned()],
                    "`gamma_p` of bola is a number from 0.01 to 1000, not `-1`".to_owned()
                ),
                (vec!["gamma_q".to_owned()], "unknown parameter of bola: `gamma_q`".to_owned()),
            ]
        );
    }
}

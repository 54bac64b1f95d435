//! Adaptive bitrate (ABR) rules: the trait, its input, and the table of names.
//!
//! A player calls its rule before each video chunk, and the rule chooses the rendition. Rates are
//! in bits per second, and times and buffers are in seconds. They are `f64`, because they are
//! estimates and published rules use these units.

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

/// The input for the choice of a chunk's rendition.
#[derive(Clone, Copy, Debug)]
pub struct AbrView<'a> {
    /// The ladder to choose from.
    pub ladder: &'a Ladder,
    /// The index of the chunk for which a rendition is chosen.
    pub next: usize,
    /// The rendition of the previous chunk, if there is one.
    pub last: Option<usize>,
    /// The duration of the film that was received and not yet shown, in seconds.
    pub buffer_s: f64,
    /// The largest buffer that the player allows, in seconds.
    pub max_buffer_s: f64,
}

impl AbrView<'_> {
    /// Returns the number of renditions.
    pub fn renditions(&self) -> usize {
        self.ladder.renditions.len()
    }

    /// Returns the declared peak rate of a rendition in bits per second.
    pub fn peak_bps(&self, rendition: usize) -> f64 {
        self.ladder.renditions[rendition].bandwidth_bps as f64
    }

    /// Returns the mean rate of a rendition in bits per second.
    pub fn mean_bps(&self, rendition: usize) -> f64 {
        self.ladder.renditions[rendition].mean_bps()
    }

    /// Returns the playing time of the next chunk in a rendition, in seconds.
    pub fn chunk_s(&self, rendition: usize) -> f64 {
        self.ladder.renditions[rendition].chunks[self.next].duration().as_secs_f64()
    }

    /// Returns the mean playing time of a rendition's chunks, in seconds.
    pub fn mean_chunk_s(&self, rendition: usize) -> f64 {
        let chunks = &self.ladder.renditions[rendition].chunks;
        let total: f64 = chunks.iter().map(|chunk| chunk.duration().as_secs_f64()).sum();
        total / chunks.len() as f64
    }

    /// Returns the highest rendition whose declared peak rate is at most `bps`. If none is, returns
    /// the lowest rendition.
    pub fn highest_within(&self, bps: f64) -> usize {
        (0..self.renditions()).rev().find(|&at| self.peak_bps(at) <= bps).unwrap_or(0)
    }
}

/// The measurements of a finished or abandoned download of a chunk.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ChunkSample {
    /// The rendition of the chunk.
    pub rendition: usize,
    /// The size of the chunk in bytes. If the download was abandoned, the number of received bytes.
    pub bytes: u64,
    /// Time from the request to the first byte of the response, in seconds.
    pub first_byte_s: f64,
    /// Time from the request to the last byte of the response, in seconds.
    pub fetch_s: f64,
    /// The playing time of the chunk, in seconds.
    pub duration_s: f64,
}

impl ChunkSample {
    /// Returns the throughput since the request in bits per second. `None` if the download took no
    /// time.
    pub fn throughput_bps(&self) -> Option<f64> {
        (self.fetch_s > 0.0).then(|| self.bytes as f64 * 8.0 / self.fetch_s)
    }
}

/// A chunk that is being downloaded.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Loading {
    /// The rendition of the chunk.
    pub rendition: usize,
    /// The playing time of the chunk, in seconds.
    pub duration_s: f64,
    /// The size of the chunk in bytes.
    pub bytes: u64,
    /// The number of bytes received so far.
    pub received: u64,
    /// Time since the request, in seconds.
    pub since_s: f64,
    /// Time from the request to the first byte of the response, in seconds. `None` before that
    /// byte.
    pub first_byte_s: Option<f64>,
}

/// The result of [`AbrRule::choose`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum AbrDecision {
    /// Fetch the next chunk in this rendition.
    Fetch(usize),
    /// Fetch nothing now, and call the rule again after this many seconds.
    Wait(f64),
}

/// An ABR rule. Each session has its own instance.
pub trait AbrRule: fmt::Debug + Send {
    /// Chooses the rendition of the next chunk.
    fn choose(&mut self, view: &AbrView<'_>) -> AbrDecision;

    /// Called when a chunk has been received completely.
    fn on_chunk(&mut self, _sample: &ChunkSample) {}

    /// Returns whether the player calls [`abandons`](Self::abandons) ten times per second during a
    /// download.
    fn watches(&self) -> bool {
        false
    }

    /// Returns whether to abandon the current download. The player then closes its connection and
    /// calls [`choose`](Self::choose) for the same chunk again.
    fn abandons(&mut self, _view: &AbrView<'_>, _loading: &Loading) -> bool {
        false
    }
}

/// The ABR rules as a kind of plug-in.
#[derive(Debug)]
pub struct AbrRules;

type Build = fn(&mut Parameters<'_>) -> Box<dyn AbrRule>;

impl Kind for AbrRules {
    const KEY: &'static str = "abr";
    const NOUN: &'static str = "ABR rule";
    // No rule wraps another rule, so the short form is not needed.
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

/// The table of rules. A new rule needs one file and one entry here.
const TABLE: &[(PluginName, Build)] = &[
    (
        PluginName::new(
            "vlc-rate",
            "VLC's `adaptive-logic=rate`: the highest rate within 3/4 of the average throughput.",
        ),
        VlcRate::build,
    ),
    (
        PluginName::new(
            "vlc-nearoptimal",
            "VLC 3's default, based on BOLA; throughput limits how far it goes down.",
        ),
        VlcNearOptimal::build,
    ),
    (
        PluginName::new(
            "hlsjs",
            "hls.js: the highest rate whose chunk arrives before the buffer is empty.",
        ),
        HlsJs::build,
    ),
    (
        PluginName::new(
            "bola",
            "BOLA-BASIC (INFOCOM 2016): utility against buffer, without a throughput estimate.",
        ),
        Bola::build,
    ),
    (
        PluginName::new(
            "mpc",
            "RobustMPC (SIGCOMM 2015): the best five next chunks at a lowered throughput estimate.",
        ),
        Mpc::build,
    ),
    (
        PluginName::new(
            "throughput",
            "The highest rate within nine tenths of the throughput (dash.js's ThroughputRule).",
        ),
        Throughput::build,
    ),
    (PluginName::new("fixed", "Always the same rendition."), Fixed::build),
];

/// Returns the name and one-sentence summary of every rule.
pub fn abr_names() -> impl Iterator<Item = PluginName> {
    anabranch_plugin::names::<AbrRules>()
}

/// Builds a rule from its name and its parameters.
///
/// # Errors
///
/// Returns an error if the name is unknown, or if a parameter is unknown or out of range.
pub fn build_abr(
    choice: &PluginChoice,
    registry: &Registry,
) -> Result<Box<dyn AbrRule>, PluginError> {
    anabranch_plugin::build::<AbrRules>(choice, registry, ())
}

/// Returns the parameters of the rule called `name`.
///
/// # Errors
///
/// Returns an error if the name is unknown.
pub fn abr_parameters(name: &str) -> Result<Vec<ParameterInfo>, PluginError> {
    anabranch_plugin::parameters::<AbrRules>(name)
}

#[cfg(test)]
mod testing {
    //! A ladder with round numbers, and functions that call a rule with it.

    use super::*;
    use crate::ladder::{Chunk, Rendition, Resource};

    /// Returns a ladder with these rates. Chunks are 4 s long, and there is no separate audio.
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

    /// Returns the decision for chunk `next`. The previous chunk has rendition `last`, and
    /// `buffer_s` seconds are buffered.
    pub(super) fn ask(
        rule: &mut dyn AbrRule,
        ladder: &Ladder,
        (next, last): (usize, Option<usize>),
        buffer_s: f64,
    ) -> AbrDecision {
        rule.choose(&AbrView { ladder, next, last, buffer_s, max_buffer_s: 30.0 })
    }

    /// Reports a chunk of 4 s that was received at `bps`. Its first byte arrived at once.
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
    fn every_rule_starts_with_a_rendition_of_the_ladder() {
        let ladder = ladder(&[1_000_000, 2_000_000, 4_000_000]);
        for PluginName { name, summary, .. } in abr_names() {
            assert!(summary.ends_with('.'));
            abr_parameters(name).unwrap();
            let mut rule = build_abr(&PluginChoice::named(name), &Registry::TABLES).unwrap();
            let first = ask(&mut *rule, &ladder, (0, None), 0.0);
            assert!(matches!(first, AbrDecision::Fetch(0..3)), "{name} starts with {first:?}");
        }
    }

    #[test]
    fn an_unknown_name_is_reported_with_the_known_ones() {
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

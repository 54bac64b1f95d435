//! Path managers: which subflows a client opens, and the table of names.

mod full_mesh;
mod none;
mod range;

use std::fmt;
use std::net::SocketAddr;

use anabranch_plugin::{
    Kind, ParameterInfo, Parameters, PluginChoice, PluginError, PluginName, Registry,
};
use anabranch_units::{Duration, Instant, Rate};

pub use full_mesh::FullMesh;
pub use none::NoManager;
pub use range::Range;

/// A pair of addresses between which a subflow could be opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// Which of the configured local addresses, its address identifier.
    pub address_id: u8,
    /// The local address. Where an earlier subflow of the connection had the port the next one is
    /// taken.
    pub local: SocketAddr,
    /// The peer's address.
    pub remote: SocketAddr,
    /// The subflow is to be a backup.
    pub backup: bool,
    /// What the interface declares that the path can carry, where it does.
    pub rate: Option<Rate>,
}

/// A path that a subflow runs over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenPath {
    /// The local address.
    pub local: SocketAddr,
    /// Smoothed RTT as this side measures it, which at a client that only receives is that of the
    /// handshake.
    pub srtt: Option<Duration>,
    /// The rate that the interface declares.
    pub rate: Option<Rate>,
}

/// A path manager: one per connection, on the side that opens subflows.
pub trait PathManager: fmt::Debug + Send {
    /// The name in the table.
    fn name(&self) -> &'static str;

    /// The connection is fully established; `unused` are the pairs without a subflow, those of an
    /// address just added among them, and `open` the paths in use. Returns those to join now.
    fn on_established(
        &mut self,
        now: Instant,
        unused: &[Candidate],
        open: &[OpenPath],
    ) -> Vec<Candidate>;

    /// The peer announced an address; `pairs` joins it with each of ours. Returns those to join now:
    /// none unless a path manager says otherwise, as Linux's limit `add_addr_accepted` of 0 does.
    fn on_announced(
        &mut self,
        _now: Instant,
        _pairs: &[Candidate],
        _open: &[OpenPath],
    ) -> Vec<Candidate> {
        Vec::new()
    }

    /// The handshake of a join has measured its path. Where the answer is no the subflow is reset
    /// before it carries data, and the pair is unused again.
    fn admits(&mut self, _now: Instant, _joining: &OpenPath, _open: &[OpenPath]) -> bool {
        true
    }
}

/// Path managers, as a kind of plug-in.
#[derive(Debug)]
pub struct PathManagers;

type Build = fn(&mut Parameters<'_>) -> Box<dyn PathManager>;

impl Kind for PathManagers {
    const KEY: &'static str = "path_manager";
    const NOUN: &'static str = "path manager";
    const TABLE: &'static [(PluginName, Build)] = TABLE;
    type Plugin = Box<dyn PathManager>;
    type Input = ();
    type Maker = Build;

    fn make(build: Build, parameters: &mut Parameters<'_>, (): ()) -> Self::Plugin {
        build(parameters)
    }

    fn trial() {}
}

/// The table of names.
const TABLE: &[(PluginName, Build)] = &[
    (
        PluginName::new("full-mesh", "A subflow between every pair of addresses that has a path."),
        FullMesh::build,
    ),
    (PluginName::new("none", "The initial subflow only."), NoManager::build),
    (
        PluginName::new(
            "range",
            "A subflow only over paths within a range of delay and rate (UQ18's proposal).",
        ),
        Range::build,
    ),
];

/// Every path manager's name with the first sentence of its documentation.
pub fn names() -> impl Iterator<Item = PluginName> {
    anabranch_plugin::names::<PathManagers>()
}

/// Builds a path manager from its name and its own parameters.
///
/// # Errors
/// Unknown names, and every parameter that is unknown or out of range.
pub fn build(choice: &PluginChoice) -> Result<Box<dyn PathManager>, PluginError> {
    anabranch_plugin::build::<PathManagers>(choice, &Registry::TABLES, ())
}

/// The parameters of the path manager called `name`.
///
/// # Errors
/// Unknown names.
pub fn parameters(name: &str) -> Result<Vec<ParameterInfo>, PluginError> {
    anabranch_plugin::parameters::<PathManagers>(name)
}

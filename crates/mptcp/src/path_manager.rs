//! Path managers, which decide what subflows a client opens, and the table of their names.

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
    /// The address identifier of the local address.
    pub address_id: u8,
    /// The local address. If an earlier subflow of the connection used the port, the next free port is taken.
    pub local: SocketAddr,
    /// The peer's address.
    pub remote: SocketAddr,
    /// Whether the subflow is a backup.
    pub backup: bool,
    /// The rate of the interface, if the configuration has one.
    pub rate: Option<Rate>,
}

/// A path that a subflow uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenPath {
    /// The local address.
    pub local: SocketAddr,
    /// The smoothed RTT measured by this side. A client that only receives has measured only the handshake.
    pub srtt: Option<Duration>,
    /// The rate of the interface, if the configuration has one.
    pub rate: Option<Rate>,
}

/// A path manager. Each connection has one, on the side that opens subflows.
pub trait PathManager: fmt::Debug + Send {
    /// The name in the table of path managers.
    fn name(&self) -> &'static str;

    /// Called when the connection is fully established and when the candidates change. `unused` are the
    /// address pairs without a subflow, and `open` the paths in use. Returns the pairs to join now.
    fn on_established(
        &mut self,
        now: Instant,
        unused: &[Candidate],
        open: &[OpenPath],
    ) -> Vec<Candidate>;

    /// Called when the peer announces an address. `pairs` combines it with each local address. Returns the
    /// pairs to join now. The default is none, like Linux with the limit `add_addr_accepted` = 0.
    fn on_announced(
        &mut self,
        _now: Instant,
        _pairs: &[Candidate],
        _open: &[OpenPath],
    ) -> Vec<Candidate> {
        Vec::new()
    }

    /// Called after the handshake of a join, which measured the path. If it returns false, the subflow is
    /// reset before it carries data, and its pair becomes unused again.
    fn admits(&mut self, _now: Instant, _joining: &OpenPath, _open: &[OpenPath]) -> bool {
        true
    }
}

/// The plug-in kind of path managers.
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

/// The built-in path managers.
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

/// Returns the name of each path manager with the first sentence of its documentation.
pub fn names() -> impl Iterator<Item = PluginName> {
    anabranch_plugin::names::<PathManagers>()
}

/// Creates a path manager from its name and parameters.
///
/// # Errors
///
/// The name is unknown, or a parameter is unknown or out of range.
pub fn build(choice: &PluginChoice) -> Result<Box<dyn PathManager>, PluginError> {
    anabranch_plugin::build::<PathManagers>(choice, &Registry::TABLES, ())
}

/// Returns the parameters of the path manager called `name`.
///
/// # Errors
///
/// The name is unknown.
pub fn parameters(name: &str) -> Result<Vec<ParameterInfo>, PluginError> {
    anabranch_plugin::parameters::<PathManagers>(name)
}

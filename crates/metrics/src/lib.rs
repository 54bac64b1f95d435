//! Metrics of viewers and paths: pure functions of a trace's tables. They have the names that the papers use.
//!
//! Python and the page call the same code. docs/reference/trace.md describes the metrics.

mod adaptive;
mod arithmetic;
mod cross;
mod network;
mod paths;
mod renditions;
mod screen;
mod strip;
mod tables;
mod value;
mod viewer;

pub use renditions::{Shown, renditions, renditions_of_each};
pub use screen::{FREEZE_S, Screen, Stretch, screen, standing_times};
pub use strip::{Span, State, strip, strips};
pub use tables::{Own, Table, Tables};
pub use value::{Object, Value, mean};
pub use viewer::{Event, events, stall_times};

use crate::network::network;
use crate::value::object;

/// The metrics of one client.
#[derive(Clone, Debug, PartialEq)]
pub struct Client {
    /// The client's number.
    pub client: i64,
    /// The viewer's metrics; `None` if nothing was played.
    pub qoe: Option<Object>,
    /// The network's metrics, except those of links and cross traffic.
    pub qos: Object,
}

impl Client {
    /// Returns the metrics as one object.
    pub fn into_object(self) -> Object {
        object([
            ("client", Value::Whole(self.client)),
            ("qoe", self.qoe.map_or(Value::Null, Value::Object)),
            ("qos", Value::Object(self.qos)),
        ])
    }
}

/// Returns the metrics of each client, in ascending order of clients. `paths` contains the scenario's paths
/// in order. If it is empty, paths are in the order of their first subflow.
pub fn by_client(tables: &Tables<'_>, paths: &[&str]) -> Vec<Client> {
    let one = |own: &Own<'_>| Client {
        client: own.client(),
        qoe: viewer::viewer(own),
        qos: network(own, paths),
    };
    tables.of_each().iter().map(one).collect()
}

/// Returns the mean of the viewers' metrics; `None` if nothing was played.
pub fn qoe(clients: &[Client]) -> Option<Object> {
    let seen: Vec<_> = clients.iter().filter_map(|client| client.qoe.as_ref()).collect();
    (!seen.is_empty()).then(|| mean(&seen))
}

/// Returns the network's metrics: the means over clients, the drops of all links, and cross traffic.
pub fn qos(tables: &Tables<'_>, clients: &[Client]) -> Object {
    let each: Vec<_> = clients.iter().map(|client| &client.qos).collect();
    whole(tables, mean(&each))
}

/// Adds the metrics of links and cross traffic to the mean of the clients' metrics.
pub fn whole(tables: &Tables<'_>, mut clients: Object) -> Object {
    const ORDER: [&str; 8] = [
        "goodput_mbps",
        "rtt_diff_ms",
        "reinjected_bytes",
        "max_read_gap_s",
        "queue_drops",
        "subflows",
        "paths",
        "receiver",
    ];
    let drops =
        tables.table("links").map_or(0.0, |links| arithmetic::sum(links.numbers("dropped_queue")));
    clients.push(("queue_drops".to_owned(), Value::whole(drops)));
    let place = |key: &str| ORDER.iter().position(|known| *known == key).unwrap_or(ORDER.len());
    clients.sort_by_key(|(key, _)| place(key));
    clients.extend(cross::crossing(tables));
    clients
}

/// Returns the duration of the longest session in seconds; `None` if there is no client.
pub fn duration_s(tables: &Tables<'_>) -> Option<f64> {
    let durations = tables.table("connections")?.numbers("duration_s");
    durations.into_iter().reduce(f64::max)
}

//! Metrics of each path over all its subflows, in the order of the scenario.

use crate::arithmetic::{plain, rounded, sum};
use crate::network::Subflow;
use crate::value::{Object, Value, object};

/// Returns the metrics of one client's paths. If `names` is empty, paths are in the order of their first subflow.
pub(crate) fn by_path(subflows: &[Subflow<'_>], names: &[&str]) -> Vec<Value> {
    let whole = sum(subflows.iter().map(|one| one.bytes));
    let mut order = names.to_vec();
    if names.is_empty() {
        for subflow in subflows {
            if !order.contains(&subflow.path) {
                order.push(subflow.path);
            }
        }
    }
    let own = |name: &str| subflows.iter().filter(|one| one.path == name).collect::<Vec<_>>();
    order.into_iter().map(|name| Value::Object(path(name, &own(name), whole))).collect()
}

/// Returns the metrics of a path: sums over its subflows, and means weighted by their bytes.
fn path(name: &str, own: &[&Subflow<'_>], whole: f64) -> Object {
    let total = |of: fn(&Subflow<'_>) -> f64| sum(own.iter().map(|one| of(one)));
    let count = total(|one| one.bytes);
    let share = if whole == 0.0 { Value::Null } else { Value::Number(plain(count / whole)) };
    // As in the viewer's metrics, the sum of an empty list is the count 0.
    let throughput = match total(|one| one.throughput_mbps) {
        _ if own.is_empty() => Value::Whole(0),
        sum => Value::Number(plain(sum)),
    };
    object([
        ("path", Value::Text(name.to_owned())),
        ("subflows", Value::Whole(own.len() as i64)),
        ("bytes", Value::whole(count)),
        ("bytes_share", share),
        ("throughput_mbps", throughput),
        ("retransmissions", Value::whole(total(|one| one.retransmissions))),
        ("srtt_ms_mean", weighted(own, |one| one.srtt_ms_mean)),
        ("cwnd_segments_mean", weighted(own, |one| one.cwnd_segments_mean)),
    ])
}

/// Returns the mean of a metric over subflows, weighted by bytes. It is unweighted if there are no bytes.
fn weighted(own: &[&Subflow<'_>], metric: fn(&Subflow<'_>) -> Option<f64>) -> Value {
    let known: Vec<_> =
        own.iter().filter_map(|one| metric(one).map(|value| (value, one.bytes))).collect();
    let whole = sum(known.iter().map(|(_, count)| *count));
    if known.is_empty() {
        return Value::Null;
    }
    let mean = if whole == 0.0 {
        sum(known.iter().map(|(value, _)| *value)) / known.len() as f64
    } else {
        sum(known.iter().map(|(value, count)| value * count)) / whole
    };
    Value::Number(rounded(mean, 3))
}

//! Metrics of cross traffic, which consists of background flows besides the clients.

use crate::arithmetic::{mbps, plain, sum};
use crate::tables::Tables;
use crate::value::{Object, Value, object};

/// A background flow.
struct Flow<'a> {
    name: &'a str,
    congestion: &'a str,
    start_s: f64,
    end_s: f64,
    bytes_read: f64,
    retransmissions: f64,
    datagrams_sent: f64,
    datagrams_lost: f64,
}

/// Returns the metrics of cross traffic; empty if a run has no cross traffic.
///
/// A rate is the bytes read divided by the time from the first start to the last end. The sum of the flows'
/// own rates would be too large for flows that run one after the other.
pub(crate) fn crossing(tables: &Tables<'_>) -> Object {
    let Some(table) = tables.table("cross_traffic") else { return Object::new() };
    let (names, congestion) = (table.words("name"), table.words("congestion"));
    let column = |name| table.padded(name, names.len());
    let (start_s, end_s) = (column("start_s"), column("end_s"));
    let [read, again] = ["bytes_read", "retransmissions"].map(column);
    let [sent, lost] = ["datagrams_sent", "datagrams_lost"].map(column);
    let known = |value: f64| if value.is_nan() { 0.0 } else { value };
    let flows: Vec<_> = names
        .iter()
        .enumerate()
        .map(|(row, name)| Flow {
            name,
            congestion: congestion.get(row).copied().unwrap_or_default(),
            start_s: start_s[row],
            end_s: end_s[row],
            bytes_read: read[row],
            retransmissions: again[row],
            datagrams_sent: known(sent[row]),
            datagrams_lost: known(lost[row]),
        })
        .collect();
    if flows.is_empty() {
        return Object::new();
    }
    let all: Vec<_> = flows.iter().collect();
    let mut groups: Vec<Vec<&Flow<'_>>> = Vec::new();
    for flow in &flows {
        match groups.iter_mut().find(|group| group[0].name == flow.name) {
            Some(group) => group.push(flow),
            None => groups.push(vec![flow]),
        }
    }
    let groups = groups.iter().map(|group| Value::Object(of_name(group))).collect();
    object([
        ("cross_traffic_mbps", Value::Number(goodput(&all))),
        ("cross_traffic", Value::List(groups)),
    ])
}

/// Returns the metrics of the flows with the same name.
fn of_name(flows: &[&Flow<'_>]) -> Object {
    let total = |of: fn(&Flow<'_>) -> f64| sum(flows.iter().map(|flow| of(flow)));
    let sent = total(|flow| flow.datagrams_sent);
    let mut found = object([
        ("name", Value::Text(flows[0].name.to_owned())),
        ("congestion", Value::Text(flows[0].congestion.to_owned())),
        ("flows", Value::Whole(flows.len() as i64)),
        ("bytes", Value::whole(total(|flow| flow.bytes_read))),
        ("goodput_mbps", Value::Number(goodput(flows))),
        ("retransmissions", Value::whole(total(|flow| flow.retransmissions))),
    ]);
    if sent > 0.0 {
        let lost = total(|flow| flow.datagrams_lost);
        found.extend(object([
            ("datagrams_sent", Value::whole(sent)),
            ("datagrams_lost", Value::whole(lost)),
        ]));
    }
    found
}

/// Returns the joint rate of flows. Flows that never started add neither bytes nor time.
fn goodput(flows: &[&Flow<'_>]) -> f64 {
    let ran: Vec<_> = flows.iter().filter(|flow| !flow.end_s.is_nan()).collect();
    let end = ran.iter().map(|flow| flow.end_s).reduce(f64::max).unwrap_or(0.0);
    let begin = ran.iter().map(|flow| flow.start_s).reduce(f64::min).unwrap_or(0.0);
    plain(mbps(sum(ran.iter().map(|flow| flow.bytes_read)), end - begin))
}

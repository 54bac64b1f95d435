//! The present state of the subflows of open connections, summed by the gateway's address and by role.

use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;

use anabranch_mptcp::{Connection, SubflowSample};
use anabranch_units::Duration;

/// Subflows that are counted together: those at one address of the gateway, first subflows or joined ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Group {
    /// The gateway's address.
    pub(super) address: IpAddr,
    /// Whether the subflows joined a connection. The others are the first of their connections.
    pub(super) joined: bool,
}

impl fmt::Display for Group {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let role = if self.joined { "joined" } else { "first" };
        write!(f, "address=\"{}\",role=\"{role}\"", self.address)
    }
}

/// The sums over the established subflows of a group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Sums {
    pub(super) subflows: u64,
    pub(super) cwnd_segments: u64,
    pub(super) in_flight_segments: u64,
    pub(super) delivery_rate_bps: u64,
    /// The sum of the smoothed RTTs, and the number of subflows that have one.
    srtt: (Duration, u32),
}

impl Sums {
    fn add(&mut self, sample: &SubflowSample) {
        self.subflows += 1;
        self.cwnd_segments += u64::from(sample.cwnd_segments);
        self.in_flight_segments += u64::from(sample.in_flight_segments);
        self.delivery_rate_bps += sample.delivery_rate.bps();
        if let Some(srtt) = sample.srtt {
            self.srtt = (self.srtt.0 + srtt, self.srtt.1 + 1);
        }
    }

    /// Returns the mean of the smoothed RTTs in seconds; `None` if no subflow has one.
    pub(super) fn srtt_s(&self) -> Option<f64> {
        let (sum, count) = self.srtt;
        (count > 0).then(|| sum.as_secs_f64() / f64::from(count))
    }
}

/// The sums of all groups.
pub(super) type Groups = BTreeMap<Group, Sums>;

/// Adds the established subflows of a connection.
pub(super) fn add(groups: &mut Groups, connection: &Connection) {
    let view = connection.view();
    let of: BTreeMap<_, _> =
        view.summaries().map(|it| (it.id, (it.tuple.local.ip(), it.ordinal))).collect();
    for sample in view.samples() {
        if let Some((address, ordinal)) = of.get(&sample.id) {
            let group = Group { address: *address, joined: *ordinal > 0 };
            groups.entry(group).or_default().add(&sample);
        }
    }
}

#[cfg(test)]
pub(super) fn example() -> Groups {
    let sums = |subflows, millis: u64, measured| Sums {
        subflows,
        cwnd_segments: 30,
        in_flight_segments: 20,
        delivery_rate_bps: 8_000_000,
        srtt: (Duration::from_millis(millis), measured),
    };
    let group = |joined| Group { address: [10, 9, 0, 1].into(), joined };
    [(group(false), sums(3, 60, 2)), (group(true), sums(1, 0, 0))].into()
}

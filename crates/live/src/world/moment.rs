//! The current state of a run, for an observer.

use anabranch_host::Viewing;
use anabranch_link::Queued;
use anabranch_plan::addresses::locate;
use anabranch_units::{Duration, Instant};

use super::tables::serves;
use super::{Observer, World};

/// The state of a run at one point in time.
#[derive(Clone, Debug)]
pub struct Moment {
    /// The time of the plan, seconds.
    pub t_s: f64,
    /// The number of bytes read by the client's application. `None` if the plan's application does not run.
    pub bytes_read: Option<u64>,
    /// The state of each path, in the plan's order.
    pub paths: Vec<PathMoment>,
    /// The state of the film that the client plays. `None` if it plays no film.
    pub viewing: Option<Viewing>,
}

/// The state of a path.
#[derive(Clone, Copy, Debug)]
pub struct PathMoment {
    /// The number of bytes that have left the path towards the client, including headers.
    pub bytes: u64,
    /// The packets and bytes in the path's queues towards the client.
    pub queued: Queued,
    /// The state of our server's subflows on this path. `None` if the server is a kernel.
    pub subflow: Option<SubflowMoment>,
}

/// The state of our server's subflows on a path.
#[derive(Clone, Copy, Debug, Default)]
pub struct SubflowMoment {
    /// The number of bytes acknowledged on all subflows, including closed ones.
    pub bytes_acked: u64,
    /// The congestion window of the newest established subflow, segments.
    pub cwnd_segments: Option<u32>,
    /// The segments in flight on that subflow.
    pub in_flight_segments: Option<u32>,
    /// The smoothed RTT of that subflow. `None` before the first measurement.
    pub srtt: Option<Duration>,
}

impl World<'_> {
    /// Passes the current state to the observer, if it watches the run.
    pub(super) fn show(&self, now: Instant, observer: &mut dyn Observer) {
        if observer.watches() {
            observer.watch(&self.moment(now));
        }
    }

    fn moment(&self, now: Instant) -> Moment {
        let subflows = self.subflows();
        let path = |(number, bytes): (usize, &u64)| PathMoment {
            bytes: *bytes,
            queued: self.network.queued(now, number),
            subflow: subflows.as_ref().map(|of| of[number]),
        };
        Moment {
            t_s: self.seconds(now),
            bytes_read: self.client.session().map(|session| session.bytes_read),
            paths: self.carried.iter().enumerate().map(path).collect(),
            viewing: self.client.viewing(now),
        }
    }

    /// Returns the state of our server's subflows, by path.
    fn subflows(&self) -> Option<Vec<SubflowMoment>> {
        let host = serves(&self.server)?;
        let mut of = vec![SubflowMoment::default(); self.plan.paths.len()];
        for (_, connection) in host.endpoint().connections() {
            let paths: Vec<_> = (connection.view().summaries())
                .map(|it| (usize::from(locate(it.tuple.remote).0), it.totals.bytes_acked))
                .collect();
            for (path, bytes_acked) in &paths {
                of[*path].bytes_acked += bytes_acked;
            }
            for sample in connection.view().samples() {
                let subflow = &mut of[paths[sample.id.index()].0];
                subflow.cwnd_segments = Some(sample.cwnd_segments);
                subflow.in_flight_segments = Some(sample.in_flight_segments);
                subflow.srtt = sample.srtt;
            }
        }
        Some(of)
    }
}

//! How a run stands at a moment, for who watches it.

use anabranch_host::Viewing;
use anabranch_link::Queued;
use anabranch_plan::addresses::locate;
use anabranch_units::{Duration, Instant};

use super::tables::serves;
use super::{Observer, World};

/// How a run stands.
#[derive(Clone, Debug)]
pub struct Moment {
    /// Seconds since the plan's time began.
    pub t_s: f64,
    /// Bytes that the client's application has read; `None` where the plan's application does not run.
    pub bytes_read: Option<u64>,
    /// The plan's paths, in its order.
    pub paths: Vec<PathMoment>,
    /// What the client's viewer has, where it plays a film.
    pub viewing: Option<Viewing>,
}

/// How a path stands.
#[derive(Clone, Copy, Debug)]
pub struct PathMoment {
    /// Bytes that have come out of it towards the client, headers included.
    pub bytes: u64,
    /// What waits in its queues towards the client.
    pub queued: Queued,
    /// The subflows of our server; `None` where a kernel serves.
    pub subflow: Option<SubflowMoment>,
}

/// How our server's subflows on a path stand.
#[derive(Clone, Copy, Debug, Default)]
pub struct SubflowMoment {
    /// What clients have acknowledged on all that there were.
    pub bytes_acked: u64,
    /// The congestion window of the newest that is established.
    pub cwnd_segments: Option<u32>,
    /// Its segments in flight.
    pub in_flight_segments: Option<u32>,
    /// Its smoothed RTT, where it was measured.
    pub srtt: Option<Duration>,
}

impl World<'_> {
    /// Tells who watches how the run stands.
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

    /// Those of our server, by path.
    fn subflows(&self) -> Option<Vec<SubflowMoment>> {
        let host = serves(&self.server)?;
        let mut of = vec![SubflowMoment::default(); self.plan.paths.len()];
        for (_, connection) in host.endpoint().connections() {
            let paths: Vec<_> = (connection.summaries())
                .map(|it| (usize::from(locate(it.tuple.remote).0), it.totals.bytes_acked))
                .collect();
            for (path, bytes_acked) in &paths {
                of[*path].bytes_acked += bytes_acked;
            }
            for sample in connection.samples() {
                let subflow = &mut of[paths[sample.id.index()].0];
                subflow.cwnd_segments = Some(sample.cwnd_segments);
                subflow.in_flight_segments = Some(sample.in_flight_segments);
                subflow.srtt = sample.srtt;
            }
        }
        Some(of)
    }
}

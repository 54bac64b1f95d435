//! The MPTCP option of the handshake's third packet. The option is repeated until the peer confirms it (RFC
//! 8684 sections 3.1 and 3.2).

use anabranch_units::{Duration, Instant};
use anabranch_wire::{MpCapable, MptcpOption, Segment};

use anabranch_tcp::config::HostModel;

/// The delay of a repetition if the round-trip time is not known.
const DELAY: Duration = Duration::from_secs(1);

/// The option of the third packet.
#[derive(Debug)]
pub(crate) struct ThirdPacket {
    /// The option, until the peer has confirmed it.
    option: Option<MptcpOption>,
    sent: bool,
    /// The time at which the third packet of a join is repeated. `FAR_FUTURE` if it is not.
    deadline: Instant,
}

impl Default for ThirdPacket {
    fn default() -> Self {
        Self { option: None, sent: false, deadline: Instant::FAR_FUTURE }
    }
}

impl ThirdPacket {
    /// Queues the option for the third packet.
    pub(crate) fn set(&mut self, option: MptcpOption) {
        self.option = Some(option);
    }

    /// Ends the repetition, because the peer has received the option or MPTCP has ended.
    pub(crate) fn end_repetition(&mut self) {
        (self.option, self.deadline) = (None, Instant::FAR_FUTURE);
    }

    /// Returns whether the peer has not confirmed the option.
    #[inline]
    pub(super) fn is_pending(&self) -> bool {
        self.option.is_some()
    }

    /// Returns whether the option is an `MP_JOIN` that the peer has not confirmed.
    pub(super) fn is_join(&self) -> bool {
        matches!(self.option, Some(MptcpOption::Join(_)))
    }

    /// Returns the `MP_CAPABLE` that the peer has not confirmed, if any.
    pub(super) fn capable(&self) -> Option<MpCapable> {
        match self.option {
            Some(MptcpOption::Capable(capable)) => Some(capable),
            _ => None,
        }
    }

    /// Returns whether a `DATA_FIN` must wait, because the option takes the place of the DSS.
    pub(super) fn delays_data_fin(&self) -> bool {
        match self.option {
            None => false,
            Some(MptcpOption::Capable(_)) => !self.sent,
            Some(_) => true,
        }
    }

    /// Adds the option to a segment in place of the DSS. A segment with payload or `DATA_FIN` keeps its DSS
    /// (`snd_data_fin_enable` in `mptcp_established_options_mp`).
    #[cold]
    pub(super) fn add_to(&mut self, segment: &mut Segment) {
        let Some(option) = self.option else { return };
        let ends = segment.dss.is_some_and(|dss| dss.data_fin);
        if segment.payload.is_empty() && !ends {
            self.sent = true;
            segment.dss = None;
            segment.mptcp.push(option);
        }
    }

    /// Starts the repetition timer. Linux repeats the third packet of a join every two round trips.
    pub(super) fn arm(&mut self, host: &HostModel, now: Instant, srtt: Option<Duration>) {
        self.deadline = host.expiry(now, srtt.map_or(DELAY, |srtt| srtt * 2));
    }

    /// Returns the time at which the packet is repeated. `FAR_FUTURE` if it is not.
    #[inline]
    pub(super) fn deadline(&self) -> Instant {
        self.deadline
    }

    /// Handles the timer. Returns whether an acknowledgement must be sent.
    pub(super) fn handle_timeout(
        &mut self,
        host: &HostModel,
        now: Instant,
        srtt: Option<Duration>,
    ) -> bool {
        if now < self.deadline {
            return false;
        }
        self.deadline = Instant::FAR_FUTURE;
        let repeats = self.option.is_some();
        if repeats {
            self.arm(host, now, srtt);
        }
        repeats
    }
}

//! The MPTCP part of a subflow's handshake (RFC 8684 sections 3.1 and 3.2).

use anabranch_units::Instant;
use anabranch_wire::{MptcpOption, Segment};

use super::Subflow;
use crate::config::Config;
use anabranch_tcp::config::HostModel;
use anabranch_tcp::{Answered, HandshakeTimeout, State};

/// The number of SYNs with `MP_CAPABLE`. Later SYNs do not have the option (Linux's blackhole detection).
const CAPABLE_SYNS: u32 = 3;

impl Subflow {
    /// Requests a SYN with this MPTCP option.
    pub(crate) fn demand_syn(&mut self, option: Option<MptcpOption>) {
        self.context.set_offer(option);
        self.tcp.opening_mut().demand_syn();
    }

    /// Accepts a SYN and requests a SYN/ACK with this MPTCP option. `answered` means that the SYN/ACK was
    /// sent before the subflow existed.
    pub(crate) fn answer_syn(
        &mut self,
        segment: &Segment,
        config: &Config,
        option: Option<MptcpOption>,
        answered: Option<Answered>,
    ) {
        self.context.set_offer(option);
        self.tcp.answer_syn(segment, &config.tcp(), answered);
    }

    /// Continues a join whose SYN/ACK was sent before the subflow existed. Like Linux, it does not use the
    /// time of that SYN/ACK.
    pub(crate) fn resume_join(&mut self, syn: &Segment, config: &Config, option: MptcpOption) {
        self.answer_syn(syn, config, Some(option), Some(Answered::Once));
    }

    /// Writes a requested SYN or SYN/ACK. Returns whether a segment was written.
    pub(crate) fn next_handshake_segment(
        &mut self,
        now: Instant,
        config: &Config,
        segment: &mut Segment,
    ) -> bool {
        let due = self.tcp.next_handshake_segment(now, &config.tcp(), segment);
        if due {
            segment.mptcp.extend(self.context.offer());
        }
        due
    }

    /// Handles the timers of the handshake. Returns false if the handshake has failed.
    pub(crate) fn handle_handshake_timeout(&mut self, host: &HostModel, now: Instant) -> bool {
        match self.tcp.handle_handshake_timeout(now) {
            HandshakeTimeout::Nothing => {}
            HandshakeTimeout::GivenUp => return false,
            HandshakeTimeout::Repeats(before) => {
                if before >= CAPABLE_SYNS && self.tcp.state() == State::SynSent {
                    self.context.remove_capable();
                }
            }
        }
        let srtt = self.tcp.sending().rtt().srtt();
        if self.context.third_mut().handle_timeout(host, now, srtt) {
            self.tcp.receive_mut().demand_ack();
        }
        true
    }

    /// Handles the SYN/ACK for our SYN, after its options. The subflow is then established and has an RTT
    /// sample.
    pub(crate) fn take_syn_ack(&mut self, host: &HostModel, now: Instant, segment: &Segment) {
        self.tcp.take_syn_ack(host, now, segment);
        self.context.end_offer();
        let srtt = self.tcp.sending().rtt().srtt();
        if self.context.third().is_join() {
            self.context.third_mut().arm(host, now, srtt);
        }
    }

    /// Handles the third packet, which may be any segment that acknowledges our SYN/ACK. The subflow is then
    /// established. Returns whether the segment is valid for this.
    pub(crate) fn take_third(&mut self, host: &HostModel, now: Instant, segment: &Segment) -> bool {
        let taken = self.tcp.take_third(host, now, segment);
        if taken {
            self.context.end_offer();
        }
        taken
    }
}

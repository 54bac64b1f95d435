//! Packets: from the device to the endpoint, and from the endpoint to the device.

use std::io;
use std::num::NonZeroU16;

use anabranch_mptcp::{FourTuple, Outgoing};
use anabranch_units::Instant;
use anabranch_wire::{
    Flags, MpJoin, MptcpOption, Segment, emit_offloaded_headers, emit_packet, parse_offloaded,
    parse_packet,
};
use bytes::Bytes;

use super::admission::Refusal;
use super::record::End;
use super::source::source;
use super::{Gateway, GatewayError};
use crate::header;
use crate::icmp::{self, Heard};
use crate::offload::Offloaded;
use crate::pool::Inlet;
use crate::tun::Arrived;

/// The largest number of packets read from the device at a time. While the gateway does other work,
/// acknowledgements wait in the device's queue and are dropped if it is full. The queue has 500 packets by
/// default, and 2,000 with `--setup-print`.
const READ_AT_ONCE: usize = 256;
/// The largest number of packets written at a time. If the device offloads, the largest number of bursts.
const WRITTEN_AT_ONCE: usize = 64;
/// The largest number of SYNs dropped while packets are read, so that a flood does not fill the device's
/// queue.
const SHED_AT_ONCE: usize = 1024;

/// Returns whether a segment is a SYN that opens a new connection.
fn opens(segment: &Segment) -> bool {
    let joins = |option: &MptcpOption| matches!(option, MptcpOption::Join(MpJoin::Syn { .. }));
    let offers = |option: &MptcpOption| matches!(option, MptcpOption::Capable(_));
    let options = &segment.mptcp;
    segment.flags.contains(Flags::SYN)
        && !segment.flags.contains(Flags::ACK)
        && (!options.iter().any(joins) || options.iter().any(offers))
}

impl Gateway<'_> {
    /// Reads up to [`READ_AT_ONCE`] packets from the device.
    pub(super) fn read_device(
        &mut self,
        now: Instant,
        inlet: &mut Inlet,
    ) -> Result<(), GatewayError> {
        let (mut handled, mut shed) = (0, 0);
        while handled < READ_AT_ONCE && shed < SHED_AT_ONCE {
            let arrived = self.tun.read(inlet.room()).map_err(|error| self.device_fault(error))?;
            let Some(Arrived { bytes, offload }) = arrived else { break };
            self.metrics.packets[0] += 1;
            if self.sheds(now, bytes) {
                self.admission.refuse(Refusal::Flood);
                shed += 1;
            } else {
                let length = bytes.len();
                self.handle_packet(now, inlet, length, offload)?;
                handled += 1;
            }
        }
        Ok(())
    }

    /// Returns whether a packet is a SYN to drop: the backlog is full, and its source has sent too many.
    fn sheds(&mut self, now: Instant, packet: &[u8]) -> bool {
        if self.endpoint.half_open() < self.settings.backlog as usize {
            return false;
        }
        let from = header::source_of_syn(packet).map(source);
        from.is_some_and(|from| self.flood.takes_too_much(now, from))
    }

    /// Handles the packet of `length` bytes that was just read.
    fn handle_packet(
        &mut self,
        now: Instant,
        inlet: &mut Inlet,
        length: usize,
        offload: Offloaded,
    ) -> Result<(), GatewayError> {
        let bytes = inlet.read(length);
        match header::destination(bytes) {
            Some(to) if self.own.contains(&to) => {}
            // The host sends multicast packets too, such as router solicitations. They are ignored.
            Some(to) if to.is_multicast() => return Ok(()),
            to => {
                let reason = to.map_or(Refusal::Malformed, |_| Refusal::Address);
                self.admission.refuse(reason);
                return Ok(());
            }
        }
        match header::protocol(bytes) {
            Some(header::TCP) => {}
            // The gateway does not reassemble fragments.
            Some(header::FRAGMENT) | None => {
                self.admission.refuse(Refusal::Malformed);
                return Ok(());
            }
            Some(_) => return self.handle_icmp(now, bytes),
        }
        let parse = if offload.verified { parse_offloaded } else { parse_packet };
        let Ok(packet) = parse(&inlet.keep(length)) else {
            self.admission.refuse(Refusal::Malformed);
            return Ok(());
        };
        let segment = &packet.segment;
        let tuple = FourTuple::of_receiver(&packet);
        let FourTuple { local, remote } = tuple;
        let opening = opens(segment) && self.settings.listen.contains(&local);
        if opening && self.closing.is_none() && !self.admits(remote.ip()) {
            return Ok(());
        }
        let reached = self.endpoint.handle_merged(now, tuple, segment, offload.segment_size);
        // If this segment completed a connection, the connection is registered first, so that the payload is
        // counted for it.
        self.handle_events(now);
        if let Some(handle) = reached
            && !segment.payload.is_empty()
            && let Some(served) = self.served_by(handle)
        {
            served.note_received(tuple, segment.payload.len() as u64);
        }
        Ok(())
    }

    fn handle_icmp(&mut self, now: Instant, bytes: &[u8]) -> Result<(), GatewayError> {
        match icmp::hear(bytes) {
            Some(Heard::Answer(answer)) => {
                let written = self.writers.push_other(&[self.tun.before_whole(), &answer]);
                self.note_written(written)?;
            }
            Some(Heard::PathMtu { tuple, mtu, seq }) => {
                self.endpoint.handle_path_mtu(now, tuple, mtu, seq);
            }
            None => {}
        }
        Ok(())
    }

    /// Writes up to [`WRITTEN_AT_ONCE`] segments of all connections. Returns whether there may be more to
    /// write.
    pub(super) fn transmit(&mut self, now: Instant) -> Result<bool, GatewayError> {
        for _ in 0..WRITTEN_AT_ONCE {
            let (segment, rest) = (&mut self.segment, &mut self.rest);
            let Some(out) = self.endpoint.poll_gather(now, self.burst, segment, rest) else {
                return Ok(false);
            };
            let Outgoing { tuple, connection, segment_size } = out;
            let (from, to) = (tuple.local.ip(), tuple.remote.ip());
            let (segment, packet) = (&self.segment, &mut self.packet);
            packet.clear();
            let emitted = if self.tun.offloads() {
                let more = self.rest.iter().map(Bytes::len).sum();
                emit_offloaded_headers(from, to, segment, more, packet)
            } else {
                emit_packet(from, to, segment, packet)
            };
            if emitted.is_ok() {
                self.write_segment(&tuple, segment_size)?;
            } else if let Some(number) = connection.and_then(|handle| self.number_of(handle)) {
                self.fail(number, End::Defect, None);
            }
        }
        Ok(true)
    }

    /// Writes a segment whose headers are in `self.packet`. If the device offloads, the payload is not
    /// copied, and the device cuts it into segments of `segment_size`.
    fn write_segment(
        &mut self,
        tuple: &FourTuple,
        segment_size: Option<NonZeroU16>,
    ) -> Result<(), GatewayError> {
        let written = if self.tun.offloads() {
            let offload = Offloaded::unfinished(&self.packet, segment_size);
            let payload = std::iter::once(&self.segment.payload).chain(&self.rest);
            self.writers.push(tuple, &[&offload, &self.packet], payload)
        } else {
            self.writers.push(tuple, &[self.tun.before_whole(), &self.packet], [])
        };
        self.note_written(written)
    }

    fn note_written(&mut self, written: io::Result<()>) -> Result<(), GatewayError> {
        self.metrics.packets[1] += 1;
        written.map_err(|error| self.device_fault(error))
    }

    /// Passes the collected packets to the writing threads.
    pub(super) fn hand_on(&mut self) -> Result<(), GatewayError> {
        let flushed = self.writers.flush();
        flushed.map_err(|error| self.device_fault(error))
    }

    fn device_fault(&self, error: io::Error) -> GatewayError {
        GatewayError::Device { name: self.settings.device.clone(), error }
    }
}

#[cfg(test)]
mod tests {
    use anabranch_wire::{CapableKeys, MpCapable};

    use super::*;

    #[test]
    fn a_join_opens_no_new_connection() {
        let syn = Segment { flags: Flags::SYN, ..Segment::default() };
        assert!(opens(&syn));
        let capable = MptcpOption::Capable(MpCapable::with_keys(CapableKeys::None));
        assert!(opens(&Segment { mptcp: vec![capable], ..syn.clone() }));
        let join = MpJoin::Syn { backup: false, address_id: 1, token: 7, nonce: 9 };
        let join = MptcpOption::Join(join);
        assert!(!opens(&Segment { mptcp: vec![join], ..syn.clone() }));
        // A SYN with both options opens a connection of plain TCP, so it counts as new.
        assert!(opens(&Segment { mptcp: vec![join, capable], ..syn.clone() }));
        assert!(!opens(&Segment { flags: Flags::SYN.with(Flags::ACK), ..syn }));
    }
}

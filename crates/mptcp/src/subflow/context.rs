//! The MPTCP state of a subflow (`mptcp_subflow_context`).

use anabranch_units::DataSeq;
use anabranch_wire::{CapableKeys, Dss, Mapping, MptcpOption, Segment, dss_checksum};

use super::EmitContext;
use super::deliver::Delivery;
use super::ending::Reset;
use super::final_mapping::{FinalMapping, Passage, mapping_dsn};
use super::signals::Signals;
use super::staleness::Staleness;
use super::third::ThirdPacket;
use anabranch_tcp::Tag;

/// The MPTCP state of a subflow.
#[derive(Debug, Default)]
pub(crate) struct Context {
    ordinal: u32,
    local_id: u8,
    remote_id: u8,
    fully_established: bool,
    nonce: u32,
    /// The kind of MPTCP option on our SYN or SYN/ACK.
    offered: Offered,
    /// The MPTCP option of our SYN or SYN/ACK. Removed after the handshake.
    offer: Option<Box<MptcpOption>>,
    third: ThirdPacket,
    staleness: Staleness,
    signals: Signals,
    passage: Passage,
    final_mapping: Option<FinalMapping>,
    delivery: Delivery,
    /// The options of the RST that must be sent.
    reset: Option<Box<Reset>>,
}

/// The kind of MPTCP option on our SYN or SYN/ACK.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Offered {
    #[default]
    Nothing,
    Capable,
    Join,
}

impl Context {
    /// Returns the number of subflows that the connection opened before this one.
    pub(crate) fn ordinal(&self) -> u32 {
        self.ordinal
    }

    /// Sets the number of subflows that the connection opened before this one.
    pub(crate) fn set_ordinal(&mut self, ordinal: u32) {
        self.ordinal = ordinal;
    }

    /// Returns the identifier of our address. 0 on the initial subflow.
    pub(crate) fn local_id(&self) -> u8 {
        self.local_id
    }

    /// Returns the identifier of the peer's address. 0 on the initial subflow.
    pub(crate) fn remote_id(&self) -> u8 {
        self.remote_id
    }

    /// Sets the identifier under which the peer announced its address.
    pub(crate) fn set_remote_id(&mut self, id: u8) {
        self.remote_id = id;
    }

    /// Returns our nonce of a join that we opened.
    pub(crate) fn nonce(&self) -> u32 {
        self.nonce
    }

    /// Stores the MPTCP option of our SYN or SYN/ACK.
    pub(crate) fn set_offer(&mut self, option: Option<MptcpOption>) {
        self.offered = match option {
            None => Offered::Nothing,
            Some(MptcpOption::Join(_)) => Offered::Join,
            Some(_) => Offered::Capable,
        };
        self.offer = option.map(Box::new);
    }

    /// Returns the MPTCP option of our SYN or SYN/ACK during the handshake.
    pub(super) fn offer(&self) -> Option<MptcpOption> {
        self.offer.as_deref().copied()
    }

    /// Removes the option of our SYN or SYN/ACK after the handshake.
    pub(super) fn end_offer(&mut self) {
        self.offer = None;
    }

    /// Removes `MP_CAPABLE` from later SYNs. A middlebox may drop SYNs that have it.
    pub(super) fn remove_capable(&mut self) {
        if self.offers_capable() {
            (self.offer, self.offered) = (None, Offered::Nothing);
        }
    }

    /// Returns whether our SYN or SYN/ACK has an MPTCP option.
    pub(crate) fn offers_mptcp(&self) -> bool {
        self.offered != Offered::Nothing
    }

    /// Returns whether our SYN or SYN/ACK has `MP_CAPABLE`.
    pub(crate) fn offers_capable(&self) -> bool {
        self.offered == Offered::Capable
    }

    /// Stores the options of the RST that must be sent.
    pub(super) fn set_reset(&mut self, reset: Reset) {
        self.reset = Some(Box::new(reset));
    }

    /// Adds the stored options to a RST.
    pub(super) fn add_reset_options(&mut self, segment: &mut Segment) {
        let reset = self.reset.take().map_or(Reset::default(), |reset| *reset);
        segment.mptcp.extend(reset.fast_close.map(|key| MptcpOption::FastClose { key }));
        segment.mptcp.extend(self.delivery.failure_report());
        segment.mptcp.extend(reset.reason);
    }

    /// Returns whether the MPTCP handshake is complete, so that data may flow in both directions.
    #[inline]
    pub(crate) fn is_fully_established(&self) -> bool {
        self.fully_established
    }

    /// Opens a join from our address `local_id`.
    pub(crate) fn open_join(&mut self, local_id: u8, backup: bool, nonce: u32) {
        (self.local_id, self.nonce) = (local_id, nonce);
        self.signals.set_own_backup(backup);
    }

    /// Handles the peer's SYN/ACK for a join that we opened.
    pub(crate) fn on_join_answer(&mut self, remote_id: u8, backup: bool) {
        self.remote_id = remote_id;
        self.signals.set_peer_backup(backup);
    }

    /// Accepts a join of the peer. The identifiers are those of our address and of the peer's.
    pub(crate) fn accept_join(&mut self, (local_id, remote_id): (u8, u8), backup: bool) {
        (self.local_id, self.remote_id) = (local_id, remote_id);
        self.signals.set_peer_backup(backup);
    }

    /// Returns the state of the third packet's option.
    #[inline]
    pub(super) fn third(&self) -> &ThirdPacket {
        &self.third
    }

    /// Returns a mutable reference to the state of the third packet's option.
    #[inline]
    pub(crate) fn third_mut(&mut self) -> &mut ThirdPacket {
        &mut self.third
    }

    /// Returns whether an acknowledgement must be sent now to carry options. While the option of the third
    /// packet is pending, it is sent first.
    pub(super) fn has_pending_signals(&self) -> bool {
        self.signals.is_due() && !self.third.is_pending()
    }

    /// Adds the options other than the DSS. The option of the third packet has priority. Signals such as
    /// `ADD_ADDR` are added only to a `pure` acknowledgement.
    #[inline]
    pub(super) fn add_options(&mut self, segment: &mut Segment, pure: bool) {
        if self.third.is_pending() {
            self.third.add_to(segment);
        } else if pure && self.signals.waits() {
            self.signals.add_to(segment);
        }
    }

    /// Adds the DSS of a `DATA_FIN` without data to an acknowledgement (RFC 8684 section 3.3.3).
    pub(super) fn add_data_fin(
        &self,
        segment: &mut Segment,
        at: u64,
        context: &EmitContext,
        short: bool,
    ) {
        if self.third.delays_data_fin() {
            return;
        }
        let dsn = DataSeq(context.dsn_base.wrapping_add(at));
        let mapping = Mapping {
            dsn: mapping_dsn(dsn, short),
            ssn: 0,
            length: 1,
            checksum: context.checksum.then(|| dss_checksum(dsn, 0, 1, [])),
        };
        segment.dss =
            Some(Dss { data_ack: context.data_ack, mapping: Some(mapping), data_fin: true });
    }

    /// Adds the mapping of a segment to its DSS. The payload begins at subflow position `start`. Until the
    /// peer has confirmed `MP_CAPABLE`, the first data carries that option instead. `short` selects data
    /// sequence numbers of 32 bits.
    #[inline]
    pub(super) fn add_mapping(
        &self,
        segment: &mut Segment,
        start: u64,
        mapping: Tag,
        context: &EmitContext,
        short: bool,
    ) {
        let dsn = DataSeq(context.dsn_base.wrapping_add(mapping.data));
        if let Some(mut capable) = self.third.capable() {
            // With data, the option has both keys and the length of the data (RFC 8684 section 3.1).
            if let CapableKeys::Both { initiator, responder } = capable.keys {
                let length = segment.payload.len() as u16;
                let checksum = context
                    .checksum
                    .then(|| dss_checksum(dsn, 1, length, [segment.payload.as_ref()]));
                if mapping.data == 0 && start == 1 {
                    capable.keys = CapableKeys::WithData { initiator, responder, length, checksum };
                    segment.dss = None;
                    segment.mptcp.push(MptcpOption::Capable(capable));
                    return;
                }
            }
        }
        // A checksum covers a whole mapping. With checksums, each segment therefore has its own mapping.
        let (dsn, ssn, length, checksum) = if context.checksum {
            let (dsn, ssn) = (dsn.add(start - mapping.position), start as u32);
            let length = segment.payload.len() as u16;
            (dsn, ssn, length, Some(dss_checksum(dsn, ssn, length, [segment.payload.as_ref()])))
        } else {
            (dsn, mapping.position as u32, mapping.length, None)
        };
        let data_end = mapping.data.wrapping_add(u64::from(mapping.length));
        let fin = context.data_fin == Some(data_end) && !context.checksum;
        let dsn = mapping_dsn(dsn, short);
        let dss = segment.dss.get_or_insert_default();
        dss.mapping = Some(Mapping { dsn, ssn, length: length + u16::from(fin), checksum });
        dss.data_fin = fin;
    }

    /// Marks the MPTCP handshake as complete.
    pub(crate) fn complete(&mut self) {
        self.fully_established = true;
    }

    /// Ends MPTCP on the subflow, which continues as plain TCP.
    pub(super) fn fall_back(&mut self) {
        self.fully_established = true;
        self.third.end_repetition();
        self.signals.end();
    }

    /// Returns the pending signals and the priority.
    #[inline]
    pub(crate) fn signals(&self) -> &Signals {
        &self.signals
    }

    /// Returns a mutable reference to the pending signals and the priority.
    #[inline]
    pub(crate) fn signals_mut(&mut self) -> &mut Signals {
        &mut self.signals
    }

    /// Returns the record of timer periods without progress.
    pub(crate) fn staleness(&self) -> &Staleness {
        &self.staleness
    }

    /// Returns a mutable reference to the record of timer periods without progress.
    pub(crate) fn staleness_mut(&mut self) -> &mut Staleness {
        &mut self.staleness
    }

    /// Returns the peer's mappings and the in-order data that waits for its mapping.
    #[inline]
    pub(crate) fn delivery(&self) -> &Delivery {
        &self.delivery
    }

    /// Returns a mutable reference to the peer's mappings and the in-order data that waits for its mapping.
    #[inline]
    pub(crate) fn delivery_mut(&mut self) -> &mut Delivery {
        &mut self.delivery
    }

    /// Drops pending signals and waiting data.
    pub(crate) fn discard(&mut self) {
        self.signals.clear();
        self.delivery.discard();
    }

    /// Returns whether the peer's options are known to reach us.
    pub(crate) fn passage(&self) -> Passage {
        self.passage
    }

    /// Handles an acknowledgement with a `DATA_ACK`, which shows that options pass.
    #[inline]
    pub(crate) fn on_data_ack(&mut self) {
        self.passage = Passage::Open;
    }

    /// Handles an acknowledgement without any MPTCP option. Returns whether options still pass.
    pub(crate) fn on_bare_ack(&mut self) -> Passage {
        self.passage.on_bare();
        self.passage
    }

    /// Queues the infinite mapping that ends MPTCP. `data` is the stream position before which everything is
    /// acknowledged.
    pub(crate) fn set_final_mapping(&mut self, data: u64, checksum: bool) {
        self.final_mapping = Some(FinalMapping::new(data, checksum));
    }

    /// Returns whether an infinite mapping is queued but not yet on a segment.
    pub(super) fn holds_final_mapping(&self) -> bool {
        self.final_mapping.is_some_and(|mapping| mapping.carrier().is_none())
    }

    /// Returns the subflow position of the segment that carries the infinite mapping.
    pub(crate) fn final_carrier(&self) -> Option<u64> {
        self.final_mapping.and_then(|mapping| mapping.carrier())
    }

    /// Adds the infinite mapping to the first segment that is sent, and to its retransmissions. Segments
    /// reserve space for it until then.
    #[inline]
    pub(super) fn add_final_mapping(
        &mut self,
        segment: &mut Segment,
        start: u64,
        context: &EmitContext,
        short: bool,
    ) {
        if let Some(mapping) = self.final_mapping.as_mut()
            && mapping.check_carrier(start)
        {
            segment.dss = Some(mapping.dss(context.dsn_base, short));
        }
    }
}

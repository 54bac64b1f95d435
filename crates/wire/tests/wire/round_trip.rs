//! Tests that `parse(emit(segment)) == segment`, and that computed lengths equal those of the
//! emitted packet.

use std::net::IpAddr;

use anabranch_units::SeqNumber;
use anabranch_wire::{EmitError, Packet, SackBlock, SackBlocks, Segment, emit_packet, sack_room};
use bytes::Bytes;
use proptest::prelude::*;

use crate::parse;
use crate::strategy::{addresses, segment};

proptest! {
    /// A segment that is reset in place has nothing of its former content.
    #[test]
    fn a_blank_segment_has_its_ports_and_its_payload_only(mut segment in segment()) {
        let payload = Bytes::from_static(b"film");
        segment.blank([443, 40_000], payload.clone());
        let fresh = Segment { source_port: 443, destination_port: 40_000, payload, ..Segment::default() };
        prop_assert_eq!(segment, fresh);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn an_emitted_packet_is_parsed_back((source, destination) in addresses(), segment in segment()) {
        let mut bytes = vec![0xee];
        emit_packet(source, destination, &segment, &mut bytes).unwrap();
        prop_assert_eq!(bytes[0], 0xee, "emit appends");

        let ip_len = if source.is_ipv4() { 20 } else { 40 };
        prop_assert_eq!(bytes.len(), 1 + ip_len + segment.header_len() + segment.payload.len());
        let packet = parse(&bytes[1..]).unwrap();
        prop_assert_eq!(packet, Packet { source, destination, segment });
    }

    #[test]
    fn bytes_after_the_packet_are_ignored(
        (source, destination) in addresses(),
        segment in segment(),
        padding in prop::collection::vec(any::<u8>(), 1..20),
    ) {
        let mut bytes = Vec::new();
        emit_packet(source, destination, &segment, &mut bytes).unwrap();
        bytes.extend(padding);
        prop_assert_eq!(parse(&bytes).unwrap().segment, segment);
    }

    #[test]
    fn sack_blocks_use_the_remaining_space(mut segment in segment()) {
        segment.sack = SackBlocks::EMPTY;
        let room = sack_room(&segment);
        for index in 0..room {
            let edge = SeqNumber(index as u32);
            let block = SackBlock { left: edge, right: edge };
            prop_assert!(segment.sack.push(block));
            prop_assert_eq!(sack_room(&segment), room, "present blocks do not count");
        }
        prop_assert!(emits(&segment).is_ok());
        if segment.sack.push(SackBlock::default()) {
            prop_assert!(matches!(emits(&segment), Err(EmitError::OptionsTooLong(_))));
        } else {
            prop_assert_eq!(room, 4);
        }
    }
}

fn emits(segment: &Segment) -> Result<(), EmitError> {
    let address = IpAddr::from([10, 0, 0, 1]);
    emit_packet(address, address, segment, &mut Vec::new())
}

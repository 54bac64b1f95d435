//! Reads captures with the reader of the pcap library.

use std::net::IpAddr;
use std::time::Duration;

use anabranch_units::Instant;
use anabranch_wire::{CaptureError, Flags, PcapngWriter, Segment};
use bytes::Bytes;
use pcap_file::DataLink;
use pcap_file::pcapng::blocks::interface_description::InterfaceDescriptionOption;
use pcap_file::pcapng::{Block, PcapNgReader};

use crate::parse;

#[test]
fn a_capture_has_one_interface_per_path() {
    let names = ["wifi".to_owned(), "lte".to_owned()];
    let (v4, v6) = (IpAddr::from([10, 0, 0, 1]), IpAddr::from([0, 0, 0, 0, 0, 0, 0, 1]));
    let first = Segment { flags: Flags::SYN, mss: Some(1460), ..Segment::default() };
    let second = Segment { payload: Bytes::from_static(b"odd"), ..Segment::default() };

    let mut writer = PcapngWriter::new(Vec::new(), &names).unwrap();
    writer.write(0, Instant::from_nanos(1), v4, v4, &first).unwrap();
    // A time of almost a day in nanoseconds needs more than 32 bits.
    let late = 86_399_999_999_999;
    writer.write(1, Instant::from_nanos(late), v6, v6, &second).unwrap();
    let no_interface = writer.write(2, Instant::from_nanos(2), v4, v4, &first);
    assert!(matches!(no_interface, Err(CaptureError::Write(_))));
    let illegal = writer.write(0, Instant::from_nanos(2), v4, v6, &first);
    assert!(matches!(illegal, Err(CaptureError::Emit(_))));
    let file = writer.into_inner();

    let mut reader = PcapNgReader::new(file.as_slice()).unwrap();
    let mut packets = Vec::new();
    while let Some(block) = reader.next_block() {
        if let Block::EnhancedPacket(packet) = block.unwrap() {
            let segment = parse(&packet.data).unwrap().segment;
            packets.push((packet.interface_id, packet.timestamp, segment));
        }
    }
    let expected = [(0, Duration::from_nanos(1), first), (1, Duration::from_nanos(late), second)];
    assert_eq!(packets, expected);

    let interfaces = reader.interfaces();
    assert_eq!(interfaces.len(), 2);
    for (interface, name) in interfaces.iter().zip(names) {
        assert_eq!(interface.linktype, DataLink::RAW);
        let expected = [
            InterfaceDescriptionOption::IfName(name.into()),
            InterfaceDescriptionOption::IfTsResol(9),
        ];
        assert_eq!(interface.options, expected);
    }
}

//! A captured TCP segment: what can be read of it, however much of the frame was kept.

use std::net::{IpAddr, SocketAddr};

use anabranch_units::SeqNumber;
use anabranch_wire::{Flags, Segment, parse_options};
use etherparse::{IpNumber, Ipv6ExtensionSlice, LaxIpSlice};

use crate::frame::Frame;
use crate::link_layer;

/// The length of a TCP header without options.
const TCP_HEADER_LEN: usize = 20;
const OPTION_KIND_MPTCP: u8 = 30;

/// A captured TCP segment.
#[derive(Clone, Debug)]
pub struct Record<'a> {
    /// Time in nanoseconds since 1970.
    pub time_ns: i64,
    /// The sender.
    pub source: SocketAddr,
    /// The receiver.
    pub destination: SocketAddr,
    /// Header and options. Its own payload is empty.
    pub segment: Segment,
    /// The captured part of the payload.
    pub payload: &'a [u8],
    /// The length of the payload on the wire in bytes.
    pub payload_len: u32,
    /// Subtypes of the MPTCP options, in wire order; a malformed option counts too.
    pub subtypes: Subtypes,
    /// Keys of an `MP_CAPABLE` of version 0.
    pub capable_0: Option<Capable0>,
}

/// A set of up to eight MPTCP subtypes.
#[derive(Clone, Copy, Debug, Default)]
pub struct Subtypes {
    subtypes: [u8; 8],
    len: u8,
}

impl Subtypes {
    fn push(&mut self, subtype: u8) {
        if let Some(slot) = self.subtypes.get_mut(usize::from(self.len)) {
            *slot = subtype;
            self.len += 1;
        }
    }

    /// Returns the subtypes.
    pub fn as_slice(&self) -> &[u8] {
        &self.subtypes[..usize::from(self.len)]
    }
}

/// An `MP_CAPABLE` of version 0 (RFC 6824 section 3.1): the sender's key, and in the third packet the
/// receiver's too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capable0 {
    /// The sender's key.
    pub sender: u64,
    /// The receiver's key.
    pub receiver: Option<u64>,
}

/// Why a frame is no record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Skipped {
    /// Its link type is not known.
    LinkType(u32),
    /// It holds no IP packet with a whole header.
    NotIp,
    /// It holds another protocol than TCP.
    NotTcp,
    /// It is a later fragment, or its TCP header was not captured.
    NoHeader,
}

impl<'a> Record<'a> {
    /// Reads a frame.
    ///
    /// # Errors
    ///
    /// Says why the frame holds no TCP segment.
    pub fn parse(frame: &Frame<'a>) -> Result<Self, Skipped> {
        if !link_layer::is_known(frame.link_type) {
            return Err(Skipped::LinkType(frame.link_type));
        }
        let offset = link_layer::ip_offset(frame.link_type, frame.data).ok_or(Skipped::NotIp)?;
        let bytes = frame.data.get(offset..).ok_or(Skipped::NotIp)?;
        let (ip, _) = LaxIpSlice::from_slice(bytes).map_err(|_| Skipped::NotIp)?;
        let payload = ip.payload();
        if payload.ip_number != IpNumber::TCP {
            return Err(Skipped::NotTcp);
        }
        if payload.fragmented && is_later_fragment(&ip) {
            return Err(Skipped::NoHeader);
        }
        // Offset within the frame: IP headers and extension headers lie between.
        let tcp_start = payload.payload.as_ptr() as usize - bytes.as_ptr() as usize;
        let on_wire = ip_length(&ip)
            .unwrap_or((frame.original_len as usize).saturating_sub(offset))
            .saturating_sub(tcp_start);
        let (source, destination) = (ip.source_addr(), ip.destination_addr());
        // With TSO, the length in the IP header is zero and the lax reader takes the captured bytes.
        Self::tcp(frame, [source, destination], payload.payload, on_wire)
    }

    /// Reads a TCP header of which at least the first 20 bytes were captured.
    fn tcp(
        frame: &Frame<'a>,
        addresses: [IpAddr; 2],
        bytes: &'a [u8],
        on_wire: usize,
    ) -> Result<Self, Skipped> {
        let fixed: &[u8; TCP_HEADER_LEN] = bytes.first_chunk().ok_or(Skipped::NoHeader)?;
        let u16_at = |at: usize| u16::from_be_bytes([fixed[at], fixed[at + 1]]);
        let u32_at = |at: usize| {
            u32::from_be_bytes([fixed[at], fixed[at + 1], fixed[at + 2], fixed[at + 3]])
        };
        let header_len = usize::from(fixed[12] >> 4) * 4;
        if header_len < TCP_HEADER_LEN {
            return Err(Skipped::NoHeader);
        }
        let flags = Flags(fixed[13]);
        let mut segment = Segment {
            source_port: u16_at(0),
            destination_port: u16_at(2),
            seq: SeqNumber(u32_at(4)),
            ack: SeqNumber(if flags.contains(Flags::ACK) { u32_at(8) } else { 0 }),
            flags,
            window: u16_at(14),
            ..Segment::default()
        };
        let options = &bytes[TCP_HEADER_LEN..header_len.min(bytes.len())];
        parse_options(options, &mut segment);
        let (subtypes, capable_0) = mptcp_subtypes(options);
        let payload_len = on_wire.saturating_sub(header_len);
        let captured = bytes.get(header_len..).unwrap_or_default();
        Ok(Self {
            time_ns: frame.time_ns.unwrap_or(0),
            source: SocketAddr::new(addresses[0], segment.source_port),
            destination: SocketAddr::new(addresses[1], segment.destination_port),
            segment,
            payload: &captured[..captured.len().min(payload_len)],
            payload_len: payload_len as u32,
            subtypes,
            capable_0,
        })
    }

    /// Returns true if the segment has this flag.
    pub(crate) fn has(&self, flag: Flags) -> bool {
        self.segment.flags.contains(flag)
    }
}

/// Returns the length that the IP header states, or `None` if it states none (TSO, BIG TCP).
fn ip_length(ip: &LaxIpSlice<'_>) -> Option<usize> {
    let stated = match ip {
        LaxIpSlice::Ipv4(v4) => usize::from(v4.header().total_len()),
        LaxIpSlice::Ipv6(v6) => match v6.header().payload_length() {
            0 => 0,
            length => usize::from(length) + 40,
        },
    };
    (stated != 0).then_some(stated)
}

fn is_later_fragment(ip: &LaxIpSlice<'_>) -> bool {
    match ip {
        LaxIpSlice::Ipv4(v4) => v4.header().fragments_offset().value() != 0,
        LaxIpSlice::Ipv6(v6) => v6.extensions().clone().into_iter().any(|extension| {
            matches!(extension, Ipv6ExtensionSlice::Fragment(part) if part.fragment_offset().value() != 0)
        }),
    }
}

/// Returns the subtypes of the MPTCP options, and the keys of version 0.
fn mptcp_subtypes(options: &[u8]) -> (Subtypes, Option<Capable0>) {
    let (mut subtypes, mut capable_0) = (Subtypes::default(), None);
    let mut bytes = options;
    while let [kind, rest @ ..] = bytes {
        match *kind {
            0 => break,
            1 => bytes = rest,
            kind => {
                let length = rest.first().map_or(0, |length| usize::from(*length));
                if length < 2 {
                    break;
                }
                let (option, behind) = bytes.split_at_checked(length).unwrap_or((bytes, &[]));
                if kind == OPTION_KIND_MPTCP && option.len() > 2 {
                    subtypes.push(option[2] >> 4);
                    capable_0 = read_capable_0(option).or(capable_0);
                }
                bytes = behind;
            }
        }
    }
    (subtypes, capable_0)
}

/// Reads an `MP_CAPABLE` of version 0: 12 or 20 bytes long.
fn read_capable_0(option: &[u8]) -> Option<Capable0> {
    if option[2] != 0 {
        return None;
    }
    let key =
        |at: usize| -> Option<u64> { Some(u64::from_be_bytes(*option.get(at..)?.first_chunk()?)) };
    match option.len() {
        12 => Some(Capable0 { sender: key(4)?, receiver: None }),
        20 => Some(Capable0 { sender: key(4)?, receiver: Some(key(12)?) }),
        _ => None,
    }
}

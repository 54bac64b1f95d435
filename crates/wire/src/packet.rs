//! IP packets that contain a segment: headers, lengths and checksums.

use std::net::IpAddr;

use anabranch_units::SeqNumber;
use bytes::Bytes;
use etherparse::checksum::Sum16BitWords;
use etherparse::{
    IpEcn, IpNumber, IpSlice, Ipv4Header, Ipv6FlowLabel, Ipv6Header, TcpHeader, TcpSlice,
};

use crate::checksum::checksum;
use crate::{Ecn, EmitError, Flags, ParseError, Segment, options};

/// The hop limit of emitted packets. It is the default of Linux.
const HOP_LIMIT: u8 = 64;

/// A segment with its source address and its destination address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packet {
    /// The sender's address.
    pub source: IpAddr,
    /// The receiver's address.
    pub destination: IpAddr,
    /// The segment.
    pub segment: Segment,
}

/// Appends an IP packet with `segment` to `out`. On error, `out` is unchanged.
///
/// IPv4 packets have the flag Don't Fragment and the identification zero (RFC 6864 section 4.1).
/// Urgent data is not supported: the URG flag is written, but the urgent pointer is zero.
///
/// # Errors
///
/// Returns an [`EmitError`] if the segment cannot be represented. A burst that is longer than a
/// packet must be split before.
pub fn emit_packet(
    source: IpAddr,
    destination: IpAddr,
    segment: &Segment,
    out: &mut Vec<u8>,
) -> Result<(), EmitError> {
    emit_headers(source, destination, segment, None, out)?;
    out.extend_from_slice(&segment.payload);
    Ok(())
}

/// Appends the IP and TCP headers of a packet for a device that segments bursts and completes
/// checksums.
///
/// The headers are those of [`emit_packet`], except that the TCP checksum is the sum of the
/// pseudo-header only (`CHECKSUM_PARTIAL`). The packet may have any length that IP allows. The
/// payload is not copied: the caller sends the payload of `segment` and then `more` other bytes.
///
/// # Errors
///
/// Returns the errors of [`emit_packet`].
/// Reports the errors of [`emit_packet`].
pub fn emit_offloaded_headers(
    source: IpAddr,
    destination: IpAddr,
    segment: &Segment,
    more: usize,
    out: &mut Vec<u8>,
) -> Result<(), EmitError> {
    emit_headers(source, destination, segment, Some(more), out)
}

/// Returns the sum of the pseudo-header (RFC 9293 section 3.1, RFC 8200 section 8.1) without
/// complementing it.
fn pseudo_header(source: &[u8], destination: &[u8], length: u16) -> u16 {
    let rest = [[0, IpNumber::TCP.0], length.to_be_bytes()];
    !checksum([source, destination, rest.as_flattened()])
}

/// Appends both headers. If `partial` is set, the checksum covers only the pseudo-header, and the
/// payload is longer by this number of bytes.
fn emit_headers(
    source: IpAddr,
    destination: IpAddr,
    segment: &Segment,
    partial: Option<usize>,
    out: &mut Vec<u8>,
) -> Result<(), EmitError> {
    if segment.ack != SeqNumber(0) && !segment.flags.contains(Flags::ACK) {
        return Err(EmitError::AckWithoutFlag);
    }
    let mut tcp = tcp_header(segment);
    let options = options::emit(segment)?;
    tcp.set_options_raw(options.as_slice())
        .map_err(|_| EmitError::OptionsTooLong(options.as_slice().len()))?;

    let payload = segment.payload.as_ref();
    let length = tcp.header_len() + payload.len() + partial.unwrap_or(0);
    let too_long = |_| EmitError::PacketTooLong(length);
    let payload_length = u16::try_from(length).map_err(|_| EmitError::PacketTooLong(length))?;
    match (source, destination) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => {
            let (source, destination) = (source.octets(), destination.octets());
            let mut ip =
                Ipv4Header::new(payload_length, HOP_LIMIT, IpNumber::TCP, source, destination)
                    .map_err(|_| EmitError::PacketTooLong(length))?;
            ip.ecn = match segment.ecn {
                Ecn::NotEct => IpEcn::NotEct,
                Ecn::Ect0 => IpEcn::Ect0,
                Ecn::Ect1 => IpEcn::Ect1,
                Ecn::Ce => IpEcn::CongestionExperienced,
            };
            tcp.checksum = if partial.is_some() {
                pseudo_header(&source, &destination, payload_length)
            } else {
                tcp.calc_checksum_ipv4_raw(source, destination, payload).map_err(too_long)?
            };
            ip.header_checksum = ip.calc_header_checksum();
            out.extend_from_slice(&ip.to_bytes());
        }
        (IpAddr::V6(source), IpAddr::V6(destination)) => {
            let ip = Ipv6Header {
                traffic_class: segment.ecn.bits(),
                flow_label: Ipv6FlowLabel::ZERO,
                payload_length,
                next_header: IpNumber::TCP,
                hop_limit: HOP_LIMIT,
                source: source.octets(),
                destination: destination.octets(),
            };
            tcp.checksum = if partial.is_some() {
                pseudo_header(&ip.source, &ip.destination, payload_length)
            } else {
                tcp.calc_checksum_ipv6_raw(ip.source, ip.destination, payload).map_err(too_long)?
            };
            out.extend_from_slice(&ip.to_bytes());
        }
        _ => return Err(EmitError::MixedFamilies),
    }
    out.extend_from_slice(&tcp.to_bytes());
    Ok(())
}

/// Returns the TCP header without options and checksum.
fn tcp_header(segment: &Segment) -> TcpHeader {
    let flags = segment.flags;
    TcpHeader {
        fin: flags.contains(Flags::FIN),
        syn: flags.contains(Flags::SYN),
        rst: flags.contains(Flags::RST),
        psh: flags.contains(Flags::PSH),
        ack: flags.contains(Flags::ACK),
        urg: flags.contains(Flags::URG),
        ece: flags.contains(Flags::ECE),
        cwr: flags.contains(Flags::CWR),
        acknowledgment_number: segment.ack.0,
        ..TcpHeader::new(
            segment.source_port,
            segment.destination_port,
            segment.seq.0,
            segment.window,
        )
    }
}

/// Parses an IP packet that contains a TCP segment. Returns a packet or an error for every input.
///
/// The payload is a slice of `bytes`, not a copy. Unless the payload is empty, it keeps the memory
/// of `bytes` in use.
///
/// Both checksums are verified. The following parts are ignored: bytes after the packet's length,
/// IP options and extension headers, the reserved bits of the TCP header, and the urgent pointer.
/// Without the ACK flag, the acknowledgement number is read as zero.
///
/// Options are handled as in Linux:
///
/// - An option is ignored if it is unknown, or if its length or form is not valid. A handshake
///   option is ignored without SYN.
/// - Reserved bits in an MPTCP option are ignored. Later protocol versions may use them.
/// - If an option is repeated, the last one is used. MPTCP options other than the DSS are an
///   exception: all of them are used, in order.
/// - A window scale above 14 is read as 14 (RFC 7323 section 2.3).
/// - An option whose length is not valid ends the parsing. The options before it are used.
///
/// # Errors
///
/// Returns a [`ParseError`] if the packet or the TCP header is incomplete, or if a checksum is
/// wrong.
pub fn parse_packet(bytes: &Bytes) -> Result<Packet, ParseError> {
    parse(bytes, true)
}

/// Like [`parse_packet`], but does not verify the TCP checksum. For packets whose TCP checksum the
/// kernel has verified or has not computed.
///
/// # Errors
///
/// Returns the errors of [`parse_packet`], except that of a wrong TCP checksum.
pub fn parse_offloaded(bytes: &Bytes) -> Result<Packet, ParseError> {
    parse(bytes, false)
}

/// Verifies the TCP checksum of a segment.
fn verify_tcp(ip: &IpSlice<'_>, tcp: &TcpSlice<'_>) -> Result<(), ParseError> {
    let computed = match ip {
        IpSlice::Ipv4(v4) => {
            tcp.calc_checksum_ipv4(v4.header().source(), v4.header().destination())
        }
        IpSlice::Ipv6(v6) => {
            tcp.calc_checksum_ipv6(v6.header().source(), v6.header().destination())
        }
    }
    .map_err(|_| ParseError::Ip)?;
    let found = tcp.checksum();
    if same_checksum(found, computed) {
        return Ok(());
    }
    Err(ParseError::TcpChecksum { found, computed })
}

fn parse(bytes: &Bytes, verify: bool) -> Result<Packet, ParseError> {
    let ip = IpSlice::from_slice(bytes).map_err(|_| ParseError::Ip)?;
    if let Some(v4) = ip.ipv4() {
        let header = v4.header();
        let found = header.header_checksum();
        // The sum is over the raw bytes, because the header struct of etherparse does not contain
        // the reserved flag.
        let computed = Sum16BitWords::new()
            .add_slice(&header.slice()[..10])
            .add_slice(&header.slice()[12..])
            .ones_complement()
            .to_be();
        if !same_checksum(found, computed) {
            return Err(ParseError::IpChecksum { found, computed });
        }
    }
    // A length of zero means a jumbogram, which is not supported.
    if ip.ipv6().is_some_and(|v6| v6.header().payload_length() == 0) {
        return Err(ParseError::Ip);
    }
    if ip.is_fragmenting_payload() {
        return Err(ParseError::Fragment);
    }
    if ip.payload_ip_number() != IpNumber::TCP {
        return Err(ParseError::NotTcp(ip.payload_ip_number().0));
    }

    let tcp = TcpSlice::from_slice(ip.payload().payload).map_err(|_| ParseError::TcpHeader)?;
    let ecn = match &ip {
        IpSlice::Ipv4(v4) => Ecn::from_bits(v4.header().slice()[1]),
        IpSlice::Ipv6(v6) => Ecn::from_bits(v6.header().traffic_class()),
    };
    if verify {
        verify_tcp(&ip, &tcp)?;
    }
    Ok(Packet {
        source: ip.source_addr(),
        destination: ip.destination_addr(),
        segment: segment(bytes, &tcp, ecn),
    })
}

/// Returns whether two ones' complement numbers are equal. `0xffff` equals zero.
fn same_checksum(found: u16, computed: u16) -> bool {
    found % 0xffff == computed % 0xffff
}

/// Creates a segment from a TCP header and the payload within `bytes`.
fn segment(bytes: &Bytes, tcp: &TcpSlice<'_>, ecn: Ecn) -> Segment {
    let flags = Flags(tcp.header_slice()[13]);
    let ack = if flags.contains(Flags::ACK) { tcp.acknowledgment_number() } else { 0 };
    let mut segment = Segment {
        source_port: tcp.source_port(),
        destination_port: tcp.destination_port(),
        seq: SeqNumber(tcp.sequence_number()),
        ack: SeqNumber(ack),
        flags,
        ecn,
        window: tcp.window_size(),
        payload: bytes.slice_ref(tcp.payload()),
        ..Segment::default()
    };
    options::parse(tcp.options(), &mut segment);
    segment
}

//! Segments in IP packets: headers, lengths and checksums.

use std::net::IpAddr;

use anabranch_units::SeqNumber;
use bytes::Bytes;
use etherparse::checksum::Sum16BitWords;
use etherparse::{
    IpEcn, IpNumber, IpSlice, Ipv4Header, Ipv6FlowLabel, Ipv6Header, TcpHeader, TcpSlice,
};

use crate::checksum::checksum;
use crate::{Ecn, EmitError, Flags, ParseError, Segment, options};

/// The hop limit of emitted packets, which is Linux's default.
const HOP_LIMIT: u8 = 64;

/// A segment with its source and destination address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packet {
    /// The sender's address.
    pub source: IpAddr,
    /// The receiver's address.
    pub destination: IpAddr,
    /// The segment.
    pub segment: Segment,
}

/// Appends the IP packet with `segment` to `out`. If this fails, `out` is unchanged.
///
/// IPv4 packets have Don't Fragment set and identification zero (RFC 6864 section 4.1). Urgent data
/// is not supported: the URG flag is kept, but the pointer is zero.
///
/// # Errors
///
/// Reports a segment that cannot be represented; [`EmitError`] names the field. A burst (a segment
/// longer than a packet) must be split before.
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

/// Appends the IP and TCP headers of [`emit_packet`] for a device that segments bursts and
/// completes checksums.
///
/// The TCP checksum is the sum of the pseudo-header only (`CHECKSUM_PARTIAL`). The packet may have
/// any length that IP allows. The caller sends the payload from its present place, followed by
/// `more` bytes from elsewhere.
///
/// # Errors
///
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

/// Returns the sum of the pseudo-header (RFC 9293 section 3.1, RFC 8200 section 8.1), not
/// complemented.
fn pseudo_header(source: &[u8], destination: &[u8], length: u16) -> u16 {
    let rest = [[0, IpNumber::TCP.0], length.to_be_bytes()];
    !checksum([source, destination, rest.as_flattened()])
}

/// Appends both headers. If `partial` is set, the checksum is partial and the payload is longer by
/// this many bytes.
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

/// Returns the header without options and checksum.
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

/// Parses an IP packet with a TCP segment. Any input gives a packet or an error.
///
/// The payload is a slice of `bytes`, not a copy. Their memory stays in use as long as the payload,
/// unless the payload is empty.
///
/// Both checksums are verified. These parts are ignored: bytes after the packet's length, IP
/// options and extension headers, the reserved bits of the TCP header, and the urgent pointer. An
/// acknowledgement number without the ACK flag is read as zero.
///
/// Options are handled as in Linux:
///
/// - An option that is unknown, or has an invalid length or form, counts as absent. So does a
///   handshake option without SYN.
/// - Reserved bits in an MPTCP option are ignored. A later protocol version may use them for
///   information that this version need not understand.
/// - If an option is repeated, the last instance counts. If it is an MPTCP option other than the
///   DSS, all instances count, in order.
/// - A window scale above 14 is read as 14 (RFC 7323 section 2.3).
/// - An option with an invalid length ends the parsing. The options before it count.
///
/// # Errors
///
/// Reports an incomplete packet or TCP header, or a wrong checksum; [`ParseError`] names it.
pub fn parse_packet(bytes: &Bytes) -> Result<Packet, ParseError> {
    parse(bytes, true)
}

/// Like [`parse_packet`], for a packet whose TCP checksum the kernel has verified or not yet
/// computed.
///
/// # Errors
///
/// Reports the errors of [`parse_packet`], except a wrong TCP checksum.
pub fn parse_offloaded(bytes: &Bytes) -> Result<Packet, ParseError> {
    parse(bytes, false)
}

/// Verifies the checksum of a segment.
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
        // Over the raw bytes, because etherparse's header struct does not contain the reserved
        // flag.
        let computed = Sum16BitWords::new()
            .add_slice(&header.slice()[..10])
            .add_slice(&header.slice()[12..])
            .ones_complement()
            .to_be();
        if !same_checksum(found, computed) {
            return Err(ParseError::IpChecksum { found, computed });
        }
    }
    // Length zero is a jumbogram, which is not supported.
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

/// Returns whether two ones' complement numbers are equal; `0xffff` is equal to zero.
fn same_checksum(found: u16, computed: u16) -> bool {
    found % 0xffff == computed % 0xffff
}

/// Returns the segment of a TCP header and payload within `bytes`.
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

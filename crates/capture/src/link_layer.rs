//! Link-layer headers before an IP packet.

/// Link types by their registered number (<https://www.tcpdump.org/linktypes.html>).
mod link_type {
    pub(super) const NULL: u32 = 0;
    pub(super) const ETHERNET: u32 = 1;
    pub(super) const PPP: u32 = 9;
    /// Raw IP has three numbers: that of files, and those that some systems wrote instead.
    pub(super) const RAW: [u32; 3] = [101, 12, 14];
    pub(super) const LOOP: u32 = 108;
    pub(super) const LINUX_SLL: u32 = 113;
    pub(super) const IPV4: u32 = 228;
    pub(super) const IPV6: u32 = 229;
    pub(super) const LINUX_SLL2: u32 = 276;
}

/// `EtherType` values.
mod ether_type {
    pub(super) const IPV4: u16 = 0x0800;
    pub(super) const IPV6: u16 = 0x86dd;
    /// Tags of VLANs: 802.1Q, 802.1ad, and the number in use before it.
    pub(super) const VLAN: [u16; 3] = [0x8100, 0x88a8, 0x9100];
    pub(super) const PPPOE_SESSION: u16 = 0x8864;
}

/// The protocol numbers of IPv4 and IPv6 in PPP (RFC 1332, RFC 5072).
const PPP_IP: [u16; 2] = [0x0021, 0x0057];
/// The most VLAN tags that are read.
const MAX_TAGS: usize = 8;

/// Returns whether frames of this link type can be read.
pub(crate) fn is_known(link_type: u32) -> bool {
    use link_type::{ETHERNET, IPV4, IPV6, LINUX_SLL, LINUX_SLL2, LOOP, NULL, PPP, RAW};
    RAW.contains(&link_type)
        || [NULL, ETHERNET, PPP, LOOP, LINUX_SLL, IPV4, IPV6, LINUX_SLL2].contains(&link_type)
}

/// Returns the offset of the IP packet in a frame, or `None` if there is no IP packet.
pub(crate) fn ip_offset(link: u32, frame: &[u8]) -> Option<usize> {
    match link {
        link_type::ETHERNET => after_ether_type(frame, 12),
        link_type::LINUX_SLL => after_ether_type(frame, 14),
        link_type::LINUX_SLL2 => {
            let protocol = u16_at(frame, 0)?;
            matches!(protocol, ether_type::IPV4 | ether_type::IPV6).then_some(20)
        }
        // An address family in the byte order of the host. Its number for IPv6 depends on the system,
        // so the version of the IP header decides.
        link_type::NULL | link_type::LOOP => ip_version(frame, 4),
        link_type::PPP => after_ppp(frame, 0),
        link_type::IPV4 | link_type::IPV6 => ip_version(frame, 0),
        _ if link_type::RAW.contains(&link) => ip_version(frame, 0),
        _ => None,
    }
}

fn u16_at(frame: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(*frame.get(at..)?.first_chunk()?))
}

/// Returns `at` if an IP header begins there.
fn ip_version(frame: &[u8], at: usize) -> Option<usize> {
    matches!(frame.get(at)? >> 4, 4 | 6).then_some(at)
}

/// Reads the `EtherType` at `at`, and VLAN tags and a `PPPoE` header after it.
fn after_ether_type(frame: &[u8], at: usize) -> Option<usize> {
    let mut at = at;
    for _ in 0..MAX_TAGS {
        match u16_at(frame, at)? {
            ether_type::IPV4 | ether_type::IPV6 => return Some(at + 2),
            ether_type::PPPOE_SESSION => return after_ppp(frame, at + 8),
            tag if ether_type::VLAN.contains(&tag) => at += 4,
            _ => return None,
        }
    }
    None
}

/// Reads a PPP header, with or without address and control (RFC 1662 section 3.1).
fn after_ppp(frame: &[u8], at: usize) -> Option<usize> {
    let at = if u16_at(frame, at)? == 0xff03 { at + 2 } else { at };
    PPP_IP.contains(&u16_at(frame, at)?).then_some(at + 2)
}
